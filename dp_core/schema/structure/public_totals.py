"""Public totals: published numbers of records by level, which every synthetic set meets. Public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Domain
from dp_core.tables.nested_columns import NestedColumns

MOST_RECORDS = 10**10
"""Most records of a set."""


@dataclass(frozen=True, slots=True)
class PublicTotals:
    """Published numbers of records by the levels of a column.

    Attributes:
        column: The column.
        counts: Number of records for each code of the column, at least 0.
        source: Publication that states them.
    """

    column: str
    counts: tuple[int, ...]
    source: str

    @property
    def records(self) -> int:
        """Sum of the totals: the number of records of every set."""
        return sum(self.counts)

    @property
    def in_words(self) -> str:
        """A description of the totals.

        >>> PublicTotals("county", (12000, 30400), "Census 2021").in_words
        '2 totals by county, together 42,400 (Census 2021)'
        """
        number = f"{len(self.counts):,} total{'s' if len(self.counts) > 1 else ''}"
        return f"{number} by {self.column}, together {self.records:,} ({self.source})"


def records_of(totals: Sequence[PublicTotals]) -> int | None:
    """Return the number of records that totals imply; None if there are no totals."""
    return totals[0].records if totals else None


def decisive(
    totals: Sequence[PublicTotals], nested: NestedColumns | None
) -> tuple[PublicTotals, ...]:
    """Return the totals from which the others follow.

    Of columns within one another, those of the smallest areas imply those of the larger ones.

    Args:
        totals: All public totals; those of nested columns agree.
        nested: The nested columns; None for none.
    """
    if nested is None:
        return tuple(totals)
    inside = [each for each in totals if each.column in nested.columns]
    smallest = max(inside, key=lambda each: nested.depth(each.column), default=None)
    return tuple(each for each in totals if each not in inside or each is smallest)


def known_counts(totals: Sequence[PublicTotals], domain: Domain) -> dict[str, NDArray[np.float64]]:
    """Return the known one-way tables by column, including those of larger areas.

    Args:
        totals: All public totals.
        domain: All columns.
    """
    found: dict[str, NDArray[np.float64]] = {}
    nested = domain.nested
    for each in decisive(totals, nested):
        counts = np.array(each.counts, dtype=np.float64)
        found[each.column] = counts
        if nested is None or each.column not in nested.columns:
            continue
        for upper in nested.columns[: nested.depth(each.column)]:
            parents = nested.map(upper, each.column)
            found[upper] = np.zeros(domain.size((upper,)))
            np.add.at(found[upper], parents, counts)
    return found


def parts_of(counts: Sequence[int], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return totals divided over pieces, in proportion to their sizes and in whole numbers.

    Args:
        counts: Totals by level.
        sizes: Number of records of each piece; together as many as the totals.

    >>> [part.tolist() for part in parts_of([5, 1], [3, 3])]
    [[3, 0], [2, 1]]
    """
    left, rows = np.array(counts, dtype=np.int64), sum(counts)
    found = []
    for size in sizes:
        exact = left * (size / max(rows, 1))
        part = np.minimum(np.floor(exact).astype(np.int64), left)
        order = np.argsort(part - exact, kind="stable")
        # Rounding down loses less than one record for each level.
        room = order[part[order] < left[order]][: size - int(part.sum())]
        part[room] += 1
        found.append(part)
        left, rows = left - part, rows - size
    return found
