"""A question about the counts of a file, as it was understood."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Measure = Literal["count", "share", "mean", "total", "ratio", "quantile"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one column: which of its codes are meant.

    Attributes:
        column: Name of a released column.
        codes: Codes that meet the condition, ascending, at least one.
        text: The condition in words, as it was understood.
        note: What the reader must know about how it was understood; empty if nothing.
    """

    column: str
    codes: tuple[int, ...]
    text: str
    note: str = ""


Conditions = tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    Attributes:
        measure: What is computed in each group.
        number: Column whose mean, total or quantile is asked; None for the other measures.
        quantile: Which quantile is asked, above 0 and below 1; None for the other measures.
        of: Share: conditions of the part. Count: further conditions. Ratio: conditions of the
            numerator.
        to: Ratio: conditions of the denominator.
        levels_of: Share: column whose levels are the parts, as in `share of sex by region`.
        by: Columns that make the groups.
        where: Conditions that every counted record meets.
        between: Difference: conditions of the first and of the second group; None without one.
        waves: Change between two waves of a panel: the earlier and the later one as they were
            named; None without one. `number` and the conditions then name columns of the panel's
            file, and `in_waves` those of the record.
        in_waves: The question in the first wave and in the second; None without a change.
    """

    measure: Measure
    number: str | None = None
    quantile: Fraction | None = None
    of: Conditions = ()
    to: Conditions = ()
    levels_of: str | None = None
    by: tuple[str, ...] = ()
    where: Conditions = ()
    between: tuple[Conditions, Conditions] | None = None
    waves: tuple[str, str] | None = None
    in_waves: tuple[Question, Question] | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns whose levels name an answer, in the order of the output."""
        return self.by if self.levels_of is None else (self.levels_of, *self.by)

    @property
    def adds_up(self) -> bool:
        """Whether sums of answers have a meaning: of counts, shares and totals."""
        return self.measure in ("count", "share", "total")

    @property
    def conditions(self) -> Conditions:
        """All conditions."""
        first, second = self.between or ((), ())
        return (*self.of, *self.to, *first, *second, *self.where)

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns that it involves."""
        if self.in_waves is not None:
            return self.in_waves[0].columns | self.in_waves[1].columns
        number = () if self.number is None else (self.number,)
        return frozenset((*self.groups, *(each.column for each in self.conditions), *number))

    @property
    def in_words(self) -> str:
        """The question as it was understood."""
        found = {
            "count": "count" + (f" of {_all(self.of)}" if self.of else ""),
            "share": f"share of {self.levels_of or _all(self.of)}"
            if self.of or self.levels_of
            else "share",
            "mean": f"mean of {self.number}",
            "total": f"total of {self.number}",
            "quantile": f"{self._quantile_words} of {self.number}",
            "ratio": f"ratio of {_all(self.of)} to {_all(self.to)}",
        }[self.measure]
        if self.between:
            one, two = self.between
            found = f"difference in {found} between {_all(one, ', ')} and {_all(two, ', ')}"
        if self.waves:
            found = f"change in {found} from {self.waves[0]} to {self.waves[1]}"
        if self.by:
            found += f" by {', '.join(self.by)}"
        return found + (f" where {_all(self.where)}" if self.where else "")

    @property
    def _quantile_words(self) -> str:
        if self.quantile == Fraction(1, 2):
            return "median"
        text = f"{float(self.quantile or 0):.12f}".rstrip("0")
        return f"quantile {text if Fraction(text) == self.quantile else self.quantile}"


def _all(conditions: Conditions, between: str = " and ") -> str:
    return between.join(condition.text for condition in conditions)
