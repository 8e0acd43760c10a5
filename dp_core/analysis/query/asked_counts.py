"""From a question to sums of counts: weights for the codes of the measured columns.

A condition, or a group of `by`, gives each code of a column the weight 0 or 1; a mean or total
gives it the mean value of its bin. A dependent column (`dp_core.schema.dependencies`) is a
grouping of the codes of the column from which it is computed, so both share an axis here. If
columns lie within one another, larger areas are groups of smaller ones in the same way.

Noisy tables of linked tables count households: in a table with `members` and a person column, each
of the s members of a household counts 1/s. A question about person columns counts persons, so each
cell is also multiplied by its number of members s, and each member counts s times 1/s, which is 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.inference.count_intervals import cut_weights
from dp_core.inference.questions.question import Condition, Question
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.methods.code_values import numbers_of
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.possible_cells import possible_boxes
from dp_core.schema.bin_values import legal_range, whole_bounds
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.structure.households_with_members import codes_with_members

Counted: TypeAlias = Literal["records", "households", "persons"]
"""What a question counts."""
MOST_ANSWERS = 100_000
"""Largest number of groups of one question."""
MOST_LEVELS = 3000
"""Largest number of groups on one measured column."""


@dataclass(frozen=True, slots=True)
class QueryCell:
    """One answer.

    Attributes:
        codes: Codes of its group, one for each of `QueryResult.columns`.
        estimate: Estimate: records (count), a share or ratio, or the unit of the column (mean,
            total, quantile, spread; day ordinals of a date, codes of an ordinal). None if it is not
            determined at this noise.
        low, high: Ends of its interval; None if it is not determined at this noise.
        margin_without_bins: Half of the width that the interval would have if the mean value of
            each bin were known; of a quantile, if the distribution of values within each bin were.
            None if bins do not matter, or if it is not determined.
        possible: Whether the schema allows a record in the group; True by default.
    """

    codes: tuple[int, ...]
    estimate: float | None
    low: float | None
    high: float | None
    margin_without_bins: float | None = None
    possible: bool = True

    @property
    def determined(self) -> bool:
        """Whether the interval is bounded."""
        return self.low is not None

    @property
    def margin(self) -> float | None:
        """Distance from the estimate to the farther end of the interval; None if unbounded."""
        if self.estimate is None or self.low is None or self.high is None:
            return None
        return max(self.high - self.estimate, self.estimate - self.low)

    @property
    def from_bins(self) -> float:
        """Part of the interval's width that comes from bins, from 0 to 1."""
        if self.margin_without_bins is None or self.low is None or self.high is None:
            return 0.0
        width = self.high - self.low
        return max(1 - 2 * self.margin_without_bins / width, 0.0) if width > 0 else 0.0


