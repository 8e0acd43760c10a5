"""Events that cost at most a budget, for extensions; the kernel checks what they cost."""

from __future__ import annotations

import math
from fractions import Fraction

from dp_core.kernel.cost.currency import Currency, at_least, root_at_least
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent, kept_by_chance

VIRTUAL_PARTS = 1024
"""Number of virtual records of `PerturbedDrawsEvent`: a multiple of 1 / `VIRTUAL_PARTS`."""


LEAST_DRAW = 1e-18
"""Smallest epsilon of one draw; `log_one_plus_inverse` computes its cost down to 1e-20."""


ENOUGH = 64
"""Upper bound on the epsilon or rho used for one draw; it suffices for the fewest virtual records,
1 / `VIRTUAL_PARTS`, and its exponential does not overflow."""


def draws_event(
    currency: Currency, cost: Fraction, draws: int, rows: int = 1
) -> PerturbedDrawsEvent:
    """Return the event of drawing codes independently, with the fewest virtual records.

    Args:
        currency: Currency of the release.
        cost: Part of `limit`, positive; the event costs at most this.
        draws: Largest number of draws whose probabilities differ between two files that differ
            in one row.
        rows: Largest number of rows of one unit of privacy; 1 by default.

    Raises:
        ValueError: if the cost is not positive, the currency is neither pure nor zcdp, or the
            epsilon of one draw is below `LEAST_DRAW`.
    """
    _check_cost(currency, cost, "Draws have")
    # A larger cost would not reduce the virtual records, and its exponential would overflow.
    each = float(min(cost / draws, Fraction(ENOUGH)))
    each = (each if currency.kind == "pure" else math.sqrt(2 * each)) / rows
    if each < LEAST_DRAW:
        raise ValueError(f"A draw needs an epsilon of {LEAST_DRAW:g} or more.")
    # Floating point only guesses; the event's own cost decides.
    parts = max(1, math.ceil(VIRTUAL_PARTS / math.expm1(each)))
    while (
        currency.cost(event := PerturbedDrawsEvent(Fraction(parts, VIRTUAL_PARTS), draws, rows))
        > cost
    ):
        parts += max(1, parts >> 40)
    return event


def _check_cost(currency: Currency, cost: Fraction, what: str) -> None:
    if cost <= 0:
        raise ValueError(f"A cost must be positive, not {cost}.")
    if currency.kind not in ("pure", "zcdp"):
        raise ValueError(f"{what} no cost on the Gaussian curve; use pure or zcdp.")


URN_PARTS = 1 << 20
"""Number of virtual records of `PolyaUrnEvent`: a multiple of 1 / `URN_PARTS`."""


def urn_event(currency: Currency, cost: Fraction, records: int, rows: int = 1) -> PolyaUrnEvent:
    """Return the event of drawing records from one urn, with the fewest virtual records.

    Args:
        currency: Currency of the release.
        cost: Part of `limit`, positive; the event costs at most this.
        records: Number of draws.
        rows: Largest number of rows of one unit of privacy; 1 by default.

    Raises:
        ValueError: if the cost is not positive, the currency is neither pure nor zcdp, or the
            epsilon is below `LEAST_DRAW`.
    """
    _check_cost(currency, cost, "Draws have")
    # A larger cost would not reduce the virtual records, and its exponential would overflow.
    whole = float(min(cost, Fraction(ENOUGH**2)))
    whole = min((whole if currency.kind == "pure" else math.sqrt(2 * whole)) / rows, ENOUGH)
    if whole < LEAST_DRAW:
        raise ValueError(f"An urn needs an epsilon of {LEAST_DRAW:g} or more.")
    # Floating point only guesses; the event's own cost decides.
    parts = max(1, math.ceil(URN_PARTS * records / math.expm1(whole)))
    while currency.cost(event := PolyaUrnEvent(Fraction(parts, URN_PARTS), records, rows)) > cost:
        parts += max(1, parts >> 40)
    return event


def threshold_event(
    currency: Currency,
    cost: Fraction,
    delta: Fraction,
    *,
    l1: int,
    rows: int = 1,
    threshold: int | None = None,
) -> StabilityEvent:
    """Return the stability-based histogram that costs at most `cost` and `delta`.

    Args:
        currency: Currency of the release.
        cost: Part of `limit`, positive.
        delta: Part of `own_delta`, positive.
        l1: L1 sensitivity of the table of counts.
        rows: Largest number of rows of one unit of privacy; 1 by default.
        threshold: Least noisy count that is kept, records; None (the default) for the least
            that `delta` allows.

    Raises:
        ValueError: if the cost is not positive, the currency is neither pure nor zcdp, no
            threshold is known for `delta`, or the given threshold is below the least one.
    """
    _check_cost(currency, cost, "A threshold has")
    # zCDP: rho = epsilon^2/2, so the scale l1/epsilon is l1/sqrt(2 rho).
    scale = (
        at_least(l1 / cost)
        if currency.kind == "pure"
        else root_at_least(Fraction(l1**2) / (2 * cost))
    )
    least = threshold_for(scale, delta, rows)
    if threshold is not None and threshold < least:
        raise ValueError(f"A threshold of {threshold} is too low; it must be at least {least}.")
    return StabilityEvent(scale, l1, threshold or least, rows)


def threshold_for(scale: Fraction, delta: Fraction, rows: int = 1) -> int:
    """Return the least threshold whose `kept_by_chance` is at most `delta`.

    Args:
        scale: Scale of the discrete Laplace noise, records; positive.
        delta: From 1e-800 to below 1.
        rows: Largest number of records of a unit; 1 by default.

    Raises:
        ValueError: if the scale or delta is outside its range.

    >>> threshold_for(Fraction(4), Fraction(1, 10_000))
    36
    """
    if scale <= 0 or not Fraction(1, 10**800) <= delta < 1:
        raise ValueError(
            f"A threshold needs a positive scale and a delta from 1e-800 to below 1, not {scale}"
            f" and {delta}."
        )
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    rate = float(1 / scale)
    reach = (-log_delta - math.log1p(math.exp(-rate))) * float(scale)
    found = math.floor(max(1 + reach + math.log(rows) * float(scale), rows + reach, rows))
    # Floating point gives a starting value; the exact bound decides.
    while kept_by_chance(scale, found, rows) > delta:
        found += 1
    while found > rows and kept_by_chance(scale, found - 1, rows) <= delta:
        found -= 1
    return found
