"""What tables of small areas tell about larger ones, and how the budget counts on it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.nested_columns import NestedColumns
from dp_core.methods.selection.budget.hierarchies import (
    beyond_larger_areas,
    larger_areas,
    with_sums_of_areas,
)
from dp_core.methods.selection.budget.residual_balance import Parts, _Error

# 2 regions, 4 counties, 12 districts.
NESTED = NestedColumns(
    ("region", "county", "district"), ((0, 0, 1, 1), tuple(at // 3 for at in range(12)))
)
DOMAIN = Domain(("region", "age", "county", "district", "sex"), (2, 5, 4, 12, 2), nested=NESTED)
ONES = [(name,) for name in DOMAIN.columns]
PAIRS = list(DOMAIN.cliques(2))
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


def parts_of(exponent, *, margin=None, floor=0.0):
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
    error = _Error(parts_of(exponent, margin=margin, floor=floor))
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
    parts = parts_of(1.0)
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
