"""Inputs that nobody would write, for everything of bonafide that reads: ``python tools/fuzz.py``."""
