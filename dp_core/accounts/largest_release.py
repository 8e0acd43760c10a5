"""The largest release that an account still allows, and amounts for display: no rule uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.kernel.cost.currency import Currency, Kind, largest_limit
from dp_core.kernel.cost.curves import zcdp_epsilon

SMALLEST_EPSILON, LARGEST_EPSILON = -9, 6
"""Smallest and largest power of ten that `largest_epsilon` tries."""


def epsilon_of(terms: Terms, amount: Amount) -> Fraction:
    """Return the epsilon that an amount alone implies, for display; 0 for a negative amount.

    In a zcdp account these epsilons do not add up: the epsilon of what is left is not the
    account's epsilon minus that of what is used.
    """
    if amount.main <= 0:
        return Fraction(0)
    return amount.main if terms.is_basic else zcdp_epsilon(amount.main, terms.conversion_delta)


def of_kind(
    kind: Kind, delta: Fraction, own_delta: Fraction = Fraction(0)
) -> Callable[[Fraction], Currency | None]:
    """Return a function that gives the currency of a release for its epsilon.

    Args:
        kind: Kind of the currency.
        delta: Delta of the release.
        own_delta: Part of the delta set aside for thresholds; 0 by default.

    Returns:
        A function of epsilon; its result is None if no positive total implies that epsilon.
    """

    def currency_of(epsilon: Fraction) -> Currency | None:
        limit = largest_limit(kind, epsilon, delta - own_delta)
        return Currency(kind, limit, own_delta) if limit > 0 else None

    return currency_of


def largest_epsilon(
    terms: Terms,
    left: Amount,
    delta: Fraction,
    currency_of: Callable[[Fraction], Currency | None],
) -> Fraction:
    """Return the largest epsilon, to 6 digits, of a release that still fits; 0 if none does.

    A release with that epsilon fits in `left`, and one with the next larger number of 6 digits does
    not. In a basic account the result is exactly what is left, if that is short enough to write.
    If the plan chooses another currency for a smaller epsilon, several numbers can satisfy this;
    the function returns one of them.

    Args:
        terms: Terms of the account.
        left: Amount that can still be reserved; negative parts count as 0.
        delta: Delta of the release, as in its spec.
        currency_of: Gives the currency of a release for its epsilon, None if no noise gives that
            epsilon. `of_kind` makes such a function for a fixed kind.
    """

    def fits(epsilon: Fraction) -> bool:
        currency = currency_of(epsilon)
        return currency is not None and terms.promised(currency, epsilon, delta).within(left)

    if left.main <= 0 or left.delta < 0:
        return Fraction(0)
    if terms.is_basic:
        # The reserved epsilon is the release's own, so no search is needed.
        epsilon = short(left.main)
        return epsilon if fits(epsilon) else Fraction(0)
    for power in range(LARGEST_EPSILON, SMALLEST_EPSILON - 1, -1):
        if fits(Fraction(10) ** power):
            break
    else:
        return Fraction(0)
    unit = Fraction(10) ** (power - 5)
    low, high = 10**5, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle * unit):
            low = middle
        else:
            high = middle
    return low * unit


def most_sets(terms: Terms, left: Amount, asked: Currency, delta: Fraction, sets: int) -> int:
    """Return how many sets of a release in split mode fit, each with the noise that was planned.

    Each set is measured with 1/sets of the currency's limit, so fewer sets need a proportionally
    smaller limit. In the currency `pure` the limit is epsilon itself. In the other currencies
    epsilon falls more slowly than the limit; the largest limit follows from `largest_epsilon`.

    Args:
        terms: Terms of the account.
        left: Amount that can still be reserved.
        asked: Currency of the release with all its sets.
        delta: Delta of the release.
        sets: Number of sets that the release asks for.
    """
    if asked.kind == "pure":

        def fits(count: int) -> bool:
            part = replace(asked, limit=asked.limit * count / sets)
            return terms.promised(part, part.limit, delta).within(left)

        return next((count for count in range(sets, 0, -1) if fits(count)), 0)
    currency_of = of_kind(asked.kind, delta, asked.own_delta)
    epsilon = largest_epsilon(terms, left, delta, currency_of)
    fitting = currency_of(epsilon) if epsilon > 0 else None
    return 0 if fitting is None else min(sets, int(sets * fitting.limit // asked.limit))


def six_digits(value: Fraction) -> Fraction:
    """Return a value rounded down to 6 digits, so that the displayed value also fits."""
    down = Context(prec=6, rounding=ROUND_FLOOR)
    return Fraction(down.divide(Decimal(value.numerator), Decimal(value.denominator)))


def short(value: Fraction) -> Fraction:
    """Return a value rounded down to 6 digits, or itself if its fraction is as short to write.

    >>> short(Fraction(2, 3)), short(Fraction(2000001, 3000001))
    (Fraction(2, 3), Fraction(333333, 500000))
    """
    return value if len(str(value)) <= len("0.123456") else six_digits(value)
