"""One-run audits with canaries: thousands of records, each in the file or not by its own coin.

`tests/canaries.py` says how an audit works, and `docs/canary-audit.md` what it proves. The file,
the options and the number of canaries of each case are such that noise with a scale that is 10 %
too small is found with a probability above .99, by a deterministic computation. A sound release
fails the test of the guesses with a probability of at most FALSE_ALARM = 1e-9, and that of the
scores with about as much: the chi-square distribution is an approximation.

Planted faults are at the sampler's boundary, with noise from a seeded generator: those tests do
not fail by chance.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.wall import curator as curator_module
from dp_core.wall.accounting.events import GaussianEvent, LaplaceEvent
from tests.canaries import (
    CASES,
    CanaryFile,
    audit,
    chance_of_guesses,
    fewest_to_refute,
    power,
    sampler,
    scores_power,
)
from tests.full import some
from tests.guesses import any_mechanism, best_accuracy, fit, fit_power, law, noise_masses
from tests.statistical import FALSE_ALARM, discrete_gaussian, discrete_laplace

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

REPEATED = ("auto", "aim", "sba", "auto, its whole epsilon")
NAMES = some(CASES, lambda name: name in REPEATED)
FAULTY = some(CASES, lambda name: name in ("auto", "sba"))
REPETITIONS = 30
"""So many of so many show a probability above .9, at a confidence of 95 %."""


def planted(case, patch, *, factor=1.0, times=1, seed=1):
    """Return what an audit finds with noise from a seeded generator."""
    with sampler(patch, factor=factor, seed=seed):
        return audit(case, rng=np.random.default_rng(seed), times=times)


@pytest.mark.parametrize("name", NAMES)
def test_a_release_keeps_what_it_claims(name):
    case = CASES[name]
    found = audit(case, rng=np.random.default_rng())
    assert found.p_value > FALSE_ALARM
    assert found.fit > FALSE_ALARM
    # Nearly all of the budget is spent on tables with the canaries' cells, and this very release
    # would hardly have passed with less noise.
    assert found.share > 0.89
    assert power(case, found.events, FALSE_ALARM, factor=0.9) > 0.99
    assert scores_power(case, found.events, FALSE_ALARM, factor=0.9) > 0.99


@pytest.mark.parametrize("name", FAULTY)
def test_a_scale_10_percent_too_small_is_found(name, monkeypatch):
    found = planted(CASES[name], monkeypatch, factor=0.9)
    assert found.p_value <= FALSE_ALARM
    assert found.fit <= FALSE_ALARM


@pytest.mark.parametrize("name", FAULTY)
def test_a_record_that_is_counted_twice_is_found(name, monkeypatch):
    case = CASES[name]
    found = planted(case, monkeypatch, times=2)
    assert found.p_value <= FALSE_ALARM
    assert power(case, found.events, FALSE_ALARM, moved=2) > 1 - FALSE_ALARM


@pytest.mark.full
@pytest.mark.parametrize("name", ["auto, replace-one", "sba, replace-one"])
def test_the_sensitivity_of_the_other_neighbours_is_found(name, monkeypatch):
    for sensitivity in ("count_l1", "count_l2_squared"):
        monkeypatch.setattr(curator_module, sensitivity, lambda _: 1)
    assert planted(CASES[name], monkeypatch).p_value <= FALSE_ALARM


@pytest.mark.full
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_audits_find_what_the_computed_power_says(name, monkeypatch):
    """At full size: releases whose noise is 10 % too small, and releases without a fault."""
    case = CASES[name]
    for factor, repetitions in ((0.9, REPETITIONS), (1.0, 10)):
        runs = [planted(case, monkeypatch, factor=factor, seed=seed) for seed in range(repetitions)]
        for find in (lambda run: run.p_value, lambda run: run.fit):
            found = sum(find(run) <= FALSE_ALARM for run in runs)
            assert found == (repetitions if factor < 1 else 0)
        # The power is computed from the probability that a guess is right; so many measure it.
        expected = [chance_of_guesses(case, run.events, factor=factor) for run in runs]
        mean = sum(number * chance for number, chance, _ in expected)
        variance = sum(number * chance * (1 - chance) for number, chance, _ in expected)
        apart = abs(sum(run.correct for run in runs) - mean) / variance**0.5
        assert 2 * stats.norm.sf(apart) > FALSE_ALARM


# -- the audit's own arithmetic


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("level", [1e-9, 0.05])
def test_false_alarms_are_as_rare_as_stated(name, level):
    """Exactly, where the claim is used up: by guesses that are as good as it allows."""
    case = CASES[name]
    events = (LaplaceEvent(Fraction(2, 5), 1), GaussianEvent(Fraction(1, 2), 1))
    guesses = case.guesses or case.file.canaries
    best = (
        best_accuracy(events) if case.claim == "charges" else 1 / (1 + np.exp(-float(case.epsilon)))
    )
    least = fewest_to_refute(case, events, guesses, level)
    assert stats.binom.sf(least - 1, guesses, best) <= level
    assert stats.binom.sf(least - 3, guesses, best) > level


def test_charges_allow_the_accuracy_of_the_best_guess():
    epsilon = 0.8
    laplace = LaplaceEvent(Fraction(1 / epsilon), 1)
    assert best_accuracy((laplace,)) == pytest.approx(1 / (1 + np.exp(-epsilon)), abs=1e-9)
    # Replace-one: two cells, on which one guess is based.
    both = LaplaceEvent(Fraction(2 / epsilon), 2)
    half = 1 / (1 + np.exp(-epsilon / 2))
    assert best_accuracy((both,)) == pytest.approx(half, abs=1e-9)
    # Wide Gaussian noise is nearly continuous, and several tables tell as much as one.
    wide, other = (GaussianEvent(Fraction(scale), 1) for scale in (30, 40))
    for events, mu in (((wide,), 1 / 30), ((wide, other), 1 / 24)):
        assert best_accuracy(events) == pytest.approx(stats.norm.cdf(mu / 2), abs=1e-6)


def test_the_best_guess_is_by_the_sign_of_the_score():
    events = (GaussianEvent(Fraction(3, 4), 1), LaplaceEvent(Fraction(2), 1))
    assert law(events).accuracy == pytest.approx(best_accuracy(events), abs=1e-9)


@pytest.mark.parametrize("factor", [1.0, 0.97])
def test_scores_are_found_to_have_another_law_as_often_as_computed(factor):
    events = (GaussianEvent(Fraction(3, 4), 1), LaplaceEvent(Fraction(2), 1))
    expected, drawn = law(events), law(events, factor=factor)
    rng, canaries, level = np.random.default_rng(3), 8_000, 0.05
    found = np.mean(
        [
            fit(rng.choice(drawn.scores, canaries, p=drawn.masses), expected) <= level
            for _ in range(400)
        ]
    )
    wanted = fit_power(expected, drawn, canaries, level)
    assert found == pytest.approx(wanted, abs=4 * (wanted * (1 - wanted) / 400) ** 0.5)
    assert wanted == pytest.approx(level) if factor == 1 else 0.2 < wanted < 0.8


def test_scores_show_a_mechanism_that_draws_the_size_of_all_its_losses_at_once():
    """It guesses as well as too little noise, and each canary has the promised privacy loss."""
    events = (GaussianEvent(Fraction(3, 4), 1),)
    promised, faulty = law(events), law(events, factor=0.9).accuracy
    sizes, place = np.unique(np.abs(promised.scores).round(6), return_inverse=True)
    chances = np.bincount(place, promised.masses)
    right = 1 / (1 + np.exp(-sizes))
    # Given its size, a score is positive with this probability: each has the law as promised.
    positive = np.bincount(place, promised.masses * (promised.scores > 0))
    assert positive == pytest.approx(right * chances, abs=1e-6)
    assert chances[right >= faulty].sum() > 0.2
    rng = np.random.default_rng(4)
    for size, chance in zip(sizes[:3], right, strict=False):
        correct = rng.random(8_000) < chance
        assert fit(np.where(correct, size, -size), promised) <= FALSE_ALARM


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
    case = replace(CASES["sba"], file=CanaryFile(500, public=15))
    with pytest.raises(ValueError, match="threshold"):
        planted(case, monkeypatch)


def test_a_column_has_room_for_the_canaries():
    with pytest.raises(ValueError, match="65,536"):
        CanaryFile(40_000, neighbours="replace-one")
