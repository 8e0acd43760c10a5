"""The number and the groups of declared statistics, in the codes of the stored file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.kernel.questions.linear_questions import BinnedCounts, binned_shape
from dp_core.methods.declared_statistics.layers import Layers, layers_of
from dp_core.schema.definition import Column, Schema
from dp_core.schema.values.skewed_grid import StoredValues, stored_values

Edges = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A number by groups of records, for which sums are measured once.

    Attributes:
        column: Column of the number.
        by: Columns of the groups, in the order of the schema.
        sizes: Number of stored codes of each of these.
        edges: First stored code of each bin of these, and last the number of codes; None if the
            stored codes are those of the schema.
        values: Values of the positions of the number.
        missing: Whether the number may be missing.
    """

    column: str
    by: tuple[str, ...]
    sizes: tuple[int, ...]
    edges: tuple[Edges | None, ...]
    values: StoredValues
    missing: bool

    @classmethod
    def of(cls, column: str, by: Sequence[str], schema: Schema) -> ValueTable:
        """Return the table of a column and its groups.

        Args:
            column: An integer or number column that is stored on a grid.
            by: Columns of levels or of public bins, in any order.
            schema: Schema of the release with these grids.
        """
        names = tuple(each.name for each in schema.columns if each.name in by)
        own = [schema.column(name) for name in names]
        number = schema.column(column)
        return cls(
            column,
            names,
            tuple(each.stored.size for each in own),
            tuple(_bins(each) for each in own),
            stored_values(number),
            number.missing_code is not None,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of codes of each column of the groups, in the codes of the schema."""
        return binned_shape(self.sizes, self.edges)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return prod(self.shape)

    @property
    def layers(self) -> Layers:
        """Public ranges of the number."""
        return layers_of(self.values.numbers())

    @property
    def together(self) -> ValueTable:
        """The table of the same number without groups."""
        return replace(self, by=(), sizes=(), edges=())

    def counts(self, edges: Edges) -> BinnedCounts:
        """Return the question for counts by group and by ranges of positions.

        Args:
            edges: First position of each range, from 0, and last the number of positions. If the
                number may be missing, the last range is followed by the missing values.
        """
        own = (*edges, edges[-1] + 1) if self.missing else edges
        return BinnedCounts(
            columns=(*self.by, self.column),
            sizes=(*self.sizes, self.values.positions + self.missing),
            edges=(*self.edges, own),
        )

    def present(self, entries: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of such counts without those of missing values, (groups, ranges)."""
        found = np.asarray(entries, dtype=np.float64).reshape(self.groups, -1)
        return found[:, :-1] if self.missing else found


def tables_of(statistics: Sequence[DeclaredStatistic], schema: Schema) -> tuple[ValueTable, ...]:
    """Return the tables of declared means and totals, each once, in the order of declaration.

    Args:
        statistics: The declared statistics.
        schema: Schema of the release.
    """
    return _tables([each for each in statistics if each.measure != "quantile"], schema)


def trees_of(statistics: Sequence[DeclaredStatistic], schema: Schema) -> tuple[ValueTable, ...]:
    """Return the tables of declared quantiles, each once, in the order of declaration."""
    return _tables([each for each in statistics if each.measure == "quantile"], schema)


def _tables(statistics: Sequence[DeclaredStatistic], schema: Schema) -> tuple[ValueTable, ...]:
    found = [ValueTable.of(each.column, each.by, schema) for each in statistics]
    return tuple(dict.fromkeys(found))


def _bins(column: Column) -> Edges | None:
    """Return the stored codes of each bin of a column; None if there is no difference."""
    stored = column.stored
    if stored is column or column.levels:
        return None
    starts = [bisect_left(stored.edges, edge) for edge in column.edges]
    if column.missing_code is not None:
        starts.append(stored.bins + 1)
    return tuple(starts)
