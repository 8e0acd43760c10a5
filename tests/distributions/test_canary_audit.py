"""One-run audits with canaries: thousands of units, each in the file or not by its own coin.

`tests/canaries.py` says how an audit works, and `docs/canary-audit.md` what it proves. The files
and the number of canaries of each case are such that noise with a scale that is 10 % too small is
found with a probability above .95, by a deterministic computation. A sound release fails the tests
of the guesses, of the noise and of the counts with a probability of at most FALSE_ALARM = 1e-9
each.

Planted faults are at the sampler's boundary, with noise from a seeded generator, or in what is
charged or counted. Those tests do not fail by chance.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse, stats

from dp_core.accounts import losses
from dp_core.confidential import coding, person_rows
from dp_core.confidential.linked import linked_source
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.errors import StageFailed
from dp_core.kernel import requests as requests_module
from dp_core.kernel.cost import sensitivity
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions import calibration, vetted
from dp_core.methods.selection.budget import costs
from tests.canaries import (
    CASES,
    FROM_FILES,
    IN_MEMORY,
    Answer,
    audit,
    chance_of_guesses,
    counts,
    fewest_to_refute,
    noise_power,
    power,
    sampler,
    scores,
)
from tests.canary_files import Households, Panel, Persons, table_file
from tests.full import some
from tests.guesses import (
    STEPS,
    Moves,
    Vector,
    any_mechanism,
    best_accuracy,
    largest_moves,
    law,
    masses_of_sum,
    noise_masses,
    unlikely_noise,
    unlikely_noise_power,
)
from tests.statistical import FALSE_ALARM, discrete_gaussian, discrete_laplace

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

REPEATED = ("auto", "aim", "sba", "auto, its whole epsilon")
RUNS = (
    "table, persons, replace-one",
    "table, households",
    "table, panel",
    "statistics, persons",
    "desk's table, persons",
    "regressions, persons, replace-one",
)
"""Every unit, question, relation and route is in one of these."""
NAMES = some(CASES, lambda name: name in REPEATED + RUNS)
FAULTY = some(CASES, lambda name: name in ("auto", "sba", *RUNS))
REPETITIONS = 30
"""So many of so many show a probability above .9, at a confidence of 95 %."""


def planted(case, patch, *, factor=1.0, seed=1):
    """Return what an audit finds with noise from a seeded generator."""
    with sampler(patch, factor=factor, seed=seed):
        return audit(case, rng=np.random.default_rng(seed))


def charged_for(patch, weaker):
    """Let every charge be that of another relation, which `weaker` returns."""
    of_unit, in_shares = sensitivity.of_unit, sensitivity.in_shares
    for module in (sensitivity, vetted):
        patch.setattr(module, "of_unit", lambda relation, rows: of_unit(weaker(relation), rows))
    for module in (requests_module, vetted, losses, costs, calibration):
        patch.setattr(
            module, "in_shares", lambda relation, found: in_shares(weaker(relation), found)
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_release_keeps_what_it_claims(name):
    case = CASES[name]
    found = audit(case, rng=np.random.default_rng())
    assert found.passed(FALSE_ALARM)
    # The canaries change answers by as much as was charged, most of what is spent is for what they
    # change (in AIM half: its second round measures the column that they do not change; trends, a
    # twelfth of a release, may be of other columns), and this very release would hardly have passed
    # with less noise.
    assert found.reach > 0.95
    assert found.share > (0.45 if name == "aim" else 0.6)
    assert noise_power(case, found, FALSE_ALARM, factor=0.9) > 0.95
    if name in IN_MEMORY:
        assert power(case, found, FALSE_ALARM, factor=0.9) > 0.99


@pytest.mark.parametrize("name", FAULTY)
def test_a_scale_that_is_too_small_is_found(name, monkeypatch):
    found = planted(CASES[name], monkeypatch, factor=0.9)
    assert found.noise <= FALSE_ALARM
    if name in IN_MEMORY:
        assert found.p_value <= FALSE_ALARM


@pytest.mark.parametrize("name", some(IN_MEMORY, lambda name: name in ("auto", "sba")))
def test_a_record_that_is_counted_twice_is_found(name, monkeypatch):
    case = CASES[name]
    found = planted(replace(case, route=replace(case.route, times=2)), monkeypatch)
    assert found.p_value <= FALSE_ALARM
    assert power(case, found, FALSE_ALARM, moved=2) > 1 - FALSE_ALARM


@pytest.mark.parametrize(
    "name",
    some(
        [name for name in CASES if name not in IN_MEMORY and CASES[name].file.unit.weight > 1],
        lambda name: name in RUNS,
    ),
)
def test_a_charge_for_one_row_or_share_of_a_unit_is_found(name, monkeypatch):
    case = CASES[name]
    charged_for(monkeypatch, lambda relation: Relation(relation.neighbours))
    found = planted(case, monkeypatch)
    assert found.reach > 0.95 * case.file.unit.weight
    if "regressions" not in name:  # their guesses have no power
        assert found.p_value <= FALSE_ALARM


@pytest.mark.parametrize(
    "name",
    some([name for name in CASES if "replace-one" in name], lambda name: name in RUNS),
)
def test_a_charge_for_the_other_relation_is_found(name, monkeypatch):
    charged_for(
        monkeypatch,
        lambda relation: Relation("add-remove", relation.max_rows, relation.shares),
    )
    found = planted(CASES[name], monkeypatch)
    assert found.reach > 1.3
    assert not found.passed(FALSE_ALARM)


def of_unit(kind):
    """Return the cases from files with a kind of unit that has rows above its limit."""
    units = {name: CASES[name].file.unit for name in FROM_FILES}
    found = [name for name, unit in units.items() if isinstance(unit, kind) and unit.above]
    return some(found, lambda name: name in RUNS)


def count_all_rows(patch):
    """Let no limit of rows apply."""
    patch.setattr(person_rows, "kept_rows", lambda persons, *_: np.ones(len(persons), bool))


@pytest.mark.parametrize("name", of_unit(Persons))
def test_rows_above_the_limit_that_are_counted_are_refused(name, monkeypatch):
    count_all_rows(monkeypatch)
    with pytest.raises(StageFailed, match=r"\(data-side\)"):
        planted(CASES[name], monkeypatch)


@pytest.mark.parametrize("name", of_unit(Households))
def test_members_above_the_limit_that_are_counted_are_refused(name, monkeypatch):
    """Each pair of members has the weight of a pair in the largest household that is allowed."""
    linked_members, pieces = linked_source.linked_members, coding.pair_row_pieces
    unit = CASES[name].file.unit

    def wider(linked):
        return replace(linked, max_members=unit.max_members + unit.above)

    def counted(linked, domain, rows):
        largest = len(linked.sizes) - 1
        for piece, units, done in pieces(wider(linked), domain, rows):
            codes = piece.codes.copy()
            place = domain.columns.index(MEMBERS)
            codes[place] = np.minimum(codes[place], largest)
            yield Dataset(domain, codes), units, done

    monkeypatch.setattr(
        linked_source, "linked_members", lambda linked, *keys: linked_members(wider(linked), *keys)
    )
    monkeypatch.setattr(coding, "pair_row_pieces", counted)
    with pytest.raises(StageFailed, match=r"\(data-side\)"):
        planted(CASES[name], monkeypatch)


@pytest.mark.parametrize("name", of_unit(Panel))
def test_a_second_row_of_a_wave_that_is_kept_is_refused(name, monkeypatch):
    """It becomes a second record of its person, which the limit of one record does not drop."""
    made = PersonRecords._records

    def records(self, tables, target):
        (table,) = tables
        rows = np.array([table.column(name) for name in ("person 1", "wave")], np.uint64)
        _, first = np.unique(rows, axis=1, return_index=True)
        second = np.setdiff1d(np.arange(table.num_rows), first)
        parts = [made(self, [table.take(pa.array(each))], target) for each in (first, second)]
        return pa.concat_tables(parts)

    monkeypatch.setattr(PersonRecords, "_records", records)
    count_all_rows(monkeypatch)
    with pytest.raises(StageFailed, match=r"\(data-side\)"):
        planted(CASES[name], monkeypatch)


@pytest.mark.parametrize(
    "name", some([each for each in FROM_FILES if "households" in each], lambda each: each in RUNS)
)
def test_shares_that_are_counted_twice_are_refused(name, monkeypatch):
    weighted = HouseholdCounter._weighted

    def twice(self, pairs, clique):
        table = weighted(self, pairs, clique)
        return Marginal(table.domain, 2 * table.counts)

    monkeypatch.setattr(HouseholdCounter, "_weighted", twice)
    with pytest.raises(StageFailed, match=r"'basics' of release '[^']*' failed"):
        planted(CASES[name], monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_audits_find_what_the_computed_power_says(name, monkeypatch):
    """At full size: releases whose noise is 10 % too small, and releases without a fault."""
    case = CASES[name]
    for factor, repetitions in ((0.9, REPETITIONS), (1.0, 10)):
        runs = [planted(case, monkeypatch, factor=factor, seed=seed) for seed in range(repetitions)]
        for find in (lambda run: run.p_value, lambda run: run.noise):
            found = sum(find(run) <= FALSE_ALARM for run in runs)
            assert found == (repetitions if factor < 1 else 0)
        # The power is computed from the probability that a guess is right; so many measure it.
        expected = [chance_of_guesses(case, run, factor=factor) for run in runs]
        mean = sum(number * chance for number, chance, _ in expected)
        variance = sum(number * chance * (1 - chance) for number, chance, _ in expected)
        apart = abs(sum(run.correct for run in runs) - mean) / variance**0.5
        assert 2 * stats.norm.sf(apart) > FALSE_ALARM


# -- the audit's own arithmetic


@pytest.mark.parametrize("name", IN_MEMORY)
@pytest.mark.parametrize("level", [1e-9, 0.05])
def test_false_alarms_are_as_rare_as_stated(name, level):
    """Exactly, where the claim is used up: by guesses that are as good as it allows."""
    case = CASES[name]
    moves = (LAPLACE, GAUSSIAN)
    guesses = case.guesses or case.file.canaries
    best = (
        best_accuracy(moves) if case.claim == "charges" else 1 / (1 + np.exp(-float(case.epsilon)))
    )
    least = fewest_to_refute(case, moves, guesses, level)
    assert stats.binom.sf(least - 1, guesses, best) <= level
    assert stats.binom.sf(least - 3, guesses, best) > level


LAPLACE = Moves("laplace", 0.4, (1.0,))
GAUSSIAN = Moves("gaussian", 0.75, (1.0,))


def test_charges_allow_the_accuracy_of_the_best_guess():
    epsilon = 0.8
    laplace = Moves("laplace", 1 / epsilon, (1.0,))
    assert best_accuracy((laplace,)) == pytest.approx(1 / (1 + np.exp(-epsilon)), abs=1e-9)
    # Replace-one: two cells, on which one guess is based.
    both = Moves("laplace", 2 / epsilon, (1.0, 1.0))
    half = 1 / (1 + np.exp(-epsilon / 2))
    assert best_accuracy((both,)) == pytest.approx(half, abs=1e-9)
    # Wide Gaussian noise is nearly continuous, and several tables tell as much as one.
    wide, other = (Moves("gaussian", scale, (1.0,)) for scale in (30.0, 40.0))
    for moves, mu in (((wide,), 1 / 30), ((wide, other), 1 / 24)):
        found = best_accuracy(moves)
        assert stats.norm.cdf(mu / 2) <= found <= stats.norm.cdf(mu / 2) + 5e-5


@pytest.mark.parametrize("scale", [3.0, 4.7, 11.0])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_noise_that_is_treated_as_continuous_is_bounded(scale, size):
    """The total variation distance of the discrete noise, by summing it."""
    z, masses = noise_masses("gaussian", scale)
    apart = np.abs(np.pad(masses, (0, size)) - np.pad(masses, (size, 0))).sum() / 2
    found = best_accuracy((Moves("gaussian", scale, (float(size),)),))
    assert (1 + apart) / 2 <= found <= (1 + apart) / 2 + 0.05 / scale**2
    assert len(z) == len(masses)


def test_moves_are_compared_with_what_was_charged():
    one, two = (Moves("gaussian", 6.0, (3.0,) * number) for number in (1, 2))
    event = GaussianEvent(Fraction(6), 9)
    assert one.reach(event) == 1
    assert two.reach(event) == pytest.approx(2**0.5)
    assert two.at_most(event).reach(event) == pytest.approx(1)
    assert Moves("laplace", 6.0, (3.0, 3.0)).reach(LaplaceEvent(Fraction(6), 3)) == 2
    assert largest_moves(event).reach(event) == 1


def test_the_best_guess_is_by_the_sign_of_the_score():
    moves = (GAUSSIAN, Moves("laplace", 2.0, (1.0,)))
    assert law(moves).accuracy == pytest.approx(best_accuracy(moves), abs=1e-9)


VECTORS = (Vector("gaussian", 0.75, 3_000), Vector("laplace", 2.0, 2_000))


@pytest.mark.parametrize("factor", [1.0, 0.97])
def test_noise_of_another_scale_is_found_as_often_as_computed(factor):
    rng, level = np.random.default_rng(3), 0.05
    found = 0
    for _ in range(400):
        score = 0
        for each in VECTORS:
            z, masses = noise_masses(each.noise, factor * each.scale)
            score += each.score(rng.choice(z, each.entries, p=masses))
        found += unlikely_noise(VECTORS, score) <= level
    wanted = unlikely_noise_power(VECTORS, level, factor=factor)
    assert found / 400 == pytest.approx(wanted, abs=5 * (wanted * (1 - wanted) / 400) ** 0.5)
    assert wanted <= level if factor == 1 else 0.1 < wanted < 0.9


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.5, 3.0, 2000.0])
def test_scores_of_noise_have_the_chances_of_the_sampler(noise, scale):
    z, masses = noise_masses(noise, scale)
    each = Vector(noise, scale, 1)
    scores_of = np.array([each.score(size) for size in z])
    expected = np.bincount(scores_of, masses, STEPS + 1)
    assert each.chances() == pytest.approx(expected, abs=1e-7)


def test_the_sum_of_scores_is_exact_far_out_in_its_tail():
    """Tilted by an exponential, the rare sums are frequent, so no rounding error hides them."""
    each = Vector("laplace", 2.0, 160_000)
    steps = np.arange(STEPS + 1)
    spread = (each.entries * (each.chances() @ steps**2 - (each.chances() @ steps) ** 2)) ** 0.5
    tilted = each.chances() * np.exp(-6 / spread * steps)
    score = round(each.entries * (tilted @ steps) / tilted.sum())
    masses = masses_of_sum({tuple(tilted / tilted.sum()): each.entries})[: score + 1]
    weights = each.entries * np.log(tilted.sum()) + 6 / spread * np.arange(score + 1)
    exact = 2 * float(masses @ np.exp(weights))
    assert exact < 1e-8
    assert unlikely_noise((each,), score) == pytest.approx(exact, abs=1e-10)


def test_noise_shows_a_mechanism_that_draws_the_size_of_all_its_losses_at_once():
    """It guesses as well as too little noise, and each canary has the promised privacy loss."""
    vectors = (Vector("gaussian", 0.75, 8_000),)
    # The noise of all entries has one size, so all are small or none.
    for noise in (0.0, 1.0, 2.0):
        assert unlikely_noise(vectors, vectors[0].score(np.full(8_000, noise))) <= FALSE_ALARM


def test_a_bound_for_any_mechanism_is_reached_by_randomised_response():
    right = 1 / (1 + np.exp(-1.5))
    for correct in (0, 700, 830, 900):
        exact = stats.binom.sf(correct - 1, 1000, right)
        assert any_mechanism(2000, 1000, correct, 1.5, 0.0) == pytest.approx(exact)


def test_a_bound_for_any_mechanism_allows_for_delta():
    """A mechanism that shows every coin with probability delta, and otherwise answers at random."""
    canaries, delta = 50, 1e-3
    for correct in (20, 40, 50):
        shown = delta * (correct <= canaries)
        truth = shown + (1 - shown) * stats.binom.sf(correct - 1, canaries, 0.5)
        found = any_mechanism(canaries, canaries, correct, 0.0, delta)
        assert truth <= found <= 1
    assert any_mechanism(canaries, canaries, 50, 0.0, delta) < 4 * delta


@pytest.mark.parametrize("scale", [0.4, 2.5])
def test_seeded_noise_has_the_law_of_the_sampler(scale):
    reach = 6
    for kind, law_of in (("laplace", discrete_laplace), ("gaussian", discrete_gaussian)):
        z, masses = noise_masses(kind, scale)
        inside = masses[np.abs(z) < reach]
        assert inside == pytest.approx(law_of(scale, reach)[1:-1], rel=1e-12)


def test_an_audit_refuses_a_file_whose_cells_a_threshold_drops(monkeypatch):
    case = replace(CASES["sba"], file=table_file(500, public=15))
    with pytest.raises(ValueError, match="threshold"):
        planted(case, monkeypatch)


def test_scores_of_canaries_that_change_the_same_entries_are_independent():
    """Each projected noise is standard normal, whatever the coins are."""
    rng = np.random.default_rng(5)
    changes = sparse.csr_matrix(3 * np.eye(4, 6) + rng.random((4, 6)))
    event = GaussianEvent(Fraction(1), 100)
    found = []
    for _ in range(4_000):
        coins = rng.integers(0, 2, 4).astype(bool)
        answer = Answer("gaussian", 1.0, event, 1.0, rng.normal(size=6), np.zeros(6), changes)
        together = (changes @ changes.T).toarray()
        values, vectors = np.linalg.eigh(together)
        moved = np.diag((vectors * np.sqrt(values)) @ vectors.T)
        ratio = scores([answer], coins)
        found.append(ratio / moved + moved / 2 - coins * moved)
    covariance = np.cov(np.array(found).T)
    # 4,000 draws: an entry is off by .11 with a probability below 1e-9.
    assert np.abs(covariance - np.eye(4)).max() < 0.14


@pytest.mark.parametrize("share", [-0.5, 0.3, 1.0, 2.0])
def test_rows_that_are_counted_another_time_are_found_by_what_canaries_add(share):
    """Also if each row is counted less often, or only some rows are; a sound count is not."""
    rng, event = np.random.default_rng(6), GaussianEvent(Fraction(2), 1)
    added = 2.0 * rng.integers(0, 2, 4_000)
    noises = np.rint(rng.normal(0, 2, 4_000))
    nothing = sparse.csr_matrix((1, 4_000))
    sound, faulty = (
        counts([Answer("gaussian", 2.0, event, 1.0, noises + part * added, added, nothing)])
        for part in (0, share)
    )
    assert sound[0] == 1.0
    assert sound[1] == faulty[1] == pytest.approx(np.sqrt((added > 0).sum()))
    assert faulty[0] <= FALSE_ALARM


def test_what_canaries_add_has_no_false_alarms_if_scales_follow_from_earlier_noise():
    """Each scale is chosen so that it helps the noise before it."""
    rng, level, found = np.random.default_rng(7), 0.05, 0
    for _ in range(2_000):
        answers, along = [], 0.0
        for _ in range(3):
            scale = 3.0 if along > 2 else 1.0
            noise = rng.normal(0, scale, 1)
            event, nothing = GaussianEvent(Fraction(scale), 1), sparse.csr_matrix((1, 1))
            answers.append(Answer("gaussian", scale, event, 1.0, noise, np.ones(1), nothing))
            along += float(noise[0]) / scale**2
        found += counts(answers)[0] <= level
    assert found <= stats.binom.isf(FALSE_ALARM, 2_000, level)
