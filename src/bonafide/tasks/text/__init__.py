"""The text task: bring your own candidates, programs or rationales, as text."""
