"""The terms of a privacy guarantee: neighbours, unit, epsilon, delta and paying stages."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

Neighbours = Literal["add-remove", "replace-one"]
"""Which pairs of files are neighbours: one unit more or less, or one unit different."""

UnitWord = Literal["row", "person", "household"]
"""Who is protected: a row, all rows of a person, or a household with its members."""

MOST_ROWS = 1000
"""Most rows of a person; the slack of `dp_core.wall.accounting.curves` covers no more."""

Noise = Literal["laplace", "gaussian"]
"""Kind of noise on counts."""

Stage = Literal["domain", "total", "one_way", "select", "measure", "analyses", "checks"]
"""Paying stages, in their order."""

PAYING_STAGES: tuple[Stage, ...] = get_args(Stage)

OCCASIONAL: tuple[Stage, ...] = ("domain", "analyses")
"""Paying stages that a release has only if it needs them: for private bins or levels, and for
declared analyses. The others have a share in every plan, which may be 0."""

TABLE_STAGES: frozenset[str] = frozenset({"domain", "total", "one_way", "measure"})
"""Paying stages in which every event is a noisy table of counts."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Which pairs of files are neighbours, in rows; every sensitivity is for one relation.

    With `max_rows` = k the files differ in the rows of one person, who has at most k of them: under
    add-remove these are added or removed, under replace-one they are replaced by at most k others.

    Attributes:
        neighbours: Whether a unit is added or removed, or replaced by another.
        max_rows: Most rows of a unit; 1 if a row is the unit.
    """

    neighbours: Neighbours
    max_rows: int = 1

    def __post_init__(self) -> None:
        if type(self.max_rows) is not int or not 1 <= self.max_rows <= MOST_ROWS:
            raise ValueError(f"A person has from 1 to {MOST_ROWS} rows, not {self.max_rows!r}.")

    @property
    def rows_public(self) -> bool:
        """Whether neighbours have the same number of rows, which is then public.

        A person may be replaced by one with fewer rows, so with persons as units the number of
        persons is public and the number of rows is not.
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
        """
        if self.max_rows == 1 or self.neighbours == "add-remove":
            return (self.neighbours,)
        return ("add-remove", "replace-one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The guarantee that a spec requests.

    Attributes:
        epsilon: Positive.
        delta: 0 for pure differential privacy, otherwise below 1.
        neighbours: Which pairs of files count as neighbours.
        unit: Who is protected.
        max_rows: Most rows of a unit; 1 if a row is the unit.
    """

    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
    unit: UnitWord = "row"
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.unit == "row" and self.max_rows != 1:
            raise ValueError("With rows as units, max_rows is 1.")

    @property
    def relation(self) -> Relation:
        """The relation of every sensitivity of the release."""
        return Relation(self.neighbours, self.max_rows)


def unit_words(unit: str, max_rows: int) -> str:
    """Return who is protected, for people.

    >>> unit_words("row", 1), unit_words("person", 4), unit_words("person", 1)
    ('one row', 'one person (at most 4 rows)', 'one person (at most 1 row)')
    """
    if unit == "row":
        return "one row"
    return f"one {unit} (at most {max_rows} row{'s' if max_rows != 1 else ''})"
