"""The learning methods by name."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

from bonafide.errors import BonafideError, shortened
from bonafide.learn.first_only import FirstOnly
from bonafide.learn.hard_em import HardEM
from bonafide.learn.hard_em_threshold import HardEMThreshold
from bonafide.learn.mimax import Mimax, MimaxPlus
from bonafide.learn.mml import MarginalLikelihood
from bonafide.learn.objective import Objective
from bonafide.learn.supervised import Supervised
from bonafide.learn.vae import Vae

METHODS: dict[str, type] = {
    "first-only": FirstOnly,
    "mml": MarginalLikelihood,
    "hard-em": HardEM,
    "hard-em-thres": HardEMThreshold,
    "vae": Vae,
    "mimax": Mimax,
    "mimax+": MimaxPlus,
    "supervised": Supervised,
}

_LEAST = {
    "samples": 1, "temperature": 1e-3, "candidates": 0, "simplicity": 0, "words": 0, "told": 0, "solver_weight": 0,
    "ramp": 0, "anneal": 0, "first_stage": 0, "second_stage": 0, "weight": 0,
}  # fmt: skip
"""The least value of an option; ``switch`` may be negative: never."""


def build_objective(method: str, options: dict[str, Any]) -> Objective:
    """The objective of this name with these options; an unknown option is an error that names the known ones."""
    if method not in METHODS:
        raise BonafideError(f"There is no method {shortened(method)}: expected one of {', '.join(METHODS)}.")
    kind = METHODS[method]
    known = {each.name: each for each in fields(kind) if each.name != "state"} if is_dataclass(kind) else {}
    for name, value in options.items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise BonafideError(f"The method {method!r} has no option {shortened(name)}: it knows {listed}.")
        wanted = type(getattr(kind(), name))
        if not isinstance(value, (int, float) if wanted is float else wanted) or isinstance(value, bool) != (
            wanted is bool
        ):
            raise BonafideError(
                f"The option {name!r} of {method!r} takes a {wanted.__name__}, found {shortened(value)}."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise BonafideError(f"The option {name!r} of {method!r} takes a finite number, found {value}.")
        least = 2 if (method, name) == ("vae", "samples") else _LEAST.get(name)  # one has no mean to be held against
        if least is not None and value < least:
            raise BonafideError(f"The option {name!r} of {method!r} must be at least {least}, found {value}.")
    objective: Objective = kind(**options)
    return objective
