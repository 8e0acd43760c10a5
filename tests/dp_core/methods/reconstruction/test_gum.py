from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import gum
from dp_core.methods.reconstruction.gum import Gum, rule_cliques, rule_tables
from dp_core.methods.reconstruction.kernels.record_moves import Targets, start, update, whole
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import counts_of, summed
from tests.measured import NONE, noisy_table

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 5, 2))


def joint(seed=0):
    rng = np.random.default_rng(seed)
    return np.round(rng.gamma(0.4, size=DOMAIN.sizes) * 100).astype(np.int64)


def exact(clique):
    return summed(joint(), DOMAIN, clique)


def measured(clique, scale=1e-3):
    return noisy_table(DOMAIN.project(clique), exact(clique), scale=scale)


PAIRS = list(itertools.combinations(DOMAIN.columns, 2))


def fit(cliques, zeros=NONE, rows=None, **options):
    return Gum(**options).fit(
        DOMAIN,
        [measured(clique) for clique in cliques],
        rows=rows,
        zeros=zeros,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize("shrink", [True, False])
def test_records_get_the_tables_when_there_is_hardly_noise(shrink):
    model = fit(PAIRS, shrink=shrink)
    assert model.rows == joint().sum()
    data = model.sample(model.rows, rng=np.random.default_rng(1))
    for pair in PAIRS:
        off = np.abs(counts_of(data, pair) - exact(pair)).sum() / model.rows
        apart = np.outer(counts_of(data, pair[:1]), counts_of(data, pair[1:])) / model.rows
        assert off < 0.06
        assert off < 0.35 * np.abs(apart - exact(pair)).sum() / model.rows


def test_sweeps_take_away_the_error_at_which_rounds_end():
    def error(sweeps):
        data = fit(PAIRS, sweeps=sweeps).sample(joint().sum(), rng=np.random.default_rng(1))
        return sum(np.abs(counts_of(data, pair) - exact(pair)).sum() for pair in PAIRS)

    assert error(3) < 0.7 * error(0)


def possible(zeros):
    """The file without its impossible records."""
    return joint() * ~zeros.mask(DOMAIN)


def test_a_rule_across_tables_moves_neither_columns_nor_the_fitted_tables():
    zeros = StructuralZeros(
        (Rule(("a", "c"), ((0,), (1, 2)), "one"), Rule(("a", "d"), ((1,), (1,)), "other"))
    )
    truth = possible(zeros)
    cliques = [("a", "b"), ("b", "c"), ("c", "d")]
    measurements = [
        noisy_table(DOMAIN.project(clique), summed(truth, DOMAIN, clique), scale=1e-3)
        for clique in cliques
    ]
    off = {}
    for name, known in (("with", zeros), ("without", NONE)):
        model = Gum().fit(
            DOMAIN, measurements, rows=None, zeros=known, rng=np.random.default_rng(0)
        )
        data = model.sample(model.rows, rng=np.random.default_rng(1))
        off[name] = [
            np.abs(counts_of(data, m.clique) - m.values).sum() / model.rows for m in measurements
        ]
        assert zeros.violations(data).any() == (name == "without")
    assert max(off["with"]) < max(0.03, 1.5 * max(off["without"]))


def test_rules_that_share_columns_are_reached_in_one_table():
    tables = [Table(DOMAIN.project(("a", "b")), np.ones((3, 4)))]
    zeros = StructuralZeros(
        (
            Rule(("b", "a"), ((0,), (0,)), "held by a fitted table"),
            Rule(("d", "c"), ((0,), (0,)), "not held"),
            Rule(("c", "b"), ((1,), (0,)), "not held either"),
        )
    )
    assert rule_cliques(DOMAIN, tables, zeros) == (("a", "b", "c", "d"),)
    assert rule_cliques(DOMAIN, tables, StructuralZeros(zeros.rules[:1])) == ()
    assert rule_cliques(DOMAIN, tables, StructuralZeros(zeros.rules[:2])) == (("c", "d"),)


def test_rules_too_large_to_reach_together_are_reached_one_by_one(monkeypatch):
    monkeypatch.setattr(gum, "_JOINED_CELLS", 20)
    zeros = StructuralZeros(
        (Rule(("d", "c"), ((0,), (0,)), ""), Rule(("c", "b"), ((1,), (0,)), ""))
    )
    assert rule_cliques(DOMAIN, [], zeros) == (("c", "d"), ("b", "c"))
    monkeypatch.setattr(gum, "MOST_CELLS", 10)
    assert rule_cliques(DOMAIN, [], zeros) == (("c", "d"),)


def test_the_table_of_a_rule_keeps_what_records_say_of_its_columns():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 4000) for size in DOMAIN.sizes]).astype(np.uint16)
    codes[3] = codes[0] == 1
    data = Dataset(DOMAIN, codes)
    columns = [Table(DOMAIN.project((n,)), counts_of(data, (n,))) for n in DOMAIN.columns]
    zeros = StructuralZeros((Rule(("a", "d"), ((2,), (1,)), "which no record breaks"),))
    (found,) = rule_tables(data, [("a", "d")], columns, zeros)
    assert found.values[2, 1] == 0
    np.testing.assert_allclose(found.values, counts_of(data, ("a", "d")), atol=40)
    assert found.values[0, 1] > 0


def move(codes, wanted, clique=("a", "b"), **options):
    """One visit of one table, as far as the options say."""
    domain = DOMAIN.project(clique)
    targets = Targets.pack(
        DOMAIN, [Table(domain, wanted)], codes.shape[1], rng=np.random.default_rng(0)
    )
    settings = {"rounds": 1, "step": 1.0, "decay": 1.0, "copies": 0.0, "tolerance": 0.0}
    return update(codes, targets, seed=3, **(settings | options))


