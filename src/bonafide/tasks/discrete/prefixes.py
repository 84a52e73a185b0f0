"""The solutions of an example as a tree of prefixes, so that a decoder scores each distinct prefix once.

A node is what some programs begin with; the root is the empty beginning. An edge is an option that follows a node.
log P of a program is the sum over the edges of its path. Programs that the grammar does not admit, or that need what
the solver does not read, have no path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bonafide.tasks.discrete.grammar import Allowed, advance, allowed, beginning, joined
from bonafide.tasks.discrete.options import CLOSE, Booleans, Integers, Options
from bonafide.tasks.discrete.programset import ProgramSet


@dataclass(frozen=True, eq=False, slots=True)
class Prefixes:
    """Nodes in the order of their depth, edges in the order of their nodes."""

    parent: Integers  # (nodes,); −1 for the root
    option: Integers  # (nodes,): the option that led there; −1 for the root
    depth: Integers  # (nodes,)
    allowed: Integers  # (nodes, 6): what may come next, see ``grammar.Allowed``
    edge_node: Integers  # (edges,)
    edge_option: Integers  # (edges,)
    paths: Integers  # (solutions, most actions): edges; −1 after the end, and for all of a program without a path
    reachable: Booleans  # (solutions,)

    def only(self, first: int, stop: int) -> Prefixes:
        """The tree of the solutions from ``first`` to before ``stop``: their edges, and the nodes that these leave."""
        paths, reachable = self.paths[first:stop], self.reachable[first:stop]
        edges = np.unique(paths[paths >= 0])
        nodes = np.union1d(self.edge_node[edges], [0])  # the root, for a part without any program
        parent = self.parent[nodes]
        return Prefixes(
            np.where(parent >= 0, np.searchsorted(nodes, parent), -1),
            self.option[nodes],
            self.depth[nodes],
            self.allowed[nodes],
            np.searchsorted(nodes, self.edge_node[edges]),
            self.edge_option[edges],
            np.where(paths >= 0, np.searchsorted(edges, paths), -1),
            reachable,
        )


def make_prefixes(programs: ProgramSet, options: Options) -> Prefixes:
    """The tree of a solution set."""
    lengths = np.diff(programs.offsets).astype(np.int64)
    most = int(lengths.max(initial=0))
    steps = np.full((len(lengths), most), -1, dtype=np.int64)
    inside = np.arange(most) < lengths[:, None]
    steps[inside] = options.of_actions(programs.kinds, programs.indices)
    known = np.where(inside, steps >= 0, True)
    reachable: Booleans = np.logical_and.reduce(known, axis=1) & np.logical_and.reduce(steps[:, :1] < CLOSE, axis=1)
    while True:
        tree, wrong = _tree(steps, np.where(reachable, lengths, 0), options)
        if not wrong.any():
            return tree
        reachable &= ~wrong


def _tree(steps: Integers, lengths: Integers, options: Options) -> tuple[Prefixes, Booleans]:
    """The tree of the programs whose length is not 0, and which of them take an option that is not allowed."""
    total = int(options.total[0])
    paths = np.full(steps.shape, -1, dtype=np.int64)
    at = np.zeros(len(steps), dtype=np.int64)  # the node of each program
    states = [beginning(1)]  # of the nodes, by depth
    parents, chosen = [np.array([-1])], [np.array([-1])]
    edge_nodes, edge_options = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    edges = first = 0  # how many edges there are, and the place of the first of the deepest nodes
    for step in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > step)
        keys, which = np.unique(at[rows] * total + steps[rows, step], return_inverse=True)
        node, option = keys // total, keys % total
        paths[rows, step] = edges + which
        edge_nodes.append(node)
        edge_options.append(option)
        edges += len(keys)
        deeper = np.zeros(len(keys), dtype=np.bool_)
        deeper[which[lengths[rows] > step + 1]] = True
        if not deeper.any():
            break
        parents.append(node[deeper])
        chosen.append(option[deeper])
        states.append(advance(options, states[-1].take(node[deeper] - first), option[deeper]))
        first += len(parents[-2])
        at[rows] = (first + np.cumsum(deeper) - 1)[which]
    sets = allowed(options, joined(states)).array
    edge_node, edge_option = np.concatenate(edge_nodes), np.concatenate(edge_options)
    refused = np.append(~Allowed(*sets[edge_node].T).has(edge_option, options.date_table()), False)
    tree = Prefixes(
        np.concatenate(parents),
        np.concatenate(chosen),
        np.repeat(np.arange(len(parents)), [len(each) for each in parents]),
        sets,
        edge_node,
        edge_option,
        paths,
        lengths > 0,
    )
    wrong: Booleans = np.logical_or.reduce(refused[paths], axis=1)
    return tree, wrong
