from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dp_core.lab.comparison.cells import Cell
from dp_core.lab.comparison.summary import Row, Spread
from dp_core.text.pages.page_text import print_page
from flows.answers.comparison_answers import comparison_answer


def compared_rows():
    names = ("tvd1", "tvd2", "tvd3", "cell", "kl2", "ranges", "relative", "cpu", "memory")
    bootstrap = Cell(
        file="town",
        label="bootstrap",
        method="bootstrap",
        epsilon=None,
        delta=None,
        neighbours=None,
        run=1,
        reference=True,
        definition={},
        spec=None,
        refusal=None,
    )
    privsyn = replace(bootstrap, label="privsyn", method="privsyn", epsilon="0.2", reference=False)
    floor = Row(
        cell=bootstrap,
        figures={name: Spread(0.0123, 0.001, 3) for name in names},
        runs=3,
        outcomes={"done": 3},
        sentences=(),
    )
    method = replace(floor, cell=privsyn)
    refused = replace(
        method,
        cell=replace(privsyn, label="fdh", method="fdh"),
        figures={},
        outcomes={"refused": 3},
        sentences=("The table [of all] has too many cells.",),
    )
    return (floor, method, refused, replace(refused, cell=replace(refused.cell, epsilon="1")))


def shown(width, rows=None):
    console = Console(width=width, highlight=False)
    public = "Data declared public by A. [Person] on 2026-11-21: why"
    found = comparison_answer(public, Path("/somewhere"), rows or compared_rows(), (), {})
    with console.capture() as text:
        print_page(console, found.page())
    return text.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_rows_are_whole_at_any_width(width):
    lines = shown(width)
    assert lines[0].startswith("Data declared public by A. [Person] on 2026-11-21")
    (header,) = [line for line in lines if line.startswith("method")]
    assert "2-way TVD" in header
    assert not any("…" in line for line in lines)
    row = next(line for line in lines if line.startswith("privsyn"))
    assert ".0123 ±.0010" in row
    assert len(row) <= width


def test_the_spread_is_told_where_there_is_one():
    def told(runs):
        changed = {"runs": runs, "outcomes": {"done": runs}}
        return "\n".join(shown(200, [replace(row, **changed) for row in compared_rows()]))

    assert "no standard deviation" not in told(3)
    assert "standard deviation" in told(3)
    assert "from 1 run" in told(1)
    assert "no standard deviation" in told(1)
    assert "CPU s excludes start-up" in told(1)


def test_what_was_refused_is_told_once_for_all_epsilons():
    lines = shown(200)
    assert "fdh at epsilon 0.2, 1: The table [of all] has too many cells." in lines
    assert sum(line.startswith("fdh ") and "refused" in line for line in lines) == 2
    assert any(line.startswith("- bootstrap (floor)") for line in lines)
