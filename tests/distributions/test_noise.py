"""The noise that is drawn is the noise that was charged for.

Each test that accepts fails by chance with probability FALSE_ALARM = 1e-9. What has to be rejected
is so many standard errors away that chance lets it pass less often still.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency, choice_event
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms import private_choice
from dp_core.kernel.mechanisms.additive_noise import PIECE_CELLS
from dp_core.kernel.mechanisms.grant import Grant, Step
from tests.choices import exponential_mechanism, permute_and_flip
from tests.statistical import FALSE_ALARM, discrete_gaussian, discrete_laplace, fits

pytestmark = pytest.mark.statistical

CELLS = 25_000  # a scale that is a quarter off is let pass with a chance below 1e-50


class Constant:
    """Counts the same in every cell."""

    def __init__(self, domain, count):
        self.domain, self.cell = domain, count

    def count(self, cliques):
        found = {}
        for clique in cliques:
            domain = self.domain.project(clique)
            found[clique] = Marginal(domain, np.full(domain.sizes, self.cell, dtype=np.int64))
        return found


def noise_of(kind, cost, *, sizes=(CELLS,), neighbours="add-remove", count=7):
    """Return the noise of one-way tables measured in one call, and the scale they state."""
    domain = Domain(tuple("abcdef"[: len(sizes)]), sizes)
    session = MemorySession(Currency(kind, cost * len(sizes)), neighbours)
    curator = Curator(Kernel(domain, Constant(domain, count), session))
    found = curator.measure("measure", [(name,) for name in domain.columns], [cost] * len(sizes))
    return [table.values - count for table in found], found[0].scale


@pytest.mark.parametrize(
    ("kind", "neighbours", "cost", "scale"),
    [
        ("pure", "add-remove", Fraction(1), 1.0),
        ("pure", "replace-one", Fraction(1, 4), 8.0),
        ("zcdp", "add-remove", Fraction(1, 2), 1.0),
        ("zcdp", "replace-one", Fraction(1, 64), 8.0),
        ("gaussian", "add-remove", Fraction(1, 28), 4.0),
    ],
)
def test_counts_get_the_noise_that_was_charged_and_not_one_a_quarter_off(
    kind, neighbours, cost, scale
):
    (noise,), stated = noise_of(kind, cost, neighbours=neighbours)
    assert stated == pytest.approx(scale, rel=1e-12)
    law = discrete_laplace if kind == "pure" else discrete_gaussian
    reach = math.ceil(12 * scale)
    assert fits(noise, law(scale, reach)) > FALSE_ALARM
    for wrong in (0.8, 1.25):
        assert fits(noise, law(wrong * scale, reach)) < FALSE_ALARM


@pytest.mark.parametrize(("kind", "cost"), [("pure", Fraction(1, 5)), ("zcdp", Fraction(1, 50))])
def test_no_noise_is_used_twice(kind, cost):
    size = 20_000
    (one, two), _ = noise_of(kind, cost, sizes=(size, size))
    (other,), _ = noise_of(kind, cost, sizes=(size,))
    # Within a table, between neighbouring cells, between tables of a call, and between calls.
    # A thread draws a piece of a table at a time.
    pairs = [(one[:-1], one[1:]), (one[: size // 2], one[size // 2 :]), (one, two), (one, other)]
    pairs += [(one[:-PIECE_CELLS], one[PIECE_CELLS:])]
    bound = stats.norm.isf(FALSE_ALARM / 2)
    for first, second in pairs:
        correlation = np.corrcoef(first, second)[0, 1]
        assert abs(correlation) * math.sqrt(first.size) < bound
        assert not np.array_equal(first, second)
        assert not np.array_equal(first, -second)


def test_the_noise_does_not_depend_on_the_count():
    """Also where a noisy count is below zero, or a count could run into the end of its type."""
    for count in (0, 3, 2**40):
        (noise,), scale = noise_of("pure", Fraction(1, 2), sizes=(20_000,), count=count)
        assert fits(noise, discrete_laplace(scale, 24)) > FALSE_ALARM


# -- the private choice


@pytest.mark.parametrize(
    ("kind", "law"), [("zcdp", exponential_mechanism), ("pure", permute_and_flip)]
)
def test_the_private_choice_has_its_distribution_and_not_that_of_another_scale(kind, law):
    """4,500 choices among five: any of the wrong laws is let pass with a chance below 1e-11.

    Of the scores that were tried, these let the laws differ the most.
    """
    scores = np.array([2, 10, 1, 3, 2], dtype=np.int64)
    cost = Fraction(1, 2) if kind == "zcdp" else Fraction(2)
    event = choice_event(Currency(kind, cost), cost, 4)
    assert event.epsilon() == 2  # of a scale of 4
    grant = Grant(1, Step("select", "x", cost, event, (1,)))
    seen = np.bincount([private_choice.choose(scores, grant) for _ in range(4_500)], minlength=5)
    scale = float(event.scale)
    assert stats.chisquare(seen, law(scores, scale) * seen.sum()).pvalue > FALSE_ALARM
    others = [exponential_mechanism, permute_and_flip]
    others.remove(law)
    wrong = [law(scores, scale / 2), law(scores, 2 * scale), others[0](scores, scale)]
    for chances in wrong:
        assert stats.chisquare(seen, chances * seen.sum()).pvalue < FALSE_ALARM
