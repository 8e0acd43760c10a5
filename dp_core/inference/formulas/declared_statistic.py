"""A mean, total or quantile that a spec declares, so that the release measures it directly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

StatisticWord = Literal["mean", "total", "quantile"]


@dataclass(frozen=True, slots=True)
class DeclaredStatistic:
    """A statistic of one number by groups of records, as a spec declares it.

    Attributes:
        text: The sentence as typed.
        measure: `mean`, `total` or `quantile`; a median is the quantile 1/2.
        column: Column of the number.
        by: Columns that make the groups, in the order of the sentence; () for the whole file.
        quantile: Probability of the quantile; None for the other measures.
    """

    text: str
    measure: StatisticWord
    column: str
    by: tuple[str, ...]
    quantile: Fraction | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the number last."""
        return (*self.by, self.column)
