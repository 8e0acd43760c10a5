import pytest
from rich.console import Console

from flows.answers.comparison_answers import ComparisonAnswer
from flows.cli.terminal.comparison_views import compared


def answer():
    figures = {
        name: {"mean": 0.0123, "sd": 0.001, "runs": 3}
        for name in ("tvd1", "tvd2", "tvd3", "cell", "kl2", "ranges", "relative", "cpu", "memory")
    }
    floor = {
        "file": "town",
        "method": "bootstrap",
        "preset": "bootstrap",
        "epsilon": None,
        "reference": True,
        "refused": False,
        "runs": 3,
        "outcomes": {"done": 3},
        "figures": figures,
        "sentences": [],
    }
    method = {**floor, "method": "privsyn", "preset": "privsyn", "epsilon": "0.2"}
    refused = {
        **method,
        "method": "fdh",
        "reference": False,
        "refused": True,
        "outcomes": {"refused": 3},
        "figures": {},
        "sentences": ["The table [of all] has too many cells."],
    }
    return {
        "declared_public": "Data declared public by A. [Person] on 2026-11-21: why",
        "out": "/somewhere",
        "rows": [floor, {**method, "reference": False}, refused, {**refused, "epsilon": "1"}],
    }


def shown(width):
    console = Console(width=width, highlight=False)
    with console.capture() as text:
        compared(console, ComparisonAnswer(answer()))
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


def test_a_wide_line_holds_every_figure_in_the_order_of_the_files():
    header = next(line for line in shown(200) if line.startswith("method"))
    words = [
        "1-way TVD",
        "2-way TVD",
        "3-way TVD",
        "max cell",
        "KL pairs",
        "range error",
        "CPU s",
        "MB",
    ]
    places = [header.index(word) for word in words]
    assert places == sorted(places)


def test_the_spread_is_told_where_there_is_one():
    def told(runs):
        rows = [{**row, "runs": runs, "outcomes": {"done": runs}} for row in answer()["rows"]]
        console = Console(width=200, highlight=False)
        with console.capture() as text:
            compared(console, ComparisonAnswer({**answer(), "rows": rows}))
        return text.get()

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
