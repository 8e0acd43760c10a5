from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import pgm
from dp_core.methods.reconstruction.average import Average
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.independent import Independent
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.reconstruction.reconstructor import in_series, piece_rows
from dp_core.methods.reconstruction.sampling.series import CorrectedPieces
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import NONE, noisy_table

DOMAIN = Domain(("a", "b", "c", "d", "e"), (3, 4, 5, 2, 6))
PAIRS = list(itertools.combinations(DOMAIN.columns, 2))
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
    return summed(joint(zeros), DOMAIN, clique)


def fitted(method, zeros=NONE):
    tables = [noisy_table(DOMAIN.project(pair), exact(pair, zeros), scale=1e-3) for pair in PAIRS]
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


def owed_by(table, drawn):
    """Return what a set lacks of a column's table before each of these pieces is drawn."""
    owed = []

    def drawing(codes):
        def draw(_rows, tables, **_given):
            owed.append(tables[0].values.tolist())
            return Dataset(table.domain, np.array([codes], dtype=np.uint16))

        return draw

    series = CorrectedPieces(table.domain, [table], map(drawing, drawn))
    for codes in drawn:
        series.sample(len(codes), rng=np.random.default_rng(0))
    return owed


def test_what_is_owed_is_the_sets_part_so_far_less_what_was_drawn():
    table = Table(Domain(("a",), (3,)), np.array([5.0, 3.0, 2.0]))
    owed = owed_by(table, [[0] * 4 + [1] * 6, [1] * 10, [1] * 10, [2]])
    # Nobody owes fewer than no records.
    assert owed == [[5, 3, 2], [6, 0, 4], [11, 0, 6], [15.5 - 4, 0, pytest.approx(6.2)]]


def test_a_table_without_records_is_owed_evenly():
    assert owed_by(Table(Domain(("a",), (4,)), np.zeros(4)), [[0] * 8]) == [[2, 2, 2, 2]]


@pytest.mark.parametrize("method", [Gum(), Pgm(), Average()], ids=["gum", "pgm", "average"])
def test_pieces_make_good_what_those_before_them_missed(method):
    model = fitted(method)
    alone = records_off(pieces_of(in_series(model, 1)[0], 2000, 1))
    whole = records_off(pieces_of(in_series(model, 1)[0], 2000, 12))
    # Each by itself, twelve of them miss several times what one does.
    apart = records_off([in_series(model, 1)[0].sample(2000, rng=np.random.default_rng(at))
                         for at in range(12)])  # fmt: skip
    assert whole < 1.5 * alone
    assert apart > 2 * whole


@pytest.mark.parametrize("method", [Gum(), Pgm()], ids=["gum", "pgm"])
def test_a_set_in_pieces_is_as_near_to_its_tables_as_one_drawn_at_once(method):
    model = fitted(method)
    pieces = pieces_of(in_series(model, 1)[0], 5000, 8)
    assert {piece.rows for piece in pieces} == {5000}
    once = records_off([model.sample(40_000, rng=np.random.default_rng(1))])
    assert records_off(pieces) < once + 20


@pytest.mark.parametrize("method", [Gum(), Pgm()], ids=["gum", "pgm"])
def test_impossible_records_are_in_no_piece(method):
    zeros = StructuralZeros(
        (Rule(("a", "c"), ((1,), (2,)), ""), Rule(("b", "d"), ((0,), (1,)), ""))
    )
    pieces = pieces_of(in_series(fitted(method, zeros), 1)[0], 3000, 4)
    assert not any(zeros.violations(piece).any() for piece in pieces)
    assert records_off(pieces, zeros) < 150


class Spied:
    """Draws as a method does, and notes how."""

    def __init__(self, monkeypatch):
        from dp_core.methods.reconstruction.kernels import descent
        from dp_core.methods.reconstruction.kernels import record_moves as moves

        self.rounds, self.descents = [], []
        update, descend = moves.update, descent.descend

        def moved(*arguments, **options):
            self.rounds.append(options["rounds"])
            return update(*arguments, **options)

        def descended(*arguments, **options):
            self.descents.append(options["sweeps"])
            return descend(*arguments, **options)

        monkeypatch.setattr(moves, "update", moved)
        monkeypatch.setattr(descent, "descend", descended)


