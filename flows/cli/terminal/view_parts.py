"""Pieces that every answer on a terminal is made of."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.table import Table

LABEL = 9
"""Columns that the labels on the left take."""


def open_console() -> Console:
    """Return the console: as wide as the terminal, 200 columns where there is none."""
    # Off a terminal nobody is helped by lines cut at 80 characters.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    return console


def table_of(*names: str, right: tuple[str, ...] = (), fold: tuple[str, ...] = ()) -> Table:
    """Return an empty table with these columns.

    Args:
        names: Of the columns.
        right: Those whose values stand on the right.
        fold: Those whose values may go on in the next line; others are kept whole.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        justify: Any = "right" if name in right else "left"
        overflow: Any = "fold" if name in fold else "ellipsis"
        table.add_column(name, justify=justify, overflow=overflow)
    return table


def fact(console: Console, label: str, text: str) -> None:
    """Print a labelled sentence; what does not fit in a line goes on below itself."""
    indent = " " * LABEL
    lines = textwrap.fill(
        text,
        console.width,
        initial_indent=f"{label:<{LABEL}}",
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    console.print(lines, markup=False, soft_wrap=True)


def sentence(console: Console, text: str) -> None:
    """Print a sentence, whatever signs are in it, broken between words only."""
    console.print(text, markup=False)


def number(value: float) -> str:
    """Return a number with the digits that people read.

    >>> number(0.5), number(1e-9)
    ('0.5', '1e-09')
    """
    return f"{value:.4g}"


def fraction(text: str) -> float:
    """Return the nearest float to an exact number in text."""
    return float(Fraction(text))


def privacy(amount: Mapping[str, Any]) -> str:
    """Return an epsilon and a delta as people say them."""
    return f"epsilon {number(amount['epsilon'])}, delta {number(amount['delta'])}"


def held(amount: Mapping[str, Any]) -> str:
    """Return an amount that an account holds, with the rho that adds up in a zcdp account."""
    if "rho" in amount:
        return f"rho {number(amount['rho'])} (epsilon {number(amount['epsilon'])})"
    return privacy(amount)


def left_of(answer: Mapping[str, Any]) -> str:
    """Return what an account has left, and the account above it that leaves less."""
    text = f"account {answer['account']!r} has {held(answer['left'])} left"
    above = answer["above"]
    if above:
        text += f"; {above['account']!r}, above it, has {held(above)} left"
    return text


def plural(count: int, word: str) -> str:
    """Return a count of things.

    >>> plural(1, "entry"), plural(1200, "release")
    ('1 entry', '1,200 releases')
    """
    words = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count:,} {word if count == 1 else words}"
