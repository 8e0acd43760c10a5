"""A graphical model fitted to noisy tables by proportional fitting along its junction tree.

The maximum-entropy model with given tables is a product of one factor per table. Here the tables
are noisy, so they need not be matched exactly: the log factors `x` maximise

    sum(wanted * x) - records(x) - sum(penalty * x^2) / 2

which is concave; `records(x)` is the mass of the product. At the maximum,
`count + penalty * x = wanted` in every cell. With `penalty = smoothing * variance`, this is the
maximum-entropy least-squares fit (Private-PGM: McKenna, Sheldon and Miklau, ICML 2019) as smoothing
goes to 0. With more smoothing, a cell deviates from the prediction of the other tables only as far
as it exceeds its noise.

Each table in turn is solved exactly, and changes are passed along the tree to the next table
(Jirousek and Preucil, Computational Statistics & Data Analysis 1995). There is no step size, and
the code is not compiled again for a new structure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree
from dp_core.schema.structure.structural_zeros import StructuralZeros

_MANY_CELLS = 1_000
"""Least cells of a target for which cells of the same count and penalty are looked for."""

Potentials = Mapping[Clique, NDArray[np.float64]]
"""Log factors of a fit, by target."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A table that the model should match, as closely as its noise allows.

    Attributes:
        domain: The clique's domain, columns in the order of the whole domain.
        values: Noisy counts, shape `domain.sizes`, in records; may be negative.
        penalty: Penalty of each cell, same shape, in records, above 0.
    """

    domain: Domain
    values: NDArray[np.float64]
    penalty: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted model.

    Attributes:
        tree: Junction tree of the model.
        tables: Tables of its cliques, in the tree's order; they agree and have the same total.
        potentials: Log factors of the targets, a start for a later fit.
        sweeps: Number of passes over the tree.
    """

    tree: JunctionTree
    tables: tuple[Table, ...]
    potentials: Potentials
    sweeps: int


def fit_tree(
    tree: JunctionTree,
    targets: Sequence[Target],
    *,
    total: float,
    zeros: StructuralZeros,
    start: Potentials | None = None,
    sweeps: int,
    tolerance: float,
) -> Fit:
    """Return the model over a junction tree that is fitted to targets.

    Args:
        tree: Junction tree; each target's clique is contained in one of its cliques.
        targets: Target tables with distinct cliques.
        total: Number of records.
        zeros: Impossible cells; they get no mass if a clique contains the columns of the rule.
        start: Log factors to start from, for any of the targets; 0 for the others.
        sweeps: Largest number of passes over the tree.
        tolerance: Fitting ends when a sweep changes at most this part of all records.

    Raises:
        BadInput: if no combination of codes is possible.
    """
    from dp_core.methods.reconstruction.kernels import junction_sweeps

    domains = [tree.domain.project(clique) for clique in tree.cliques]
    placed: list[list[Target]] = [[] for _ in domains]
    for target in targets:
        holder = tree.holder(target.domain.columns)
        assert holder is not None, "every target lies in a clique"
        placed[holder].append(target)
    ordered = [target for group in placed for target in group]
    potentials = [
        np.zeros(target.values.size)
        if start is None or target.domain.columns not in start
        else start[target.domain.columns].ravel()
        for target in ordered
    ]
    maps = [
        cell_map(domain, target.domain.columns)
        for domain, group in zip(domains, placed, strict=True)
        for target in group
    ]
    cells, at = [], 0
    for domain, group in zip(domains, placed, strict=True):
        log = np.zeros(domain.size())
        for _ in group:
            log += potentials[at][maps[at]]
            at += 1
        possible = np.maximum(np.exp(log - log.max()), junction_sweeps.LEAST)
        cells.append(np.where(zeros.mask(domain).ravel(), 0.0, possible))
    links = Links.of(tree)
    flat, potential = np.concatenate(cells), _joined(potentials)
    separators = np.ones(links.first_separator[-1])
    place = (flat, links.first, separators, *links.messages)
    junction_sweeps.collect(*place)
    if not flat[: links.first[1]].any():
        raise BadInput(
            "The rules of `impossible` leave no combination possible; check them in the schema."
        )
    done = junction_sweeps.fit(
        *place,
        links.walk,
        _starts([len(group) for group in placed]),
        _joined(maps, np.int32),
        _starts([each.size for each in maps]),
        _starts([target.values.size for target in ordered]),
        _joined([target.values.ravel() for target in ordered]),
        _joined([target.penalty.ravel() for target in ordered]),
        _joined([_first_like(target) for target in ordered], np.int64),
        potential,
        float(total),
        sweeps,
        tolerance * total,
    )
    flat[: links.first[1]] *= total / flat[: links.first[1]].sum()
    junction_sweeps.distribute(*place)
    parts = np.split(flat, links.first[1:-1])
    ends = np.cumsum([target.values.size for target in ordered])
    found = np.split(potential, ends)[: len(ordered)]
    return Fit(
        tree,
        tuple(
            Table(domain, part.reshape(domain.sizes))
            for domain, part in zip(domains, parts, strict=True)
        ),
        {
            target.domain.columns: part.reshape(target.domain.sizes)
            for target, part in zip(ordered, found, strict=True)
        },
        done,
    )


