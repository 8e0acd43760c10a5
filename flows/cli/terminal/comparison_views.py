"""The terminal view of a comparison: as many figures as fit; the files have the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from dp_core.analysis.comparison.cells import BOOTSTRAP
from dp_core.analysis.comparison.figures import FIGURE, about_runs, shown_number
from flows.answers.comparison_answers import ComparisonAnswer
from flows.cli.terminal.view_parts import sentence, table_of

_FIRST = (
    "tvd2",
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


def compared(console: Console, comparison: ComparisonAnswer) -> None:
    """Print a comparison."""
    answer = comparison.summary
    sentence(console, answer["declared_public"])
    rows = answer["rows"]
    for file in dict.fromkeys(row["file"] for row in rows):
        console.print()
        console.print(f"[bold]{file}[/bold]")
        mine = [row for row in rows if row["file"] == file]
        _table(console, mine)
        for line in _problems(mine):
            sentence(console, line)
    console.print()
    most = max((row["outcomes"].get("done", 0) for row in rows), default=0)
    sentence(
        console,
        f"{about_runs(most)} A dash marks a reference. CPU s excludes start-up. table.md explains"
        " each column.",
    )
    console.print(f"Tables   {answer['out']}/table.md, results.csv", soft_wrap=True)
    console.print(f"Plots    {answer['out']}/plots", soft_wrap=True)


def _table(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    have = [name for name in FIGURE if any(name in row["figures"] for row in rows)]
    lines = [[_name(row), row["epsilon"] or "", _runs(row)] for row in rows]
    columns = {name: [_cell(name, row["figures"].get(name)) for row in rows] for name in have}
    names = ["method", "epsilon", "runs"]
    left = console.width - sum(
        2 + max(len(head), *(len(line[place]) for line in lines))
        for place, head in enumerate(names)
    )
    chosen = set()
    for name in (name for name in _FIRST if name in have):
        width = 2 + max(len(FIGURE[name].label), *(len(text) for text in columns[name]))
        if width > left:
            break
        left -= width
        chosen.add(name)
    shown = [name for name in have if name in chosen]
    heads = [FIGURE[name].label for name in shown]
    table = table_of(*names, *heads, right=("epsilon", "runs", *heads))
    for place, line in enumerate(lines):
        table.add_row(*line, *(columns[name][place] for name in shown))
    console.print(table)


def _name(row: Mapping[str, Any]) -> str:
    name = "bootstrap (floor)" if row["preset"] == BOOTSTRAP else str(row["method"])
    return f"- {name}" if row["reference"] else name


def _runs(row: Mapping[str, Any]) -> str:
    return "refused" if row["refused"] else f"{row['outcomes'].get('done', 0)}/{row['runs']}"


def _cell(name: str, found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    text = shown_number(name, found["mean"])
    if name != "tvd2" or found["sd"] is None:
        return text
    return f"{text} ±{shown_number(name, found['sd'])}"


def _problems(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for text in row["sentences"]:
            found.setdefault((row["method"], text), []).append(row["epsilon"] or "")
    return [
        f"{method} at epsilon {', '.join(epsilons)}: {text}"
        for (method, text), epsilons in found.items()
    ]
