"""Amounts of privacy as the commands answer them, as decimals and exactly."""

from __future__ import annotations

from fractions import Fraction

from dp_core.wall.accounting.composition import Amount, Terms
from tasks.ledger.accounts import Above


def amount(epsilon: Fraction, delta: Fraction) -> dict[str, object]:
    """Return an amount of privacy as decimals and exactly."""
    return {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "epsilon_exact": str(epsilon),
        "delta_exact": str(delta),
    }


def amount_facts(terms: Terms, of: Amount) -> dict[str, object]:
    """Return an amount of an account: epsilon and delta, in a zcdp account rho as well."""
    if terms.is_basic:
        return amount(of.main, of.delta)
    epsilon = terms.epsilon_of(of)
    return amount(epsilon, terms.conversion_delta if of.main > 0 else Fraction(0)) | {
        "rho": float(of.main),
        "rho_exact": str(of.main),
        "own_delta": float(of.delta),
        "own_delta_exact": str(of.delta),
    }


def left_facts(terms: Terms, left: Amount) -> dict[str, object]:
    """Return what can still be promised; less than nothing counts as nothing."""
    nothing = Fraction(0)
    return amount_facts(terms, Amount(max(left.main, nothing), max(left.delta, nothing)))


def above_facts(above: Above | None) -> dict[str, object] | None:
    """Return the account above another that leaves less than it, and what; None for none."""
    if above is None:
        return None
    composition = above.terms.composition
    return {"account": above.name, "composition": composition} | left_facts(above.terms, above.left)
