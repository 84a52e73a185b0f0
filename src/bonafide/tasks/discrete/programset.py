"""A solution set of programs, held as integer arrays and read as programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from bonafide.tasks.discrete.language import Rule
from bonafide.tasks.discrete.program import PLAIN, ActionKind, Program, from_actions

Actions = tuple[tuple[int, int], ...]
"""The linear form of a program, as plain integers."""

_OPERAND_ENDS = (
    ActionKind.NUMBER,
    ActionKind.QUESTION_NUMBER,
    ActionKind.CONSTANT,
    ActionKind.DATE_MENTION,
    ActionKind.END,
    ActionKind.QUESTION_END,
)


@dataclass(frozen=True, eq=False)
class ProgramSet(Sequence[Program]):
    """Programs that return one example's answer: fewest operations first, then by their actions.

    Program *i* has the actions ``offsets[i]`` to ``offsets[i + 1]``. ``size`` is the number of solutions before any
    cap; ``complete`` says that all are here.
    """

    kinds: npt.NDArray[np.int8]  # (actions,)
    indices: npt.NDArray[np.int32]  # (actions,)
    offsets: npt.NDArray[np.int32]  # (solutions + 1,)
    rule: npt.NDArray[np.int8]  # (solutions,): which rule proposed it
    size: int
    complete: bool

    def __len__(self) -> int:
        return len(self.rule)

    @overload
    def __getitem__(self, index: int) -> Program: ...
    @overload
    def __getitem__(self, index: slice) -> list[Program]: ...
    def __getitem__(self, index: int | slice) -> Program | list[Program]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        start, end = int(self.offsets[place]), int(self.offsets[place + 1])
        return from_actions(list(zip(self.kinds[start:end].tolist(), self.indices[start:end].tolist(), strict=True)))

    def __contains__(self, program: object) -> bool:
        return self.index_of(program) is not None

    def index_of(self, program: object) -> int | None:
        """Where ``program`` stands in the set; None if it is not in it. Does not build the other programs."""
        if not isinstance(program, Program):
            return None
        actions = program.actions
        kinds, indices = (np.array(column) for column in zip(*actions, strict=True))
        for place in np.flatnonzero(np.diff(self.offsets) == len(actions)).tolist():
            start, end = self.offsets[place], self.offsets[place + 1]
            if (self.kinds[start:end] == kinds).all() and (self.indices[start:end] == indices).all():
                return int(place)
        return None

    def operators(self) -> npt.NDArray[np.int32]:
        """(solutions,): the operator of each."""
        return self.indices[self.offsets[:-1]]

    def operations(self) -> npt.NDArray[np.int64]:
        """(solutions,): how much each does, as ``Program.operations`` says."""
        ends = np.concatenate([[0], np.cumsum(np.isin(self.kinds, _OPERAND_ENDS))])
        operands = ends[self.offsets[1:]] - ends[self.offsets[:-1]]
        acting = ~np.isin(self.operators(), [int(operator) for operator in PLAIN])
        counted: npt.NDArray[np.int64] = (operands + acting).astype(np.int64)
        return counted

    def picked(self, kept: npt.NDArray[np.integer]) -> ProgramSet:
        """Some of the programs, by their places."""
        lengths = np.diff(self.offsets)[kept]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        places = np.repeat(self.offsets[:-1][kept] - offsets[:-1], lengths) + np.arange(offsets[-1])
        complete = self.complete and len(kept) == len(self)
        return ProgramSet(self.kinds[places], self.indices[places], offsets, self.rule[kept], self.size, complete)

    def with_program(self, program: Program, rule: Rule) -> ProgramSet:
        """The same with a program more, at the end: the places of the others stay."""
        kinds, indices = (np.array(column) for column in zip(*program.actions, strict=True))
        return ProgramSet(
            np.concatenate([self.kinds, kinds]).astype(np.int8),
            np.concatenate([self.indices, indices]).astype(np.int32),
            np.append(self.offsets, self.offsets[-1] + len(kinds)).astype(np.int32),
            np.append(self.rule, int(rule)).astype(np.int8),
            self.size + 1,
            self.complete,
        )


def program_set(programs: Iterable[tuple[Program, Rule]], size: int | None = None, complete: bool = True) -> ProgramSet:
    """The set of these programs with the rules that proposed them, in canonical order, each once."""
    return actions_set(((program.actions, rule) for program, rule in programs), size, complete)


def actions_set(proposed: Iterable[tuple[Actions, Rule]], size: int | None = None, complete: bool = True) -> ProgramSet:
    """The set of the programs with these linear forms; of several rules the first named one is kept."""
    rules: dict[Actions, Rule] = {}
    for actions, rule in proposed:
        rules.setdefault(actions, rule)
    listed = sorted(rules, key=lambda actions: (_operations(actions), actions))
    flat = np.array([action for actions in listed for action in actions], dtype=np.int32).reshape(-1, 2)
    offsets = np.zeros(len(listed) + 1, dtype=np.int32)
    np.cumsum([len(actions) for actions in listed], out=offsets[1:])
    proposed_by = np.array([int(rules[actions]) for actions in listed], dtype=np.int8)
    return ProgramSet(
        flat[:, 0].astype(np.int8),
        flat[:, 1].copy(),
        offsets,
        proposed_by,
        len(listed) if size is None else size,
        complete,
    )


_ENDS = frozenset(map(int, _OPERAND_ENDS))
_PLAIN = frozenset(map(int, PLAIN))


def _operations(actions: Actions) -> int:
    return sum(kind in _ENDS for kind, _ in actions) + (actions[0][1] not in _PLAIN)
