"""What a task must say, on one page.

A task knows its contexts, its solutions and how all solutions of an example are found. The search runner,
the store, and everything to their right work for any task that says these things.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from bonafide.examples import Example
from bonafide.solutions import Codec, SolutionSet

S = TypeVar("S", bound=SolutionSet)


class Task(Protocol[S]):
    """Search, for one kind of context and solution. A task is sent to worker processes: keep it small."""

    @property
    def name(self) -> str:
        """What it is called in manifests and on the command line."""
        ...

    @property
    def options(self) -> dict[str, Any]:
        """Everything that changes a solution set, for the manifest."""
        ...

    @property
    def codec(self) -> Codec[S]:
        """How its solution sets are stored."""
        ...

    def prepare(self, raw: Any) -> Any:
        """Make what the context file gave for a context ready to search; a worker keeps what it prepared."""
        ...

    def weight(self, context: Any) -> int:
        """How much memory a prepared context takes, in cells or tokens: bounds what a worker keeps."""
        ...

    def search(self, example: Example, context: Any) -> S:
        """Every solution of the example, or a uniform sample under the task's cap."""
        ...


class Contexts(Protocol):
    """Where examples find their contexts, by name."""

    def __contains__(self, name: object) -> bool: ...
    def raw(self, name: str) -> Any:
        """What a worker needs to prepare this context."""
        ...
