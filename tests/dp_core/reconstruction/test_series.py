from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.dataset import Dataset
from dp_core.domain import Domain
from dp_core.marginals import Measurement, Table
from dp_core.reconstruction.base import in_series, piece_rows
from dp_core.reconstruction.gum import Gum
from dp_core.reconstruction.implied import counted
from dp_core.reconstruction.independent import Independent
from dp_core.reconstruction.pgm import Pgm
from dp_core.reconstruction.series import Owed
from dp_core.structural_zeros import Rule, StructuralZeros

DOMAIN = Domain(("a", "b", "c", "d", "e"), (3, 4, 5, 2, 6))
PAIRS = list(itertools.combinations(DOMAIN.columns, 2))
NONE = StructuralZeros()
ROWS = 40_000


def joint(zeros=NONE):
    weights = np.random.default_rng(0).gamma(0.4, size=DOMAIN.sizes)
    for rule in zeros.rules:
        index = [slice(None)] * len(DOMAIN)
        for name, codes in zip(rule.columns, rule.codes, strict=True):
            index[DOMAIN.axes((name,))[0]] = codes[0]
        weights[tuple(index)] = 0
    return np.round(weights * ROWS / weights.sum()).astype(np.int64)


def exact(clique, zeros=NONE):
    return joint(zeros).sum(
        axis=tuple(i for i, name in enumerate(DOMAIN.columns) if name not in clique)
    )


def fitted(method, zeros=NONE):
    tables = [
        Measurement(DOMAIN.project(pair), exact(pair, zeros), "gaussian", 1e-3, "measure", 0, 1)
        for pair in PAIRS
    ]
    return method.fit(DOMAIN, tables, rows=None, zeros=zeros, rng=np.random.default_rng(0))


def pieces_of(sampler, rows, number):
    return [sampler.sample(rows, rng=np.random.default_rng([7, at])) for at in range(number)]


def records_off(pieces, zeros=NONE):
    """Return how many records of all pieces together would have to move, mean over the pairs."""
    data = Dataset(DOMAIN, np.concatenate([piece.codes for piece in pieces], axis=1))
    total = joint(zeros).sum()
    return np.mean(
        [
            np.abs(counted(data, pair) - exact(pair, zeros) * (data.rows / total)).sum() / 2
            for pair in PAIRS
        ]
    )


def test_what_is_owed_is_the_sets_part_so_far_less_what_was_drawn():
    table = Table(Domain(("a",), (3,)), np.array([5.0, 3.0, 2.0]))
    owed = Owed(Domain(("a",), (3,)), [table])
    assert owed.of(10)[0].values.tolist() == [5, 3, 2]
    owed.add(Dataset(Domain(("a",), (3,)), np.array([[0] * 4 + [1] * 6], dtype=np.uint16)))
    assert owed.of(10)[0].values.tolist() == [6, 0, 4]
    # Nobody owes fewer than no records.
    owed.add(Dataset(Domain(("a",), (3,)), np.array([[1] * 20], dtype=np.uint16)))
    assert owed.of(1)[0].values.tolist() == [15.5 - 4, 0, pytest.approx(6.2)]


def test_a_table_without_records_is_owed_evenly():
    domain = Domain(("a",), (4,))
    owed = Owed(domain, [Table(domain, np.zeros(4))])
    assert owed.of(8)[0].values.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("method", [Gum(), Pgm()], ids=["gum", "pgm"])
def test_pieces_make_good_what_those_before_them_missed(method):
    model = fitted(method)
    alone = records_off(pieces_of(in_series(model), 2000, 1))
    whole = records_off(pieces_of(in_series(model), 2000, 12))
    # Each by itself, twelve of them miss several times what one does.
    apart = records_off([in_series(model).sample(2000, rng=np.random.default_rng(at))
                         for at in range(12)])  # fmt: skip
    assert whole < 1.5 * alone
    assert apart > 2 * whole


@pytest.mark.parametrize("method", [Gum(), Pgm()], ids=["gum", "pgm"])
def test_a_set_in_pieces_is_as_near_to_its_tables_as_one_drawn_at_once(method):
    model = fitted(method)
    pieces = pieces_of(in_series(model), 5000, 8)
    assert {piece.rows for piece in pieces} == {5000}
    once = records_off([model.sample(40_000, rng=np.random.default_rng(1))])
    assert records_off(pieces) < once + 20


@pytest.mark.parametrize("method", [Gum(), Pgm()], ids=["gum", "pgm"])
def test_impossible_records_are_in_no_piece(method):
    zeros = StructuralZeros(
        (Rule(("a", "c"), ((1,), (2,)), ""), Rule(("b", "d"), ((0,), (1,)), ""))
    )
    pieces = pieces_of(in_series(fitted(method, zeros)), 3000, 4)
    assert not any(zeros.violations(piece).any() for piece in pieces)
    assert records_off(pieces, zeros) < 150


def test_pieces_differ_and_equal_generators_give_equal_ones():
    model = fitted(Gum())
    first, again = pieces_of(in_series(model), 1000, 2), pieces_of(in_series(model), 1000, 2)
    assert first[0].codes.tolist() != first[1].codes.tolist()
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)


def test_a_model_of_independent_records_needs_no_memory_of_them():
    model = fitted(Independent())
    assert model.streams
    assert in_series(model) is model


def test_pieces_of_wide_files_have_fewer_rows():
    wide = Domain(tuple(f"c{i}" for i in range(100)), (2,) * 100)
    assert piece_rows(wide) * 100 == piece_rows(Domain(wide.columns[:20], (2,) * 20)) * 20
    assert piece_rows(DOMAIN) == 500_000
