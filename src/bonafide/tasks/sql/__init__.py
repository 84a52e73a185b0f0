"""Tables and SQL queries: WikiSQL, or your own CSV, Parquet or SQLite file."""
