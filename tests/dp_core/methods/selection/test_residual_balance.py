from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.budget.residual_balance import (
    _ADD_UP,
    Parts,
    _Error,
    balance,
    beyond_larger_areas,
    expected_error,
    larger_areas,
    with_sums_of_areas,
)
from dp_core.tables.cliques import cliques_of
from dp_core.tables.nested_columns import NestedColumns

ROWS = 10_000.0


def parts_of(levels, *, pairs=2000.0, triples=None, noise=400.0, exponent=1.0, margin=None):
    """Parts of even columns; `triples` None: only single columns and pairs."""
    columns = [np.full(size, ROWS / size) for size in levels]
    d = len(levels)
    cliques = [(at,) for at in range(d)] + list(itertools.combinations(range(d), 2))
    count = len(cliques) - d
    dependence = [0.0] * d + list(np.broadcast_to(pairs, count))
    if triples is not None:
        more = list(itertools.combinations(range(d), 3))
        cliques += more
        dependence += list(np.broadcast_to(triples, len(more)))
    margins = np.full((len(cliques), 2), np.inf)
    if margin is not None:
        margins[d : d + count] = margin
    return Parts(
        columns=columns,
        known=np.full(d, 100.0 * noise),
        cliques=cliques,
        dependence=np.asarray(dependence, dtype=float),
        noise=np.full(len(cliques), noise),
        margin=margins,
        exponent=exponent,
    )


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("margin", [None, 900.0])
def test_shares_sum_to_one_and_equal_parts_get_equal_shares(exponent, margin):
    share = balance(parts_of((6, 6, 6), noise=4.0, exponent=exponent, margin=margin))
    assert share.sum() == pytest.approx(1)
    np.testing.assert_allclose(share[:3], share[0], rtol=1e-9)
    np.testing.assert_allclose(share[3:], share[3], rtol=1e-9)
    assert share[3] > 0


def test_with_little_noise_shares_are_those_that_make_the_summed_variance_least():
    given = parts_of((4, 4, 4, 4), pairs=5000.0, noise=1.0)
    given.known[:] = np.inf
    error = _Error(given)
    share = balance(given)
    for index in range(share.size):
        for other in range(share.size):
            moved = share.copy()
            moved[index] += 1e-3
            moved[other] -= 1e-3
            assert error.value(share) <= error.value(moved) * (1 + 1e-6)
    # Both of 4 levels: cells of a pair 16, of a column 4; mean errors in proportion to
    # 4 sqrt(4/s1) and 16 sqrt(6/s2), which add up by their power.
    ones = np.linspace(0.01, 0.99, 9801)
    column, pair = (64 / ones) ** (_ADD_UP / 2), (256 * 6 / (1 - ones)) ** (_ADD_UP / 2)
    errors = (pair + 2 * column) ** (1 / _ADD_UP) + (3 * pair + 3 * column) ** (1 / _ADD_UP)
    assert share[:4].sum() == pytest.approx(ones[errors.argmin()], rel=0.01)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_a_pair_that_hardly_depends_is_not_measured(exponent):
    given = parts_of((6, 6, 6), pairs=np.array([4000.0, 1e-3, 1e-3]), exponent=exponent)
    share = balance(given)
    assert share[3] > 0.1
    assert share[4] == share[5] == 0


def test_a_small_share_that_measures_a_small_table_precisely_is_kept():
    """Beside a table of 40,000 cells, 9 cells need less than a hundredth of the budget."""
    given = parts_of((3, 3, 200, 200), pairs=[200.0, 0.1, 0.1, 0.1, 0.1, 10_000.0], noise=0.01)
    error, share = _Error(given), balance(given)
    small = given.cliques.index((0, 1))
    assert 0 < share[small] < 0.1 / share.size
    without = share.copy()
    without[small] = 0.0
    assert error.value(share) < error.value(without / without.sum())


def test_under_noise_larger_than_every_count_columns_get_everything():
    share = balance(parts_of((6, 6, 6), noise=1e12))
    assert share[3:].sum() == 0
    assert share.sum() == pytest.approx(1)


def test_triples_are_measured_once_their_noise_is_below_what_they_hold():
    few = parts_of((2,) * 6, triples=100.0, noise=1e5)
    many = parts_of((2,) * 6, triples=100.0, noise=1e-1)
    assert balance(few)[21:].sum() == 0
    assert balance(many)[21:].sum() > 0.1


