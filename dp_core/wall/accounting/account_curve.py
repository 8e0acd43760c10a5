"""The tightest statement of a zcdp account whose releases were all Gaussian noise so far.

The account enforces a total rho, fixed when it was opened. zCDP converts that rho for any mixture
of mechanisms. Where everything was Gaussian noise, the exact Gaussian curve gives a smaller epsilon
for the same total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from dp_core.wall.accounting.composition import Tally, Terms
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.curves import MOST_CELLS, SMOOTHING, gaussian_epsilon

CELLS_OF_A_CHARGE = 2**24
"""Cells of one charge that one row may change: two of a table, all of a vector of scores, and all
entries of an interaction, 2^20 at most.

One score for each pair of 5,793 columns; nobody counts that many tables.
"""


def gaussian_statement(terms: Terms, releases: Iterable[tuple[Currency, Tally]]) -> Fraction | None:
    """Return the epsilon, at the account's delta, of everything that was released from it so far.

    None where the curve is not known to hold: a basic account, another mechanism than Gaussian
    noise, or more of it than the account's rho on the curve of smoothed noise. None also where
    nothing was released, so that there is nothing to state.

    Args:
        terms: Of the account; its total must not have been changed since it was opened.
        releases: Currency and charges of every release that the account pays for, also by the
            accounts within it, finished or not.

    Privacy:
        Let L be the rho that the account was opened with. Take its releases, and stop them before
        an event that is not Gaussian or that brings the sum of D^2 / (2 (s^2 - 2)) above L. That
        is the filter of `gaussian_limit`, with a limit fixed beforehand, so whatever it lets out
        is private on the Gaussian curve of L at every delta. Outcomes in which it has not stopped
        anything have the same probabilities under the account, so the inequality holds for every
        set of them. Only these are claimed, and the charges tell whether it is one of them: what a
        release in the currency `gaussian` pays for an event is at least the smoothed term.

        The smoothing of discrete noise has a slack for `MOST_CELLS` cells. An account can have
        more charges than that allows for; each further block of as many cells is paid for again,
        in epsilon and as a factor of delta.
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
