"""The widths of a table's columns in a terminal: which columns fit, and where their cells wrap."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from dp_core.text.pages.page import Column

BETWEEN = 2
"""Width of the space between two columns, in characters."""
_NARROW = 8
"""Width to which a text without a space may be broken."""


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
