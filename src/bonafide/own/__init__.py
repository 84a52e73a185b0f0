"""Your own tables and question–answer pairs to a model: ``bonafide train --table x.csv --examples qa.jsonl``."""
