import json
import re

import pytest

from dp_core.lab.comparison.inference_page import Comparison, as_html, as_json
from dp_core.lab.comparison.plots import _LOOK, Bar, Panel, significance_png
from dp_core.lab.measures.inference_agreement import Agreement, Coefficient, Outcome, agree, shares

NOTICE = "CONFIDENTIAL: for staff."


def about(name, estimate, half):
    return Coefficient(name, estimate, estimate - half, estimate + half)


@pytest.fixture
def comparison():
    first = agree(
        "y ~ a<b>",
        [about("Intercept", 1, 2), about("a", 1.0, 0.5), about("b", -1, 0.5), about("<z>", 1, 1)],
        [about("Intercept", 1, 2), about("a", 0.5, 1.0), about("b", 1, 0.5)],
    )
    second = Agreement("y ~ c", problem="The column c separates y & so on.")
    return Comparison(NOTICE, "Small & quick", "by the rule `split`", (first, second))


def test_the_first_line_of_every_file_says_who_may_see_it(comparison):
    assert NOTICE in as_html(comparison, picture="").splitlines()[0]
    assert next(iter(json.loads(as_json(comparison)).items())) == ("confidential", NOTICE)

    panel = Panel("all", (Bar("y ~ a", shares(comparison.outcomes)),))
    assert NOTICE.encode() in significance_png([panel], title="t", notice=NOTICE, axis="formula")


def test_numbers_are_complete_for_machines(comparison):
    first, second = json.loads(as_json(comparison))["formulas"]

    assert first["outcomes"]["II+"] == first["outcomes"]["Worst"] == 1
    assert sum(first["outcomes"].values()) == 2
    assert first["lost"] == ["<z>"]
    assert first["coefficients"][1] == {
        "name": "a",
        "file": {"estimate": 1.0, "low": 0.5, "high": 1.5, "significant": True},
        "sets": {"estimate": 0.5, "low": -0.5, "high": 1.5, "significant": False},
        "outcome": "II+",
        "overlap": 0.75,
        "width_ratio": 2.0,
    }
    assert first["mean_overlap"] == 0.375
    assert second["problem"].startswith("The column c")
    assert second["mean_overlap"] is None
    assert second["coefficients"] == []


def test_a_page_shows_estimates_outcomes_and_reasons(comparison):
    page = as_html(comparison, picture="bars.png")

    (row,) = (line for line in page.splitlines() if '<th scope="row">a</th>' in line)
    cells = re.findall(r"<td[^>]*>([^<]*)", row)
    assert cells == ["1", "0.5 to 1.5", "0.5", "−0.5 to 1.5", "II+", "0.75", "2"]
    assert "y ~ a&lt;b&gt;" in page
    assert "&lt;z&gt;" in page
    assert "<z>" not in page
    assert "Not compared. The column c separates y &amp; so on." in page
    assert 'src="bars.png"' in page


def test_no_two_outcomes_look_alike_in_the_picture():
    assert set(_LOOK) == set(Outcome)
    assert len({(colour, hatch) for colour, hatch, _ in _LOOK.values()}) == len(Outcome)


def test_a_bar_without_outcomes_says_that_nothing_was_compared(monkeypatch):
    from matplotlib.axes import Axes

    written, draw = [], Axes.text
    monkeypatch.setattr(
        Axes,
        "text",
        lambda self, *words, **look: written.append(words[2]) or draw(self, *words, **look),
    )
    for stack in ({}, {Outcome.BEST: 1.0}):
        panel = Panel("", (Bar("y ~ a", stack),))
        found = significance_png([panel], title="t", notice=NOTICE, axis="formula")
        assert found.startswith(b"\x89PNG")

    assert written == ["not compared", "100"]


def test_more_panels_than_a_row_holds_are_drawn():
    bars = tuple(Bar(text, {Outcome.BEST: 0.5, Outcome.WORST: 0.5}) for text in ("0.1", "1", "10"))

    found = significance_png(
        [Panel(f"method {number}", bars) for number in range(5)],
        title="a title that is not short",
        notice="a $notice$",
        axis="epsilon",
    )

    assert found.startswith(b"\x89PNG")
