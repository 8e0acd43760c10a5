"""A page as text: in a terminal, or as the `str` of an answer."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_core.text.pages.number_texts import cell_text
from dp_core.text.pages.page import (
    MOST_IN_NOTEBOOK,
    Bars,
    Cell,
    Column,
    Fact,
    Listing,
    Page,
    Sentence,
    Title,
    Verbatim,
)

LABEL = 9
"""Width of the labels on the left, in characters."""
_USUAL_WIDTH = 100
_WIDEST_TEXT = 60
_WIDEST = 100_000


BETWEEN = 2
"""Width of the space between two columns, in characters."""
_NARROW = 8
"""Width to which a text without a space may be broken."""


def page_text(page: Page) -> str:
    """Return a page as text without colours.

    Paragraphs are as wide as the terminal, or 100 characters without one. Tables are as wide as
    they need, so that no number is cut off.

    >>> from dp_core.text.pages.page import numbers, texts
    >>> listing = Listing((*texts("sex"), *numbers("share")), [("male", 0.5)])
    >>> print(page_text((Fact("Note", "No margin."), listing)))
    Note     No margin.
    <BLANKLINE>
    sex   share
    male    0.5
    """
    out = io.StringIO()
    width = shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns
    console = Console(file=out, width=width, highlight=False, color_system=None)
    wide = Console(file=out, width=_WIDEST, highlight=False, color_system=None)
    print_page(console, page, tables=wide, most=MOST_IN_NOTEBOOK, whole=".frame")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


def print_page(
    console: Console,
    page: Page,
    *,
    tables: Console | None = None,
    most: int | None = None,
    whole: str = "--json",
) -> None:
    """Print a page, with an empty line around each table.

    Args:
        console: Where it is printed.
        page: The page.
        tables: Console of the tables; by default the same, which wraps what does not fit.
        most: Most rows of a table; None (the default) for all.
        whole: Where all rows are; `--json` by default.
    """
    blocks = [block for block in page if not isinstance(block, Bars)]  # words say the same
    for place, block in enumerate(blocks):
        match block:
            case Listing():
                if place and not isinstance(blocks[place - 1], Listing):
                    console.print()
                rows, more = block.visible_rows(most, whole)
                width = console.width if tables is None else None
                (tables or console).print(_table(block, rows, width))
                if more:
                    console.print(more)
                if place < len(blocks) - 1:
                    console.print()
            case Title(name, text):
                console.print(Text.assemble((name, "bold"), text))
            case Fact():
                _print_fact(console, block)
            case Sentence(text):
                console.print(text, markup=False)
            case Verbatim(text):
                console.file.write(text)


def _print_fact(console: Console, fact: Fact) -> None:
    """Print a labelled sentence, wrapped under its own beginning unless it stays whole."""
    lines = f"{fact.label:<{LABEL - 1}} {fact.text}"
    if not fact.whole:
        lines = textwrap.fill(
            fact.text,
            console.width,
            initial_indent=f"{fact.label:<{LABEL - 1}} ",
            subsequent_indent=" " * LABEL,
            break_on_hyphens=False,
            break_long_words=False,
        )
    text = Text(lines)
    if fact.warns:
        text.stylize("yellow", 0, len(fact.label))
    console.print(text, soft_wrap=True)


def _table(listing: Listing, rows: Sequence[Sequence[Cell]], width: int | None) -> Table:
    """Return a table; without a width, a long text goes on in the next line of its cell."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    cells = [[cell_text(cell) for cell in row] for row in rows]
    columns, most = list(listing.columns), [_WIDEST_TEXT] * len(listing.columns)
    if width is not None:
        fitting = fitting_columns(columns, cells, width)
        columns = [columns[place] for place in fitting]
        cells = [[row[place] for place in fitting] for row in cells]
        most = column_widths(columns, cells, width)
    for column, widest in zip(columns, most, strict=True):
        side: Literal["left", "right"] = "right" if column.is_number else "left"
        # Brackets in a label or in the name of a column are no markup.
        name = Text(column.heading)
        table.add_column(name, justify=side, overflow="fold", max_width=widest)
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def fitting_columns(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> list[int]:
    """Return the places of the columns that fit, in their order; those without a rank always do.

    Args:
        columns: All columns.
        rows: Their cells.
        width: Width of the table, in characters.
    """
    left, chosen = width, []
    for place in sorted(range(len(columns)), key=lambda place: columns[place].rank):
        left -= BETWEEN + _longest(_cells(columns, rows, place))
        if columns[place].rank and left < 0:
            break
        chosen.append(place)
    return sorted(chosen)


def column_widths(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> list[int]:
    """Return the width of each column, in characters.

    If the table is too wide, the widest texts wrap between their words first, then numbers that
    consist of several words, then texts within their words, the longest first. No number is broken.

    >>> columns = (Column("step"), Column("margin", is_number=True))
    >>> column_widths(columns, [["number of rows", "±12,345"]], 80)
    [14, 7]
    >>> column_widths(columns, [["number of rows", "±12,345"]], 18)
    [9, 7]
    """
    places = range(len(columns))
    cells = [_cells(columns, rows, place) for place in places]
    words = [_longest([word for cell in each for word in cell.split()]) for each in cells]
    widths = [min(_longest(each), width) for each in cells]
    broken = [
        least if columns[place].is_number else min(_NARROW, least)
        for place, least in enumerate(words)
    ]
    for least, long in ((words, widths), (broken, words)):
        while sum(widths) + BETWEEN * (len(widths) - 1) > width:
            wide = [place for place in places if widths[place] > least[place]]
            if not wide:
                break
            widths[max(wide, key=lambda place: (not columns[place].is_number, long[place]))] -= 1
    return widths


def _cells(columns: Sequence[Column], rows: Sequence[Sequence[str]], place: int) -> list[str]:
    """Return the lines of a column: those of its heading, and of its cells."""
    texts = [columns[place].heading, *(row[place] for row in rows)]
    return [line for text in texts for line in text.splitlines()]


def _longest(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)
