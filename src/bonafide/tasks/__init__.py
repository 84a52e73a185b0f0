"""The tasks: what a context is, what a solution is, and how all of them are found."""
