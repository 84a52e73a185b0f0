"""Learn from answers, for the right reasons.

bonafide finds every derivation that reaches an answer, tells the genuine one from the accidental ones,
trains a model that produces it, and shows a person the evidence.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bonafide.learn.saved import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """``bonafide.load`` without importing torch before it is used."""
    if name == "load":
        from bonafide.learn.saved import load

        return load
    raise AttributeError(f"module 'bonafide' has no attribute {name!r}")
