"""What can be said of a finished release: the guarantee to quote, and sometimes a second one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from dp_core.schema.privacy import Privacy, Relation
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.events import Event
from dp_core.wall.accounting.loss_distribution import tightest_epsilon

PLD = (
    "privacy loss distribution of the discrete noise of tables that were all planned beforehand"
    " (dominating pairs compose: Zhu, Dong & Wang 2022), rounded up"
)
"""Theorem behind a guarantee that is read from the losses."""

SECOND_DELTA = Fraction(1, 10**6)
"""Delta of the second statement of a release that has none of its own."""

GAIN = Fraction(9, 10)
"""A second statement is of use where its epsilon is at most this part of the first one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A statement of differential privacy.

    Attributes:
        epsilon: Exact.
        delta: Exact; 0 for pure differential privacy.
        theorem: Why it holds.
    """

    epsilon: Fraction
    delta: Fraction
    theorem: str


@functools.lru_cache(maxsize=16)
def implied(currency: Currency, privacy: Privacy) -> Guarantee:
    """Return what the reserved total implies: pure where it can be, otherwise at the same delta.

    A pure total with a delta set aside for thresholds has that delta, and no other.

    The total, not the sum of the charges: the total was fixed before the data were touched, and
    only such a total composes under every choice made on the way.
    """
    delta = currency.own_delta if currency.kind == "pure" else privacy.delta
    # Conversions round up: what was enforced holds in any case.
    epsilon = min(currency.epsilon(currency.limit, delta), privacy.epsilon)
    return Guarantee(epsilon=epsilon, delta=delta, theorem=currency.theorem)


def tightest(currency: Currency, privacy: Privacy, events: Sequence[Event]) -> Guarantee:
    """Return the guarantee to quote of a release whose events were all fixed beforehand.

    What its total implies, or less if its privacy loss distribution is known and says so. A release
    that is purely private stays so: that holds with certainty and needs no choice of a delta.

    Args:
        currency: What the release paid in, with the total that was reserved.
        privacy: What was enforced.
        events: All of the release: every noise that was drawn.
    """
    certain = implied(currency, privacy)
    read = _read(events, privacy.relation, certain.delta) if certain.delta else None
    return read if read and read.epsilon < certain.epsilon else certain


def second(currency: Currency, privacy: Privacy, events: Sequence[Event]) -> Guarantee | None:
    """Return what a purely private release loses except with a small probability.

    It is of use where many releases are added up or compared with Gaussian ones. It adds to the
    pure guarantee and never takes its place.

    Args:
        currency: As for `tightest`.
        privacy: As for `tightest`; its delta is taken, or `SECOND_DELTA` where it has none.
        events: As for `tightest`.

    Returns:
        None if the release is not pure, or there is little to gain.
    """
    certain = implied(currency, privacy)
    if certain.delta:
        return None
    read = _read(events, privacy.relation, privacy.delta or SECOND_DELTA)
    return read if read and read.epsilon <= GAIN * certain.epsilon else None


def shown(events: Sequence[Event], relation: Relation, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether the losses of events that were fixed beforehand show a guarantee."""
    try:
        return _epsilon(events, relation, delta) <= epsilon
    except ValueError:  # of these events, or at this delta, nothing is known
        return False


def _epsilon(events: Sequence[Event], relation: Relation, delta: Fraction) -> Fraction:
    """Return the epsilon that losses show, where they are known.

    Raises:
        ValueError: if they are not.

    Privacy:
        Of a person of several rows it is not known which spread over the cells of a table is the
        worst for discrete noise, nor whether one spread is for all deltas and under composition.
    """
    if relation.max_rows != 1:
        raise ValueError("No privacy loss distribution is known of a person of several rows.")
    return tightest_epsilon(events, relation.neighbours, delta)


def _read(events: Sequence[Event], relation: Relation, delta: Fraction) -> Guarantee | None:
    try:
        epsilon = float(_epsilon(events, relation, delta))
    except ValueError:  # no loss distribution is known: the currency's arithmetic stands
        return None
    # Whoever recomputes it on another machine, whose exp and log may differ in the last digit, must
    # not find more than was stated; their results agree to more than ten digits.
    generous = Decimal(epsilon * (1 + 1e-9)).normalize(Context(prec=6, rounding=ROUND_CEILING))
    return Guarantee(epsilon=Fraction(generous), delta=delta, theorem=PLD)
