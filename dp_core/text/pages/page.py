"""A page for a person: the blocks of an answer, before they become text or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import TypeAlias

Cell: TypeAlias = str | int | float | Fraction | date | None
"""What stands in a table: a text as it is, a whole number with separators, any other number with
four significant digits, a date; nothing for None."""


@dataclass(frozen=True, slots=True)
class Title:
    """The first line: a name, and what follows it.

    Attributes:
        name: The name, which stands out.
        text: What follows directly, such as `: finished`; empty by default.
    """

    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paragraph.

    Attributes:
        text: Its text.
        warns: Whether a reader must not miss it; False by default.
    """

    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled paragraph.

    Attributes:
        label: One or two words, such as `Note`.
        text: Its text.
        warns: Whether a reader must not miss it; False by default.
        whole: Whether it stays on one line, so that it can be copied, such as a path or a command;
            False by default.
    """

    label: str
    text: str
    warns: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Two may have the same heading.

    Attributes:
        heading: Its heading, in several lines if it contains line ends.
        is_number: Whether it holds numbers, which stand at the right; False by default.
        rank: A terminal that is too narrow leaves out the columns of the largest ranks; 0, the
            default, for one that is always shown.
    """

    heading: str
    is_number: bool = False
    rank: int = 0


def texts(*headings: str) -> tuple[Column, ...]:
    """Return columns of texts, one for each heading."""
    return tuple(map(Column, headings))


def numbers(*headings: str) -> tuple[Column, ...]:
    """Return columns of numbers, one for each heading."""
    return tuple(Column(heading, is_number=True) for heading in headings)


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under the headings of typed columns.

    Attributes:
        columns: The columns.
        rows: The cells of each row.
        most: Most rows that a terminal or a notebook shows; 1,000 by default. A notebook shows
            fewer in any case; a file or a pipe gets all.
        newest_last: Whether the last rows are shown if there are more; by default the first.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    most: int = 1000
    newest_last: bool = False

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("A row has another number of cells than there are columns.")

    def visible_rows(self, most: int | None, whole: str) -> tuple[Sequence[Sequence[Cell]], str]:
        """Return the rows that are shown, and a sentence if there are more.

        Args:
            most: Most rows that the medium shows; None for all.
            whole: Where all rows are, for the sentence.
        """
        most = len(self.rows) if most is None else min(most, self.most)
        if (left := len(self.rows) - most) <= 0:
            return self.rows, ""
        if self.newest_last:
            return self.rows[left:], f"Only the last {most:,} are shown; {whole} has all."
        return self.rows[:most], f"... and {left:,} more; {whole} has all."


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text that is shown as it is: YAML, CSV or JSON, with its line ends."""

    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """A small plot of labelled bars, which may have whiskers; text shows none.

    What it shows must stand on the page as text as well.

    Attributes:
        heading: What the bars show.
        bars: Label and value of each bar.
        whiskers: Low and high end for each bar; empty (the default) without whiskers.
        percent: Whether values are shares, shown in percent; False by default.
    """

    heading: str
    bars: tuple[tuple[str, float], ...]
    whiskers: tuple[tuple[float, float], ...] = ()
    percent: bool = False

    def __post_init__(self) -> None:
        if self.whiskers and len(self.whiskers) != len(self.bars):
            raise ValueError("Every bar needs its whisker.")


Block: TypeAlias = Title | Sentence | Fact | Listing | Verbatim | Bars
Page: TypeAlias = tuple[Block, ...]

MOST_IN_NOTEBOOK = 60
"""Most rows of a table in a notebook, where `frame` has all."""
