"""Medians and other quantiles are answered from the noisy tables, with valid intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dp_core.analysis.query.answering import ask
from dp_core.errors import BadInput
from tests.dp_core.analysis.query.survey import (
    DOMAIN,
    FILE,
    PAIRS,
    SCHEMA,
    measured,
    noise_of,
    noisy_tables,
    pooled,
    sources,
)
from tests.measured import noisy_table
from tests.schema_texts import read

FALSE_ALARM = 1e-6
"""Probability that a test of coverage fails although the coverage is the level."""

EXACT = sources(measured(PAIRS, scale=1e-7))


def code_at(name, q, mask=slice(None)):
    """Smallest code of a column whose share of the records up to it is at least q."""
    codes = np.sort(FILE[name][mask])
    codes = codes[codes < SCHEMA.column(name).bins]
    return codes[math.ceil(q * len(codes)) - 1]


@pytest.mark.parametrize(("text", "q"), [("median", 0.5), ("quantile 0.9", 0.9)])
def test_without_noise_the_interval_is_in_the_bin_of_the_quantile(text, q):
    column = SCHEMA.column("age")
    result = ask(EXACT, f"{text} of age by sex")
    assert result.in_bins
    for (sex,), cell in ((each.codes, each) for each in result.cells):
        code = code_at("age", q, FILE["sex"] == sex)
        assert column.edges[code] <= cell.low <= cell.estimate <= cell.high
        assert cell.high <= column.edges[code + 1] - 1
        assert cell.margin_without_bins <= 0.5


def test_a_quantile_among_records_that_neighbours_do_not_explain_may_be_anywhere_in_its_bin():
    spike = heaped(np.array([[20, 30, 900, 60, 20], [300, 310, 305, 600, 1500]]), 1e-7)
    one, other = ask(spike, "median of rent by group").cells
    assert (one.low, one.high) == (200, 299)
    assert 350 < other.low < other.high < 500  # a smooth density tells more than the bin


def test_a_bin_of_one_value_gives_the_value_itself():
    result = ask(EXACT, "median of rooms")
    assert not result.in_bins
    (cell,) = result.cells
    assert (cell.estimate, cell.low, cell.high) == (*[code_at("rooms", 0.5) + 1] * 3,)


def test_an_ordinal_has_a_median_level_and_missing_values_are_left_out():
    (cell,) = ask(EXACT, "median of health").cells
    assert (cell.estimate, cell.low, cell.high) == (*[code_at("health", 0.5)] * 3,)
    # Of `stage`, which is computed from age and may be missing.
    stage = np.searchsorted([15, 65], [0, 15, 30, 65], side="right")
    known = FILE["age"][FILE["age"] < 4]
    wanted = np.sort(stage[known])[math.ceil(len(known) / 2) - 1]
    result = ask(EXACT, "median of stage")
    assert result.cells[0].estimate == wanted
    assert any("missing stage are left out" in note for note in result.notes)


def test_a_date_and_a_number_have_quantiles():
    (cell,) = ask(EXACT, "median of born").cells
    born = SCHEMA.column("born")
    code = code_at("born", 0.5)
    assert (cell.low, cell.high) == (born.edges[code], born.edges[code + 1] - 1)
    (cell,) = ask(EXACT, "lower quartile of height").cells
    height = SCHEMA.column("height")
    code = code_at("height", 0.25)
    assert (cell.low, cell.high) == (float(height.edges[code]), float(height.edges[code + 1]))


def test_conditions_on_the_column_itself_restrict_the_bins():
    (cell,) = ask(EXACT, "median of age where age >= 30").cells
    codes = np.sort(FILE["age"][(FILE["age"] >= 2) & (FILE["age"] < 4)])
    code = codes[math.ceil(len(codes) / 2) - 1]
    edges = SCHEMA.column("age").edges
    assert (cell.low, cell.high) == (edges[code], edges[code + 1] - 1)
    cells = ask(EXACT, "median of age by stage where age is not missing").cells
    assert [(cell.low, cell.high) for cell in cells] == [(0, 14), (30, 64), (65, 99)]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("q", [0.5, 0.8])
def test_an_interval_covers_the_file_s_quantile_at_its_level(noise, q):
    rng = np.random.default_rng(19)
    small = {name: codes[:60] for name, codes in FILE.items()}
    repeats, level = 250, 0.9
    missed, narrow = np.zeros(2), np.zeros(2)
    exact_tables = [("sex", "rooms"), ("rooms", "health")]
    for _ in range(repeats):
        released = noisy_tables(DOMAIN, small, exact_tables, noise=noise, scale=3.0, rng=rng)
        cells = ask(sources(released), f"quantile {q} of rooms by sex", level=level).cells
        for sex, cell in enumerate(cells):
            own = np.sort(small["rooms"][small["sex"] == sex]) + 1
            # Every value with F(x-) <= q <= F(x) is a quantile; the lowest and the highest.
            low, high = own[math.ceil(q * len(own)) - 1], own[math.floor(q * len(own))]
            missed[sex] += cell.determined and not cell.low <= low <= cell.high
            narrow[sex] += cell.determined and not cell.low <= high <= cell.high
    for each in (*missed, *narrow):
        assert stats.binom.sf(each - 1, repeats, 1 - level) > FALSE_ALARM


HEAPED = read(
    """\
