"""What a rule between columns says, and which rows break it.

A rule is a list of clauses. A clause is a list of conditions that must not all hold, so a row
breaks a rule if all conditions of one of its clauses hold. `start <= end` is one clause with the
condition `end - start <= -1`; `if age < 15 then income is missing` is one with the conditions
`age <= 14` and `income is not missing`.

Numbers, whole numbers and dates are compared in whole units (`dp_core.schema.rules.unit_bounds`),
so that every comparison is exact. A condition about values is false if one of them is missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Units:
    """The whole units in which a rule compares an integer, number or date column.

    Attributes:
        column: Name of the column.
        decimals: Number: a unit is 10^-decimals. Integer and date: 0; a unit is 1 or a day.
        edges: Number without `decimals`: its public bin edges; its unit is then the number of its
            bin. Empty otherwise.
    """

    column: str
    decimals: int = 0
    edges: tuple[Fraction, ...] = ()

    def of(self, values: Array) -> NDArray[np.int64]:
        """Return values (dates: day ordinals) in whole units.

        A number with more digits than `decimals` is rounded to the nearest unit, ties to even. A
        number with at most `decimals` digits gives its decimal, as binary32 up to
        `unit_bounds.MOST_NUMBER_UNITS` units.
        """
        if self.edges:
            cuts = np.array([float(edge) for edge in self.edges[1:-1]]).astype(values.dtype)
            return np.searchsorted(cuts, values, side="right").astype(np.int64)
        if values.dtype.kind in "iu":
            return values.astype(np.int64, copy=False)
        scaled = values.astype(np.float64) * 10.0**self.decimals
        # Values outside the schema are clipped by their bins; this keeps them within 64 bits.
        return np.rint(np.clip(np.nan_to_num(scaled), -(2.0**62), 2.0**62)).astype(np.int64)


class Coded(Protocol):
    """A column, as far as conditions know it."""

    @property
    def bins(self) -> int:
        """Number of codes without those for missing and for no member."""

    @property
    def size(self) -> int:
        """Number of codes."""

    @property
    def missing_code(self) -> int | None:
        """Code of a missing value; None if missing values are refused."""


class Condition(ABC):
    """A condition of a clause; a kind of condition is a class that derives from this one.

    Codes decide every condition but a comparison of values, `AtMost`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the domain that it is about."""

    @abstractmethod
    def holds(self, rows: RuleRows) -> NDArray[np.bool_]:
        """Return in which rows the condition holds, shape (rows,)."""

    @abstractmethod
    def codes_of(self, column: Coded) -> NDArray[np.bool_]:
        """Return the codes of one of its columns with which it can hold, shape (codes,).

        Of a comparison these are all codes that have a value.
        """


@dataclass(frozen=True, slots=True)
class Among(Condition):
    """The condition that a category or ordinal has one of some levels.

    Attributes:
        column: Name of a column of the domain.
        codes: Codes of the levels, ascending.
    """

    column: str
    codes: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def holds(self, rows: RuleRows) -> NDArray[np.bool_]:
        return np.isin(rows.codes[self.column], self.codes)

    def codes_of(self, column: Coded) -> NDArray[np.bool_]:
        return np.isin(np.arange(column.size), self.codes)


@dataclass(frozen=True, slots=True)
class Missing(Condition):
    """The condition that a value is missing, or is not missing.

    Attributes:
        column: Name of a column of the domain.
        missing: Whether it must be missing.
    """

    column: str
    missing: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def holds(self, rows: RuleRows) -> NDArray[np.bool_]:
        missing = rows.missing.get(self.column)
        if missing is None:
            return np.full(rows.rows, not self.missing)
        return missing if self.missing else ~missing

    def codes_of(self, column: Coded) -> NDArray[np.bool_]:
        codes = np.arange(column.size)
        if not self.missing:
            return codes < column.bins
        return np.isin(codes, [] if column.missing_code is None else [column.missing_code])


@dataclass(frozen=True, slots=True)
class AtMost(Condition):
    """The condition that a sum is at most a bound; false if a column of the sum is missing.

    Attributes:
        terms: Columns of the domain and their factors, which are not 0.
        bound: The bound, in whole units.
    """

    terms: tuple[tuple[str, int], ...]
    bound: int

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    @property
    def opposite(self) -> AtMost:
        """The condition that the sum is above the bound."""
        return AtMost(tuple((name, -factor) for name, factor in self.terms), -self.bound - 1)

    def holds(self, rows: RuleRows) -> NDArray[np.bool_]:
        total = np.zeros(rows.rows, dtype=np.int64)
        for name, factor in self.terms:
            total += factor * rows.units[name]
        held = np.asarray(total <= self.bound)
        for name in self.columns:
            if name in rows.missing:
                held = held & ~rows.missing[name]
        return held

    def codes_of(self, column: Coded) -> NDArray[np.bool_]:
        return np.arange(column.size) < column.bins


CONDITIONS: Mapping[str, type[Condition]] = {"among": Among, "missing": Missing, "at-most": AtMost}
"""The kinds of conditions, by the word for each in the kernel's document."""

Clause: TypeAlias = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Equality:
    """A sum that has a value, in rows that meet some conditions.

    Attributes:
        when: The equality applies if all conditions of one of these hold.
        terms: Columns and factors of the sum.
        value: Its value.
    """

    when: tuple[Clause, ...]
    terms: tuple[tuple[str, int], ...]
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRule:
    """A rule between columns.

    Attributes:
        text: The rule as written in the schema.
        key: Key of the schema under which it is written.
        columns: Columns of the domain that it is about, in the order in which it names them.
        clauses: A row breaks the rule if all conditions of one of them hold.
        units: Units of the columns that it compares.
        equalities: Equalities that the clauses state, which determine one of their columns.
    """

    text: str
    key: Literal["rules", "impossible"]
    columns: tuple[str, ...]
    clauses: tuple[Clause, ...]
    units: tuple[Units, ...] = ()
    equalities: tuple[Equality, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleRows:
    """Rows as rules see them.

    Attributes:
        codes: Codes of each category or ordinal of the rules, shape (rows,).
        missing: Which rows have no value, for each column that may have none, shape (rows,).
        units: Values of each compared column in its units, shape (rows,); arbitrary where missing.
        rows: Number of rows.
    """

    codes: Mapping[str, Array]
    missing: Mapping[str, NDArray[np.bool_]]
    units: Mapping[str, NDArray[np.int64]]
    rows: int


def any_holds(clauses: Iterable[Clause], rows: RuleRows) -> NDArray[np.bool_]:
    """Return in which rows all conditions of some clause hold, shape (rows,)."""
    held = np.zeros(rows.rows, dtype=bool)
    for clause in clauses:
        held |= all_hold(clause, rows)
    return held


def all_hold(clause: Clause, rows: RuleRows) -> NDArray[np.bool_]:
    """Return in which rows all conditions of a clause hold, shape (rows,)."""
    held = np.ones(rows.rows, dtype=bool)
    for condition in clause:
        held &= condition.holds(rows)
    return held
