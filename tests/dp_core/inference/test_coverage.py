"""That each rule's intervals hold what they say for sets made as it supposes; seeds are fixed."""

import numpy as np
import pytest

from dp_core.inference.combine import combine
from tests.full import some

REPEATS, SETS = 2000, 5
BAND = 5 * (0.95 * 0.05 / REPEATS) ** 0.5
"""Five standard errors of a coverage of 95 %."""


def coverage(rule, draw, noise=1.0):
    """Return how often 0 is inside, when the file's own estimate has standard error 1."""
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(REPEATS):
        file = rng.normal()
        low, high = combine(draw(rng, file, noise), [1.0] * SETS, rule).interval(0.95)
        inside += low <= 0 <= high
    return inside / REPEATS


def split(rng, file, noise):
    """Every set has noise of its own, of m times the variance."""
    return file + noise * SETS**0.5 * rng.normal(size=SETS)


def posterior(rng, file, noise):
    """Draws of what the file's estimate may be, given it with noise."""
    return file + noise * rng.normal() + noise * rng.normal(size=SETS)


def shared(rng, file, noise):
    """One noise for all sets, and the drawing of rows."""
    return file + noise * rng.normal() + 0.3 * rng.normal(size=SETS)


@pytest.mark.parametrize("noise", some([0.3, 1.0, 3.0], lambda noise: noise == 1))
@pytest.mark.parametrize(("rule", "draw"), [("split", split), ("posterior", posterior)])
def test_a_rule_covers_what_it_says_for_its_own_sets(rule, draw, noise):
    assert coverage(rule, draw, noise) == pytest.approx(0.95, abs=BAND + 0.01)


def test_the_rule_of_other_sets_does_not_cover():
    assert coverage("shared", shared) < 0.9
    assert coverage("split", posterior) < 0.9
    # Too wide is no honest interval either.
    assert coverage("posterior", split) > 0.98
