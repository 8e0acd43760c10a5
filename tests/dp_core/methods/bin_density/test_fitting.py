"""The density within public bins: exact where the truth is known, uniform where noise may be."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.bin_density import neighbours
from dp_core.methods.bin_density.fitting import (
    agree,
    fit_pieces,
    outer_bins,
    statement,
    with_densities,
    with_statement,
)
from dp_core.methods.bin_density.neighbours import falls
from dp_core.methods.code_values import numbers_of
from dp_core.schema.bin_pieces import WHOLE
from dp_core.schema.bin_values import BinValues
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Choice, Column, Level, Schema
from dp_core.schema.rules.possible_codes import decode
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_table

INCOME = (0, 10_000, 20_000, 50_000, 150_000, 2_000_000)


def column(*edges, kind="integer", **others):
    return Column(name="x", kind=kind, edges=tuple(map(Fraction, edges)), **others)


def schema_of(*columns):
    return Schema(title="t", columns=columns, zeros=StructuralZeros(), document={})


def measured(one, counts, scale=1.0):
    domain = Domain((one.name,), (one.size,))
    return noisy_table(domain, np.asarray(counts), scale=scale)


def bent(one, counts, variance=1.0):
    return dataclasses.replace(one, pieces=fit_pieces(one, np.asarray(counts, float), variance))


def exponential(edges, rate, rows=100_000):
    """Return the exact counts of an exponential density in bins."""
    ends = np.exp(-rate * np.asarray(edges, float))
    return rows * -np.diff(ends) / (ends[0] - ends[-1])


@pytest.mark.parametrize("fall", [0.0, 1e-7, 0.3, 4.0, 1e5])
def test_the_family_has_its_density_and_distribution_function(fall):
    places = np.linspace(0, 1, 4_001) ** 4  # fine near the high end
    upto = np.array([neighbours.below(fall, float(place)) for place in places])
    assert (upto[0], upto[-1]) == (0.0, 1.0)
    density = (1 + fall * places / 4) ** -5
    exact = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(places))])
    assert upto == pytest.approx(exact / exact[-1], abs=1e-4)
    assert neighbours.height(fall) == pytest.approx(1 / exact[-1], rel=1e-4)
    mean = float(np.sum(np.diff(upto) * (places[1:] + places[:-1]) / 2))
    assert neighbours.mean_place(fall) == pytest.approx(mean, abs=1e-4)
    assert neighbours.mean_place(-fall) == pytest.approx(1 - mean, abs=1e-4)


@given(st.floats(1.001, 1e8))
def test_the_fall_of_a_height_has_this_height(wanted):
    assert neighbours.height(neighbours.fall_of_height(wanted)) == pytest.approx(wanted, rel=1e-6)


def test_the_fall_of_a_ratio_has_this_ratio():
    fall = neighbours.fall_of_ratio(1.5)
    assert (1 + fall / 4) ** -5 == pytest.approx(math.exp(-1.5))
    assert neighbours.fall_of_height(1.0) == neighbours.fall_of_height(0.2) == 0.0


def test_neighbours_leave_a_bin_in_doubt_where_the_density_is_not_exponential():
    edges = [0, 1, 2, 3, 4, 5]
    even = neighbours.steps(edges, exponential(edges, 0.7), 0.0)
    assert np.array(even) == pytest.approx(neighbours.fall_of_ratio(0.7), rel=1e-3)
    # A bin higher than both sides may fall or rise as much; an end has only one side.
    (first, _, _), (_, peak, _) = (
        neighbours.steps([0, 1, 2, 3], counts, 0.0) for counts in ([1e6, 1e4, 1e3], [1e3, 1e6, 1e3])
    )
    assert peak[0] == -peak[1] < 0
    assert first[0] > first[1] > falls([0, 1, 2, 3], [1e6, 1e4, 1e3], 0.0)[0] > 0


def test_equal_densities_are_uniform():
    assert falls([0, 1, 3, 10, 100], [1e4, 2e4, 7e4, 90e4], 0.0) == [0.0] * 4
    assert fit_pieces(column(0, 10, 30, 100), np.array([1e5, 2e5, 7e5]), 100.0) is None


def test_a_mirrored_column_has_mirrored_falls():
    edges, counts = [0, 1, 3, 10, 100], [5000, 7000, 6000, 900]
    there = falls(edges, counts, 25.0)
    back = falls([-edge for edge in edges[::-1]], counts[::-1], 25.0)
    assert back == pytest.approx([-fall for fall in there[::-1]])
    assert min(there) > 0


def test_an_inner_bin_that_is_a_peak_or_a_gap_is_uniform():
    assert falls([0, 1, 2, 3], [1000, 5000, 2000], 0.0)[1] == 0
    assert falls([0, 1, 2, 3], [1000, 50, 2000], 0.0)[1] == 0


def test_the_first_bin_of_a_falling_density_falls():
    edges = range(0, 101, 20)
    one = bent(column(*edges, kind="number"), exponential(edges, 0.05))
    true = 20 - 20 / math.expm1(1)  # the mean of an exponential value, given that it is below 20
    assert BinValues.of(one).mean()[0] == pytest.approx(true, rel=0.02)
    assert true < 8.4


def test_counts_that_noise_may_explain_give_uniform_values():
    counts = np.array([60.0, 35, 20, 10, 4])
    assert fit_pieces(column(*INCOME), counts, 1.0) is not None
    assert fit_pieces(column(*INCOME), counts, 80.0**2) is None


@given(
    st.lists(st.floats(-50, 1e6), min_size=2, max_size=8),
    st.floats(0, 1e6),
    st.sampled_from(["integer", "number", "date"]),
    st.randoms(use_true_random=False),
)
def test_any_counts_give_legal_pieces(counts, variance, kind, random):
    edges = np.cumsum([1000, *(random.choice([1, 2, 7, 400, 10**5]) for _ in counts)])
    one = bent(column(*map(int, edges), kind=kind), counts, variance)
    values = BinValues.of(one)
    if one.pieces is None:
        return
    places = one.pieces.places(one.edges)
    sums = np.add.reduceat(one.pieces.weights, places[:-1])
    assert sums.tolist() == [WHOLE] * one.bins
    assert (values.widths > 0).all()
    mean = values.mean()
    assert ((mean >= edges[:-1]) & (mean <= edges[1:])).all()


@pytest.mark.parametrize(
    "one",
    [
        column(*INCOME),
        column(*INCOME, kind="number"),
        column(*INCOME, kind="number", decimals=2),
        column(700_000, 700_030, 700_365, 707_000, kind="date", missing="level"),
        column(0, 1, 3, 8, 20, 21, minimum=Fraction(0), maximum=Fraction(20)),
    ],
)
def test_a_drawn_set_keeps_its_codes_and_has_the_stated_means(one):
    counts = 10_000 * 0.6 ** np.arange(one.bins)
    one = bent(one, counts)
    assert one.pieces is not None
    schema, rng = schema_of(one), np.random.default_rng(4)
    codes = rng.integers(0, one.size, 60_000).astype(np.uint16)
    table = decode(schema, Dataset(schema.domain, codes[None, :]), rng=rng)
    array = table.column("x").combine_chunks()
    assert np.array_equal(codes_of(one, array), codes)
    ordinal = array.cast("int32").cast("int64") if one.kind == "date" else array
    found = ordinal.fill_null(0).to_numpy().astype(float) + (719_163 if one.kind == "date" else 0)
    values, points = BinValues.of(one), numbers_of(schema.column("x"))
    for code in range(one.bins):
        mine = found[codes == code]
        error = math.sqrt(values.variance()[code] / mine.size) / values.steps
        assert abs(mine.mean() - values.mean()[code] / values.steps) <= 6 * error + 1e-9
        assert points[code] == pytest.approx(values.mean()[code] / values.steps)


def test_a_statement_gives_back_the_densities():
    columns = (
        bent(column(*INCOME), [5000, 3000, 2000, 800, 30]),
        dataclasses.replace(
            bent(column(0, 0.25, 1, 9, kind="number"), [5000, 3000, 2000]), name="y"
        ),
        dataclasses.replace(
            bent(column(700_000, 700_030, 707_000, kind="date"), [500, 300]), name="z"
        ),
        dataclasses.replace(column(0, 1, 2), name="single"),
    )
    schema = schema_of(*columns)
    stated = json.loads(json.dumps(statement(schema)))
    bare = schema_of(*(dataclasses.replace(each, pieces=None) for each in columns))
    assert [each["column"] for each in stated] == ["x", "y", "z"]
    assert with_statement(bare, stated) == schema
    assert statement(bare) == []


@pytest.mark.parametrize(
    "lie",
    [
        lambda entry: entry.pop("column"),
        lambda entry: entry.__setitem__("column", "y"),
        lambda entry: entry["bins"].append(entry["bins"][0]),
        lambda entry: entry["bins"][0].__setitem__("code", 99),
        lambda entry: entry["bins"][0]["millionths"].__setitem__(0, 5),
        lambda entry: entry["bins"][0]["millionths"].__setitem__(0, 0.5),
        lambda entry: entry["bins"][0]["millionths"].pop(),
        lambda entry: entry["bins"][0]["from"].__setitem__(0, "-1"),
        lambda entry: entry["bins"][0]["from"].__setitem__(1, "1e400"),
        lambda entry: entry["bins"][0]["from"].reverse(),
        lambda entry: entry["bins"][0].__setitem__("from", "0"),
        lambda entry: entry["bins"][-1]["from"].append("3000000"),
        lambda entry: entry.__setitem__("bins", None),
    ],
)
def test_a_statement_of_another_form_is_refused(lie):
    schema = schema_of(bent(column(*INCOME), [5000, 3000, 2000, 800, 30]))
    stated = json.loads(json.dumps(statement(schema)))
    lie(stated[0])
    bare = schema_of(dataclasses.replace(schema.columns[0], pieces=None))
    with pytest.raises((KeyError, TypeError, ValueError)):
        with_statement(bare, stated)


def test_densities_agree_up_to_rounding():
    one = bent(column(*INCOME), [5000, 3000, 2000, 800, 30]).pieces
    first, second, *rest = one.weights
    near = dataclasses.replace(one, weights=(first + 1, second - 1, *rest))
    far = dataclasses.replace(one, weights=(first + 9, second - 9, *rest))
    assert agree(one, near)
    assert not agree(one, far)
    assert agree(None, None)
    assert not agree(one, None)


def test_densities_follow_from_the_tables_alone():
    fit, even = column(*INCOME), dataclasses.replace(column(*INCOME), name="y", density="uniform")
    level = Column(name="z", kind="category", levels=(Level("a", "a"), Level("b", "b")))
    tables = [
        measured(fit, [5000, 3000, 2000, 800, 30]),
        measured(even, [5000, 3000, 2000, 800, 30]),
        measured(level, [5, 6]),
    ]
    schema = with_densities(schema_of(fit, even, level), tables)
    assert [each.pieces is None for each in schema.columns] == [False, True, True]
    assert with_densities(schema, tables) == schema
    assert with_densities(schema, []) == schema_of(fit, even, level)
    assert with_densities(schema_of(level), tables) == schema_of(level)


def test_private_bins_keep_their_pieces():
    among = column(*range(11))
    chosen = Choice(among=among, codes=(2, 5), pieces=((0, 10), (1, 30), (2, 1), (5, 0), (9, 7)))
    one = dataclasses.replace(column(0, 2, 5, 10), choice=chosen)
    assert one.within.edges == tuple(map(Fraction, (0, 1, 2, 5, 9, 10)))
    assert BinValues.of(one).mean() == pytest.approx([0.75, 3.0, 9.0])
    schema = with_densities(schema_of(one), [measured(one, [900, 500, 10])])
    assert schema.columns[0].pieces is None


def test_wide_outer_bins_are_named_before_anything_is_known():
    even = dataclasses.replace(column(*INCOME), name="y", density="uniform")
    wide = list(outer_bins(schema_of(column(*INCOME), even)))
    assert [(each.column, each.label, each.uniform) for each in wide] == [
        ("x", "150000 to 1999999", False),
        ("y", "150000 to 1999999", True),
    ]
    assert (wide[0].times, wide[0].moves) == pytest.approx((1850 / 150, 92_500))
    (left,) = outer_bins(schema_of(column(-1000, 0, 10, 100)))
    assert left.label == "-1000 to -1"
    dates = column(700_000, 700_010, 790_000, kind="date")
    even, one = column(0, 15, 40, 100), column(0, 5)
    columns = [
        dataclasses.replace(each, name=name)
        for each, name in zip((even, one, dates), "xyz", strict=True)
    ]
    assert not list(outer_bins(schema_of(*columns)))
