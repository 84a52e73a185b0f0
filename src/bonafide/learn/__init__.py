"""From solution sets to a solver: one objective a file, the trainer, checkpoints."""
