"""What the sets tell of sums over bins is weighted by how far tables and sets are off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dp_core as dp
from dp_core.analysis.query.answering import ask, prepare_question
from dp_core.analysis.query.change_answer import side_of
from dp_core.analysis.query.set_counts import BinCounts, Estimates, SetCounts, set_counts_of
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from tests.dp_core.analysis.query.survey import DOMAIN, FILE, exact, sources
from tests.measured import noisy_table

CLIQUE = ("sex", "rooms")
BINS = DOMAIN.project(("rooms",)).sizes[0]
VALUES = np.arange(BINS, dtype=float)


def of_sets(copies=2, share=0.5):
    """Sets that are copies of the file."""
    return SetCounts(
        lambda names: [tuple(FILE[name] for name in names) for _ in range(copies)], share
    )


def counts(records, deviations=0.0, whole=None, share=0.0):
    """Counts of one group by bin."""
    records = np.asarray(records, dtype=float)
    whole = records if whole is None else np.asarray(whole, dtype=float)
    return BinCounts(records, np.broadcast_to(deviations, records.shape), whole, share)


def tables(value, noise, sampled=0.0):
    """A sum in the tables, with its variance by noise and by sampling."""
    return Estimates(*map(np.asarray, (value, noise + sampled, noise, 1.96)))


# -- counts of sets


@pytest.mark.parametrize("clique", [("sex",), CLIQUE, ("sex", "age", "rooms")])
def test_sums_of_the_sets_are_those_of_their_records(clique):
    rng = np.random.default_rng(3)
    weights = tuple(rng.normal(size=(rows + 1, n)) for rows, n in enumerate(exact(clique).shape))
    found = of_sets().sums(Functionals(clique, weights))
    expected = exact(clique).astype(float)
    for axis, each in enumerate(weights):
        expected = np.moveaxis(np.tensordot(each, expected, axes=(1, axis)), 0, axis)
    assert np.allclose(found, expected)


def test_counts_are_scaled_to_the_records_of_the_file():
    sizes = exact(("sex",)).shape
    every = Functionals(("sex",), (np.eye(*sizes * 2),))
    assert np.allclose(of_sets(copies=3, share=0.2).sums(every), 0.6 * exact(("sex",)))


# -- the weights of tables and sets


def test_tables_without_noise_are_all_that_counts():
    found = counts([10, 0, 5], share=0.2).with_tables(np.arange(3.0), tables(7.0, 0.0))
    assert (float(found.values), float(found.variance)) == (7.0, 0.0)


def test_noise_of_cells_without_records_does_not_count_where_sets_are_exact():
    # Both bins of the group have records in other groups; weights of the same size.
    own = counts([900, 0], 10.0, [1e6, 1e6])
    found = own.with_tables(np.array([1.0, -1.0]), tables(920.0, 200.0))
    # The sets have the noise of the first bin, half of the variance. The prior takes t^2 effects.
    relative = 200 / (1 * 900**2)
    error = (relative * 900) ** 2
    rest = 100.0
    assert found.variance == pytest.approx(100 + error * rest / (error + rest))
    assert found.values == pytest.approx(920 + rest / (error + rest) * (900 - 920))
    assert found.passed == pytest.approx(np.sqrt(0.5))


def test_cells_with_few_records_err_in_the_same_direction():
    few = counts([4, 6, 5000], 10.0, [1e6, 1e6, 1e6])
    same, opposite = (
        few.with_tables(np.array([3.0, sign * 2.0, 0.0]), tables(0.0, 1e4)) for sign in (1, -1)
    )
    # 3 x 4 + 2 x 6, and 3 x 4 - 2 x 6.
    assert same.variance == pytest.approx(opposite.variance + 24**2, rel=0.1)


def test_sets_that_tell_nothing_leave_the_tables_alone():
    own, weights = counts([100, 0], 10.0, [1e6, 1e6]), np.array([1.0, -1.0])
    found = own.with_tables(weights, tables(80.0, 200.0), few=np.array(np.inf))
    assert (float(found.values), float(found.variance), float(found.weight)) == (80.0, 200.0, 0.0)


def test_sets_that_contradict_the_tables_hardly_count():
    own = counts([100, 0], 10.0, [1e6, 1e6])
    near, far = (
        own.with_tables(np.array([1.0, -1.0]), tables(100 + errors * 200**0.5, 200.0))
        for errors in (1.9, 20)
    )
    shift = [100 - float(each.values) for each in (near, far)]
    assert abs(shift[1] + 20 * np.sqrt(200)) < 0.01 * 20 * np.sqrt(200)
    assert abs(shift[0]) < 0.1 * np.sqrt(200)
    assert far.variance > 0.95 * 200


def test_the_estimate_is_never_less_certain_than_the_tables_alone():
    rng = np.random.default_rng(5)
    for _ in range(200):
        own = counts(
            rng.exponential(50, 6) * rng.integers(0, 2, 6), 20.0, rng.exponential(500, 6), 0.2
        )
        weights, noise = rng.normal(size=6), rng.exponential(1e4)
        value = (weights * own.records).sum() + rng.normal(0, noise**0.5)
        found = own.with_tables(weights, tables(value, noise))
        assert 0 <= found.variance <= noise * (1 + 1e-9)
        assert 0 <= found.passed <= 1
        assert 0 <= found.weight <= 1


def test_the_error_of_sampling_is_that_of_the_tables():
    own, weights = counts([900, 0], 10.0, [1e6, 1e6]), np.array([1.0, -1.0])
    alone, sampled = (own.with_tables(weights, tables(920.0, 200.0, s)) for s in (0.0, 300.0))
    assert float(sampled.variance) == pytest.approx(alone.variance + 300)
    assert (sampled.values, sampled.noise) == (alone.values, alone.noise)


def test_intervals_cover_where_most_bins_are_empty():
    """30 bins, of which four have records; sets have the tables' noise there, and are drawn."""
    rng, covered, widths = np.random.default_rng(9), 0, []
    file = np.zeros(30)
    file[:4] = [900, 1500, 800, 300]
    weights, scale, repeats, sets = np.arange(30.0), 25.0, 1500, 5
    for _ in range(repeats):
        noise = rng.normal(0, scale, 30)
        inside = np.where(file > 0, file + noise, 0.0)
        drawn = rng.poisson(np.broadcast_to(inside, (sets, 30))).mean(axis=0)
        own = BinCounts(drawn, np.full(30, scale), 20 * drawn, 1 / sets)
        variance = scale**2 * (weights**2).sum()
        found = own.with_tables(weights, tables(weights @ (file + noise), variance))
        half = 1.96 * np.sqrt(found.variance)
        covered += abs(found.values - weights @ file) <= half
        widths.append(float(half) / (1.96 * variance**0.5))
    # A binomial of 1,500 draws with .95 is below .92 with a probability below 1e-6.
    assert covered / repeats > 0.92
    assert np.median(widths) < 0.3


