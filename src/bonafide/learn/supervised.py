"""Supervised: train on the gold solution. The upper bound, and the only objective that takes gold.

    maximise  log P_θ(z̄ | d, q)

The trainer puts the gold solution in the place of the solution set (``learn/data.py``), and says so in the run's
README; no other objective can be given gold.
"""

from __future__ import annotations

from bonafide.learn.first_only import FirstOnly


class Supervised(FirstOnly):
    """The gold solution, alone in its set, trains the solver."""
