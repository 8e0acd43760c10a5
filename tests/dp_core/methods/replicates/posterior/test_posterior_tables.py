"""Posterior draws of all tables: exact without noise, consistent, and honest with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.replicates.posterior import posterior_tables
from dp_core.methods.replicates.posterior.posterior_tables import PosteriorTables, drawn_pairs
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.full import at_full_size
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
NOTHING = StructuralZeros()


def population(rng, rows=4000):
    joint = rng.dirichlet(np.full(DOMAIN.size(), 0.6)).reshape(DOMAIN.sizes)
    return rng.multinomial(rows, joint.ravel()).reshape(DOMAIN.sizes)


def measured(counts, cliques, scale, rng):
    found = []
    for domain in map(DOMAIN.project, cliques):
        noisy = np.rint(summed(counts, DOMAIN, domain.columns) + rng.normal(0, scale, domain.sizes))
        found.append(noisy_table(domain, noisy.astype(np.int64), scale=max(scale, 1e-4)))
    return found


def posterior(released, *, sets=4, rows=None, zeros=NOTHING, seed=1, **more):
    rng = np.random.default_rng(seed)
    return PosteriorTables.of(DOMAIN, released, sets=sets, rows=rows, zeros=zeros, rng=rng, **more)


PAIRS = tuple(itertools.combinations(DOMAIN.columns, 2))
ONES = tuple((name,) for name in DOMAIN.columns)


def test_without_noise_every_draw_has_the_exact_tables():
    counts = population(np.random.default_rng(2))
    found = posterior(
        measured(counts, [*ONES, *PAIRS, ("a", "b", "c")], 0.0, np.random.default_rng(0))
    )
    for number in (1, 4):
        for table in found.draw(number):
            assert table.values == pytest.approx(summed(counts, DOMAIN, table.clique), abs=1.0)


def test_tables_of_a_draw_agree_and_are_not_negative():
    rng = np.random.default_rng(5)
    found = posterior(measured(population(rng), [*ONES, *PAIRS[:2]], 60.0, rng))
    for number in range(1, 5):
        tables = {table.clique: table.values for table in found.draw(number)}
        assert [*tables] == [*ONES, *PAIRS]
        for clique, values in tables.items():
            assert (values >= 0).all()
            assert values.sum() == pytest.approx(found.totals[number - 1], rel=1e-3)
            for name in clique:
                kept = values.sum(axis=1 - clique.index(name)) if len(clique) == 2 else values
                assert kept == pytest.approx(tables[name,], abs=0.5)


def test_impossible_cells_are_empty_in_every_draw():
    rng = np.random.default_rng(6)
    counts = population(rng)
    counts[0, 1, :] = 0
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (1,)), "a: 0, b: 1"),))
    found = posterior(measured(counts, [*ONES, *PAIRS], 40.0, rng), zeros=zeros)
    for number in (1, 2):
        tables = {table.clique: table.values for table in found.draw(number)}
        assert tables["a", "b"][0, 1] == 0


def test_the_same_seed_gives_the_same_draws_in_any_order():
    rng = np.random.default_rng(8)
    released = measured(population(rng), [*ONES, *PAIRS], 30.0, rng)
    first, again = posterior(released), posterior(released)
    again.draw(1)
    for one, other in zip(first.draw(3), again.draw(3), strict=True):
        assert np.array_equal(one.values, other.values)


def test_a_public_number_of_rows_is_kept():
    rng = np.random.default_rng(9)
    found = posterior(measured(population(rng), ONES, 30.0, rng), rows=4000)
    assert found.totals == pytest.approx([4000.0] * 4)


def test_a_pair_that_was_not_measured_differs_between_draws():
    rng = np.random.default_rng(10)
    released = measured(population(rng), [*ONES, *PAIRS[:2]], 20.0, rng)
    found = posterior(released, sets=20)
    drawn = np.array([{t.clique: t.values for t in found.draw(n)}["b", "c"] for n in range(1, 21)])
    known = np.array([{t.clique: t.values for t in found.draw(n)}["a", "b"] for n in range(1, 21)])
    assert drawn.std(axis=0).mean() > 2 * known.std(axis=0).mean()


def test_the_centre_of_a_pair_that_nobody_measured_invents_no_dependence():
    """Noise of its looks leaves much room; cut at zero, half of it would be dependence."""
    rng = np.random.default_rng(3)
    counts = rng.multinomial(4000, np.outer([0.9, 0.1], [0.9, 0.06, 0.04]).ravel())
    counts = np.stack([counts.reshape(2, 3)] * 4, axis=-1) // 4
    found = posterior(
        measured(counts, [*ONES, *PAIRS[1:]], 1.0, rng),
        dependences={PAIRS[0]: 800.0},
        dependence_stddev=900.0,
    )
    tables = {table.clique: table.values for table in found.central_tables()}
    one, other = tables["a",], tables["b",]
    product = np.multiply.outer(one, other) / one.sum()
    assert found.pairs[PAIRS[0]].stddev.sum() > 200
    assert np.abs(tables[PAIRS[0]] - product).sum() < 20


def test_the_centre_of_measured_tables_adds_up_and_agrees():
    rng = np.random.default_rng(5)
    found = posterior(measured(population(rng), [*ONES, *PAIRS, ("a", "b", "c")], 60.0, rng))
    tables = {table.clique: table.values for table in found.central_tables()}
    assert [*tables] == [*ONES, *PAIRS, ("a", "b", "c")]
    for clique, values in tables.items():
        assert (values >= 0).all()
        assert values.sum() == pytest.approx(found.total, rel=1e-3)
        for name in clique:
            rest = tuple(axis for axis, other in enumerate(clique) if other != name)
            assert values.sum(axis=rest) == pytest.approx(tables[name,], abs=2.0)


def test_one_set_and_a_set_that_does_not_exist_are_refused():
    tables = measured(population(np.random.default_rng(0)), ONES, 1.0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 2"):
        posterior(tables, sets=1)
    with pytest.raises(ValueError, match="no set 5"):
        posterior(tables).draw(5)


def test_intervals_of_cells_cover_the_files_counts():
    # Files of 24 + 9 cells with fixed seeds: the result is the same in every run.
    hits = []
    for seed in range(60 if at_full_size() else 24):
        rng = np.random.default_rng([12, seed])
        counts = population(rng)
        found = posterior(measured(counts, [*ONES, *PAIRS], 25.0, rng), sets=10, seed=seed)
        draws = [{t.clique: t.values for t in found.draw(n)} for n in range(1, 11)]
        for clique in (*ONES, *PAIRS):
            values = np.array([each[clique] for each in draws])
            spread = np.sqrt(1.1 * values.var(axis=0, ddof=1))
            # Student's t with 9 degrees of freedom.
            hits.append(
                (
                    abs(values.mean(axis=0) - summed(counts, DOMAIN, clique)) <= 2.262 * spread
                ).ravel()
            )
    assert 0.90 < np.concatenate(hits).mean() < 0.98


def test_of_pairs_of_equal_size_the_first_of_the_domain_are_drawn(monkeypatch):
    """A release that resumes in another process must draw the same pairs."""
    domain = Domain(tuple("abcdefghij"), (2,) * 9 + (3,))
    every = list(itertools.combinations(domain.columns, 2))
    monkeypatch.setattr(posterior_tables, "MOST_PAIRS", 20)
    drawn = drawn_pairs(domain, [("i", "j")])

    equal = [pair for pair in every if "j" not in pair]
    assert drawn == (*equal[:19], ("i", "j"))


@pytest.mark.parametrize("rows", [1000, None])
def test_draws_of_a_column_have_the_noise_of_its_counts_whether_the_rows_are_public(rows):
    domain, counts, sets = Domain(("a", "b"), (2, 4)), [600, 400], 400
    table = noisy_table(domain.project(("a",)), np.array(counts), scale=20.0, stage="one_way")
    rng, zeros = np.random.default_rng(4), StructuralZeros()
    found = PosteriorTables.of(domain, [table], sets=sets, rows=rows, zeros=zeros, rng=rng)
    # With a known sum, (e1 - e2) / 2 is left of the noise of two counts.
    expected = 20 / 2**0.5 if rows else 20
    spread = found.columns["a"].draws.std(axis=0, ddof=1)
    np.testing.assert_allclose(spread, expected, rtol=0.15)


@pytest.mark.parametrize("seed", range(4))
def test_a_value_far_out_that_nobody_has_does_not_move_the_others(seed):
    rng = np.random.default_rng(seed)
    counts = population(rng, rows=4000)
    counts[:, :, 3] = 0
    scores = {"b": np.arange(3.0), "c": np.array([1.0, 10.0, 100.0, 1e6])}
    released = measured(counts, [*ONES, *PAIRS], 5.0, rng)
    rows = counts.sum()

    def distance(known):
        found = posterior(released, scores=known)
        return np.mean(
            [
                np.abs(table.values - summed(counts, DOMAIN, table.clique)).sum() / rows / 2
                for number in range(1, 5)
                for table in found.draw(number)
                if len(table.clique) == 2
            ]
        )

    assert distance(scores) < 1.3 * distance(None)


@pytest.mark.parametrize("seed", range(6))
def test_a_long_tail_beside_a_rare_level_stays_near_its_noisy_table(seed):
    domain, rng = Domain(("rare", "tail"), (2, 13)), np.random.default_rng(seed)
    every = np.array([2400, 2600, 3800, 4700, 4600, 3600, 2300, 1150, 530, 180, 40, 10, 4])
    rare = np.array([280, 320, 480, 230, 230, 80, 30, 12, 6, 2, 0, 0, 0])
    counts = np.array([every - rare, rare])
    released = []
    for clique, scale in ((("rare",), 80.0), (("tail",), 43.0), (domain.columns, 26.0)):
        noisy = np.rint(
            summed(counts, domain, clique)
            + rng.normal(0, scale, domain.size(clique)).reshape(domain.project(clique).sizes)
        )
        released.append(noisy_table(domain.project(clique), noisy.astype(np.int64), scale=scale))
    found = PosteriorTables.of(
        domain,
        released,
        sets=4,
        rows=None,
        zeros=NOTHING,
        scores={"tail": np.geomspace(10, 50_000, 13)},
        rng=rng,
    )
    for tables in (found.central_tables(), *(found.draw(number) for number in range(1, 5))):
        assert np.abs(tables[-1].values - released[-1].values).max() < 5 * 26


def test_a_column_of_many_levels_takes_no_matrix_of_their_square(monkeypatch):
    """A matrix of 3,000 x 3,000 levels is refused; 200 MB would be 5,000 x 5,000."""
    domain = Domain(("many", "a", "b"), (3_000, 3, 4))
    rng = np.random.default_rng(6)
    counts = rng.multinomial(20_000, rng.dirichlet(np.full(36_000, 0.05))).reshape(domain.sizes)
    released = [
        noisy_table(each, summed(counts, domain, each.columns) + rng.integers(-20, 21, each.sizes))
        for each in map(domain.project, (("many",), ("a",), ("b",), ("many", "a")))
    ]
    for name in ("eigh", "solve"):
        original = getattr(np.linalg, name)

        def small(matrix, *more, original=original):
            assert max(matrix.shape) < 100
            return original(matrix, *more)

        monkeypatch.setattr(np.linalg, name, small)
    found = PosteriorTables.of(domain, released, sets=2, rows=20_000, zeros=NOTHING, rng=rng)
    for tables in (found.central_tables(), found.draw(1)):
        by_clique = {table.clique: table.values for table in tables}
        assert by_clique["many", "a"].sum(axis=1) == pytest.approx(by_clique["many",], abs=0.5)
        assert by_clique["many", "a"].sum(axis=0) == pytest.approx(by_clique["a",], abs=0.5)
