"""The terminal view of a comparison: as many figures as fit; the files have the rest."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from dp_core.lab.comparison.cells import BOOTSTRAP
from dp_core.lab.comparison.comparison_tables import problems, runs_of
from dp_core.lab.comparison.figures import FIGURE, about_runs, shown_number
from dp_core.lab.comparison.summary import Row, Spread, files, shown_figures
from dp_core.text.pages.page_text import sentence, table_of
from flows.answers.comparison_answers import ComparisonAnswer
from flows.cli.terminal.view_parts import path

_FIRST = (
    "tvd2",
    "tvd_members",
    "tvd_household",
    "tvd_person",
    "tvd_both",
    "cpu",
    "tvd3",
    "misclassified",
    "best",
    "overlap",
    "width",
    "relative",
    "tvd1",
    "memory",
    "ranges",
    "svm",
    "kl2",
    "cell",
    "kl",
    "cost",
)
"""Figures by priority, for a narrow terminal."""


def compared(console: Console, answer: ComparisonAnswer) -> None:
    """Print a comparison."""
    sentence(console, answer.declared_public)
    for file in files(answer.rows):
        console.print(f"\n[bold]{file}[/bold]")
        rows = [row for row in answer.rows if row.cell.file == file]
        _table(console, rows)
        for line in (*problems(rows), *answer.notes.get(file, ())):
            sentence(console, line)
    console.print()
    most = max((row.done for row in answer.rows), default=0)
    runs = about_runs(most)
    if most > 1 and not any("tvd2" in row.figures for row in answer.rows):
        runs = "The figures are means over the runs; table.md has their standard deviations."
    sentence(
        console,
        f"{runs} A dash marks a reference. CPU s excludes start-up. table.md explains each column.",
    )
    path(console, "Tables", f"{answer.out}/table.md, results.csv")
    path(console, "Plots", f"{answer.out}/plots")


def _table(console: Console, rows: Sequence[Row]) -> None:
    columns = {
        "method": [_name(row) for row in rows],
        "epsilon": [row.cell.epsilon or "" for row in rows],
        "runs": [runs_of(row) for row in rows],
    }
    have = shown_figures(rows)
    figures = {name: [_cell(name, row.figures.get(name)) for row in rows] for name in have}
    left = console.width - sum(_width(head, cells) for head, cells in columns.items())
    chosen = set()
    for name in (name for name in _FIRST if name in have):
        left -= _width(_head(name), figures[name])
        if left < 0:
            break
        chosen.add(name)
    columns |= {_head(name): figures[name] for name in have if name in chosen}
    table = table_of(*columns, right=tuple(columns)[1:])
    for line in zip(*columns.values(), strict=True):
        table.add_row(*line)
    console.print(table)


def _width(head: str, cells: Sequence[str]) -> int:
    """Return the width of a column with the space beside it, in characters."""
    return 2 + max(map(len, (*head.splitlines(), *cells)))


def _head(name: str) -> str:
    """Return the label of a figure, in two lines if it names a kind of pairs."""
    return FIGURE[name].label.replace(" x ", "\nx ")


def _name(row: Row) -> str:
    name = "bootstrap (floor)" if row.cell.method == BOOTSTRAP else row.cell.label
    return f"- {name}" if row.cell.reference else name


def _cell(name: str, found: Spread | None) -> str:
    if found is None:
        return ""
    text = shown_number(name, found.mean)
    if name != "tvd2" or found.deviation is None:
        return text
    return f"{text} ±{shown_number(name, found.deviation)}"
