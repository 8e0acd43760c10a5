"""Choosing tables by the errors of a graphical model, for MST, AIM and MWEM-PGM.

In each round, the model of all measurements so far estimates every candidate table. A candidate is
chosen privately by the distance between this estimate and the truth. The chosen table is measured,
and the model is fitted again (McKenna, Mullins, Sheldon and Miklau, VLDB 2022, Algorithm 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.table_distance import TableDistance
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.workload import shares
from dp_core.schema.structure.structural_zeros import StructuralZeros

GRID = 16
"""Parts of a record to which model answers are rounded; the rounding is far below any noise."""

FIRST_PART = Fraction(1, 10)
"""Part of the measuring budget of the first round: one-way tables have few cells, and later rounds
measure most columns again."""

_MOST_ANNOUNCED = 1 << 24  # largest number of cells that are counted in advance
_SWEEPS = 20
_TOLERANCE = 3e-4


def tables_up_to(domain: Domain, order: int, *, max_cells: int) -> tuple[Clique, ...]:
    """Return all tables of 1 to `order` columns that fit, smaller ones first."""
    return tuple(
        clique
        for size in range(1, order + 1)
        for clique in itertools.combinations(domain.columns, size)
        if size == 1 or domain.size(clique) <= max_cells
    )


def tables_in_advance(domain: Domain, cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return the tables to count in advance, with the empty clique for the number of rows.

    The result is empty if the candidates have too many cells for memory.
    """
    held = sum(domain.size(clique) for clique in cliques) <= _MOST_ANNOUNCED
    return ((), *cliques) if held else ()


def first_round(inputs: MethodInputs) -> tuple[Measurement, ...]:
    """Return a table of every column, measured as round 1 at exactly `FIRST_PART`."""
    columns = [(name,) for name in inputs.domain.columns]
    pure = inputs.curator.currency.kind == "pure"
    weights = shares(inputs.domain.sizes, "epsilon" if pure else "rho")
    costs = [weight * FIRST_PART * inputs.measure_cost for weight in weights]
    return inputs.curator.measure("measure", columns, costs, replicate=inputs.replicate, round=1)


class RoundModel:
    """The graphical model of the measurements so far. Public.

    Attributes:
        total: Estimated number of records.
    """

    total: float

    def __init__(
        self, domain: Domain, zeros: StructuralZeros, *, rows: int | None, max_cells: int
    ) -> None:
        """Start without tables.

        Args:
            domain: All columns.
            zeros: Impossible cells, as far as tables of the model cover them.
            rows: Number of records if it is public, otherwise None.
            max_cells: Largest number of cells of the junction tree; single columns always fit.
        """
        from dp_core.methods.reconstruction.graphical.junction_tree import adjacency

        self._domain = domain
        self._zeros = zeros.with_empty_levels(domain, most_cells=max_cells)
        self._rows = rows
        self._max_cells = max(max_cells, sum(domain.sizes))
        self._adjacent = adjacency(domain, ())
        self._refused: set[Clique] = set()
        self._potentials: dict[Clique, NDArray[np.float64]] = {}

    def fits(self, clique: Clique) -> bool:
        """Return whether a table fits into the model; a table that does not fit never will."""
        from dp_core.methods.reconstruction.graphical.junction_tree import adjacency, tree_cells

        if clique in self._refused:
            return False
        more = self._adjacent | adjacency(self._domain, (clique,))
        if (more == self._adjacent).all() or tree_cells(self._domain, more) <= self._max_cells:
            return True
        self._refused.add(clique)
        return False

    def refit(self, measurements: Sequence[Measurement]) -> None:
        """Fit the model to all tables, starting from the last fit."""
        from dp_core.methods.reconstruction.graphical.answers import Answers
        from dp_core.methods.reconstruction.graphical.junction_fit import fit_tree
        from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree, adjacency
        from dp_core.methods.reconstruction.graphical.targets import targets

        wanted, total = targets(self._domain, measurements, rows=self._rows, zeros=self._zeros)
        cliques = [target.domain.columns for target in wanted]
        self._adjacent = adjacency(self._domain, cliques)
        fit = fit_tree(
            JunctionTree.of(self._domain, cliques),
            wanted,
            total=float(total),
            zeros=self._zeros,
            start=self._potentials,
            sweeps=_SWEEPS,
            tolerance=_TOLERANCE,
        )
        self.total = float(total)
        self._potentials = dict(fit.potentials)
        self._answers = Answers(fit.tree, fit.tables)

    def answer(self, clique: Clique) -> NDArray[np.float64]:
        """Return the model's estimated table of a clique, in records."""
        return self._answers.table(clique)


def table_distances(
    cliques: Sequence[Clique],
    tables: Sequence[NDArray[np.float64]],
    *,
    weights: Sequence[int] | None = None,
    noise: float = 0.0,
    drawn_in: bool = False,
    extra: Sequence[float] | None = None,
) -> TableDistance:
    """Return the score of each clique: the distance of a public table from the true one.

    One record moves each distance by 1 record (2 if it is replaced): it is in one cell of each
    table, and the tables are public.

    Args:
        cliques: Candidates.
        tables: Public table of each, in records.
        weights: Integer weights of the candidates; 1 by default.
        noise: Expected absolute error of each measured cell, in records; 0 by default. It is
            subtracted from the score, because measuring cannot remove an error of that size.
        drawn_in: Whether less is subtracted for cells with a small expectation. Shrinkage limits
            their error to the sampling deviation and some dependence.
        extra: Number to subtract from each score besides, in records; 0 by default.
    """
    answers = tuple(np.rint(GRID * table).astype(np.int64) for table in tables)
    lost = [noise * table.size for table in tables]
    if drawn_in:
        lost = [float(np.minimum(noise, _left_by_chance(table)).sum()) for table in tables]
    if extra:
        lost = [each + more for each, more in zip(lost, extra, strict=True)]
    return TableDistance(
        cliques=tuple(cliques),
        answers=answers,
        grid=GRID,
        weights=tuple(weights or [1] * len(cliques)),
        offsets=tuple(round(GRID * each) for each in lost),
    )


def _left_by_chance(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the typical deviation of unmeasured cells from their expected counts, in records.

    The sum of (a close bound of) the mean deviation of a Poisson variable, and the usual dependence
    of cells with expectation E (about `E ** 0.75`, as in `residual_belief`).
    """
    chance = np.minimum(np.sqrt(2 / np.pi * expected), 2 * expected)
    return np.asarray(chance + expected**0.75)


def among(scores: TableDistance, places: Sequence[int]) -> TableDistance:
    """Return the scores of some of the candidates."""
    return TableDistance(
        cliques=tuple(scores.cliques[place] for place in places),
        answers=tuple(scores.answers[place] for place in places),
        grid=scores.grid,
        weights=tuple(scores.weights[place] for place in places),
        offsets=tuple(scores.offsets[place] for place in places),
    )


def overlap_weights(cliques: Sequence[Clique], workload: Sequence[Clique]) -> list[int]:
    """Return for each clique the total number of columns shared with the workload's tables.

    The weights are divided by their common divisor; only their ratios matter (AIM, Section 4).
    """
    count: dict[str, int] = {}
    for table in workload:
        for name in table:
            count[name] = count.get(name, 0) + 1
    weights = [sum(count.get(name, 0) for name in clique) for clique in cliques]
    common = math.gcd(*weights) or 1
    return [max(weight // common, 1) for weight in weights]