def _first_like(target: Target) -> NDArray[np.int64]:
    """Return, for each cell, the first cell with the same count and penalty; for few cells itself.

    Shape (cells,), cells in C order.
    """
    if target.values.size < _MANY_CELLS:
        return np.arange(target.values.size)
    pairs = target.values.ravel() + 1j * target.penalty.ravel()
    _, first, number = np.unique(pairs, return_index=True, return_inverse=True)
    found: NDArray[np.int64] = first[number]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """A tree as flat arrays.

    Attributes:
        first: Start of each clique's cells, shape (cliques + 1,).
        first_separator: Start of each separator's cells, shape (separators + 1,).
        own: Separator cell of each cell of each clique.
        other: Cell of that separator for each cell of the clique's parent.
        first_other: Start of each clique's part of `other`, shape (cliques + 1,).
        parents: Parent of each clique, -1 for the first.
        walk: Steps of a pass over the tree: a clique to step down to, or minus the clique to step
            up from.
    """

    first: NDArray[np.int64]
    first_separator: NDArray[np.int64]
    own: NDArray[np.int32]
    other: NDArray[np.int32]
    first_other: NDArray[np.int64]
    parents: NDArray[np.int64]
    walk: NDArray[np.int64]

    @classmethod
    def of(cls, tree: JunctionTree) -> Links:
        """Return the arrays of a tree."""
        domains = [tree.domain.project(clique) for clique in tree.cliques]
        own = [cell_map(d, s) for d, s in zip(domains, tree.separators, strict=True)]
        other = [
            cell_map(domains[parent], separator) if parent >= 0 else np.zeros(0, np.int32)
            for parent, separator in zip(tree.parents, tree.separators, strict=True)
        ]
        children: list[list[int]] = [[] for _ in domains]
        for clique, parent in enumerate(tree.parents):
            if parent >= 0:
                children[parent].append(clique)
        walk: list[int] = []
        steps = list(reversed(children[0]))
        while steps:
            step = steps.pop()
            walk.append(step)
            if step > 0:
                steps += [-step, *reversed(children[step])]
        return cls(
            first=_starts([domain.size() for domain in domains]),
            first_separator=_starts([tree.domain.size(s) for s in tree.separators]),
            own=_joined(own, np.int32),
            other=_joined(other, np.int32),
            first_other=_starts([each.size for each in other]),
            parents=np.array(tree.parents, dtype=np.int64),
            walk=np.array(walk, dtype=np.int64),
        )

    @property
    def messages(self) -> tuple[NDArray[np.int64] | NDArray[np.int32], ...]:
        """Index arrays that the message functions need in addition to the tables."""
        return (self.first_separator, self.own, self.other, self.first_other, self.parents)


def cell_map(domain: Domain, clique: Clique) -> NDArray[np.int32]:
    """Return, for each cell of a domain in C order, the index of its cell in the clique's table."""
    sizes = domain.project(clique).sizes
    found = np.zeros((1,) * len(domain), dtype=np.int32)
    for axis, name in enumerate(domain.columns):
        if name in clique:
            place = clique.index(name)
            shape = [1] * len(domain)
            shape[axis] = -1
            codes = np.arange(domain.sizes[axis], dtype=np.int32) * math.prod(sizes[place + 1 :])
            found = found + codes.reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(found, domain.sizes)).ravel()


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)


def _joined(parts: Sequence[NDArray[np.generic]], kind: type[np.generic] = np.float64):  # type: ignore[no-untyped-def]
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)
