"""Hashed Gibbs sampler: draws records from thresholded tables of each column with a few others.

Li, Karwa, Slavkovic & Steorts (2018), Algorithm 2, with three corrections of the printed algorithm.
A proposed value is *rejected* if it leads to a conditional distribution without a kept cell (Remark
3.3; the branches of lines 14-18 are exchanged). Line 13 checks the columns whose conditional
depends on the changed column, at the *proposed* value. Conditional distributions are taken at the
current values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, ReleasedKind, SparseTable, Table
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.kernels.kept_conditional import KeptConditional
from dp_core.methods.reconstruction.reconstructor import FittedTables, MadeAnew
from dp_core.methods.reconstruction.sampling.kept_cells import (
    kept_rows,
    no_start,
    nothing_left,
    possible_cells,
    sparse_tables,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes

MOST_STATES = 1 << 13
"""Largest number of partial records that are kept after each table."""

BRANCHES = 8
"""Average number of continuations considered per partial record."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Kept cells of one table.

    Attributes:
        clique: Columns of the table.
        axes: Positions of these columns in a complete record.
        codes: Codes of the cells, shape (cells, columns).
        weights: Noisy counts, positive, shape (cells,).
    """

    clique: Clique
    axes: tuple[int, ...]
    codes: Codes
    weights: NDArray[np.int64]

    def table(self, domain: Domain, clique: Clique) -> NDArray[np.float64]:
        """Return the noisy counts summed over some of the columns."""
        records = Dataset(domain.project(self.clique), self.codes.T)
        return counted(records, clique, weights=self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class GibbsModel(FittedTables):
    """One conditional distribution per column given a few others, estimated from the kept cells.

    `tables` holds one one-way table per column, in the domain's order.

    Attributes:
        kept: For each column, in the domain's order, the kept cells of its table.
        conditionals: For each column, the conditional distribution that its kept cells define.
        asked_by: For each column, the columns whose conditional depends on it.
        states: Start records, which lie in a kept cell of every table, shape (states, columns).
        chances: Probability of each start record, shape (states,).
        sweeps: Number of times each column of a record is drawn.
    """

    kept: tuple[Cells, ...]
    conditionals: tuple[KeptConditional, ...]
    asked_by: tuple[tuple[int, ...], ...]
    states: Codes
    chances: NDArray[np.float64]
    sweeps: int

    def project(self, clique: Clique) -> NDArray[np.float64]:
        for cells in self.kept:
            if set(cells.clique) == set(clique) or cells.clique[:1] == clique:
                counts = cells.table(self.domain, clique)
                return counts * float(self.rows / counts.sum())
        raise KeyError(clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        begun = rng.choice(len(self.states), size=rows, p=self.chances)
        codes = np.ascontiguousarray(self.states[begun].T)
        for _ in range(self.sweeps):
            for column, conditional in enumerate(self.conditionals):
                self._step(codes, column, conditional, rng)
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)

    def _step(
        self,
        codes: Codes,
        column: int,
        conditional: KeptConditional,
        rng: np.random.Generator,
    ) -> None:
        """Draw one column of every record conditionally on the others, in place."""
        before = codes[column].copy()
        codes[column] = conditional.draw(conditional.group(codes), rng=rng)
        # Every conditional has a kept cell before the step; a value that would leave one without is
        # # rejected.
        stuck = np.zeros(codes.shape[1], dtype=bool)
        for other in self.asked_by[column]:
            stuck |= self.conditionals[other].group(codes) < 0
        codes[column, stuck] = before[stuck]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gibbs(MadeAnew[GibbsModel]):
    """Draw each record by a Gibbs sampler over the thresholded tables of SBHG.

    Attributes:
        sweeps: Number of times each column of a record is drawn, at least 1.
    """

    sweeps: int = 20

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset({"sparse"})

    def __post_init__(self) -> None:
        if self.sweeps < 1:
            raise ValueError(f"sweeps is a number from 1, not {self.sweeps}.")

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        # Kept cells of each column's table, fewer than rows; the set, its copy and the drawn
        # values.
        return (12 * row_bytes(domain) + 64) * rows + (64 << 20)

    def make(
        self, domain: Domain, released: Sequence[Released], rows: int, zeros: StructuralZeros
    ) -> GibbsModel:
        """Return the model of thresholded tables, one per column.

        Raises:
            BadInput: if a column has no table.
            StageFailed: if no cell was kept, or no record lies in a kept cell of every table.
        """
        given = sparse_tables(released)
        kept = tuple(_cells_of(domain, name, given, zeros) for name in domain.columns)
        if not all(len(cells.weights) for cells in kept):
            raise nothing_left(given)
        states, chances = start_states(kept, len(domain))
        if not len(states):
            raise no_start()
        tables = []
        for name, cells in zip(domain.columns, kept, strict=True):
            one = cells.table(domain, (name,))
            tables.append(Table(domain.project((name,)), one * (rows / one.sum())))
        return GibbsModel(
            domain=domain,
            tables=tuple(tables),
            rows=rows,
            zeros=zeros,
            kept=kept,
            conditionals=tuple(
                KeptConditional.build(
                    cells.codes, cells.weights, cells.axes[1:], domain.project(cells.clique).sizes
                )
                for cells in kept
            ),
            asked_by=tuple(
                tuple(other for other, cells in enumerate(kept) if column in cells.axes[1:])
                for column in range(len(domain))
            ),
            states=states,
            chances=chances,
            sweeps=self.sweeps,
        )

    def number(self, domain: Domain, released: Sequence[Released]) -> int:  # noqa: ARG002
        """Return the largest sum of kept counts."""
        return kept_rows(released)


def start_states(tables: Sequence[Cells], columns: int) -> tuple[Codes, NDArray[np.float64]]:
    """Return records that lie in a kept cell of every table, and a probability for each.

    The tables are joined one after the other. Only the most likely partial records are kept at each
    step, which bounds the work. All decisions depend on public noisy counts only.

    Args:
        tables: Tables with at least one kept cell each; together they cover every column.
        columns: Number of columns of a record.

    Returns:
        Codes, shape (states, columns), at most `MOST_STATES` states, the most likely first; and
        probabilities proportional to the product of the tables' conditional weights. There can be
        no state because none exists, or because the most likely partial records have no
        continuation.
    """
    kind = np.result_type(*(table.codes.dtype for table in tables))
    states = np.zeros((1, columns), dtype=kind)
    logs = np.zeros(1)
    known: set[int] = set()
    left = list(tables)
    while left and len(states):
        # The table with the fewest columns that are not known yet; among these the smallest.
        best = min(left, key=lambda one: (len(set(one.axes) - known), len(one.weights)))
        left.remove(best)
        states, logs = _joined(states, logs, best, known)
        known |= set(best.axes)
        order = np.argsort(-logs, kind="stable")[:MOST_STATES]
        states, logs = states[order], logs[order]
    if not len(states):
        return states, logs
    chances = np.exp(logs - logs.max())
    return states, chances / chances.sum()


def _joined(
    states: Codes, logs: NDArray[np.float64], table: Cells, known: set[int]
) -> tuple[Codes, NDArray[np.float64]]:
    """Return the partial records joined with the matching cells of one more table."""
    shared = [place for place, axis in enumerate(table.axes) if axis in known]
    axes = [table.axes[place] for place in shared]
    both = np.concatenate((table.codes[:, shared], states[:, axes]))
    group = np.zeros(len(both), dtype=np.int64)
    if shared:
        group = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    of_cell, of_state = group[: len(table.codes)], group[len(table.codes) :]
    groups = int(group.max()) + 1
    # Sort cells by group, within a group by decreasing weight.
    order = np.lexsort((-table.weights, of_cell))
    counts = np.bincount(of_cell, minlength=groups)
    starts = np.cumsum(counts) - counts
    total = np.bincount(of_cell, weights=table.weights, minlength=groups)
    most = max(1, BRANCHES * MOST_STATES // len(states))
    times = np.minimum(counts[of_state], most)
    state = np.repeat(np.arange(len(states)), times)
    nth = np.arange(len(state)) - np.repeat(np.cumsum(times) - times, times)
    cell = order[starts[of_state[state]] + nth]
    found = states[state]
    found[:, list(table.axes)] = table.codes[cell]
    return found, logs[state] + np.log(table.weights[cell] / total[of_cell[cell]])


def _cells_of(
    domain: Domain, name: str, given: Sequence[SparseTable], zeros: StructuralZeros
) -> Cells:
    """Return the kept cells of the table whose first column is `name`."""
    for table in given:
        if table.clique[0] == name:
            codes, weights = possible_cells(table, zeros)
            return Cells(table.clique, domain.axes(table.clique), codes, weights)
    raise BadInput(
        f"The reconstruction `gibbs` needs a thresholded table that begins with {name!r}, and one"
        " for every other column: use it with select: {method: sbhg}, or take reconstruct:"
        " {method: sparse}."
    )


METHOD = Gibbs
