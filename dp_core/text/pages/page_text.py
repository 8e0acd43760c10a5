"""A page as text: in a terminal, or as the `str` of an answer."""

from __future__ import annotations

import io
import shutil
import textwrap
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_core.text.pages.page import Bars, Fact, Listing, Page, Sentence

LABEL = 9
"""Width of the labels on the left, in characters."""
_USUAL_WIDTH = 100
_WIDEST_TEXT = 60
_WIDEST = 100_000


def page_text(page: Page) -> str:
    """Return a page as text without colours.

    Paragraphs are as wide as the terminal, or 100 characters without one. Tables are as wide as
    they need, so that no number is cut off.

    >>> listing = Listing(("sex", "share"), (("male", "0.5"),), texts=1)
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
    print_page(console, page, tables=wide)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


def print_page(console: Console, page: Page, *, tables: Console | None = None) -> None:
    """Print a page, with an empty line around each table.

    Args:
        console: Where it is printed.
        page: The page.
        tables: Console of the tables; by default the same, which shortens what does not fit.
    """
    for place, block in enumerate(page):
        match block:
            case Listing():
                if place:
                    console.print()
                (tables or console).print(_table(block, cut=tables is None))
                if place < len(page) - 1:
                    console.print()
            case Fact(label, text):
                fact(console, label, text)
            case Sentence(text):
                sentence(console, text)
            case Bars():
                pass  # the page says the same in words


def fact(console: Console, label: str, text: str) -> None:
    """Print a labelled sentence, wrapped under its own beginning."""
    indent = " " * LABEL
    lines = textwrap.fill(
        text,
        console.width,
        initial_indent=f"{label:<{LABEL - 1}} ",
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    console.print(lines, markup=False, soft_wrap=True)


def sentence(console: Console, text: str) -> None:
    """Print a sentence without interpreting markup."""
    console.print(text, markup=False)


def table_of(*names: str, right: tuple[str, ...] = (), fold: tuple[str, ...] = ()) -> Table:
    """Return an empty table with these columns.

    Args:
        names: Column headings.
        right: Headings of right-aligned columns.
        fold: Headings of columns whose values may wrap; others are shortened.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        justify: Any = "right" if name in right else "left"
        overflow: Any = "fold" if name in fold else "ellipsis"
        table.add_column(name, justify=justify, overflow=overflow)
    return table


def _table(listing: Listing, *, cut: bool) -> Table:
    """Return a table; without `cut`, a long text goes on in the next line of its cell."""
    table = table_of()
    for place, name in enumerate(listing.headings):
        if place < listing.texts:
            widest = None if cut else _WIDEST_TEXT
            # Brackets in a label or in the name of a column are no markup.
            table.add_column(Text(name), overflow="fold", max_width=widest)
        else:
            table.add_column(Text(name), justify="right", overflow="ellipsis", no_wrap=not cut)
    for row in listing.rows:
        table.add_row(*map(Text, row))
    return table
