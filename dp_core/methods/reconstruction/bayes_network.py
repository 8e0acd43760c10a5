"""A Bayesian network of the measured tables: each column is drawn given earlier ones.

PrivBayes (Zhang, Cormode, Procopiuc, Srivastava and Xiao, ACM TODS 2017, Algorithm 1) measures one
table for each column and its parents and draws records along the network. Here the tables may be
any: what a table says of columns not drawn yet is drawn given those of its columns that are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.estimates.consistency import (
    column_tables,
    consistent,
    estimates,
    norm_sub,
    whole_rows,
)
from dp_core.methods.reconstruction.estimates.raking import MOST_CELLS, margin
from dp_core.methods.reconstruction.estimates.shrinkage import shrunk
from dp_core.methods.reconstruction.reconstructor import TABLES, FittedTables
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Measurement, Released, ReleasedKind, Table, tables_of


@dataclass(frozen=True, slots=True)
class Factor:
    """One step of the drawing: some columns, given others.

    Attributes:
        table: Position of the table that says how.
        given: Its columns that are drawn already.
        drawn: Its columns that this step draws.
    """

    table: int
    given: Clique
    drawn: Clique


@dataclass(frozen=True, slots=True, eq=False)
class BayesNetworkModel(FittedTables):
    """Tables, and the order in which they say what is drawn.

    Every column is in a table. The tables need not agree: what a table says of columns that were
    drawn before is not used.

    Attributes:
        factors: Steps of the drawing; each column is drawn in exactly one.
        conditionals: Of each step, what its table says of the columns it draws given the others.
    """

    factors: tuple[Factor, ...]
    conditionals: tuple[Table, ...]

    @classmethod
    def build(
        cls, domain: Domain, tables: Sequence[Table], rows: int, zeros: StructuralZeros
    ) -> BayesNetworkModel:
        """Return the model of tables that together cover all columns."""
        factors = network([table.clique for table in tables])
        conditionals = tuple(conditional(tables[step.table], step, zeros) for step in factors)
        return cls(domain, tuple(tables), rows, zeros, factors, conditionals)

    @property
    def streams(self) -> bool:
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        holders = [table for table in self.tables if set(clique) <= set(table.clique)]
        if not holders:
            raise KeyError(f"No table holds {list(clique)} together; sample and count instead.")
        return margin(min(holders, key=lambda holder: holder.values.size), clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        return self.zeros.repair(records(self.domain, self.conditionals, rows, rng=rng), rng=rng)


def network(cliques: Sequence[Clique]) -> tuple[Factor, ...]:
    """Return the order in which tables are drawn from, and the columns each adds.

    The next table is the one that adds fewest columns to some that are drawn; of these the one
    that is given most; of these the first. So the tables of a Bayesian network, in its order, give
    that network, and the edges of a tree give the tree. Where nothing touches what is drawn, the
    first table is next that is more than a column of another one.

    Args:
        cliques: Columns of each table.

    >>> [(step.given, step.drawn) for step in network([("a",), ("b", "c"), ("a", "b")])]
    [((), ('b', 'c')), (('b',), ('a',))]
    """
    left = list(range(len(cliques)))
    found: list[Factor] = []
    done: set[str] = set()

    def alone(index: int) -> bool:
        """Whether it is a single column that a larger table holds too."""
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
    """Return what a table says of the columns a step draws, for each state of those given first.

    A state of which the table holds nothing takes what the table says whatever the state; where
    that is impossible in it, everything possible alike.
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
        # No record reaches a state in which nothing is possible; the rules mend it if one does.
        weights[empty[weights[empty].sum(axis=1) <= 0]] = 1.0
    of = table.domain.project(order)
    return Table(of, weights.reshape(of.sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesNetwork:
    """Draw each column given those before it, by the measured tables in their order.

    Attributes:
        tables: What is done with the noisy tables first. `clip`: negative cells become zero, each
            table by itself, as in the paper. `agree`: the tables are averaged where they overlap,
            and made nonnegative. `shrink`: they are besides drawn towards what smaller tables say
            of them, as much as the noise warrants.
    """

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES
    for_inference: ClassVar[Mapping[str, object]] = {"tables": "agree"}

    tables: Literal["clip", "agree", "shrink"] = "agree"

    def check(self, domain: Domain) -> None:
        """Accept any domain; only the tables are held in memory."""

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        cells = sum(domain.size(clique) for clique in cliques)
        # Records and their copy while impossible ones are mended, state and cell of each; tables
        # with the mixture of the largest ones, and their conditionals.
        return (4 * len(domain) + 40) * rows + 250 * cells + (32 << 20)

    def fit(
        self,
        domain: Domain,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> BayesNetworkModel:
        measurements = tables_of(released)
        known = zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        if self.tables == "shrink":
            fitted, total = shrunk(domain, measurements, rows=rows, zeros=known)
        else:
            fit = clipped if self.tables == "clip" else consistent
            fitted, total = fit(domain, measurements, rows=rows, zeros=known)
        held = {name for table in fitted for name in table.clique}
        columns, _ = column_tables(domain, measurements, rows=total, zeros=known)
        rest = [table for table in columns if held.isdisjoint(table.clique)]
        return BayesNetworkModel.build(domain, (*fitted, *rest), total, zeros)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),  # noqa: ARG002
    ) -> BayesNetworkModel:
        return BayesNetworkModel.build(domain, tables, rows, zeros)


def clipped(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    rows: int | None,
    zeros: StructuralZeros,
) -> tuple[tuple[Table, ...], int]:
    """Return each measured table with negative cells at zero, and the number of records.

    Every table is scaled to that number; one in which nothing is left is even over what is
    possible. The empty clique counts for the number of records only.
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
