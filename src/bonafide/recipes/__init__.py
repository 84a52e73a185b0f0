"""Recipes, addressed by name: ``bonafide train wikisql-hard-mimax``."""
