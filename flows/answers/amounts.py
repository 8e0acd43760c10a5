"""Amounts of privacy as the commands answer them, as decimals and exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from dp_core.wall.accounting.composition import Amount, Terms
from flows.answers.answer import INLINE, OMITTED, Answer
from tasks.ledger.accounts import Above


@dataclass(frozen=True, slots=True)
class PrivacyAmount(Answer):
    """An epsilon and a delta; rho and own delta too if it belongs to a zcdp account."""

    epsilon: float
    delta: float
    epsilon_exact: str
    delta_exact: str
    rho: float | None = field(default=None, metadata=OMITTED)
    rho_exact: str | None = field(default=None, metadata=OMITTED)
    own_delta: float | None = field(default=None, metadata=OMITTED)
    own_delta_exact: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class AccountAbove(Answer):
    """An account above another that has less left, and how much."""

    account: str
    composition: str
    left: PrivacyAmount = field(metadata=INLINE)


def amount(epsilon: Fraction, delta: Fraction) -> PrivacyAmount:
    """Return an epsilon and a delta."""
    return PrivacyAmount(float(epsilon), float(delta), str(epsilon), str(delta))


def amount_of(terms: Terms, of: Amount) -> PrivacyAmount:
    """Return an amount of an account with these terms."""
    if terms.is_basic:
        return amount(of.main, of.delta)
    epsilon = terms.epsilon_of(of)
    delta = terms.conversion_delta if of.main > 0 else Fraction(0)
    return PrivacyAmount(
        *(float(epsilon), float(delta), str(epsilon), str(delta)),
        *(float(of.main), str(of.main), float(of.delta), str(of.delta)),
    )


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
