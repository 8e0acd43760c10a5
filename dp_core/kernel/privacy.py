"""The terms of a privacy guarantee: neighbours, unit, epsilon, delta and paying stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from dp_core.kernel.counting.linked_columns import MOST_MEMBERS, household_shares
from dp_core.kernel.document import MOST_ROWS, ProtectedUnit

Neighbours = Literal["add-remove", "replace-one"]
"""Which pairs of files are neighbours: one unit more or less, or one unit different."""

Noise = Literal["laplace", "gaussian"]
"""Kind of noise on counts."""

Stage = Literal["domain", "total", "one_way", "select", "measure", "analyses", "checks"]
"""Paying stages, in their order."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Which pairs of files are neighbours, in rows; every sensitivity is for one relation.

    With `max_rows` = k the files differ in the rows of one person, who has at most k of them: under
    add-remove these are added or removed, under replace-one they are replaced by at most k others.

    With `shares` = S a record is a household, and exact counts are in units of 1/S of a record.
    Every household has exactly S shares, each in one cell of every table
    (`dp_core.kernel.counting.household_counter`). The files differ in one household: under
    add-remove its S shares are added or removed, under replace-one they are replaced by the S
    shares of another.

    Attributes:
        neighbours: Whether a unit is added or removed, or replaced by another.
        max_rows: Most rows of a unit; 1 if a row or a household is the unit.
        shares: Shares of a unit: exact counts are in units of 1/`shares` of a record. By default 1:
            exact counts are numbers of records.
    """

    neighbours: Neighbours
    max_rows: int = 1
    shares: int = 1

    def __post_init__(self) -> None:
        if self.neighbours not in get_args(Neighbours):
            raise ValueError("There is no such neighbouring relation.")
        if type(self.max_rows) is not int or not 1 <= self.max_rows <= MOST_ROWS:
            raise ValueError(f"A person has from 1 to {MOST_ROWS} rows, not {self.max_rows!r}.")
        most = household_shares(MOST_MEMBERS)
        if type(self.shares) is not int or not 1 <= self.shares <= most:
            raise ValueError(f"A household has from 1 to {most} shares, not {self.shares!r}.")
        if self.shares > 1 and self.max_rows != 1:
            raise ValueError("A unit that has shares is one household, so max_rows is 1.")

    @property
    def rows_public(self) -> bool:
        """Whether neighbours have the same number of records, which is then public.

        A person may be replaced by one with fewer rows, so with persons as units the number of
        persons is public and the number of rows is not. A household is one record of S shares,
        however many members it has: a replaced household leaves the number of households as it is,
        and the number of shares too.
        """
        return self.neighbours == "replace-one" and self.max_rows == 1

    @property
    def of_rows(self) -> Neighbours:
        """The relation that methods need: replace-one if the number of rows is public."""
        return "replace-one" if self.rows_public else "add-remove"

    @property
    def steps(self) -> tuple[Neighbours, ...]:
        """Relations of single rows; neighbours differ by at most `max_rows` such steps.

        One person more is at most k rows more, one after the other. A person of i rows who is
        replaced by one of j rows is min(i, j) rows replaced, and the others come or go: max(i, j)
        steps, at most k, of either kind. The number of rows varies on the way.

        With shares the steps are of single shares, exactly S between neighbours. One household more
        is S shares more, one after the other. A replaced household needs steps of one kind only:
        both households have exactly S shares, so list the shares of each in any order, and replace
        the first share of the one by the first of the other, then the second, and so on. After S
        such steps the one household is gone and the other is there. Each step leaves the number of
        shares as it is, so a bound for a fixed number of rows holds for each.
        """
        if self.max_rows == 1 or self.neighbours == "add-remove":
            return (self.neighbours,)
        return ("add-remove", "replace-one")


def relation_of(neighbours: Neighbours, unit: ProtectedUnit) -> Relation:
    """Return which files are neighbours if a unit is protected."""
    if unit.word == "household":
        return Relation(neighbours, shares=household_shares(unit.most))
    return Relation(neighbours, max_rows=unit.most)


def stated_relation(values: Mapping[str, Any]) -> Relation:
    """Return the relation that a reservation or a guarantee states.

    Args:
        values: With the key `neighbours`, and `max_rows` or `max_members` (`ProtectedUnit.stated`).

    Raises:
        ValueError: if they state none.
    """
    shares = household_shares(values.get("max_members", 1))
    return Relation(values["neighbours"], values.get("max_rows", 1), shares)
