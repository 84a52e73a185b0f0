"""The paper's tables, each by one command: what is in them (``tables.toml``), the runs, the results, the pages."""
