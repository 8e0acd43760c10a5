"""The tightest guarantee of a zcdp account whose releases so far used Gaussian noise only.

The account enforces a total rho, fixed when it was opened. The conversion of zCDP is valid for any
mixture of mechanisms. If all noise was Gaussian, the exact Gaussian curve gives a smaller epsilon
for the same total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from dp_core.kernel.cost.composition import Tally, Terms
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.curves import MOST_CELLS, SMOOTHING, gaussian_epsilon

CELLS_OF_A_CHARGE = 2**24
"""Upper bound on the cells of one charge that one row can change.

A row changes at most two cells of a table, all of a vector of scores, and all entries of an
interaction, of which there are at most 2^20. 2^24 scores are one for each pair of 5,793 columns,
more than any release computes.
"""


def gaussian_statement(terms: Terms, releases: Iterable[tuple[Currency, Tally]]) -> Fraction | None:
    """Return the epsilon, at the account's delta, of everything released from the account so far.

    Args:
        terms: Terms of the account; its total must not have been changed since it was opened.
        releases: Currency and charges of every release that the account pays for, finished or not,
            including releases of accounts within it.

    Returns:
        None if the Gaussian curve is not known to apply: the account is `basic`, an event is not
        Gaussian, or the charges on the smoothed Gaussian curve exceed the account's rho. None also
        if nothing was released, or if the curve gives no smaller epsilon than the account's.

    Privacy:
        Let L be the rho that the account was opened with. Consider a filter that stops the releases
        before an event that is not Gaussian or that would raise the sum of D^2 / (2 (s^2 - 2))
        above L. This is the filter of `gaussian_limit` with a limit fixed beforehand, so its output
        is private on the Gaussian curve of L at every delta. Outcomes that the filter does not stop
        have the same probabilities with and without it, so the inequality holds for every set of
        such outcomes. The statement covers these outcomes only, and the charges show whether the
        actual one is among them: in the currency `gaussian` an event costs at least
        D^2 / (2 (s^2 - 2)).

        The argument about smoothed discrete noise has a slack for `MOST_CELLS` cells. If the
        charges can change more cells, the slack is added again for each further block of
        `MOST_CELLS` cells, in epsilon and as a factor of delta.
    """
    if terms.is_basic:
        return None
    used, charges = Fraction(0), 0
    for currency, tally in releases:
        if not tally.charges:
            continue
        if currency.kind != "gaussian" or tally.own_delta:
            return None
        used += tally.cost
        charges += tally.charges
    if not charges or used > terms.limit.main:
        return None
    further = max(0, -(-charges * CELLS_OF_A_CHARGE // MOST_CELLS) - 1)
    slack = 2.0 * math.exp(-2 * math.pi**2 * SMOOTHING) * (1 + 1e-9) * MOST_CELLS * further
    delta = terms.delta * (1 - Fraction(slack))
    epsilon = gaussian_epsilon(terms.limit.main, delta) + Fraction(2 * slack * (1 + 1e-9))
    return epsilon if epsilon < terms.epsilon else None
