"""The terminal view of an answer from the noisy tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dp_core.analysis.query.query_answer import QueryAnswer, QueryFile, labels_of
from dp_core.display.page_text import fact, sentence, table_of

MOST_SHOWN = 1000
"""Most answers in the terminal; `--csv` and `--json` have all."""


def answered(console: Console, answer: QueryAnswer | QueryFile) -> None:
    """Print the table of estimates, and what the reader must know."""
    if isinstance(answer, QueryFile):
        if answer.answer.determined:
            click.echo(answer.text(), nl=False)
        else:
            _refused(answer.answer)
        return
    if not answer.determined:
        _refused(answer)
        return
    sentence(console, f"{answer.question}   ({_unit_words(answer)})")
    console.print()
    names = ("estimate", "margin", f"{100 * answer.level:.4g} % from", "to")
    # A column may have the name of a number.
    table = table_of(*answer.columns, fold=answer.columns)
    for name in names:
        table.add_column(name, justify="right")
    shown = answer.cells[:MOST_SHOWN]
    least = min((cell["margin"] for cell in shown if cell["margin"]), default=0.0)
    for cell in shown:
        labels = [Text(label) for label in labels_of(answer, cell)]  # a label in brackets
        table.add_row(*labels, *_numbers(cell, answer.unit, least))
    console.print(table)
    if len(answer.cells) > MOST_SHOWN:
        sentence(console, f"... and {len(answer.cells) - MOST_SHOWN:,} more; --csv has all.")
    console.print()
    fact(console, "Margin", _margin_words(answer))
    for text in answer.notes:
        fact(console, "Note", text)


def _refused(answer: QueryAnswer) -> None:
    click.echo(f"dp-release: {answer.reason}", err=True)


def _unit_words(answer: QueryAnswer) -> str:
    return {"records": "records", "share": "percent", "ratio": "ratio", "date": "date"}.get(
        answer.unit, f"{answer.measure}, in {'days' if answer.unit == 'days' else 'its own unit'}"
    )


def _margin_words(answer: QueryAnswer) -> str:
    percent = f"{100 * answer.level:.4g} %"
    if answer.covers == "noise":
        return (
            f"{percent} for the value in the confidential file: the margin covers the privacy noise"
            " only. --sampling adds the error of the file as a sample."
        )
    return (
        f"{percent} for the population: the margin covers the privacy noise and the error of the"
        " file as a simple random sample of a large population."
    )


def _numbers(cell: Mapping[str, Any], unit: str, least: float) -> list[str]:
    """Return the estimate, margin and interval of a cell as texts.

    Args:
        cell: The cell.
        unit: Unit of its numbers.
        least: Smallest margin of all cells, which decides the number of decimals.
    """
    if not cell["determined"]:
        return ["not determined", "–", "–", "–"]
    margin = float(cell["margin"])
    if unit == "date":
        return [cell["estimate"], f"{margin:,.0f} days", cell["low"], cell["high"]]
    scale, sign = (100.0, " %") if unit == "share" else (1.0, "")
    digits = decimals(scale * least)
    values = [float(cell[name]) * scale for name in ("estimate", "margin", "low", "high")]
    return [f"{value:,.{digits}f}{sign}" for value in values]


def decimals(margin: float) -> int:
    """Return the number of decimals that show a margin with two significant digits.

    >>> decimals(123.0), decimals(4.56), decimals(0.0123), decimals(0.0)
    (0, 1, 3, 2)
    """
    if margin <= 0 or not math.isfinite(margin):
        return 2
    return min(max(1 - math.floor(math.log10(margin)), 0), 9)
