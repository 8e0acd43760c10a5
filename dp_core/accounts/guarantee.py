"""The published guarantee of a finished release, and for some releases a second statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from dp_core.accounts.loss_distribution import tightest_epsilon
from dp_core.accounts.requested import Privacy
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Relation

THEOREMS = {
    "pure": "basic composition of pure differential privacy (Dwork et al. 2006)",
    "zcdp": "zero-concentrated composition, converted by Canonne, Kamath & Steinke (2020)",
    "gaussian": (
        "Gaussian composition with a total fixed beforehand (Smith & Thakurta 2022), the exact"
        " Gaussian curve (Balle & Wang 2018), and smoothing of the discrete noise"
    ),
    "mixed": (
        "Gaussian composition with a total fixed beforehand (Smith & Thakurta 2022), to which"
        " bounded-range choices that leave enough of it are added by convex order, the exact"
        " Gaussian curve (Balle & Wang 2018), and smoothing of the discrete noise"
    ),
}


OWN_DELTA = (
    "; the probabilities with which thresholds fail are summed beside it (Dwork et al. 2006)"
)
"""Appended to the theorem if a delta is set aside."""


PLD = (
    "privacy loss distribution of the discrete noise of tables that were all planned beforehand"
    " (dominating pairs compose: Zhu, Dong & Wang 2022), rounded up"
)
"""The `theorem` of a guarantee that is computed from privacy loss distributions."""

SECOND_DELTA = Fraction(1, 10**6)
"""Delta of the second statement of a release whose own delta is 0."""

GAIN = Fraction(9, 10)
"""A second statement is made if its epsilon is at most this fraction of the first one's."""


Charges = Sequence[tuple[Event, Mapping[str, object]]]
"""Each event of a release with what it asks (`loss_distribution.tightest_epsilon`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A statement of differential privacy.

    Attributes:
        epsilon: Exact bound on the privacy loss.
        delta: Exact; 0 for pure differential privacy.
        theorem: Name and source of the theorem that proves it.
    """

    epsilon: Fraction
    delta: Fraction
    theorem: str


def theorem_of(currency: Currency) -> str:
    """Return name and source of the theorem by which a total implies the guarantee."""
    return THEOREMS[currency.kind] + (OWN_DELTA if currency.own_delta else "")


def implied(currency: Currency, privacy: Privacy) -> Guarantee:
    """Return the guarantee that the reserved total implies.

    Its delta is 0 if the total is pure, the delta set aside for thresholds if a pure total has one,
    and the release's delta otherwise. It uses the total and not the sum of the charges: only a
    total that was fixed before the data were read composes with choices made during the release.

    Args:
        currency: Currency of the release, with the total that was reserved.
        privacy: The guarantee requested in the spec; its epsilon is an upper bound on the result.
    """
    delta = currency.own_delta if currency.kind == "pure" else privacy.delta
    # Conversions round up; the requested epsilon was enforced and holds in any case.
    epsilon = min(currency.epsilon(currency.limit, delta), privacy.epsilon)
    return Guarantee(epsilon=epsilon, delta=delta, theorem=theorem_of(currency))


def tightest(currency: Currency, privacy: Privacy, charges: Charges) -> Guarantee:
    """Return the strongest known guarantee of a release whose events were all fixed beforehand.

    This is what the reserved total implies, or a smaller epsilon if the release's privacy loss
    distribution is known and gives one. A purely private release keeps its pure guarantee, which
    holds with certainty and needs no choice of a delta.

    Args:
        currency: Currency of the release, with the total that was reserved.
        privacy: The guarantee that was enforced.
        charges: All events of the release, with what each asks.
    """
    enforced = implied(currency, privacy)
    by_loss = _from_losses(charges, privacy.relation, enforced.delta) if enforced.delta else None
    return by_loss if by_loss and by_loss.epsilon < enforced.epsilon else enforced


def second(currency: Currency, privacy: Privacy, charges: Charges) -> Guarantee | None:
    """Return an additional (epsilon, delta) guarantee of a purely private release.

    It helps to add up many releases or to compare them with Gaussian ones. It is published beside
    the pure guarantee and never replaces it.

    Args:
        currency: Currency of the release, with the total that was reserved.
        privacy: The guarantee that was enforced. Its delta is used; `SECOND_DELTA` if that is 0.
        charges: All events of the release, each fixed beforehand, with what it asks.

    Returns:
        None if the release is not pure, no loss distribution is known, or epsilon would be more
        than `GAIN` times the pure one.
    """
    pure = implied(currency, privacy)
    if pure.delta:
        return None
    by_loss = _from_losses(charges, privacy.relation, privacy.delta or SECOND_DELTA)
    return by_loss if by_loss and by_loss.epsilon <= GAIN * pure.epsilon else None


def shown(charges: Charges, relation: Relation, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether privacy loss distributions prove (epsilon, delta) for events fixed beforehand.

    False also if no loss distribution is known for the events, the relation or the delta.

    Args:
        charges: All events of the release, with what each asks.
        relation: Neighbouring relation and unit of privacy.
        epsilon: Stated epsilon.
        delta: Stated delta.
    """
    try:
        return tightest_epsilon(charges, relation, delta) <= epsilon
    except ValueError:  # no loss distribution is known
        return False


def _from_losses(charges: Charges, relation: Relation, delta: Fraction) -> Guarantee | None:
    """Return the guarantee at a delta from the privacy loss distributions, None if unknown."""
    try:
        epsilon = float(tightest_epsilon(charges, relation, delta))
    except ValueError:  # no loss distribution is known: the guarantee of the total holds
        return None
    # Another machine's exp and log may differ in the last digit. Its result, which agrees to more
    # than ten digits, must not be larger than the stated one.
    generous = Decimal(epsilon * (1 + 1e-9)).normalize(Context(prec=6, rounding=ROUND_CEILING))
    return Guarantee(epsilon=Fraction(generous), delta=delta, theorem=PLD)
