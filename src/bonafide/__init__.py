"""Learn from answers, for the right reasons.

bonafide finds every derivation that reaches an answer, tells the genuine one from the accidental ones,
trains a model that produces it, and shows a person the evidence.
"""

__version__ = "0.1.0"
