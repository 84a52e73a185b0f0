"""How good predictions are: metrics over what a solver predicts and what it selects. Gold is read here alone."""