def test_pairs_that_tell_of_their_columns_leave_more_to_pairs():
    apart = balance(parts_of((6, 6, 6)))
    whole = balance(parts_of((6, 6, 6), margin=6 * 400.0))
    assert whole[:3].sum() < apart[:3].sum()


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("margin", [None, 900.0])
def test_the_gain_is_the_slope_of_the_error(exponent, margin):
    given = parts_of(
        (2, 3, 20), pairs=np.array([5000.0, 3000, 900]), triples=200.0, exponent=exponent,
        margin=margin,
    )  # fmt: skip
    error = _Error(given)
    share = np.array([0.25, 0.1, 0.15, 0.15, 0.15, 0.1, 0.1])
    for index in range(share.size):
        step = np.zeros(share.size)
        step[index] = 1e-6
        slope = (error.value(share - step) - error.value(share + step)) / 2e-6
        assert error.gain(share)[index] == pytest.approx(slope, rel=1e-4)


def test_what_is_added_to_every_variance_is_added_to_that_of_each_share():
    parts = parts_of((6, 6, 6), noise=50.0, triples=100.0)
    share = np.linspace(1, 2, 7) / 10.5
    floor = dataclasses.replace(parts, floor=0.3)
    found = 1 / (_Error(floor).precision(share) - _Error(floor).before)
    np.testing.assert_allclose(found, 50.0 / share + 0.3 * 50.0)
    less = share.copy()
    for at in range(share.size):
        step = np.zeros(share.size)
        step[at] = 1e-6
        slope = (_Error(floor).value(less - step) - _Error(floor).value(less + step)) / 2e-6
        assert _Error(floor).gain(share)[at] == pytest.approx(slope, rel=1e-4)


def test_the_draw_of_records_adds_to_tables_of_three_and_decides_nothing():
    parts = parts_of((6, 6, 6), noise=50.0, triples=100.0)
    drawn = dataclasses.replace(parts, drawn=900.0)
    share = balance(parts)
    np.testing.assert_array_equal(balance(drawn), share)
    before, after = expected_error(parts, share), expected_error(drawn, share)
    assert after.two == before.two
    assert after.three == pytest.approx(np.hypot(before.three, 900 / (2 * ROWS)))


