"""Amounts of privacy as the commands answer them, in JSON and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dp_core.accounts.largest_release import epsilon_of
from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.text.pages.answer import exact_json
from dp_core.text.pages.number_texts import number

if TYPE_CHECKING:
    from tasks.ledger.accounts import Above


@dataclass(frozen=True, slots=True)
class PrivacyAmount:
    """An epsilon and a delta; rho and own delta too if it belongs to a zcdp account."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None
    own_delta: Fraction | None = None

    def to_json(self) -> dict[str, Any]:
        """Return each number as a decimal and exactly."""
        found = exact_json(epsilon=self.epsilon, delta=self.delta)
        return found | exact_json(rho=self.rho) | exact_json(own_delta=self.own_delta)

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> PrivacyAmount:
        """Return the amount that `to_json` states."""
        exact = {each.name: stated.get(f"{each.name}_exact") for each in fields(cls)}
        return cls(**{name: Fraction(value) for name, value in exact.items() if value is not None})

    @property
    def guarantee(self) -> str:
        """Epsilon and delta in words."""
        return f"epsilon {number(self.epsilon)}, delta {number(self.delta)}"

    @property
    def in_words(self) -> str:
        """The amount in words: rho first in a zcdp account."""
        if self.rho is not None:
            return f"rho {number(self.rho)} (epsilon {number(self.epsilon)})"
        return self.guarantee

    @property
    def permanently_spent(self) -> str:
        """What stays spent, in the currency of its account."""
        if self.rho is None:
            return f"epsilon {float(self.epsilon):.6g} stays spent"
        return f"rho {float(self.rho):.6g} stays spent"


@dataclass(frozen=True, slots=True)
class AccountAbove:
    """An account above another that has less left, and how much."""

    account: str
    composition: str
    left: PrivacyAmount

    def to_json(self) -> dict[str, Any]:
        """Return the account with what it has left."""
        named = {"account": self.account, "composition": self.composition}
        return named | self.left.to_json()


def amount_of(terms: Terms, of: Amount) -> PrivacyAmount:
    """Return an amount of an account with these terms."""
    if terms.is_basic:
        return PrivacyAmount(of.main, of.delta)
    delta = terms.conversion_delta if of.main > 0 else Fraction(0)
    return PrivacyAmount(epsilon_of(terms, of), delta, of.main, of.delta)


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


def left_words(account: str, left: PrivacyAmount, above: AccountAbove | None) -> str:
    """Return what an account has left, and the account above it if that has less left."""
    text = f"account {account!r} has {left.in_words} left"
    if above:
        text += f"; {above.account!r}, above it, has {above.left.in_words} left"
    return text
