"""A Bayesian network over the measured tables: each column is drawn conditionally on earlier ones.

PrivBayes (Zhang, Cormode, Procopiuc, Srivastava and Xiao, ACM TODS 2017, Algorithm 1) measures one
table for each column and its parents and draws records along the network. Here the tables are
arbitrary: the columns of a table that are not drawn yet are drawn conditionally on those of its
columns that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dp_core.client.released import Measurement, ReleasedKind, Table, tables_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.estimates.consistency import (
    column_tables,
    consistent,
    estimates,
    norm_sub,
    whole_rows,
)
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS
from dp_core.methods.reconstruction.reconstructor import TABLES, FittedTables, FromTables
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes


@dataclass(frozen=True, slots=True)
class Factor:
    """One step of the draw: the conditional distribution of some columns given others.

    Attributes:
        table: Index of the table that gives the conditional distribution.
        given: Columns of the table that earlier steps have drawn.
        drawn: Columns of the table that this step draws.
    """

    table: int
    given: Clique
    drawn: Clique


@dataclass(frozen=True, slots=True, eq=False)
class BayesNetworkModel(FittedTables):
    """Tables that cover all columns, and the order in which records are drawn from them.

    The tables need not agree: a table's distribution of columns that are drawn before it is not
    used.

    Attributes:
        factors: Steps of the draw; each column is drawn in exactly one.
        conditionals: One table per step, the conditional distribution of the columns that it
            draws given its other columns.
    """

    factors: tuple[Factor, ...]
    conditionals: tuple[Table, ...]

    @classmethod
    def of_tables(
        cls, domain: Domain, tables: Sequence[Table], rows: int, zeros: StructuralZeros
    ) -> BayesNetworkModel:
        """Return the model of tables that together cover all columns."""
        factors = network([table.clique for table in tables])
        conditionals = tuple(conditional(tables[step.table], step, zeros) for step in factors)
        return cls(domain, tuple(tables), rows, zeros, factors, conditionals)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        return self.zeros.repair(records(self.domain, self.conditionals, rows, rng=rng), rng=rng)


def network(cliques: Sequence[Clique]) -> tuple[Factor, ...]:
    """Return the steps in which columns are drawn from the tables.

    The next table is the one that shares columns with those drawn and adds the fewest new ones;
    ties go to the table with the most drawn columns, then to the first. So the tables of a Bayesian
    network, in its order, give that network, and the edges of a tree give the tree. If no remaining
    table shares a drawn column, the next one is the first that is not a single column of another
    table.

    Args:
        cliques: Columns of each table.

    >>> [(step.given, step.drawn) for step in network([("a",), ("b", "c"), ("a", "b")])]
    [((), ('b', 'c')), (('b',), ('a',))]
    """
    left = list(range(len(cliques)))
    found: list[Factor] = []
    done: set[str] = set()

    def alone(index: int) -> bool:
        """Return whether the table has a single column that a larger table contains too."""
        clique = set(cliques[index])
        return len(clique) == 1 and any(clique < set(other) for other in cliques)

    while True:
        left = [index for index in left if not done.issuperset(cliques[index])]
        if not left:
            return tuple(found)
        touching = [index for index in left if not done.isdisjoint(cliques[index])]
        if touching:
            chosen = min(
                touching,
                key=lambda index: (
                    len(set(cliques[index]) - done),
                    -len(set(cliques[index]) & done),
                    index,
                ),
            )
        else:
            chosen = min(left, key=lambda index: (alone(index), index))
        given = tuple(name for name in cliques[chosen] if name in done)
        drawn = tuple(name for name in cliques[chosen] if name not in done)
        found.append(Factor(chosen, given, drawn))
        done.update(drawn)


def conditional(table: Table, step: Factor, zeros: StructuralZeros) -> Table:
    """Return the conditional distribution of a step's drawn columns given its other columns.

    A state of the given columns with no mass in the table gets the table's marginal distribution of
    the drawn columns; if all of that is impossible in the state, it gets the uniform distribution
    over what is possible.
    """
    order = (*step.given, *step.drawn)
    drawn = table.domain.size(step.drawn)
    axes = table.domain.axes(order)
    weights = np.asarray(table.values.transpose(axes)).reshape(-1, drawn)
    empty = np.flatnonzero(weights.sum(axis=1) <= 0)
    if empty.size:
        possible = ~zeros.mask(table.domain).transpose(axes).reshape(-1, drawn)[empty]
        weights = weights.copy()
        weights[empty] = weights.sum(axis=0) * possible
        still = empty[weights[empty].sum(axis=1) <= 0]
        weights[still] = possible[np.isin(empty, still)]
        # No record should reach a state in which nothing is possible; if one does, it is repaired.
        weights[empty[weights[empty].sum(axis=1) <= 0]] = 1.0
    of = table.domain.project(order)
    return Table(of, weights.reshape(of.sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesNetwork(FromTables):
    """Draw each column conditionally on earlier ones, from the measured tables.

    Attributes:
        tables: Preparation of the noisy tables. `clip`: negative cells of each table are set to
            zero, as in the paper. `agree`: overlapping tables are averaged so that they agree, and
            made nonnegative.
    """

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES
    model: ClassVar[type[FittedTables]] = BayesNetworkModel

    tables: Literal["clip", "agree"] = "agree"

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        cells = sum(domain.size(clique) for clique in cliques)
        # Records, their copy while impossible ones are repaired, and each one's state and cell; the
        # tables, the mixture of the largest ones, and their conditionals.
        return (2 * row_bytes(domain) + 40) * rows + 250 * cells + (32 << 20)

    def model_of(self, inputs: FitInputs) -> BayesNetworkModel:
        domain, zeros = inputs.domain, inputs.zeros
        measurements = tables_of(inputs.released)
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        fit = clipped if self.tables == "clip" else consistent
        fitted, total = fit(domain, measurements, rows=inputs.rows, zeros=known)
        held = {name for table in fitted for name in table.clique}
        columns, _ = column_tables(domain, measurements, rows=total, zeros=known)
        rest = [table for table in columns if held.isdisjoint(table.clique)]
        return BayesNetworkModel.of_tables(domain, (*fitted, *rest), total, zeros)


def clipped(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
) -> tuple[tuple[Table, ...], int]:
    """Return each measured table with negative cells set to zero, and the number of records.

    Every table is scaled to that number. A table without a positive cell becomes uniform over its
    possible cells. The empty clique is used for the number of records only.
    """
    merged = estimates(domain, measurements, zeros=zeros)
    total = whole_rows(merged, rows)
    found = []
    for table in merged:
        values = np.maximum(table.values, 0.0)
        if values.sum() > 0:
            values *= total / values.sum()
        else:
            values = norm_sub(values, total=float(total), possible=table.possible)
        if table.clique:
            found.append(Table(table.domain, values))
    return tuple(found), total


METHOD = BayesNetwork