# 2 regions, 4 counties, 12 districts.
NESTED = NestedColumns(
    ("region", "county", "district"), ((0, 0, 1, 1), tuple(at // 3 for at in range(12)))
)
DOMAIN = Domain(("region", "age", "county", "district", "sex"), (2, 5, 4, 12, 2), nested=NESTED)
ONES = [(name,) for name in DOMAIN.columns]
PAIRS = list(cliques_of(DOMAIN, 2))
CLIQUES = [*ONES, *PAIRS]


def told(noise, margin, cliques=CLIQUES):
    """Return the variance of each part that another one tells, by the columns of both."""
    also = larger_areas(DOMAIN, cliques, noise, margin)
    assert also is not None
    found = {
        (cliques[source], cliques[target]): variance
        for source, target, variance in zip(also.source, also.target, also.variance, strict=True)
    }
    assert len(found) == also.source.size
    return found


def test_a_sum_over_areas_has_the_noise_of_all_of_them():
    noise = np.arange(1.0, 1.0 + len(CLIQUES))
    found = told(noise, np.full((len(CLIQUES), 2), np.inf))
    own = dict(zip(CLIQUES, noise, strict=True))
    expected = {
        (("county",), ("region",)): 2 * own["county",],
        (("district",), ("region",)): 6 * own["district",],
        (("district",), ("county",)): 3 * own["district",],
    }
    for other in ("age", "sex"):

        def pair(area, other=other):
            return tuple(name for name in DOMAIN.columns if name in (area, other))

        expected |= {
            (pair("county"), pair("region")): 2 * own[pair("county")],
            (pair("district"), pair("region")): 6 * own[pair("district")],
            (pair("district"), pair("county")): 3 * own[pair("district")],
        }
    assert found == expected


def test_a_whole_table_of_small_areas_also_tells_the_counts_of_larger_ones():
    margin = np.full((len(CLIQUES), 2), np.inf)
    margin[CLIQUES.index(("age", "district"))] = (240.0, 100.0)
    margin[CLIQUES.index(("county", "sex"))] = (50.0, 70.0)
    found = told(np.ones(len(CLIQUES)), margin)
    assert found[("age", "district"), ("county",)] == 300.0
    assert found[("age", "district"), ("region",)] == 600.0
    assert found[("county", "sex"), ("region",)] == 100.0
    # A pair's own columns are told elsewhere.
    assert (("age", "district"), ("age",)) not in found
    assert (("age", "district"), ("district",)) not in found


def test_a_larger_pair_that_is_no_part_is_told_nothing():
    cliques = [*ONES, ("age", "district")]
    found = told(np.ones(len(cliques)), np.full((len(cliques), 2), np.inf), cliques)
    assert {source for source, _ in found} == {("county",), ("district",)}


def test_without_nested_columns_nothing_is_told():
    plain = Domain(DOMAIN.columns, DOMAIN.sizes)
    noise, margin = np.ones(len(CLIQUES)), np.full((len(CLIQUES), 2), np.inf)
    assert larger_areas(plain, CLIQUES, noise, margin) is None
    known = np.arange(1.0, 6.0)
    assert with_sums_of_areas(plain, known) is known
    assert beyond_larger_areas(plain, {("age", "sex"): 3.0}) == {("age", "sex"): 3.0}


def test_counts_of_larger_areas_are_pooled_with_sums_of_smaller_ones():
    known = np.array([9.0, 1.0, 4.0, 2.0, 1.0])  # region, age, county, district, sex
    found = with_sums_of_areas(DOMAIN, known)
    region = 1 / (1 / 9 + 1 / (2 * 4) + 1 / (6 * 2))
    county = 1 / (1 / 4 + 1 / (3 * 2))
    assert found == pytest.approx([region, 1.0, county, 2.0, 1.0], rel=1e-12)
    # What is infinite was not measured.
    found = with_sums_of_areas(DOMAIN, np.array([np.inf, 1.0, np.inf, 2.0, 1.0]))
    assert found == pytest.approx([12.0, 1.0, 6.0, 2.0, 1.0], rel=1e-12)


def test_a_pair_of_small_areas_keeps_what_it_adds_to_the_larger_ones():
    found = beyond_larger_areas(
        DOMAIN,
        {
            ("region", "age"): 30.0,
            ("age", "county"): 50.0,
            ("age", "district"): 51.0,
            ("age", "sex"): 7.0,
        },
    )
    assert found["region", "age"] == 30.0
    assert found["age", "sex"] == 7.0
    assert found["age", "county"] == pytest.approx(40.0)
    # At least half remains: noise alone makes the larger area's score as large.
    assert found["age", "district"] == pytest.approx(25.5)
    assert beyond_larger_areas(DOMAIN, {("age", "district"): 5.0}) == {("age", "district"): 5.0}


def parts_with_noise(exponent, *, margin=None, floor=0.0):
    """Return parts of the domain, each with its own noise."""
    rng = np.random.default_rng(4)
    margins = np.full((len(CLIQUES), 2), np.inf)
    if margin is not None:
        margins[len(ONES) :] = margin * rng.uniform(0.5, 2, (len(PAIRS), 2))
    noise = rng.uniform(20.0, 80.0, len(CLIQUES))
    place = {name: at for at, name in enumerate(DOMAIN.columns)}
    return Parts(
        columns=[np.full(size, 6000.0 / size) for size in DOMAIN.sizes],
        known=np.full(len(ONES), 4000.0),
        cliques=[tuple(place[name] for name in clique) for clique in CLIQUES],
        dependence=np.r_[np.zeros(len(ONES)), rng.uniform(300.0, 2500.0, len(PAIRS))],
        noise=noise,
        margin=margins,
        exponent=exponent,
        floor=floor,
        also=larger_areas(DOMAIN, CLIQUES, noise, margins),
    )


@pytest.mark.parametrize(("exponent", "floor"), [(1.0, 0.0), (1.0, 0.02), (2.0, 0.0)])
@pytest.mark.parametrize("margin", [None, 300.0])
def test_the_gain_is_the_derivative_of_the_error(exponent, floor, margin):
    error = _Error(parts_with_noise(exponent, margin=margin, floor=floor))
    share = np.random.default_rng(8).dirichlet(np.full(len(CLIQUES), 3.0))
    gain = error.gain(share)
    for at in range(share.size):
        step = 1e-5 * share[at]
        up, down = share.copy(), share.copy()
        up[at] += step
        down[at] -= step
        slope = (error.value(down) - error.value(up)) / (2 * step)
        assert gain[at] == pytest.approx(slope, rel=1e-4)


def test_precision_and_gain_have_what_small_areas_tell_of_larger_ones():
    parts = parts_with_noise(1.0)
    share = np.full(len(CLIQUES), 1 / len(CLIQUES))
    own = _Error(dataclasses.replace(parts, also=None)).gain(share)
    more = _Error(parts).precision(share) - _Error(dataclasses.replace(parts, also=None)).precision(
        share
    )
    told_to = {CLIQUES[at] for at in np.flatnonzero(more)}
    larger = {clique for clique in CLIQUES if {*clique} & {"region", "county"}}
    assert told_to == larger
    also = parts.also
    assert also is not None
    expected = np.zeros(len(CLIQUES))
    np.add.at(expected, also.target, share[0] / also.variance)
    assert more == pytest.approx(expected, rel=1e-9)
    # Measuring the smallest areas gains more, and measuring the largest ones gains less.
    gain = _Error(parts).gain(share)
    assert gain[CLIQUES.index(("age", "district"))] > own[CLIQUES.index(("age", "district"))]
    assert gain[CLIQUES.index(("region", "age"))] < own[CLIQUES.index(("region", "age"))]