# -- answers


@pytest.fixture(scope="module")
def made():
    """A release in memory of a number with a long empty tail, by group."""
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b", "c"], 6000)
    pay = rng.gamma(3, 400, 6000) * (1 + 0.2 * (group == "a"))
    schema = {
        "version": 1,
        "title": "Pay",
        "unit": "row",
        "rows_about": 6000,
        "columns": {
            "group": {"type": "category", "levels": ["a", "b", "c"]},
            "pay": {"type": "number", "min": 0, "max": 60000, "bins": 60, "decimals": 0},
        },
    }
    file = pd.DataFrame({"group": group, "pay": pay.round()})
    return file, dp.release(file, schema=schema, epsilon=0.5, seed=1)


@pytest.mark.parametrize("measure", ["mean", "total", "median"])
def test_means_totals_and_quantiles_use_the_sets(made, measure):
    file, release = made
    queried = release.queried.sources
    text = f"{measure} of pay by group"
    both, tables = (ask(each, text).cells for each in (queried, replace(queried, set_counts=None)))
    for one, other in zip(both, tables, strict=True):
        if measure != "median":  # which may be at the edge of the same bin
            assert one.estimate != other.estimate
        own = file.pay[file.group == "abc"[one.codes[0]]]
        own = {"mean": own.mean(), "total": own.sum(), "median": own.median()}[measure]
        # Six standard errors, and what bins may do.
        assert abs(one.estimate - own) < 3.1 * (one.high - one.low)
    assert ask(queried, text).of_sets
    assert any("synthetic sets" in note for note in release.query(text).notes)


def test_counts_and_shares_use_the_tables_alone(made):
    queried = made[1].queried.sources
    for text in ("count by group", "share of group"):
        both, tables = (ask(each, text) for each in (queried, replace(queried, set_counts=None)))
        assert both.cells == tables.cells
        assert both.notes == tables.notes


def test_a_difference_uses_the_sets(made):
    queried = made[1].queried.sources
    text = "difference in mean of pay between group = a and group = b"
    (one,), (other,) = (
        ask(each, text).cells for each in (queried, replace(queried, set_counts=None))
    )
    assert one.estimate != other.estimate
    assert one.low < one.estimate < one.high


@pytest.mark.parametrize("measure", ["mean", "sd"])
def test_sets_that_are_mostly_noise_have_no_part_in_an_answer(measure):
    """All records have few rooms; sets that spread them evenly, as a prior would, tell nothing."""
    values = np.array([300, 60, 0, 0, 0, 0]) + np.array([20, -30, 90, -70, 10, 40])
    table = noisy_table(DOMAIN.project(("rooms",)), values, noise="gaussian", scale=60.0)
    codes = np.repeat(np.arange(6), 60)
    even = SetCounts(lambda _: [(codes,)] * 5, 0.2)
    tables = sources([table])
    one, other = (
        ask(each, f"{measure} of rooms") for each in (replace(tables, set_counts=even), tables)
    )
    assert not one.of_sets
    assert one.cells[0].estimate == pytest.approx(other.cells[0].estimate)


@pytest.mark.parametrize("measure", ["mean", "total", "median", "sd", "gini"])
def test_sets_that_cannot_be_counted_have_no_part_in_an_answer(made, measure, monkeypatch):
    queried, text = made[1].queried.sources, f"{measure} of pay by group"
    counted = ask(queried, text)
    monkeypatch.setattr("dp_core.analysis.query.set_counts.MOST_CELLS", 3)
    found, tables = (ask(each, text) for each in (queried, replace(queried, set_counts=None)))
    assert counted.of_sets
    assert not found.of_sets
    assert found.cells == tables.cells
    assert found.notes == tables.notes


def test_only_sets_of_the_tables_posterior_count(made):
    bundle = made[1].queried.bundle
    schema = bundle.claims.schema
    assert set_counts_of(bundle, schema) is not None
    assert set_counts_of(replace(bundle, rule="released"), schema) is None
    assert set_counts_of(replace(bundle, origin="drawn"), schema) is None


def test_a_side_of_a_change_has_the_sets_of_its_own_release(made):
    queried = made[1].queried.sources
    _, asked, _ = prepare_question(queried, "mean of pay by group", 0.95, False)
    for own, used in ((queried, True), (replace(queried, set_counts=None), False)):
        side = side_of(own, asked, level=0.95, sampling=False)
        assert side.of_sets.tolist() == [used] * 3
