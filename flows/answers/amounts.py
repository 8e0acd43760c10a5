"""Amounts of privacy as the commands answer them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dp_core.text.pages.answer import INLINE, Answer
from dp_core.wall.accounting.composition import Amount, Terms

if TYPE_CHECKING:
    from tasks.ledger.accounts import Above


@dataclass(frozen=True, slots=True)
class PrivacyAmount(Answer):
    """An epsilon and a delta; rho and own delta too if it belongs to a zcdp account."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None
    own_delta: Fraction | None = None

    def to_json(self) -> Any:
        """Return each number as a decimal and exactly."""
        found: dict[str, object] = {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "epsilon_exact": self.epsilon,
            "delta_exact": self.delta,
        }
        for name, value in (("rho", self.rho), ("own_delta", self.own_delta)):
            if value is not None:
                found |= {name: float(value), f"{name}_exact": value}
        return found


@dataclass(frozen=True, slots=True)
class AccountAbove(Answer):
    """An account above another that has less left, and how much."""

    account: str
    composition: str
    left: PrivacyAmount = field(metadata=INLINE)


def unit_of(currency: str) -> str:
    """Return the unit of a release's costs.

    Args:
        currency: Kind of the release's currency.
    """
    return "epsilon" if currency == "pure" else "rho" if currency == "zcdp" else "mu²/2"


def amount_of(terms: Terms, of: Amount) -> PrivacyAmount:
    """Return an amount of an account with these terms."""
    if terms.is_basic:
        return PrivacyAmount(of.main, of.delta)
    delta = terms.conversion_delta if of.main > 0 else Fraction(0)
    return PrivacyAmount(terms.epsilon_of(of), delta, of.main, of.delta)


def amount_left(terms: Terms, left: Amount) -> PrivacyAmount:
    """Return what can still be reserved; negative parts count as 0."""
    nothing = Fraction(0)
    return amount_of(terms, Amount(max(left.main, nothing), max(left.delta, nothing)))


def account_above(above: Above | None) -> AccountAbove | None:
    """Return the account above another that has less left; None if there is none."""
    if above is None:
        return None
    left = amount_left(above.terms, above.left)
    return AccountAbove(above.name, above.terms.composition, left)


def within(half_width: float) -> float:
    """Return a half width with two significant digits, or in whole records."""
    return float(f"{half_width:.2g}") if half_width < 100 else float(round(half_width))