def test_a_record_of_a_large_set_is_worked_on_less(monkeypatch):
    spied, model = Spied(monkeypatch), fitted(Gum())
    model.sample(500, rng=np.random.default_rng(0))
    assert (spied.rounds, spied.descents) == ([20], [3])
    in_series(model, 1)[0].sample(500, rng=np.random.default_rng(0))
    assert (spied.rounds[1], spied.descents[1]) == (6, 3)
    quick = fitted(Gum(rounds=2, sweeps=1))
    in_series(quick, 1)[0].sample(500, rng=np.random.default_rng(0))
    assert (spied.rounds[2], spied.descents[2]) == (2, 1)


def test_early_pieces_that_later_ones_correct_are_visited_once(monkeypatch):
    spied, model = Spied(monkeypatch), fitted(Gum())
    for chain, pieces in zip(in_series(model, 2, 7), (4, 3), strict=True):
        pieces_of(chain, 500, pieces)
    assert spied.descents == [1, 1, 3, 3, 1, 3, 3]
    assert spied.rounds == [6] * 7


def test_early_pieces_make_fewer_rounds_after_those_for_rules(monkeypatch):
    # The rule is over columns that no table contains.
    zeros = StructuralZeros((Rule(("a", "c", "e"), ((1,), (2,), (0,)), ""),))
    spied, model = Spied(monkeypatch), fitted(Gum(), zeros)
    pieces = pieces_of(in_series(model, 1, 3)[0], 1000, 3)
    assert spied.rounds == [4, 2, 4, 6, 4, 6]
    assert not any(zeros.violations(piece).any() for piece in pieces)


def test_records_of_a_graphical_model_of_very_many_columns_are_left_as_drawn(monkeypatch):
    spied, model = Spied(monkeypatch), fitted(Pgm())
    with monkeypatch.context() as patch:
        patch.setattr(pgm, "_MOST_EVENED", 1)
        assert model.held_to(10**6) == ()
        in_series(model, 1)[0].sample(500, rng=np.random.default_rng(0))
    assert spied.descents == []
    in_series(fitted(Pgm()), 1)[0].sample(500, rng=np.random.default_rng(0))
    assert spied.descents == [1]
    held = {frozenset(table.clique) for table in fitted(Pgm()).held_to(10**6)}
    assert held >= {frozenset(pair) for pair in PAIRS}


def test_chains_know_nothing_of_each_other():
    one, two = in_series(fitted(Gum()), 2)
    alone = in_series(fitted(Gum()), 1)[0]
    one.sample(3000, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(
        two.sample(1000, rng=np.random.default_rng(1)).codes,
        alone.sample(1000, rng=np.random.default_rng(1)).codes,
    )


def test_memory_does_not_grow_with_sets_that_are_drawn_in_pieces():
    most = piece_rows(DOMAIN)
    for method in (Gum(), Pgm(), Average()):
        few, full, many = (method.memory(DOMAIN, PAIRS, n) for n in (most // 2, most, 9 * most))
        assert few < full == many


def test_pieces_differ_and_equal_generators_give_equal_ones():
    model = fitted(Gum())
    first, again = (pieces_of(in_series(model, 1)[0], 1000, 2) for _ in range(2))
    assert first[0].codes.tolist() != first[1].codes.tolist()
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)


def test_a_model_of_independent_records_needs_no_memory_of_them():
    model = fitted(Independent())
    assert model.streams
    assert in_series(model, 3) == (model,) * 3


def test_pieces_of_wide_files_have_fewer_rows():
    wide = Domain(tuple(f"c{i}" for i in range(100)), (2,) * 100)
    assert piece_rows(wide) == 100_000
    assert piece_rows(Domain(wide.columns[:21], (2,) * 21)) < 500_000
    assert piece_rows(Domain(wide.columns[:20], (2,) * 20)) == 500_000
    assert piece_rows(DOMAIN) == 500_000