@dataclass(frozen=True)
class Asked:
    """The axes of a question: every measured column that it involves, with the groups on it.

    Attributes:
        question: The question.
        schema: The published schema as written, not on a grid.
        also: Further measured columns that get an axis.
        earlier: The same question in an earlier wave of a panel, which is subtracted; None (the
            default) without one. It has the same axes.
    """

    question: Question
    schema: Schema
    also: tuple[str, ...] = ()
    earlier: Asked | None = None

    @classmethod
    def of(cls, question: Question, schema: Schema) -> Asked:
        """Return the axes of a question, which may be about two waves."""
        if question.in_waves is None:
            return cls(question, schema)
        first, second = (cls(each, schema) for each in question.in_waves)
        earlier = cls(first.question, schema, second.columns)
        return cls(second.question, schema, first.columns, earlier)

    @cached_property
    def _origins(self) -> dict[str, tuple[str, NDArray[np.intp]]]:
        """By column asked about: the measured column, and for each of its codes the own code."""
        names = [*self.question.groups, *(one.column for one in self.question.conditions)]
        if self.question.number is not None:
            names.append(self.question.number)
        found = {name: origin(self.schema, name) for name in dict.fromkeys(names)}
        nested = self.schema.domain.nested
        places = [] if nested is None else [c for c, _ in found.values() if c in nested.columns]
        if nested is None or not places:
            return found
        lowest = max(places, key=nested.depth)
        return {
            name: (lowest, codes[nested.map(place, lowest)])
            if place in places and place != lowest
            else (place, codes)
            for name, (place, codes) in found.items()
        }

    @cached_property
    def counts_persons(self) -> bool:
        """Whether the question is about persons of linked tables: about a person column."""
        linked = self.schema.linked
        return linked is not None and any(
            name in linked.person_columns for name, _ in self._origins.values()
        )

    @property
    def counted(self) -> Counted:
        """What is counted: `records` or, of linked tables, `households` or `persons`."""
        if self.schema.linked is None:
            return "records"
        return "persons" if self.counts_persons else "households"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Measured columns that the question involves, in the order of the domain."""
        used = {name for name, _ in self._origins.values()} | {*self.also}
        if self.counts_persons:
            used.add(MEMBERS)
        return tuple(column.name for column in self.schema.columns if column.name in used)

    @cached_property
    def possible(self) -> tuple[Functionals, ...]:
        """Boxes of codes that together are the possible cells of `columns`."""
        groups = tuple(name for name in self.columns if self.on_axis(name))
        return possible_boxes(self.schema, self.columns, groups)

    @cached_property
    def _where(self) -> dict[str, NDArray[np.bool_]]:
        """Codes that meet the conditions of `where`, by measured column."""
        return self._inside(self.question.where)

    @cached_property
    def groups(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each axis its rows; each row has the codes of the `by` columns on this axis.

        Groups that `where` excludes are left out.

        Raises:
            BadInput: if the conditions exclude everything, or there are too many groups.
        """
        found = []
        for name in self.columns:
            on_axis = self.on_axis(name)
            inside = self._where[name]
            codes = [self._origins[column][1][inside] for column in on_axis]
            every = [*dict.fromkeys(sorted(zip(*(each.tolist() for each in codes), strict=True)))]
            if not on_axis:
                every = [()] if inside.any() else []
            if len(every) > MOST_LEVELS:
                raise BadInput(
                    f"{' and '.join(on_axis)} after `by` give more than {MOST_LEVELS:,} groups:"
                    " restrict the levels with `where`, or name a coarser column after `by`."
                )
            if not every:
                raise BadInput("The conditions contradict each other, so no group is left.")
            found.append(tuple(every))
        count = math.prod(len(rows) for rows in found)
        if count > MOST_ANSWERS:
            raise BadInput(
                f"The question has {count:,} groups, more than {MOST_ANSWERS:,}: name fewer columns"
                " after `by`, or restrict them with `where`."
            )
        return tuple(found)

    def check_groups(self) -> None:
        """Refuse a difference between two groups of the same records.

        Raises:
            BadInput: if no record can be in one group of `between` and not in the other.
        """
        if self.question.between is None:
            return
        one, other = map(self._inside, self.question.between)
        if all(np.array_equal(self._where[n] & one[n], self._where[n] & other[n]) for n in one):
            raise BadInput(
                "Both groups of the difference are the same records, so it is 0 without any margin;"
                " name two different groups after `between`."
            )

    def on_axis(self, name: str) -> tuple[str, ...]:
        """Return the columns of `by` that depend on a measured column, or are this column."""
        return tuple(each for each in self.question.groups if self._origins[each][0] == name)

    def labels(self) -> list[tuple[int, ...]]:
        """Return the codes of each answer, columns as in `question.groups`, row by row."""
        named = [column for name in self.columns for column in self.on_axis(name)]
        order = [named.index(column) for column in self.question.groups]
        every = (
            tuple(itertools.chain.from_iterable(rows)) for rows in itertools.product(*self.groups)
        )
        return [tuple(codes[place] for place in order) for codes in every]

    def counts(
        self,
        conditions: Iterable[Condition] = (),
        *,
        by: Sequence[str] | None = None,
        values: Floats | None = None,
    ) -> Functionals:
        """Return sums of counts over the records that meet `where` and further conditions.

        Args:
            conditions: Further conditions.
            by: Columns whose groups are told apart; all of `question.groups` by default. An axis
                without such a column has one row.
            values: Value of each code of the column `question.number`, 0 for missing; None for
                numbers of records.
        """
        by = self.question.groups if by is None else by
        extra = self._inside(conditions)
        weights = []
        for name, rows in zip(self.columns, self.groups, strict=True):
            inside = self._where[name] & extra[name]
            on_axis = self.on_axis(name)
            told = [place for place, column in enumerate(on_axis) if column in by]
            kept = [on_axis[place] for place in told]
            codes = [[row[place] for place in told] for row in rows] if told else [[]]
            each = (inside & self._groups(kept, codes, name)).astype(np.float64)
            if values is not None:
                axis, own = self._origins[str(self.question.number)]
                each = each * values[own] if name == axis else each
            if self.counts_persons and name == MEMBERS:
                assert self.schema.linked is not None
                each = each * np.array(self.schema.linked.sizes, dtype=np.float64)
            weights.append(each)
        return Functionals(self.columns, tuple(weights))

    @property
    def number_column(self) -> Column:
        """The column `question.number`."""
        return self.schema.column(str(self.question.number))

    @cached_property
    def values(self) -> Floats:
        """Mean value of each code of `question.number`, NaN for missing."""
        return numbers_of(self.number_column)

    @property
    def has_value(self) -> Floats:
        """1 for each code of `question.number`, 0 for missing."""
        column = self.number_column
        return (np.arange(column.size) < column.bins).astype(np.float64)

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each code of `question.number`, 0 for missing.

        They follow from the bin edges and the column's smallest and largest legal value, and do
        not depend on a density. The value of a level of an ordinal is its code.
        """
        column = self.number_column
        low, high = np.zeros(column.size), np.zeros(column.size)
        if column.levels:
            low[: column.bins] = high[: column.bins] = np.arange(column.bins)
        elif column.type.continuous:
            least, most = legal_range(column)
            low[: column.bins] = [float(max(edge, least)) for edge in column.edges[:-1]]
            high[: column.bins] = [float(min(edge, most)) for edge in column.edges[1:]]
        else:
            low[: column.bins], high[: column.bins] = whole_bounds(column)
        return low, high

    def cuts(self, first: int = 0, stop: int | None = None) -> Functionals:
        """Return C - q N for edges of `question.number`, whose q quantile is asked.

        C is the number of records below the edge, and N the number of records that are not missing.
        The edges of an ordinal are between its levels.

        Args:
            first: First edge; 0, below all values, by default.
            stop: The edge after the last one; by default the last is above all values.

        Returns:
            Functionals. On the axis of the column, each row of `groups` becomes one row an edge.
        """
        assert self.question.quantile is not None
        weights = cut_weights(self.number_column.bins, float(self.question.quantile))
        return self._along_number(weights[first:stop])

    def by_bin(self, conditions: Iterable[Condition] = ()) -> Functionals:
        """Return numbers of records by bin of `question.number`, in each group.

        Args:
            conditions: Conditions besides `where`.

        Returns:
            Functionals. On the axis of the column, each row of `groups` becomes one row a bin.
        """
        return self._along_number(np.eye(self.number_column.bins), conditions)

    def all_by_bin(self) -> Functionals:
        """Return numbers of records by bin of `question.number`, of all records."""
        column, (axis, codes) = self.number_column, self._origins[str(self.question.number)]
        return Functionals((axis,), (np.eye(column.bins, column.size)[:, codes],))

    def of_groups(
        self, first: int, weights: Floats
    ) -> tuple[Functionals, tuple[NDArray[np.intp], ...]]:
        """Return sums of the counts of some groups, each with its own weights of the bins.

        Args:
            first: Number of the first group, row by row.
            weights: Weights of the bins of `question.number` in it and the next ones, shape
                (groups, bins).

        Returns:
            Functionals, and the place of each group among their estimates.
        """
        axis, codes = self._origins[str(self.question.number)]
        own = np.zeros((len(weights), self.number_column.size))
        own[:, : weights.shape[1]] = weights
        every = self._of_groups
        rows = np.unravel_index(np.arange(first, first + len(weights)), every.shape)
        found, places = [], []
        for name, each, row in zip(every.columns, every.weights, rows, strict=True):
            kept, place = np.unique(row, return_inverse=True)
            if name == axis:
                found.append(each[row] * own[:, codes])
                places.append(np.arange(len(weights)))
            else:
                found.append(each[kept])
                places.append(place)
        return Functionals(every.columns, tuple(found)), tuple(places)

    @cached_property
    def _of_groups(self) -> Functionals:
        """Numbers of records of each group."""
        return self.counts()

    def _along_number(self, weights: Floats, conditions: Iterable[Condition] = ()) -> Functionals:
        """Return sums of counts with several weights of the bins of `question.number`.

        Args:
            weights: Weights, shape (rows, bins).
            conditions: Conditions besides `where`.

        Returns:
            Functionals. On the axis of the column, each row of `groups` becomes one for each row.
        """
        axis, codes = self._origins[str(self.question.number)]
        rows = np.zeros((len(weights), self.number_column.size))
        rows[:, : weights.shape[1]] = weights
        counts, rows = self.counts(conditions), rows[:, codes]
        return Functionals(
            counts.columns,
            tuple(
                (each[:, None] * rows).reshape(-1, each.shape[1]) if own == axis else each
                for own, each in zip(counts.columns, counts.weights, strict=True)
            ),
        )

    def with_last_axis(self, values: Floats, rows: int) -> Floats:
        """Return estimates of `cuts` or `by_bin` with their edges or bins on a last axis.

        Args:
            values: Estimates, with the rows of the column's axis times edges or bins.
            rows: Number of edges or bins.

        Returns:
            Estimates, with one axis for each of `columns` and the last one.
        """
        axis = self.columns.index(self._origins[str(self.question.number)][0])
        shape = list(values.shape)
        shape[axis : axis + 1] = [shape[axis] // rows, rows]
        return np.moveaxis(values.reshape(shape), axis + 1, -1)

    @cached_property
    def in_bins(self) -> bool:
        """Whether a bin of `question.number` that meets `where` has several values."""
        if self.earlier is not None and self.earlier.in_bins:
            return True
        if self.question.number is None or self.schema.column(self.question.number).levels:
            return False
        low, high = self.bounds
        return bool((high > low)[self._where[self.question.number]].any())

    def _inside(self, conditions: Iterable[Condition]) -> dict[str, NDArray[np.bool_]]:
        """Return which codes of each measured column meet all conditions."""
        found = {name: self._counted_codes(name) for name in self.columns}
        for each in conditions:
            name, codes = self._origins[each.column]
            found[name] &= np.isin(codes, each.codes)
        return found

    def _counted_codes(self, name: str) -> NDArray[np.bool_]:
        """Return which codes of a measured column are counted, shape (codes,).

        If persons are counted, these are the codes of households with members.
        """
        size = self.schema.column(name).size
        kept = codes_with_members(self.schema.domain) if self.counts_persons else {}
        return np.isin(np.arange(size), kept.get(name, range(size)))

    def _groups(
        self, columns: Sequence[str], rows: Sequence[Sequence[int]], name: str
    ) -> NDArray[np.bool_]:
        """Return which codes of a measured column are in each group, shape (rows, codes).

        Args:
            columns: Columns of `by` on the axis of the measured column.
            rows: The code of each of these columns, by group.
            name: The measured column.
        """
        found = np.ones((len(rows), self.schema.column(name).size), dtype=bool)
        for place, column in enumerate(columns):
            codes = np.array([row[place] for row in rows])
            found &= self._origins[column][1] == codes[:, None]
        return found
