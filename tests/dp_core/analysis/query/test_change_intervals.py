"""Intervals of changes between two releases cover the change at their level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dp_core.analysis.query.answering import ask, prepare_question
from dp_core.analysis.query.change_answer import changes_of, side_of
from tests.dp_core.analysis.query.survey import noisy_tables, pooled
from tests.measured import noisy_table
from tests.schema_texts import read

FALSE_ALARM = 1e-6
"""Probability that a test of coverage fails although the coverage is the level."""
LEVEL = 0.9
SCHEMA = read(
    """\
version: 1
title: Wages
columns:
  group: {type: category, levels: [a, b]}
  work: {type: category, levels: [yes, no]}
  hours: {type: integer, min: 0, max: 5}
  wage: {type: integer, min: 0, max: 99, edges: [0, 10, 30, 60, 100]}
"""
)
CLIQUES = (("group", "work"), ("group", "hours"), ("group", "wage"))
LOW, HIGH = np.array([0, 10, 30, 60]), np.array([9, 29, 59, 99])


def file_of(seed, size, tilt):
    """Codes and wages of a file, shape (records,) each."""
    rng = np.random.default_rng(seed)
    codes = {
        "group": rng.binomial(1, 0.4, size),
        "work": rng.binomial(1, 0.5 + tilt, size),
        "hours": rng.binomial(5, 0.4 + tilt, size),
        "wage": rng.binomial(3, 0.35 + tilt, size),
    }
    codes["exact"] = rng.integers(LOW[codes["wage"]], HIGH[codes["wage"]], endpoint=True)
    return codes


EARLIER, LATER = file_of(1, 700, 0.0), file_of(2, 900, 0.08)


def sources(file, noise, scale, rng):
    tables = noisy_tables(SCHEMA.domain, file, CLIQUES, noise=noise, scale=scale, rng=rng)
    return pooled(SCHEMA, tables)


def change(text, later, earlier, *, sampling=False, level=LEVEL):
    sides = []
    for each in (later, earlier):
        _, asked, _ = prepare_question(each, text, level, sampling)
        sides.append(side_of(each, asked, level=level, sampling=sampling))
    return changes_of(*sides, level=level)


def truth(text, file):
    a = file["group"] == 0
    part = {
        "count where group = a": a.sum(),
        "share of work = yes where group = a": (file["work"][a] == 0).mean(),
        "mean of hours where group = a": file["hours"][a].mean(),
        "total of hours": file["hours"].sum(),
        "ratio of work = yes to work = no": (file["work"] == 0).sum() / (file["work"] == 1).sum(),
        "difference in share of work = yes between group = a and group = b": (
            (file["work"][a] == 0).mean() - (file["work"][~a] == 0).mean()
        ),
        "mean of wage where group = a": file["exact"][a].mean(),
        "total of wage": file["exact"].sum(),
        "median of wage": np.quantile(file["exact"], 0.5, method="inverted_cdf"),
        "median of hours where group = a": np.quantile(
            file["hours"][a], 0.5, method="inverted_cdf"
        ),
    }
    return float(part[text])


EXACT_LEVEL = (
    "count where group = a",
    "share of work = yes where group = a",
    "mean of hours where group = a",
    "total of hours",
    "ratio of work = yes to work = no",
    "difference in share of work = yes between group = a and group = b",
)
AT_LEAST = (
    "mean of wage where group = a",
    "total of wage",
    "median of wage",
    "median of hours where group = a",
)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_intervals_cover_the_change_between_the_files(noise):
    rng, repeats = np.random.default_rng(5), 250
    missed = dict.fromkeys((*EXACT_LEVEL, *AT_LEAST), 0)
    for _ in range(repeats):
        later, earlier = (sources(each, noise, 6.0, rng) for each in (LATER, EARLIER))
        for text in missed:
            found = change(text, later, earlier)
            actual = truth(text, LATER) - truth(text, EARLIER)
            missed[text] += not found.lows[0] - 1e-9 <= actual <= found.highs[0] + 1e-9
    for text, each in missed.items():
        assert stats.binom.sf(each - 1, repeats, 1 - LEVEL) > FALSE_ALARM, text
        if text in EXACT_LEVEL:  # they are not wider than needed, either
            assert stats.binom.cdf(each, repeats, 1 - LEVEL) > FALSE_ALARM, text


def test_with_sampling_the_interval_covers_the_change_in_the_population():
    rng, repeats = np.random.default_rng(8), 300
    missed = dict.fromkeys(("files", "population"), 0)
    # Shares of work = yes in the two populations.
    actual = (1 - 0.58) - (1 - 0.5)
    for repeat in range(repeats):
        later, earlier = (
            sources(file_of(100 + 2 * repeat + place, 600, tilt), "gaussian", 4.0, rng)
            for place, tilt in ((0, 0.08), (1, 0.0))
        )
        for name, sampling in (("population", True), ("files", False)):
            found = change("share of work = yes", later, earlier, sampling=sampling)
            missed[name] += not found.lows[0] <= actual <= found.highs[0]
    assert stats.binom.sf(missed["population"] - 1, repeats, 1 - LEVEL) > FALSE_ALARM
    assert stats.binom.cdf(missed["population"], repeats, 1 - LEVEL) > FALSE_ALARM
    assert stats.binom.sf(missed["files"] - 1, repeats, 1 - LEVEL) < FALSE_ALARM


def test_without_noise_bins_alone_make_the_interval_and_most_of_their_error_cancels():
    rng = np.random.default_rng(1)
    later, earlier = (sources(each, "gaussian", 1e-7, rng) for each in (LATER, EARLIER))
    for text in ("mean of wage", "total of wage"):
        found = change(text, later, earlier)
        width = found.highs[0] - found.lows[0]
        sides = [ask(each, text, level=LEVEL).cells[0] for each in (later, earlier)]
        own = [each.high - each.low for each in sides]
        assert abs(own[0] - own[1]) < width < 0.8 * np.hypot(*own)
        assert found.noise_highs[0] - found.noise_lows[0] < 1e-3
    # A value of a bin of its own has none.
    exact = change("mean of hours", later, earlier)
    assert exact.highs[0] - exact.lows[0] < 1e-6


def test_noise_of_two_laplace_tables_has_less_tail_than_that_of_one():
    rng = np.random.default_rng(1)
    later, earlier = (sources(each, "laplace", 6.0, rng) for each in (LATER, EARLIER))
    found = change("count where group = a", later, earlier, level=0.999)
    margin = found.highs[0] - found.values[0]
    apart = [change("count where group = a", each, each, level=0.999) for each in (later, earlier)]
    # Of the difference of two independent equal releases.
    assert [each.highs[0] - each.values[0] for each in apart] == pytest.approx([margin] * 2)


def test_the_interval_for_noise_alone_is_inside_the_whole_interval():
    rng = np.random.default_rng(4)
    later, earlier = (sources(each, "laplace", 6.0, rng) for each in (LATER, EARLIER))
    for text in (*EXACT_LEVEL, *AT_LEAST):
        for sampling in (False, True):
            found = change(text, later, earlier, sampling=sampling)
            assert found.lows[0] <= found.noise_lows[0] + 1e-9, text
            assert found.noise_highs[0] <= found.highs[0] + 1e-9, text
            assert found.noise_lows[0] <= found.values[0] <= found.noise_highs[0], text


def test_a_change_is_not_exact_where_bounds_cut_both_answers():
    """All records are in one wide bin: both intervals end at its ends, and errors are common."""
    schema = read(
        """\
version: 1
title: Wide
columns:
  wage: {type: integer, min: 0, max: 99999, edges: [0, 99000, 100000]}
"""
    )
    tables = [noisy_table(schema.domain, np.array([5000, 1]), scale=1e-7) for _ in range(2)]
    later, earlier = (pooled(schema, [table]) for table in tables)
    found = change("mean of wage", later, earlier)
    (cell,) = ask(later, "mean of wage", level=LEVEL).cells
    assert found.highs[0] - found.lows[0] > 0.3 * (cell.high - cell.low)
