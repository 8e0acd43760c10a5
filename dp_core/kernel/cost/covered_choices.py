"""Private choices on the Gaussian curve: what one costs, and what must be left after it.

zCDP adds up choices and Gaussian noise, but its conversion to (epsilon, delta) loses 5 % of epsilon
(at epsilon 1 and delta 1e-9). The Gaussian curve loses nothing, but a single choice is not below
it: at epsilon 0 a choice of range h has delta h/4, and Gaussian noise of the same rho has delta
h/5. A choice is below the curve where enough Gaussian noise follows it, or could follow it.

Privacy:
    *Setting.* Costs are in halves of squared mu. G_r(a) is the largest value of P(S) - a Q(S) for
    a Gaussian mechanism of mu^2 = 2 r: the mean of max(e^Z - a, 0) for Z ~ N(-r, 2 r), under Q.
    Let r be what is left of the total after a choice of range h: the logarithm of P/Q lies, over
    all outcomes, in an interval of length h (Durfee & Rogers 2019; the exponential mechanism, which
    is Gumbel noisy max, has h = 2 sensitivity / scale). Its rho is h^2/8 (Cesar & Rogers 2021).

    *Claim.* If c >= rho r / (r - rho) and r > rho, then a choice that is followed by anything on
    the curve G_r is on the curve G_(r + c).

    *Proof.* Let l be the choice's likelihood ratio P/Q: its mean under Q is 1. Whatever follows,
    also if it was chosen by the outcome, is bounded by G_r, so P(S) - a Q(S) is at most the mean
    over Q of l G_r(a / l), which is the mean of max(X - a, 0) for X = l e^Z with independent Z.
    Compare X with Y = e^(Z'), Z' ~ N(-(r + c), 2 (r + c)). Both have mean 1. The density of log X
    is a mixture of normal densities of variance v = 2 r whose centres lie in an interval of length
    h. The second derivative of its logarithm is -1/v + V/v^2, with V the variance of the centres
    under weights that depend on the place, and V <= h^2/4 = 2 rho (Popoviciu). That of log Y is
    -1/w, w = 2 (r + c). So the logarithm of the quotient of the two densities is concave where

        1/w <= 1/v - 2 rho / v^2,    which is c >= rho r / (r - rho).

    Then the density of X is the larger one on an interval, and that of Y outside of it. Two
    distributions of the same mean whose densities cross like this are in convex order (Shaked &
    Shanthikumar 2007, Theorem 3.A.44): the mean of max(X - a, 0) is at most that of max(Y - a, 0),
    which is G_(r + c)(a). The roles of P and Q can be exchanged.

    *A release.* Gaussian noise that costs c, followed by G_r, is on G_(r + c), whatever its noise
    and question (`curves.gaussian_limit`). By induction from the last event to the first, a release
    is on the curve of its total, as long as each choice leaves enough. The total is fixed
    beforehand; questions, noise and the number of events may depend on what was seen. What is left
    need not be spent: G_r is above the curve of spending less.

    *Order.* The induction goes through the events in the order in which they are drawn. The ledger
    checks what is left in the order of the charges. So a choice's question must not use a result
    that was charged after it. The protocol implies this. A question is fixed before its charge,
    and a result is drawn after its own charge, so a result that is charged later does not exist
    when the question is fixed. Steps that are charged together are all fixed before the first of
    them is drawn. Only a result that is drawn again after a crash could be drawn later than its
    charge. So the ledger refuses to charge a batch of such a release before the previous batch is
    committed (`tasks.ledger.charging.charging_writer`), and a committed result is never drawn
    again. A draw that is repeated is therefore always that of the last charge.

    With c = rho (1 + 1/COVER) what is left has to be COVER times c.
"""

from __future__ import annotations

from fractions import Fraction

COVER = 8
"""What must be left after a choice, as a multiple of its cost.

A choice then costs 1/8 more than its rho. With a tenth of a release for choices, as in `aim` and
`privbayes`, that is 1.1 % of the total, where the curve gives back 10.6 %.
"""


def choice_cost(rho: Fraction) -> Fraction:
    """Return what a choice costs on the Gaussian curve.

    Args:
        rho: Its zero-concentrated rho.
    """
    return rho * (COVER + 1) / COVER


def choice_rho(cost: Fraction) -> Fraction:
    """Return the rho of a choice that costs so much; the inverse of `choice_cost`."""
    return cost * COVER / (COVER + 1)


def covered(cost: Fraction, left: Fraction) -> bool:
    """Return whether enough is left after a choice.

    Args:
        cost: Cost of the choice.
        left: What is left of the release's total after it.
    """
    return left >= COVER * cost