def test_full_steps_give_a_single_table_exactly():
    columns = [Table(DOMAIN.project((n,)), exact((n,)).astype(float)) for n in DOMAIN.columns]
    codes = start(columns, int(joint().sum()), rng=np.random.default_rng(1))
    errors = move(codes, exact(("a", "b")).astype(float), rounds=5)
    assert errors[0] > 0
    assert errors[-1] == 0
    flat = np.bincount(codes[0].astype(np.int64) * 4 + codes[1], minlength=12)
    np.testing.assert_array_equal(flat, exact(("a", "b")).ravel())


def copies_setting():
    """All of (1, 1) carry c = 3, d = 1; the others carry c = 0, d = 0."""
    codes = np.zeros((4, 1000), dtype=np.uint16)
    codes[:2, :100] = 1
    codes[2, :100] = 3
    codes[3, :100] = 1
    wanted = np.zeros((3, 4))
    wanted[0, 0], wanted[1, 1] = 700, 300
    return codes, wanted


def test_records_are_copied_whole_where_copies_are_asked_for():
    codes, wanted = copies_setting()
    move(codes, wanted, copies=1.0, step=0.5)
    received = (codes[0] == 1) & (codes[1] == 1)
    assert received.sum() == 200
    assert (codes[2][received] == 3).all()
    assert (codes[3][received] == 1).all()


def test_without_copies_only_the_columns_of_the_table_are_rewritten():
    codes, wanted = copies_setting()
    move(codes, wanted, copies=0.0, rounds=3)
    received = (codes[0] == 1) & (codes[1] == 1)
    assert received.sum() == 300
    assert (codes[2] == 3).sum() == 100


def test_an_empty_cell_is_filled_by_rewriting_even_if_all_should_be_copies():
    codes, wanted = copies_setting()
    wanted[2, 3], wanted[0, 0] = 200, 500
    move(codes, wanted, copies=1.0, rounds=5)
    assert ((codes[0] == 2) & (codes[1] == 3)).sum() == 200


def test_a_small_step_mends_a_small_part():
    codes, wanted = copies_setting()
    move(codes, wanted, step=0.25)
    assert ((codes[0] == 1) & (codes[1] == 1)).sum() == 150


def test_rounds_end_when_the_table_is_reached():
    codes, wanted = copies_setting()
    errors = move(codes, wanted, rounds=50)
    assert errors.size == 2


def test_rounds_end_when_tables_that_contradict_each_other_gain_nothing():
    codes, wanted = copies_setting()
    other = np.zeros((3, 4))
    other[0, 0], other[1, 1] = 300, 700
    domain = DOMAIN.project(("a", "b"))
    targets = Targets.pack(
        DOMAIN, [Table(domain, wanted), Table(domain, other)], 1000, rng=np.random.default_rng(0)
    )
    settings = {"step": 0.5, "decay": 0.9, "copies": 0.0, "seed": 1}
    assert update(codes, targets, rounds=200, tolerance=0.001, **settings).size < 100
    codes, _ = copies_setting()
    assert update(codes, targets, rounds=200, tolerance=-1.0, **settings).size == 200


def test_rounding_is_without_bias_and_keeps_the_total():
    values = np.array([0.2, 3.7, 0.0, 1.1, 5.0, 0.0])
    rng = np.random.default_rng(1)
    found = np.array([whole(values, 10, rng=rng) for _ in range(4000)])
    assert (found.sum(axis=1) == 10).all()
    assert (np.abs(found - values) < 1).all()
    np.testing.assert_allclose(found.mean(axis=0), values, atol=0.05)
    assert (found[:, [2, 5]] == 0).all()


def test_the_model_gives_the_tables_it_holds_and_says_what_it_cannot():
    model = fit([("a", "b"), ("b", "c")])
    np.testing.assert_allclose(model.project(("b", "a")), exact(("a", "b")).T, atol=0.1)
    np.testing.assert_allclose(model.project(("d",)), np.full(2, model.rows / 2))
    assert model.project(()) == pytest.approx(model.rows)
    with pytest.raises(KeyError, match="together"):
        model.project(("a", "d"))


@pytest.mark.parametrize("ends", [True, False])
def test_unmeasured_pairs_are_adjusted_only_if_the_sweeps_end(monkeypatch, ends):
    asked = []

    def seen(*given, progress):
        del progress
        asked.append(given)
        return ()

    model = fit(PAIRS)
    rows = model.rows
    # With six tables of four columns, as many visits as there are values in three sweeps.
    values = rows * len(DOMAIN) * model.options.sweeps
    monkeypatch.setattr(gum, "_MOST_VISITS", values if ends else values - 1)
    monkeypatch.setattr(gum, "implied_tables", seen)

    model.sample(rows, rng=np.random.default_rng(1))

    assert len(asked) == ends


def test_records_get_a_table_of_more_codes_than_16_bits_number():
    domain = Domain(("area", "a"), (70_000, 3))
    values = np.zeros(domain.sizes, dtype=np.int64)
    values[[0, 4463, 69_998, 69_999]] = [[5, 0, 9], [40, 2, 0], [0, 7, 0], [1, 60, 30]]
    pair = noisy_table(domain, values, scale=1e-3)
    model = Gum().fit(domain, [pair], rows=None, zeros=NONE, rng=np.random.default_rng(0))
    data = model.sample(model.rows, rng=np.random.default_rng(1))
    assert data.codes.dtype == np.uint32
    assert np.abs(counts_of(data, ("area", "a")) - values).sum() <= 4


@pytest.mark.parametrize(("option", "value"), [("sweeps", -1), ("rounds", math.nan)])
def test_a_number_out_of_its_range_is_refused_by_name(option, value):
    with pytest.raises(ValueError, match=rf"^{option} must be "):
        Gum(**{option: value})
