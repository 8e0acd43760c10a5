from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.candidates.parent_sets import candidates, maximal_sets


def rng():
    return np.random.default_rng(0)


@given(
    sizes=st.lists(st.integers(1, 5), max_size=6),
    cells=st.integers(0, 40),
    degree=st.none() | st.integers(0, 4),
)
def test_the_sets_are_those_to_which_nothing_can_be_added(sizes, cells, degree):
    named = {f"c{index}": size for index, size in enumerate(sizes)}
    fitting = [
        set(chosen)
        for order in range(len(named) + 1)
        for chosen in itertools.combinations(named, order)
        if not chosen or math.prod(named[name] for name in chosen) <= cells
        if degree is None or order <= degree
    ]
    wanted = {frozenset(one) for one in fitting if not any(one < other for other in fitting)}
    found = maximal_sets(named, cells=cells, degree=degree, most=10**6, rng=rng())
    assert {frozenset(chosen) for chosen in found} == wanted
    assert len(found) == len(wanted)


def test_of_too_many_sets_a_random_part_is_listed_and_each_is_maximal():
    named = {f"c{index}": 2 for index in range(60)}
    found = maximal_sets(named, cells=2**5, degree=None, most=300, rng=rng())
    assert len(set(found)) == 300
    assert all(len(chosen) == 5 for chosen in found)
    # Every column is in 5/60 of them, 25 on average: none is left out, and none is in all.
    seen = [sum(name in chosen for chosen in found) for name in named]
    assert min(seen) > 0
    assert max(seen) < 100
    assert found == maximal_sets(named, cells=2**5, degree=None, most=300, rng=rng())


def test_every_column_that_is_left_has_a_candidate_however_few_are_wanted():
    domain = Domain(tuple("abcdefgh"), (2, 3, 2, 50, 2, 3, 4, 2))
    found = candidates(domain, ["a", "b", "c"], cells=8, degree=None, most=2, rng=rng())
    assert [child for child, _ in found] == list("defgh")
    for child, parents in found:
        assert set(parents) <= {"a", "b", "c"}
        assert not parents or domain.size((child, *parents)) <= 8


@pytest.mark.parametrize("cells", [1, 10, 100])
def test_a_child_that_is_too_large_by_itself_has_no_parents(cells):
    domain = Domain(("a", "b"), (2, 101))
    assert candidates(domain, ["a"], cells=cells, degree=None, most=9, rng=rng()) == (("b", ()),)