version: 1
title: Rents
columns:
  group: {type: category, levels: [a, b]}
  rent: {type: integer, min: 0, max: 999, edges: [0, 100, 200, 300, 500, 1000]}
"""
)


def heaped(counts, scale, rng=None):
    values = counts + noise_of("gaussian", scale, np.shape(counts), rng)
    return pooled(HEAPED, [noisy_table(HEAPED.domain, values, scale=scale)])


def test_an_empty_group_is_not_determined_at_this_noise():
    noisy = np.array([[300, 250, 200, 100, 50], [3, -4, 2, 0, -1]])
    result = ask(heaped(noisy, 4), "median of rent by group")
    assert [cell.determined for cell in result.cells] == [True, False]
    assert any("not determined at this noise" in note for note in result.notes)


def test_with_sampling_the_interval_covers_the_quantile_of_the_population():
    rng, repeats, missed = np.random.default_rng(31), 300, 0
    chances = np.array([0.2, 0.28, 0.22, 0.2, 0.1])  # below 200: .48, below 300: .7
    narrow = 0
    for _ in range(repeats):
        counts = np.stack([rng.multinomial(300, chances), np.zeros(5, dtype=np.int64)])
        found = heaped(counts, 2, rng)
        # Its .48 quantile is any value from 199 to 200; the ends of both bins count.
        text = "quantile 0.48 of rent where group = a"
        whole = [ask(found, text, sampling=each, level=0.9).cells[0] for each in (True, False)]
        missed += not whole[0].low <= 199 < 200 <= whole[0].high
        narrow += not whole[1].low <= 199 < 200 <= whole[1].high
    assert stats.binom.sf(missed - 1, repeats, 0.1) > FALSE_ALARM
    assert stats.binom.sf(narrow - 1, repeats, 0.1) < FALSE_ALARM


def test_too_many_edges_are_refused(monkeypatch):
    monkeypatch.setattr("dp_core.analysis.query.distribution_answers.MOST_EDGES", 10)
    with pytest.raises(BadInput, match="2 groups with 7 edges each, more than 10"):
        ask(EXACT, "median of rooms by sex")


def test_notes_say_what_limits_the_interval():
    notes = " ".join(ask(EXACT, "median of age").notes)
    assert "where in its bin a value of age is" in notes
    assert "rounded to more than a tenth of the width of a bin" in notes
    low = ask(EXACT, "quantile 0.01 of age").notes
    assert any("0, the first possible value, is not bounded" in note for note in low)
