"""Audits of the guarantee through the curator itself, on neighbouring files.

Each audit counts how often the most telling event happens on two neighbours and bounds the privacy
loss from below. The bound must not pass what was charged: by chance it does with probability
FALSE_ALARM = 1e-9. It must come close, and the same audit of a mechanism whose sensitivity is wrong
by a factor of 2 must find a violation: either fails by chance less than once in a million (the
expected value is more than 5 standard errors away). Cells of one table, and scores of one
statistic, get independent noise: each is one repetition of an experiment with one row.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core import curator as curator_module
from dp_core.accounting.currency import Currency
from dp_core.accounting.curves import gaussian_delta, zcdp_epsilon
from dp_core.curator import Curator
from dp_core.domain import Domain
from dp_core.ledger.session import Grant, MemorySession
from dp_core.marginals import Marginal
from dp_core.scores import InDif
from tests.statistical import delta_at_least, epsilon_at_least

pytestmark = pytest.mark.statistical

REPETITIONS = 50_000


class Tables:
    """A confidential file, given by its tables."""

    def __init__(self, tables):
        self.tables = tables

    def count(self, cliques):
        return {
            clique: Marginal(
                Domain(clique, self.tables[clique].shape), self.tables[clique].astype(np.int64)
            )
            for clique in cliques
        }


def measured(currency, neighbours, cost, counts):
    """Return one noisy one-way table."""
    domain = Domain(("a",), counts.shape)
    curator = Curator(domain, Tables({("a",): counts}), MemorySession(currency, neighbours))
    return curator.measure("measure", [("a",)], [cost])[0].values


def neighbouring_counts(neighbours, repetitions, twice):
    """Return counts on two neighbours, shape (repetitions, cells that one row moves).

    Args:
        neighbours: The relation.
        repetitions: How many experiments.
        twice: Whether a row is counted twice: the sensitivity is then wrong by a factor of 2.
    """
    cells = ([7], [8]) if neighbours == "add-remove" else ([7, 8], [8, 7])
    first, second = (np.tile(np.array(row) * (1 + twice), (repetitions, 1)) for row in cells)
    return first, second


def noisy_counts(kind, neighbours, cost, twice, repetitions=REPETITIONS):
    """Return noisy counts on both neighbours, and the lower and the higher exact count."""
    pair = neighbouring_counts(neighbours, repetitions, twice)
    low, high = min(pair[1].flat), max(pair[1].flat)
    if neighbours == "add-remove":
        low = min(pair[0].flat)
    currency = Currency(kind, cost)
    noisy = [
        measured(currency, neighbours, cost, counts.ravel()).reshape(counts.shape)
        for counts in pair
    ]
    return noisy, low, high


def laplace_audit(neighbours, epsilon, twice=False):
    """Return a lower bound on the epsilon of one table under Laplace noise."""
    (first, second), low, high = noisy_counts("pure", neighbours, epsilon, twice)

    def event(noisy):
        happened = noisy[:, 0] >= high
        return happened & (noisy[:, 1] <= low) if noisy.shape[1] == 2 else happened

    return epsilon_at_least(event(second), event(first))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_tables_under_laplace_noise_keep_the_epsilon_they_were_charged(neighbours):
    epsilon = Fraction(1)
    assert 0.85 < laplace_audit(neighbours, epsilon) <= epsilon
    assert laplace_audit(neighbours, epsilon, twice=True) > 1.5 * epsilon


def test_the_audit_finds_the_sensitivity_of_the_other_neighbours(monkeypatch):
    monkeypatch.setattr(curator_module, "count_l1", lambda _: 1)
    assert laplace_audit("replace-one", Fraction(1)) > 1.5


def zcdp_delta(rho, epsilon):
    """Return the smallest delta at which rho implies epsilon, rounded up."""
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        if zcdp_epsilon(rho, Fraction(middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return high


# currency, cost, and the epsilon at which delta is compared
GAUSSIAN = [("zcdp", Fraction(1, 2), 1.0), ("gaussian", Fraction(1, 8), 0.25)]


def gaussian_claim(kind, cost, epsilon):
    if kind == "zcdp":
        return zcdp_delta(cost, epsilon)
    return gaussian_delta(math.sqrt(2 * cost), epsilon)


def gaussian_audit(kind, neighbours, cost, epsilon, twice=False):
    """Return a lower bound on the delta at `epsilon` of one table under Gaussian noise."""
    repetitions = 15_000
    (first, second), low, high = noisy_counts(kind, neighbours, cost, twice, repetitions)
    squared = 1 if neighbours == "add-remove" else 2
    event_noise = Currency(kind, cost).noise_event(cost, l1=squared, l2_squared=squared)
    variance = float(event_noise.scale) ** 2
    middle = (low + high) / 2

    def event(noisy):
        # The log-likelihood ratio of the two neighbours exceeds epsilon.
        lean = noisy[:, 0] - middle
        if noisy.shape[1] == 2:
            lean = lean - (noisy[:, 1] - middle)
        return lean * (high - low) > epsilon * variance

    return delta_at_least(event(second), event(first), epsilon)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("kind", "cost", "epsilon"), GAUSSIAN)
def test_tables_under_gaussian_noise_keep_the_curve_they_were_charged(
    kind, cost, epsilon, neighbours
):
    claim = gaussian_claim(kind, cost, epsilon)
    honest = gaussian_audit(kind, neighbours, cost, epsilon)
    assert 0 < honest <= claim
    assert gaussian_audit(kind, neighbours, cost, epsilon, twice=True) > claim


# -- vetted statistics

FAR = {  # neighbouring tables between which InDif moves as far as is known
    "add-remove": (np.diag([60, 0, 0]), np.diag([60, 1, 0])),
    "replace-one": (
        np.array([[0, 0, 0], [3, 0, 1], [4, 0, 12]]),
        np.array([[0, 1, 0], [3, 0, 0], [4, 0, 12]]),
    ),
}
MOVES = {"add-remove": (0, 4), "replace-one": (6, 11)}
PAIR = ("a", "b")


def indif(table):
    exact = InDif((PAIR,)).compute(Tables({PAIR: table}).count([PAIR]))
    return int(exact[0])


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_neighbours_of_the_audit_are_neighbours_and_far_apart(neighbours):
    before, after = FAR[neighbours]
    assert np.abs(after - before).sum() == (1 if neighbours == "add-remove" else 2)
    assert (indif(before), indif(after)) == MOVES[neighbours]
    change = InDif((PAIR,)).largest_change(neighbours)
    assert change / 2 < indif(after) - indif(before) <= change


def scores(kind, neighbours, cost, table, length):
    """Return noisy scores, `length` of the same pair."""
    statistic = InDif((PAIR,) * length)
    curator = Curator(
        Domain(PAIR, (3, 3)),
        Tables({PAIR: table}),
        MemorySession(Currency(kind, cost), neighbours),
    )
    return curator.perturb("select", "indif", statistic, cost)


def halve(patch):
    """Let the curator believe in half of the sensitivity of InDif."""
    change = InDif.largest_change
    patch.setattr(InDif, "largest_change", lambda self, by: change(self, by) // 2)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("halved", [False, True])
def test_scores_under_laplace_noise_keep_the_epsilon_they_were_charged(
    neighbours, halved, monkeypatch
):
    """Every score gets an equal part of the cost, here an epsilon of 1."""
    if halved:
        halve(monkeypatch)
    length, (_, high) = 30_000, MOVES[neighbours]
    first, second = (
        scores("pure", neighbours, Fraction(length), table, length) for table in FAR[neighbours]
    )
    bound = epsilon_at_least(second >= high, first >= high)
    if halved:
        assert bound > 1.25
    else:
        assert 0.5 < bound <= 1


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
@pytest.mark.parametrize("halved", [False, True])
def test_scores_under_gaussian_noise_keep_the_curve_they_were_charged(kind, halved, monkeypatch):
    if halved:
        halve(monkeypatch)
    length, cost, epsilon = 20_000, Fraction(1, 2), 1.0
    low, high = MOVES["add-remove"]
    first, second = (
        scores(kind, "add-remove", cost * length, table, length) for table in FAR["add-remove"]
    )
    # mu = 1: variance (4 or 2)^2, and the threshold where the likelihood ratio is e.
    variance = (2 if halved else 4) ** 2 + (2 if kind == "gaussian" else 0)
    threshold = (low + high) / 2 + epsilon * variance / (high - low)
    bound = delta_at_least(second > threshold, first > threshold, epsilon)
    claim = gaussian_claim(kind, cost, epsilon)
    if halved:
        assert bound > claim + 0.05
    else:
        assert 0 < bound <= claim


# -- the private choice

CANDIDATES = (("a", "b"), ("c", "d"))
RIVALS = (  # one row more lets the first pair gain 4 and the second lose 3: 7 of at most 8
    (np.diag([34, 0, 0]), np.array([[16, 9, 0], [9, 0, 0], [0, 0, 0]])),
    (np.diag([34, 1, 0]), np.array([[16, 9, 0], [9, 1, 0], [0, 0, 0]])),
)


class PaysAlways:
    """A session that grants whatever it is asked, as often as it is asked."""

    def __init__(self, currency, neighbours):
        self.currency, self.neighbours = currency, neighbours

    def perform(self, batch, steps, draw):  # noqa: ARG002
        grants = [Grant(1, step) for step in steps]
        return tuple(zip(grants, draw(grants), strict=True))


def test_the_rivals_are_neighbours_and_move_apart():
    for before, after in zip(*RIVALS, strict=True):
        assert np.abs(after - before).sum() == 1
    assert [indif(table) for table in RIVALS[0]] == [0, 10]
    assert [indif(table) for table in RIVALS[1]] == [4, 7]


def chosen_first(kind, epsilon, tables, times):
    """Return in which of many private choices the first pair was chosen."""
    cost = epsilon if kind == "pure" else epsilon**2 / 8
    curator = Curator(
        Domain(("a", "b", "c", "d"), (3, 3, 3, 3)),
        Tables(dict(zip(CANDIDATES, tables, strict=True))),
        PaysAlways(Currency(kind, cost), "add-remove"),
    )
    statistic = InDif(CANDIDATES)
    return np.array([curator.choose("select", "x", statistic, cost) == 0 for _ in range(times)])


# The exponential mechanism tells two candidates apart less than its epsilon allows; permute-and-
# flip nearly uses it up.
@pytest.mark.parametrize(("kind", "times"), [("zcdp", 12_000), ("pure", 9_000)])
@pytest.mark.parametrize("halved", [False, True])
def test_a_private_choice_keeps_the_epsilon_it_was_charged(kind, times, halved, monkeypatch):
    if halved:
        halve(monkeypatch)
    else:
        times = 4_000
    first, second = (chosen_first(kind, Fraction(1), tables, times) for tables in RIVALS)
    bound = epsilon_at_least(second, first)
    if halved:
        assert bound > 1
    else:
        assert 0 < bound <= 1


# -- what the library that draws says itself


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("cost", [Fraction(1, 300), Fraction(1, 2), Fraction(3)])
def test_opendp_states_no_more_than_is_charged(neighbours, cost):
    """Its own map from sensitivity to privacy, for the scale we pass; it rounds up by an ulp."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    l1, l2_squared = (1, 1) if neighbours == "add-remove" else (2, 2)
    charged = float(cost) * (1 + 1e-14)

    laplace = Currency("pure", cost).noise_event(cost, l1=l1, l2_squared=l2_squared)
    make = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(laplace.scale))
    assert make.map(l1) <= charged
    gaussian = Currency("zcdp", cost).noise_event(cost, l1=l1, l2_squared=l2_squared)
    make = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(gaussian.scale))
    assert make.map(math.sqrt(l2_squared)) <= charged

    change = InDif((PAIR,)).largest_change(neighbours)
    for kind, measure in (
        ("pure", dp.max_divergence()),
        ("zcdp", dp.zero_concentrated_divergence()),
    ):
        event = curator_module.choice_event(Currency(kind, cost), cost, change)
        make = dp.m.make_noisy_max(
            domain, dp.linf_distance(T="i64"), measure, scale=float(event.scale)
        )
        assert 0.999 * cost < make.map(change) <= charged
