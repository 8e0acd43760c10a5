"""Standard deviations, Gini coefficients and top shares are answered with valid intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dp_core.analysis.query.answering import ask, prepare_question
from dp_core.analysis.query.change_answer import changes_of, side_of
from dp_core.analysis.query.query_answer import unit_of
from dp_core.analysis.query.set_counts import SetCounts
from dp_core.errors import BadInput
from dp_core.inference.questions.question_grammar import read_question
from tests.dp_core.analysis.query.survey import FILE, measured, noise_of, pooled, sources
from tests.dp_core.analysis.query.survey import SCHEMA as TOWN
from tests.measured import noisy_table
from tests.schema_texts import read

FALSE_ALARM = 1e-6
EXACT = sources(measured([("sex", "rooms"), ("sex", "age")], scale=1e-7))
ROOMS = {sex: FILE["rooms"][FILE["sex"] == sex] + 1 for sex in (0, 1)}
SCHEMA = read(
    """\
version: 1
title: Firms
columns:
  group: {type: category, levels: [a, b]}
  size: {type: integer, min: 1, max: 12}
  cost: {type: number, min: -10, max: 10, bins: 20}
"""
)
TEXTS = {
    "standard deviation": "standard deviation of size by group",
    "gini": "gini of size by group",
    "top": "top 20 % share of size by group",
}


def gini(values):
    values = np.sort(values)
    size = len(values)
    return 2 * (np.arange(1, size + 1) @ values) / (size * values.sum()) - (size + 1) / size


def top(values, part=0.2):
    values = np.sort(values)[::-1]
    size = part * len(values)
    return (values[: int(size)].sum() + (size - int(size)) * values[int(size)]) / values.sum()


TRUTH = {"standard deviation": np.std, "gini": gini, "top": top}


@pytest.mark.parametrize("measure", TEXTS)
def test_without_noise_the_answer_is_the_file_s_own(measure):
    result = ask(EXACT, TEXTS[measure].replace("size", "rooms").replace("group", "sex"))
    for cell in result.cells:
        assert cell.estimate == pytest.approx(TRUTH[measure](ROOMS[cell.codes[0]]), abs=1e-6)
        assert cell.margin < 1e-4
    assert not result.in_bins


def test_conditions_restrict_the_records():
    (cell,) = ask(EXACT, "sd of rooms where sex = female and rooms >= 3").cells
    own = ROOMS[1][ROOMS[1] >= 3]
    assert cell.estimate == pytest.approx(own.std(), abs=1e-6)


def test_bins_of_several_values_make_an_interval_of_their_own():
    result = ask(EXACT, "sd of age by sex")
    assert result.in_bins
    assert all(0 < c.margin_without_bins < 1e-3 < c.margin for c in result.cells)
    assert any("% shorter" in note for note in result.notes)


@pytest.mark.parametrize("measure", TEXTS)
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_intervals_from_tables_cover_the_file_s_own(measure, kind):
    rng, repeats, covered = np.random.default_rng(6), 300, np.zeros(2)
    shares = np.array([[1, 3, 6, 8, 8, 7, 5, 4, 3, 2, 1, 1], [6, 8, 7, 6, 5, 4, 3, 3, 2, 2, 1, 1]])
    table = 60 * shares
    for _ in range(repeats):
        values = table + noise_of(kind, 8.0, table.shape, rng)
        clique = SCHEMA.domain.project(("group", "size"))
        own = pooled(SCHEMA, [noisy_table(clique, values, noise=kind, scale=8.0)])
        for cell in ask(own, TEXTS[measure]).cells:
            group = cell.codes[0]
            true = TRUTH[measure](np.repeat(np.arange(1, 13), table[group]))
            covered[group] += cell.low <= true <= cell.high
    for each in covered:
        assert stats.binom.cdf(each, repeats, 0.95) > FALSE_ALARM
        # To first order only, so it may be a little wider.
        assert stats.binom.sf(each - 1, repeats, 0.95) > FALSE_ALARM or each / repeats < 0.995


def test_a_group_that_is_hardly_distinguished_from_none_is_not_determined():
    table = np.zeros((2, 12))
    table[0] = 500
    clique = SCHEMA.domain.project(("group", "size"))
    own = pooled(SCHEMA, [noisy_table(clique, table.astype(int), noise="gaussian", scale=20.0)])
    first, second = ask(own, TEXTS["gini"]).cells
    assert first.determined
    assert not second.determined


def test_a_number_that_may_be_negative_has_no_gini_coefficient():
    own = pooled(SCHEMA, [noisy_table(SCHEMA.domain.project(("cost",)), np.full(20, 9), scale=1.0)])
    with pytest.raises(BadInput, match="may be negative"):
        ask(own, "gini of cost")
    assert ask(own, "sd of cost").cells[0].determined


def test_what_every_file_answers_alike_is_refused():
    with pytest.raises(BadInput, match="the same for every file"):
        ask(EXACT, "sd of rooms where rooms = 3")


def test_answers_stay_possible():
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = rng.integers(0, 30, (2, 12)) + noise_of("gaussian", 20.0, (2, 12), rng)
        clique = SCHEMA.domain.project(("group", "size"))
        own = pooled(SCHEMA, [noisy_table(clique, values, noise="gaussian", scale=20.0)])
        bounds = {"standard deviation": (0, 5.5), "gini": (0, 1), "top": (0.2, 1)}
        for measure, (least, most) in bounds.items():
            for cell in ask(own, TEXTS[measure]).cells:
                if cell.determined:
                    assert least <= cell.low <= cell.estimate <= cell.high <= most


def test_sampling_adds_the_error_of_the_file():
    text = "sd of rooms by sex"
    alone, both = (ask(EXACT, text, sampling=each).cells for each in (False, True))
    for sex, (one, other) in enumerate(zip(alone, both, strict=True)):
        own = ROOMS[sex]
        fourth = np.mean((own - own.mean()) ** 4)
        error = ((fourth - own.var() ** 2) / len(own)) ** 0.5 / (2 * own.std())
        assert one.margin < 1e-3
        assert other.margin == pytest.approx(1.96 * error, rel=0.02)


def test_a_change_between_releases_has_both_errors():
    table = np.full((2, 12), 40)
    clique = SCHEMA.domain.project(("group", "size"))
    own = pooled(SCHEMA, [noisy_table(clique, table, noise="gaussian", scale=5.0)])
    _, asked, _ = prepare_question(own, TEXTS["gini"], 0.95, False)
    side = side_of(own, asked, level=0.95, sampling=False)
    found = changes_of(side, side, level=0.95)
    margins = side.answer[2] - side.answer[0]
    assert found.highs == pytest.approx(2**0.5 * margins)
    assert found.values == pytest.approx(np.zeros(2))


@pytest.mark.parametrize(
    "text", ["sd of rooms by health", "gini of age by stage", "median of rooms"]
)
def test_sums_have_the_same_noise_whether_they_are_taken_together_or_not(text, monkeypatch):
    cliques = [("health", "rooms"), ("age",)]
    noisy, found = sources(measured(cliques, scale=9, rng=np.random.default_rng(8))), []
    for name in ("", "_AT_ONCE", "_GROUPS_AT_ONCE"):
        if name:
            monkeypatch.setattr(f"dp_core.analysis.query.distribution_answers.{name}", 1)
        cells = ask(noisy, text).cells
        found.append([(each.estimate or 0, each.low or 0, each.high or 0) for each in cells])
    assert np.any(found)
    assert np.allclose(found, found[0], rtol=1e-9)


def test_the_sets_make_the_interval_shorter():
    """In the file, the last seven sizes are empty; only the table has noise there."""
    table = np.zeros((2, 12), dtype=int)
    table[:, :5] = [900, 700, 400, 200, 90]
    codes = {
        "group": np.repeat([0, 1], table.sum(axis=1)),
        "size": np.concatenate([np.repeat(np.arange(12), row) for row in table]),
    }
    sets = SetCounts(lambda names: [tuple(codes[name] for name in names)] * 5, 0.2)
    values = table + noise_of("gaussian", 15.0, table.shape, np.random.default_rng(8))
    clique = SCHEMA.domain.project(("group", "size"))
    own = pooled(SCHEMA, [noisy_table(clique, values, noise="gaussian", scale=15.0)])
    for measure, text in TEXTS.items():
        both, tables = (ask(each, text).cells for each in (replace(own, set_counts=sets), own))
        for one, other in zip(both, tables, strict=True):
            true = TRUTH[measure](np.repeat(np.arange(1, 13), table[one.codes[0]]))
            assert one.margin < 0.6 * other.margin
            assert abs(one.estimate - true) < 2 * one.margin


def test_units_are_those_of_the_number_or_none():
    release = {
        "standard deviation of age": ("standard deviation", "age"),
        "gini of rooms": ("gini coefficient", "coefficient"),
        "top 10 % share of rooms": ("top share", "share"),
        "sd of born": ("standard deviation", "days"),
    }
    for text, (measure, unit) in release.items():
        question = read_question(text, TOWN)
        assert question.measure == measure
        assert unit_of(question, TOWN, "records") == unit
