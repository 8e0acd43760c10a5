"""No answer is one that no file can have, and no question is answered that every file answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask, prepare_question, terms_of
from dp_core.analysis.query.change_answer import _cells, changes_of, side_of
from dp_core.analysis.query.possible_answers import PossibleAnswers, possible_answers
from dp_core.analysis.query.query_answer import _texts
from dp_core.errors import BadInput
from tests.dp_core.analysis.query.survey import PAIRS, measured, sources

EXACT = sources(measured([*PAIRS, ("sex", "age", "rooms")], scale=1))
FIXED = {
    "share": "`share by COLUMN`",
    "share where sex = female": "`share of sex = female` or `share by sex`",
    "share by sex where sex = female": "`share of sex = female` or `share by sex`",
    "share of sex = female where sex = female": "`share of sex = female` or `share by sex`",
    "share of sex = male where sex = female": "`share of sex = male`",
    "share of sex where sex = female": "`share of sex = female`",
    "share of sex in (male, female)": "`share by sex`",
    "share of sex = female by sex": "`share by sex`",
    "share of sex = female by age, sex": "`share by sex`",
    "share of stage = old where age >= 65": "`share of stage = old`",
    "ratio of sex = male to sex = male by age": "`share of sex = male`",
    "mean of rooms where rooms = 2": "`share by rooms`",
    "mean of rooms by rooms": "`share by rooms`",
    "median of rooms where rooms = 2": "`share by rooms`",
    "quantile 0.9 of health where health = good": "`share by health`",
    "median of stage where age < 15": "`share by stage`",
    "difference in mean of rooms between rooms = 1 and rooms = 4": "`between`",
    "difference in share of sex = male between sex = male and sex = female": "`between`",
    "difference in share between sex = male and sex = female": "`between`",
    "count of sex = male where sex = female": "`share of sex = male`",
    "mean of age where age is missing": "schema allows no record",
    "mean of rooms where age < 15 and marital status = divorced": "schema allows no record",
    "ratio of rooms = 1 to sex = male where sex = female": "schema allows no record",
}


@pytest.mark.parametrize("text", FIXED)
def test_a_question_that_every_file_answers_alike_is_refused(text):
    with pytest.raises(BadInput) as caught:
        ask(EXACT, text)
    assert FIXED[text] in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "share by sex where age >= 30",
        "share of age >= 30 where age >= 15",
        "mean of rooms where rooms <= 2",
        "mean of age where age < 15",  # a bin of several values
        "total of rooms where rooms = 2",
        "count where sex = female",
        "ratio of sex = male to sex = female",
        "difference in mean of rooms between rooms = 1 and rooms <= 4",
    ],
)
def test_other_questions_are_answered(text):
    assert ask(EXACT, text).cells


QUESTIONS = {
    "mean of rooms by sex, age": (1, 6),
    "mean of age by sex, rooms": (0, 99),
    "mean of age where age >= 30 by rooms": (30, 99),
    "median of age by rooms where age >= 30": (30, 99),
    "ratio of rooms = 6 to rooms >= 5 by sex, age": (0, 1),
    "ratio of rooms = 6 to sex = male by age": (0, np.inf),
    "difference in mean of rooms between sex = male and sex = female by age": (-5, 5),
}
ADDED_UP = [
    "count by sex, age, rooms",
    "share by sex, age, rooms",
    "share of rooms by sex, age",
    "total of rooms by sex, age, rooms",
    "total of age by sex, age, rooms",
]
TABLE = ("sex", "age", "rooms")


def _noisy(seed, scale=40):
    return sources(measured([TABLE], scale=scale, rng=np.random.default_rng(seed)))


@pytest.mark.parametrize("text", QUESTIONS)
def test_answers_and_intervals_are_possible_and_cover_the_file(text):
    least, most = QUESTIONS[text]
    truth = {cell.codes: cell for cell in ask(EXACT, text).cells}
    covered, moved = [], 0
    for seed in range(12):
        result = ask(_noisy(seed), text)
        moved += any("outside the possible" in note for note in result.notes)
        for cell in result.cells:
            if cell.determined:
                assert least <= cell.low <= cell.estimate <= cell.high <= most
                exact = truth[cell.codes]
                if exact.determined and not result.in_bins:
                    covered.append(cell.low <= exact.estimate <= cell.high)
    if covered:
        assert np.mean(covered) >= 0.9
    if text == "ratio of rooms = 6 to rooms >= 5 by sex, age":
        assert moved


@pytest.mark.parametrize("text", ADDED_UP)
def test_counts_shares_and_totals_are_not_cut_so_that_they_add_up(text):
    """The cells of a table have the sum that one question about all of them has."""
    whole = text.split(" by ")[0]
    below = 0
    for seed in range(6):
        noisy = _noisy(seed)
        result = ask(noisy, text)
        cells = [cell for cell in result.cells if cell.determined]
        below += any(cell.low < 0 > cell.estimate for cell in cells)
        for cell in cells:
            if whole == "count":
                assert cell.high - cell.estimate == pytest.approx(cell.estimate - cell.low)
        if any(cell.estimate < -1e-6 for cell in cells):
            assert any("are not cut" in note for note in result.notes)
        if whole == "share of rooms":
            groups: dict[tuple[int, ...], list[float]] = {}
            for cell in cells:
                groups.setdefault(cell.codes[1:], []).append(cell.estimate)
            sums = [sum(each) for each in groups.values() if len(each) == 6]
            assert sums == pytest.approx([1.0] * len(sums))
        else:
            expected = 1.0 if whole == "share" else ask(noisy, whole).cells[0].estimate
            assert sum(cell.estimate for cell in cells) == pytest.approx(expected)
    assert below


def test_a_number_that_rounds_to_0_has_no_sign():
    cell = {"determined": True, "estimate": -0.3, "low": -30.4}
    assert _texts(cell, "records", 30.1, ("estimate", "low"), integers=True) == ("0", "-30")


def test_an_interval_of_the_whole_range_is_uninformed_whatever_its_rounding():
    possible = PossibleAnswers(np.array([20.0] * 3), np.array([29.0] * 3), adds_up=False)
    low, high = np.array([20.0, 20.0, 20.1]), np.array([29.0, np.nextafter(29.0, 0), 29.0])
    every = possible.uninformed((np.array([24.5] * 3), low, high))
    assert every.tolist() == [True, True, False]


def test_the_possible_range_is_that_of_every_file():
    """A file of one record in any cell has an answer within the range, and both ends are met."""
    for text in (
        "mean of rooms by sex",
        "share of rooms = 6 by sex",
        "ratio of rooms = 6 to age < 65",
    ):
        _, asked, _ = prepare_question(EXACT, text, 0.95, sampling=False)
        (terms,) = terms_of(asked)
        (term,) = terms
        top, bottom = term.sums
        possible = possible_answers(asked, [terms])
        met = [[] for _ in possible.least]
        sizes = [each.shape[1] for each in top.weights]
        rows = list(itertools.product(*(range(n) for n in top.shape)))
        for place, row in enumerate(rows):
            for cell in itertools.product(*map(range, sizes)):
                over, under = (
                    np.prod(
                        [w[r % len(w), c] for w, r, c in zip(f.weights, row, cell, strict=True)]
                    )
                    for f in (top, bottom)
                )
                if under:
                    met[place].append(over / under)
        assert [min(each) for each in met] == pytest.approx(possible.least.tolist())
        if not text.startswith("ratio"):
            assert [max(each) for each in met] == pytest.approx(possible.most.tolist())


def test_an_interval_of_everything_possible_says_that_the_tables_carry_no_information():
    notes = {
        text: " ".join(ask(sources, text).notes)
        for sources, text in (
            (EXACT, "mean of age where age < 15"),
            (EXACT, "mean of age"),
        )
    }
    assert "no information" in notes["mean of age where age < 15"]
    assert "no information" not in notes["mean of age"]


def test_a_group_that_is_not_determined_is_not_said_to_have_an_interval():
    for seed in range(6):
        result = ask(_noisy(seed, scale=400), "share of rooms = 6 by sex, age")
        every = [cell.low <= 0 and cell.high >= 1 for cell in result.cells if cell.determined]
        said = [note for note in result.notes if "every possible value" in note]
        assert [f"In {sum(every):,} of" in note for note in said] == [True] * bool(sum(every))


def test_a_group_in_which_the_schema_allows_no_record_is_said_to_be_so():
    text = "mean of age by marital status where age < 15"
    result = ask(EXACT, text)
    assert [cell.possible for cell in result.cells] == [True, False, True, False, True]
    assert [cell.determined for cell in result.cells] == [cell.possible for cell in result.cells]
    assert not any("not determined" in note for note in result.notes)
    asked = prepare_question(EXACT, text, 0.95, sampling=False)[1]
    sides = [side_of(EXACT, asked, level=0.95, sampling=False)] * 2
    cells = _cells(sides, changes_of(*sides, level=0.95), "age", "noise")
    assert [cell.get("possible", True) for cell in cells] == [
        cell.possible for cell in result.cells
    ]
    assert _texts(cells[1], "age", 0.0, ("change", "margin")) == ("no record possible", "–")


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("mean of rooms by sex, age", 5),
        ("ratio of rooms = 6 to rooms >= 5 by sex, age", 1),
        ("count by sex, age, rooms", np.inf),
        ("share by sex, age, rooms", np.inf),
    ],
)
def test_changes_are_possible_and_are_those_of_the_answers_shown(text, most):
    releases = [_noisy(seed) for seed in (1, 2)]
    asked = prepare_question(releases[0], text, 0.95, sampling=False)[1]
    later, earlier = (side_of(one, asked, level=0.95, sampling=False) for one in releases)
    found = changes_of(later, earlier, level=0.95)
    known = np.isfinite(found.lows) & np.isfinite(found.highs)
    assert known.any()
    np.testing.assert_allclose(found.values[known], (later.values - earlier.values)[known])
    assert (np.abs([found.lows[known], found.highs[known]]) <= most).all()
    assert (found.lows[known] <= found.values[known]).all()
    assert (found.values[known] <= found.highs[known]).all()
    assert (found.noise_lows[known] <= found.values[known]).all()
