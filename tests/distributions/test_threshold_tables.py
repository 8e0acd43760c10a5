"""Audits of thresholds through the curator, on neighbouring files.

As in `test_audit`: a bound from below on what is lost must not pass what was charged, by chance
with probability FALSE_ALARM = 1e-9; and the same audit of a threshold that is too low, or of a row
that counts twice, must find a violation. Cells have independent noise: each is one experiment.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions import thresholds
from dp_core.kernel.kernel import Kernel
from dp_core.methods.drawn_answers import threshold_table
from dp_core.plan.currency_choice import threshold_currency
from tests.distributions.audited_files import Column
from tests.full import some
from tests.statistical import FALSE_ALARM, delta_at_least, discrete_laplace, epsilon_at_least, fits

pytestmark = pytest.mark.statistical

CELLS = 24_000  # a threshold that is too low by one is found but for a chance below 1e-9
RELATIONS = [("add-remove", 1), ("replace-one", 2)]


def kept(counts, neighbours, epsilon, delta, *, least=None, kind="pure"):
    """Return the noisy count of each code, 0 where it was not kept, and the charge's step."""
    currency = threshold_currency(Fraction(epsilon), Fraction(delta))
    if kind == "zcdp":
        currency = Currency("zcdp", Fraction(epsilon) ** 2 / 2, Fraction(delta))
    session = MemorySession(currency, neighbours)
    domain = Domain(("a",), (len(counts),))
    curator = Curator(Kernel(domain, Column(counts), session))
    table = threshold_table(
        curator,
        "measure",
        ("a",),
        currency.limit,
        currency.own_delta,
        capacity=len(counts),
        least=least,
    )
    found = np.zeros(len(counts), dtype=np.int64)
    found[table.cells[:, 0]] = table.values
    return found, session.charges[0].step


def careless(monkeypatch, change):
    """Let the release look at other counts than the file's."""
    release = thresholds.release

    def wrong(cells, counts, sizes, grant):
        return release(cells, change(counts), sizes, grant)

    monkeypatch.setattr(thresholds, "release", wrong)


def appearance(neighbours, epsilon=1, delta=Fraction(1, 12)):
    """Return a bound from below on delta from cells that one of two neighbours does not have.

    Under replace-one each experiment is two cells: a record that moves from one to the other.
    """
    one = np.ones(CELLS, dtype=np.int64)
    first, step = kept(one, neighbours, epsilon, delta)
    if neighbours == "add-remove":
        second = np.zeros(CELLS, dtype=bool)
    else:
        moved = np.tile([1, 0], CELLS // 2)
        first, second = (kept(file, neighbours, epsilon, delta)[0] for file in (moved, 1 - moved))
        first, second = first[::2] > 0, second[::2] > 0
    bound = delta_at_least(first > 0, second, float(step.event.epsilon()))
    return bound, float(step.event.own_delta())


@pytest.mark.parametrize(("neighbours", "moved"), some(RELATIONS, lambda each: each[1] == 1))
def test_a_new_cell_appears_as_rarely_as_was_charged(neighbours, moved, monkeypatch):
    epsilon = Fraction(moved, 2)  # the same noise, of scale 2, under both relations
    bound, claim = appearance(neighbours, epsilon)
    assert 0.4 * claim < bound <= claim <= 1 / 12  # under replace-one .62 on average
    # A threshold that is too low by so much.
    for low in (1, 2):
        with monkeypatch.context() as wrong:
            careless(wrong, lambda counts, low=low: counts + low)
            bound, claim = appearance(neighbours, epsilon)
        assert bound > claim


@pytest.mark.full
@pytest.mark.parametrize(("neighbours", "moved"), RELATIONS)
def test_a_row_that_counts_twice_is_found_where_a_cell_appears(neighbours, moved, monkeypatch):
    careless(monkeypatch, lambda counts: 2 * counts)
    bound, claim = appearance(neighbours, Fraction(moved))
    assert bound > 1.2 * claim  # under replace-one 1.74 on average


def change(neighbours, epsilon, times=1):
    """Return a bound from below on epsilon from counts that move by one on both files."""
    delta = Fraction(1, 100)
    moved = [[7], [8]] if neighbours == "add-remove" else [[7, 8], [8, 7]]
    low, high = 7 * times, 8 * times
    happened = []
    for cells in moved:
        counts = np.tile(np.array(cells) * times, CELLS)
        noisy = kept(counts, neighbours, epsilon, delta)[0].reshape(CELLS, -1)
        event = noisy[:, 0] >= high
        happened.append(event & (noisy[:, 1] <= low) if noisy.shape[1] == 2 else event)
    return epsilon_at_least(happened[1], happened[0])


@pytest.mark.parametrize(("neighbours", "moved"), RELATIONS)
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_charge_is_the_formula(neighbours, moved, kind):
    epsilon, delta = Fraction(1, 2), Fraction(1, 10**4)
    _, step = kept([5, 6], neighbours, epsilon, delta, kind=kind)
    event = step.event
    assert event.l1_sensitivity == moved
    assert event.scale == moved / epsilon
    alpha = math.exp(-1 / event.scale)
    tails = [alpha ** (t - 1) / (1 + alpha) for t in (event.threshold, event.threshold - 1)]
    assert tails[0] <= delta < tails[1]
    assert float(event.own_delta()) == pytest.approx(tails[0], rel=1e-12)
    assert step.cost == (epsilon if kind == "pure" else epsilon**2 / 2)
    # Methods, section 1: epsilon .5 and delta 1e-4 under replace-one.
    assert event.threshold == (36 if moved == 2 else 19)


def test_the_noise_is_discrete_laplace_of_the_scale_that_was_charged():
    counts = np.full(CELLS, 1000)
    found, step = kept(counts, "add-remove", Fraction(1, 3), Fraction(1, 10**6))
    assert (found > 0).all()
    noise, scale = found - counts, float(step.event.scale)
    assert scale == 3
    assert fits(noise, discrete_laplace(scale, 30)) > FALSE_ALARM
    for wrong in (0.8, 1.25):
        assert fits(noise, discrete_laplace(scale * wrong, 30)) < FALSE_ALARM


def test_cells_are_kept_as_often_as_the_formula_says():
    from benchmarks.papers.threshold_error import kept_probability

    for count in (13, 17, 20):  # a threshold one off is 15 standard errors or more away
        found, step = kept(np.full(CELLS, count), "add-remove", Fraction(1, 4), Fraction(1, 100))
        chance = kept_probability([count], step.event.threshold, float(step.event.scale))[0]
        seen, error = (found > 0).mean(), math.sqrt(chance * (1 - chance) / CELLS)
        assert abs(seen - chance) < 6 * error
        # One too low or too high would be seen.
        for other in (-1, 1):
            threshold = step.event.threshold + other
            wrong = kept_probability([count], threshold, float(step.event.scale))[0]
            assert abs(seen - wrong) > 6 * error
