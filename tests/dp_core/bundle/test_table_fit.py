from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.bundle.quality.table_fit import (
    cell_error,
    cell_width,
    check_fit,
    comparable,
    needed_counts,
    totals_distances,
)
from dp_core.client.interactions import implied_table, steps_of_a_record
from dp_core.client.released import Measurement, Totals
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.metrics.marginal_error import Tally
from dp_core.plan.quality_checks import Threshold, public_figures, verdicts
from dp_core.schema.structure.public_totals import PublicTotals
from tests.measured import noisy_table, tally_sets

DOMAIN = Domain(("a", "b", "c"), (10, 8, 3))


def dataset(rows: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    codes = [rng.binomial(size - 1, 0.4, rows) for size in DOMAIN.sizes]
    return Dataset(DOMAIN, np.stack(codes).astype(np.uint16))


def measure(data: Dataset, clique: Clique, scale: float, replicate: int = 0) -> Measurement:
    exact = Tally(DOMAIN, [clique]).add(data).count(clique)
    noise = np.random.default_rng(replicate + 77).normal(0, scale, exact.shape)
    return noisy_table(
        DOMAIN.project(clique),
        exact + np.rint(noise).astype(np.int64),
        scale=scale,
        replicate=replicate,
    )


def fits(measurements, sets, records):
    tallies = tally_sets(DOMAIN, measurements, sets)
    return check_fit(comparable(measurements, DOMAIN), tallies, records=records)


def test_a_set_drawn_from_the_truth_is_as_far_as_noise_and_drawing_explain():
    truth = dataset(200_000, 1)
    tables = [measure(truth, clique, 300.0) for clique in [("a", "b"), ("a", "c")]]
    sets = [[dataset(20_000, seed)] for seed in range(2, 8)]
    for fit in fits(tables, sets, 200_000):
        assert fit.ratio == pytest.approx(1, abs=0.15)
        assert fit.outside_share < 0.12


def test_a_model_that_is_wrong_shows():
    truth = dataset(20_000, 1)
    wrong = Dataset(DOMAIN, np.zeros_like(truth.codes))
    (fit,) = fits([measure(truth, ("a", "b"), 20.0)], [[wrong]], 20_000)

    assert fit.ratio > 5
    assert fit.outside_share > 0.3


def test_no_distance_is_above_one_however_large_the_noise():
    truth = dataset(20, 1)
    (fit,) = fits([measure(truth, ("a", "b"), 300.0)], [[dataset(20, 2)]], 20)
    assert fit.set_tvd == fit.expected_tvd == (1.0,)


def test_what_scaling_to_whole_records_rounds_is_no_misfit():
    domain = Domain(("a",), (2,))
    for records, outside in ((4.45, 0), (3.55, 0), (4.55, 1), (3.45, 1)):
        table = noisy_table(domain, np.array([4, 0]), scale=1e-3)
        tally = Tally(domain, [("a",)]).add(Dataset(domain, np.zeros((1, 10), dtype=np.uint16)))
        (fit,) = check_fit([table], [tally], records=records)
        assert fit.half_width == 0
        assert fit.outside == (outside,)


def test_noise_alone_has_the_expected_distance():
    truth = dataset(5_000, 1)
    (fit,) = fits([measure(truth, ("a", "b"), 40.0)], [[truth]], 5_000)

    expected = 80 * 40 * math.sqrt(2 / math.pi) / 10_000
    assert fit.set_tvd == pytest.approx((expected,), rel=0.3)
    assert fit.half_width == 78


def test_each_replicate_is_compared_with_its_own_set():
    one, two = dataset(5_000, 1), dataset(3_000, 2)
    tables = [measure(one, ("a",), 1e-9 + 1, 1), measure(two, ("a",), 1e-9 + 1, 2)]
    first, second = fits(tables, [[one], [two]], 5_000)

    assert len(first.set_tvd) == len(second.set_tvd) == 1
    assert first.set_tvd[0] < 0.01
    shared = fits([measure(one, ("a",), 1.0)], [[one], [two]], 5_000)
    assert len(shared[0].set_tvd) == 2


def test_sets_of_another_size_are_judged_by_their_shape():
    truth = dataset(5_000, 1)
    double = Dataset(DOMAIN, np.concatenate([truth.codes, truth.codes], axis=1))
    tables = [measure(truth, ("a", "b"), 30.0)]
    (small,), (large,) = fits(tables, [[truth]], 5_000), fits(tables, [[double]], 5_000)

    assert large.set_tvd == pytest.approx(small.set_tvd)


def test_the_number_of_rows_is_not_a_table():
    truth = dataset(100, 1)

    assert fits([measure(truth, (), 5.0)], [[truth]], 100) == ()


def test_an_empty_set_and_no_records_do_not_crash():
    truth = dataset(100, 1)
    (fit,) = fits([measure(truth, ("a",), 5.0)], [[dataset(0, 1)]], 0.0)

    assert math.isfinite(fit.set_tvd[0])


def test_what_a_report_needs_is_every_column_and_every_table():
    table = measure(dataset(10, 1), ("a", "b"), 5.0)

    assert needed_counts(DOMAIN, [table, table]) == (("a",), ("b",), ("c",), ("a", "b"))


# -- interactions


def beyond(data: Dataset, clique: Clique, cell: float, noise="gaussian", replicate: int = 0):
    """An interaction with noise like that of a table of which each cell has about `cell`."""
    of = Interaction(clique, DOMAIN.project(clique).sizes)
    scale = cell * steps_of_a_record(of)
    draw = getattr(np.random.default_rng(len(clique) + replicate), NUMPY[noise])
    values = of.of_table(Tally(DOMAIN, [clique]).add(data).count(clique))
    values = values + np.rint(draw(0, scale, of.length)).astype(np.int64)
    return Totals(
        of, values, noise=noise, scale=scale, stage="measure", replicate=replicate, grant=1
    )


NUMPY = {"gaussian": "normal", "laplace": "laplace"}
CLIQUES = [("a",), ("c", "b"), ("a", "c"), ("a", "b", "c")]


def test_of_the_measured_file_itself_interactions_differ_by_nothing():
    truth = dataset(500, 1)
    twice = Dataset(DOMAIN, np.concatenate([truth.codes, truth.codes], axis=1))
    for fit in fits([beyond(truth, each, 1e-30) for each in CLIQUES], [[truth], [twice]], 500):
        assert fit.beyond
        assert fit.set_tvd == pytest.approx((0.0, 0.0), abs=1e-12)
        assert fit.outside == (0, 0)


def test_an_interaction_is_compared_as_the_table_it_makes_with_the_sets_margins():
    truth, other = dataset(900, 1), dataset(600, 2)
    item = beyond(truth, ("a", "b"), 5.0)
    (fit,) = fits([item], [[other]], 900)

    own = 1.5 * Tally(DOMAIN, [("a", "b")]).add(other).count(("a", "b"))
    rows, columns = own.mean(axis=1, keepdims=True), own.mean(axis=0, keepdims=True)
    made = rows + columns - own.mean() + implied_table(item.of, item.values)
    np.testing.assert_allclose(made.sum(axis=0), own.sum(axis=0))
    np.testing.assert_allclose(made.sum(axis=1), own.sum(axis=1))
    assert fit.set_tvd[0] == pytest.approx(np.abs(made - own).sum() / 1800)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("cell", [300.0, 3.0])
def test_sets_drawn_from_the_truth_are_as_far_from_interactions_as_explained(noise, cell):
    truth = dataset(200_000, 1)
    measured = [beyond(truth, each, cell, noise) for each in CLIQUES[1:]]
    sets = [[dataset(20_000, seed)] for seed in range(2, 8)]
    found = fits(measured, sets, 200_000)
    for fit in found:
        assert fit.ratio == pytest.approx(1, abs=0.2)
        assert fit.outside_share < 0.12


def test_the_drawing_of_rows_moves_an_interaction_by_its_own_variance():
    """P (diag(c) - c c'/r) P, by matrices."""
    data = dataset(300, 3)
    (fit,) = fits([beyond(data, ("c", "b"), 1e-9)], [[data]], 300)
    counts = Tally(DOMAIN, [("c", "b")]).add(data).count(("c", "b")).ravel()
    project = np.kron(*(np.eye(size) - 1 / size for size in (3, 8)))
    covariance = project @ (np.diag(counts) - np.outer(counts, counts) / 300) @ project
    explained = np.sqrt(2 / np.pi * np.diag(covariance)).sum() / 600
    assert fit.expected_tvd[0] == pytest.approx(explained, rel=1e-6)


@pytest.mark.parametrize("sizes", [(2,), (2, 2), (3, 2), (9, 7), (4, 3, 2)])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_noise_of_a_cell_is_as_large_as_stated(noise, sizes):
    of = Interaction(tuple("abc"[: len(sizes)]), sizes)
    draw = getattr(np.random.default_rng(1), NUMPY[noise])
    cells = np.abs([implied_table(of, draw(0, 7.0, of.length)) for _ in range(4000)])
    # Of the mean of 4000 tables the deviation is .013 at most; the approximation is .013 off.
    assert cells.mean() == pytest.approx(cell_error(of, noise, 7.0), rel=0.05)
    assert (cells <= cell_width(of, noise, 7.0)).mean() > 0.93


def test_sets_that_ignore_interactions_fit_badly_and_are_stopped():
    rng = np.random.default_rng(5)
    score = rng.normal(size=4000)
    codes = [
        np.clip(np.floor((score + rng.normal(0, 0.6, 4000)) / 4 * size + size / 2), 0, size - 1)
        for size in DOMAIN.sizes
    ]
    truth = Dataset(DOMAIN, np.stack(codes).astype(np.uint16))
    ignored = Dataset(DOMAIN, np.stack([rng.permutation(code) for code in truth.codes]))
    ones = [measure(truth, (name,), 5.0) for name in DOMAIN.columns]
    measured = [*ones, *(beyond(truth, each, 5.0) for each in CLIQUES[1:])]

    def verdict(found):
        figures = public_figures(
            [value for fit in found for value in fit.set_tvd],
            [value for fit in found for value in fit.expected_tvd],
            len(found),
        )
        checks = {"public": [figure.to_json() for figure in figures], "charged": []}
        return verdicts([Threshold("fit", None, Fraction("0.05"))], checks)[1]

    assert verdict(fits(measured, [[truth]], 4000)) == "publish"
    assert verdict(fits(measured, [[ignored]], 4000)) == "fail"
    # By the tables of single columns alone nobody could tell.
    assert verdict(fits(ones, [[ignored]], 4000)) == "publish"


def test_a_report_needs_the_tables_of_interactions_and_what_is_of_other_codes_is_not_compared():
    item = beyond(dataset(10, 1), ("c", "b"), 5.0)
    assert needed_counts(DOMAIN, [item])[3:] == (("c", "b"),)
    other = Domain(("a", "b", "c"), (10, 9, 3))
    assert comparable([item, measure(dataset(10, 1), ("b",), 5.0)], other) == ()


TWO_COLUMNS = Domain(("a", "b"), (4, 2))


def pooled(counts, scale=2.0):
    table = noisy_table(TWO_COLUMNS.project(("a",)), np.array(counts), scale=scale, stage="one_way")
    return pool(TWO_COLUMNS, [table])


@pytest.mark.parametrize(
    ("totals", "tvd", "far"),
    [
        ((4000, 3000, 2000, 1000), 0, False),
        ((400, 300, 200, 100), 0, False),
        ((3900, 3100, 2000, 1000), 0.01, False),
        ((1000, 3000, 2000, 4000), 0.3, True),
    ],
)
def test_a_distance_is_one_of_proportions(totals, tvd, far):
    known = [PublicTotals("a", totals, "Census")]
    (found,) = totals_distances(known, pooled([4000, 3000, 2000, 1000]))
    assert found.tvd == pytest.approx(tvd)
    assert found.is_far == far


def test_noise_explains_a_distance_of_its_size():
    rng = np.random.default_rng(0)
    counts, known = np.array([400, 300, 200, 100]), [PublicTotals("a", (400, 300, 200, 100), "C")]
    found = [
        totals_distances(known, pooled(counts + rng.normal(0, 40, 4).round(), 40.0))[0]
        for _ in range(200)
    ]
    mean = np.mean([each.tvd for each in found])
    assert mean == pytest.approx(np.mean([each.expected for each in found]), rel=0.25)
    assert np.mean([each.is_far for each in found]) < 0.02


def test_a_column_that_was_not_measured_has_no_distance():
    assert totals_distances([PublicTotals("b", (1, 2), "C")], pooled([1, 2, 3, 4])) == []
    assert totals_distances([PublicTotals("a", (1, 2, 3, 4), "C")], None) == []
