"""A page for a person: the blocks of an answer, before they become text or HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


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
    """

    label: str
    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under headings.

    Attributes:
        headings: One for each column; two columns may have the same.
        rows: Texts of the cells.
        texts: Number of leading columns that hold texts. The others hold numbers, which stand at
            the right.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int

    def __post_init__(self) -> None:
        if any(len(row) != len(self.headings) for row in self.rows):
            raise ValueError("A row has another number of cells than there are headings.")


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


Block: TypeAlias = Sentence | Fact | Listing | Bars
Page: TypeAlias = tuple[Block, ...]
