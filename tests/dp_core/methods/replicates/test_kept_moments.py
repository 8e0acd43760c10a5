"""Nonnegative tables, and records, that have the moments of noisy tables with thin tails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Table, tables_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.consistency import norm_sub
from dp_core.methods.replicates import record_moments
from dp_core.methods.replicates.kept_moments import (
    Points,
    has_numbers,
    keep_moments,
    moments_of,
    nearest,
    points_of,
)
from dp_core.methods.replicates.record_moments import _drawn, _equations, with_moments
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import counts_of
from tests.measured import noisy_table

DOMAIN = Domain(("sex", "height", "age"), (2, 21, 8))
HEIGHT = np.array([*(1.2 + 0.05 * np.arange(20)), np.nan])
AGE = np.arange(8.0)
POINTS = {"sex": Points(None), "height": Points(HEIGHT), "age": Points(AGE)}
SIGMA = 20.0
ZEROS = StructuralZeros()


def population(rows: int = 12_000) -> Dataset:
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, rows)
    age = np.clip(np.rint(rng.normal(4, 0.8, rows)), 0, 7).astype(int)
    height = 1.6 + 0.13 * sex + 0.02 * (age - 4) + rng.normal(0, 0.07, rows)
    code = np.clip(((height - 1.2) / 0.05).astype(int), 0, 19)
    code[rng.random(rows) < 0.02] = 20
    return Dataset(DOMAIN, np.stack([sex, code, age]).astype(np.uint16))


def noisy(data: Dataset, cliques: list[tuple[str, ...]], seed: int) -> tuple[Measurement, ...]:
    rng = np.random.default_rng(seed)
    found = []
    for clique in cliques:
        table = counts_of(data, clique)
        values = table + np.rint(rng.normal(0, SIGMA, table.shape)).astype(np.int64)
        found.append(noisy_table(data.domain.project(clique), values, scale=SIGMA))
    return tuple(found)


PAIRS = list(itertools.combinations(DOMAIN.columns, 2))


@pytest.fixture(scope="module")
def people() -> Dataset:
    return population()


def difference(table: NDArray[np.generic]) -> float:
    """Mean height of the second sex less that of the first; axes sex, height."""
    known = np.asarray(table, dtype=float)[:, :20]
    means = known @ HEIGHT[:20] / known.sum(axis=1)
    return float(means[1] - means[0])


def test_the_nearest_numbers_of_a_total_are_the_projection_on_a_simplex() -> None:
    values = np.random.default_rng(0).normal(3, 10, 40)

    found = nearest(values, np.ones((1, 40)), np.array([120.0]))

    assert found == pytest.approx(norm_sub(values, total=120.0), abs=1e-4)


def test_the_nearest_numbers_meet_their_equations_and_move_no_further_than_they_must() -> None:
    rng = np.random.default_rng(2)
    values, equations = rng.normal(2, 10, 50), rng.normal(0, 1, (6, 50))
    wanted = equations @ np.maximum(rng.normal(3, 10, 50), 0)

    found = nearest(values, equations, wanted)

    assert found.min() >= 0
    assert equations @ found == pytest.approx(wanted, abs=1e-2)
    # Optimal: what is positive moved along the equations only, what is 0 would go below.
    multipliers, *_ = np.linalg.lstsq(
        equations[:, found > 0].T, (found - values)[found > 0], rcond=None
    )
    push = values + equations.T @ multipliers
    assert push[found > 0] == pytest.approx(found[found > 0], abs=1e-2)
    assert push[found == 0].max() <= 1e-2


def test_equations_that_contradict_each_other_are_met_halfway() -> None:
    found = nearest(np.array([5.0, 5.0]), np.ones((2, 2)), np.array([10.0, 30.0]))

    assert found.sum() == pytest.approx(20.0, abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_difference_of_means_is_that_of_the_noisy_table(people: Dataset, seed: int) -> None:
    measured = noisy(people, [("sex", "height")], seed)

    (kept,) = keep_moments(DOMAIN, measured, POINTS, zeros=ZEROS)

    assert isinstance(kept, Measurement)
    assert kept.values.min() >= 0
    assert (measured[0].values < 0).mean() > 0.1
    cut = norm_sub(measured[0].values.astype(float))
    assert difference(kept.values) == pytest.approx(difference(measured[0].values), abs=5e-4)
    # The test can fail: cutting alone moves it by far more than rounding.
    assert abs(difference(cut) - difference(measured[0].values)) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_column_keeps_its_mean_and_its_variance(people: Dataset, seed: int) -> None:
    measured = noisy(people, [("height",)], seed)

    (kept,) = keep_moments(DOMAIN, measured, POINTS, zeros=ZEROS)

    assert isinstance(kept, Measurement)
    before, after = (np.asarray(each.values, float)[:20] for each in (measured[0], kept))
    means = [each @ HEIGHT[:20] / each.sum() for each in (before, after)]
    squares = [each @ (HEIGHT[:20] - means[0]) ** 2 / each.sum() for each in (before, after)]
    assert means[1] == pytest.approx(means[0], abs=2e-4)
    assert squares[1] == pytest.approx(squares[0], rel=2e-2)


def test_two_numbers_keep_their_covariance(people: Dataset) -> None:
    measured = noisy(people, [("height", "age")], 5)

    (kept,) = keep_moments(DOMAIN, measured, POINTS, zeros=ZEROS)

    assert isinstance(kept, Measurement)
    before, after = (_covariance(each.values) for each in (measured[0], kept))
    assert after == pytest.approx(before, abs=1e-3)


def _covariance(table: NDArray[np.int64]) -> float:
    known = table[:20].astype(float)
    known /= known.sum()
    x, y = known.sum(axis=1), known.sum(axis=0)
    return float(HEIGHT[:20] @ known @ AGE - (x @ HEIGHT[:20]) * (y @ AGE))


def test_tables_agree_and_hold_nothing_where_nothing_can_be(people: Dataset) -> None:
    zeros = StructuralZeros((Rule(("sex", "age"), ((0,), (6, 7)), "sex: 0, age: 6..7"),))

    kept = keep_moments(DOMAIN, noisy(people, PAIRS, 7), POINTS, zeros=zeros)

    tables = {each.clique: each.values for each in kept if isinstance(each, Measurement)}
    assert tables["sex", "age"][0, 6:].tolist() == [0, 0]
    by_age = [tables["sex", "age"].sum(axis=0), tables["height", "age"].sum(axis=0)]
    assert np.abs(by_age[0] - by_age[1]).max() <= 25  # whole records in 21 cells


def test_tables_without_a_number_are_left_as_they_are(people: Dataset) -> None:
    measured = noisy(people, [("sex",)], 3)

    assert not has_numbers(measured, POINTS)
    assert keep_moments(DOMAIN, measured, POINTS, zeros=ZEROS) == measured


def test_records_get_the_tables_moments(people: Dataset) -> None:
    kept = keep_moments(DOMAIN, noisy(people, PAIRS, 11), POINTS, zeros=ZEROS)
    tables = tables_of(kept)
    rng = np.random.default_rng(3)
    # Records of a model that knows no relation at all.
    apart = Dataset(DOMAIN, np.stack([rng.permutation(column) for column in people.codes]))

    found = with_moments(apart, tables, POINTS, rng=rng)

    assert found.rows == apart.rows
    assert difference(counts_of(apart, ("sex", "height"))) == pytest.approx(0, abs=0.01)
    wanted = difference(tables[0].values)
    assert difference(counts_of(found, ("sex", "height"))) == pytest.approx(wanted, abs=4e-3)
    assert _covariance(counts_of(found, ("height", "age"))) == pytest.approx(
        _covariance(tables[2].values), abs=2e-3
    )
    rows_of = {tuple(row) for row in apart.codes.T.tolist()}
    assert {tuple(row) for row in found.codes.T.tolist()} <= rows_of


def test_no_more_equations_are_solved_than_there_may_be(
    people: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tables_of(keep_moments(DOMAIN, noisy(people, PAIRS, 11), POINTS, zeros=ZEROS))
    equations = _equations(tables, POINTS)
    whole = sum(len(each.sums) for each in equations)

    # Of the sex two counts; of numbers all, the missing ones (no age is), mean and square.
    of_columns = [(each.clique, len(each.sums)) for each in equations[:3]]
    assert of_columns == [(("sex",), 2), (("age",), 3), (("height",), 4)]
    # Half of 14 is enough for the two small columns, and the rest for something of the pairs.
    monkeypatch.setattr(record_moments, "MOST_EQUATIONS", 14)
    fewer = _equations(tables, POINTS)
    assert [each.clique for each in fewer][:2] == [("sex",), ("age",)]
    assert ("height",) not in [each.clique for each in fewer]
    assert 5 < sum(len(each.sums) for each in fewer) <= 14 < whole


def test_a_column_of_very_many_levels_is_left_to_the_model() -> None:
    domain = Domain(("place", "sex"), (60_000, 2))
    points = {"place": Points(None), "sex": Points(None)}
    table = noisy_table(domain, np.ones(domain.sizes, dtype=np.int64), scale=2.0)

    assert [each.clique for each in _equations([table], points)] == [("sex",)]


@pytest.mark.parametrize(("people_of_level", "rows"), [(20, 0), (60, 1)])
def test_a_level_within_the_noise_has_no_mean_to_keep(people_of_level: int, rows: int) -> None:
    # Two standard errors of the level's number of records: 2 * sqrt(8 * 20) = 25.
    table = np.zeros((2, 20))
    table[0] = 100.0
    table[1] = people_of_level / 20
    points = {"sex": Points(None), "height": Points(HEIGHT[:20])}
    columns = {"sex": table.sum(axis=1), "height": table.sum(axis=0)}
    domain = Domain(("sex", "height"), (2, 20))

    found = moments_of(Table(domain, table), columns, points, variance=8.0)

    assert len(found) == 1 + rows


def test_a_number_s_points_are_the_middles_of_its_bins() -> None:
    schema = parse_schema(
        {
            "version": "1",
            "title": "t",
            "columns": [
                {"visits": {"type": "integer", "min": "0", "max": "9", "edges": ["0", "1", "10"]}},
                {"income": {"type": "number", "min": "0", "max": "10", "bins": "2"}},
                {"sex": {"type": "category", "levels": ["m", "f"], "missing": "level"}},
            ],
        }
    )

    points = points_of(schema)

    assert points["visits"].numbers == pytest.approx([0.0, 5.0])
    assert points["income"].numbers == pytest.approx([2.5, 7.5])
    assert points["sex"].numbers is None


def test_a_record_is_drawn_as_often_as_its_weight_says_on_average() -> None:
    four = Dataset(Domain(("a",), (4,)), np.arange(4, dtype=np.uint16)[None])
    weights = np.array([0.25, 1.75, 0.5, 1.5])

    counts = [
        np.bincount(_drawn(four, weights, rng=np.random.default_rng(seed))[0], minlength=4)
        for seed in range(400)
    ]

    assert np.mean(counts, axis=0) == pytest.approx(weights, abs=0.1)
    assert (np.abs(counts - weights) < 1).all()
