"""The discrete-reasoning task: numbers, dates and spans of a passage, and programs over them (DROP)."""
