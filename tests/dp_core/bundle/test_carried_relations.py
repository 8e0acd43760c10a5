"""Which relations stand out from noise: by exact tables, by noise alone, and in words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.trial import codes_schema
from dp_core.bundle.quality.carried_relations import BY_CHANCE, CarriedRelations, carried_relations
from dp_core.bundle.quality.relations import pool_release
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))
SCHEMA = codes_schema(DOMAIN, StructuralZeros())
JOINT = np.multiply.outer(
    np.multiply.outer(np.outer([0.4, 0.6], [0.5, 0.3, 0.2]), [0.25] * 4), [0.5] * 2
)


def table(clique, *, scale, shift=0.0, rng=None):
    """A table of 10,000 independent records, with `shift` records moved along one contrast."""
    counts = 10_000 * JOINT.sum(axis=tuple(i for i in range(4) if DOMAIN.columns[i] not in clique))
    if shift:
        counts = counts + shift * np.multiply.outer(*(_contrast(n) for n in counts.shape))
    noise = 0 if rng is None else rng.normal(0, scale, counts.shape)
    return noisy_table(DOMAIN.project(clique), np.rint(counts + noise).astype(int), scale=scale)


def _contrast(size):
    return np.r_[1.0, -1.0, np.zeros(size - 2)]


def found_of(released):
    return carried_relations(released, SCHEMA, pool_release(SCHEMA, released))


def test_a_pair_stands_out_if_noise_would_rarely_have_made_it():
    # Four cells off by 30 with a noise variance of 100 give 36, off by 14 they give 7.8. The bound
    # for 2 degrees of freedom is 13.8; at half the noise, 2 + 4 (7.8 - 2 - 2) = 17 are expected.
    ones = [table((name,), scale=1e-3) for name in DOMAIN.columns]
    pairs = [table(("a", "b"), scale=10.0, shift=30.0), table(("b", "d"), scale=10.0, shift=14.0)]
    found = found_of([*ones, *pairs, table(("c", "d"), scale=10.0)])
    assert (found.pairs, found.clear, found.with_more) == (6, 1, 1)
    assert found.hidden == (("b", "d"), ("c", "d"))
    assert found.missing == (("a", "c"), ("a", "d"), ("b", "c"))
    assert (found.numbers, found.larger) == ((), 0)


def test_noise_alone_makes_independent_pairs_stand_out_as_often_as_is_said():
    rng = np.random.default_rng(3)
    ones = [table((name,), scale=1e-3) for name in DOMAIN.columns]
    clear = 0
    for _ in range(500):
        pairs = [
            table(pair, scale=40.0, rng=rng) for pair in itertools.combinations(DOMAIN.columns, 2)
        ]
        clear += found_of([*ones, *pairs]).clear
    # Of 3,000, 3 are expected.
    assert clear <= 15 < 3000 * 10 * BY_CHANCE


def test_without_a_table_of_counts_nothing_is_said():
    ones = [table((name,), scale=1.0) for name in DOMAIN.columns]
    assert found_of(ones).in_words == ""
    assert found_of([]).in_words == ""


def test_a_table_of_three_columns_tells_its_pairs():
    found = found_of([table(("a", "b", "c"), scale=5.0), table(("d",), scale=5.0)])
    assert (found.pairs, found.larger) == (6, 1)
    assert found.hidden == (("a", "b"), ("a", "c"), ("b", "c"))
    assert "three columns" not in found.in_words


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Of 6 pairs of columns, 1 stands out from noise."),
        ({"hidden": (("a", "b"),) * 2}, "Noise hides the relation of 2 more"),
        ({"with_more": 2}, "About 2 of these would stand out at half the noise"),
        ({"missing": (("a", "d"),)}, "1 was not measured: the sets have what is implied."),
        (
            {"numbers": (("a", "b"),) * 7},
            "correlations: a × b, a × b, a × b, a × b, a × b, 2 more.",
        ),
        ({"larger": 0}, "three columns is there only as far as pairs imply it."),
    ],
)
def test_what_is_carried_in_words(changes, said):
    usual = dict(pairs=6, clear=1, hidden=(), with_more=0, missing=(), numbers=(), larger=1)
    bare = CarriedRelations(**usual).in_words
    assert said in CarriedRelations(**(usual | changes)).in_words
    assert not changes or said not in bare
