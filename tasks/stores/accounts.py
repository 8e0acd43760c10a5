"""Accounts: their balance, read off reservations and settlements, and refusals that help."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dp_core.errors import BadInput, BudgetRefused, nearest
from dp_core.plan import Plan
from dp_core.privacy import Neighbours
from tasks.stores.database import Rows


@dataclass(frozen=True, slots=True)
class Account:
    """One protected population, its total, and what became of it.

    Attributes:
        name: Unique in the ledger.
        epsilon, delta: Total.
        neighbours: The relation every release of it uses.
        unit: Who is protected.
        composition: How releases add up.
        reserved_epsilon, reserved_delta: Promised to releases that are not finished.
        spent_epsilon, spent_delta: Spent by releases that are.
        closed: Whether it takes no more releases.
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
    unit: str
    composition: str
    reserved_epsilon: Fraction
    reserved_delta: Fraction
    spent_epsilon: Fraction
    spent_delta: Fraction
    closed: bool
    releases: tuple[tuple[str, Fraction, Fraction, str], ...]

    @property
    def left_epsilon(self) -> Fraction:
        """What no release has been promised."""
        return self.epsilon - self.reserved_epsilon - self.spent_epsilon

    @property
    def left_delta(self) -> Fraction:
        """What no release has been promised."""
        return self.delta - self.reserved_delta - self.spent_delta

    def holds(self, epsilon: Fraction, delta: Fraction) -> int:
        """Return how many more releases of (epsilon, delta) fit."""
        fits = self.left_epsilon // epsilon
        return int(min(fits, self.left_delta // delta) if delta else fits)


def read_account(rows: Rows, name: str, *, without: str | None = None) -> Account:
    """Return an account with its balance.

    Args:
        rows: Of the ledger.
        name: Of the account.
        without: A release whose open reservation, on which nothing was charged, does not count:
            it is given back before the release begins again.

    Raises:
        BadInput: if there is none of that name, naming the nearest.
    """
    opened = rows.find(kind="open", account=name)
    if not opened:
        known = [row.account for row in rows.find(kind="open")]
        hint = nearest(name, known) or " None is open yet."
        raise BadInput(
            f"There is no account {name!r}.{hint} Open one with `dp-release ledger open {name}"
            " --epsilon E --delta D --by NAME --reason TEXT`."
        )
    terms = opened[0].body
    settled = {row.body["reservation"]: row for row in rows.find(kind="settle", account=name)}
    releases: list[tuple[str, Fraction, Fraction, str]] = []
    for row in rows.find(kind="reserve", account=name):
        end = settled.get(row.number)
        if end is None and row.release == without:
            continue
        body, outcome = (end.body, str(end.body["outcome"])) if end else (row.body, "reserved")
        amounts = Fraction(str(body["epsilon"])), Fraction(str(body["delta"]))
        releases.append((row.release, *amounts, outcome))
    kept = [item for item in releases if item[3] != "reserved"]
    held = [item for item in releases if item[3] == "reserved"]
    return Account(
        name=name,
        epsilon=Fraction(str(terms["epsilon"])),
        delta=Fraction(str(terms["delta"])),
        neighbours="add-remove" if terms["neighbours"] == "add-remove" else "replace-one",
        unit=str(terms["unit"]),
        composition=str(terms["composition"]),
        reserved_epsilon=sum((item[1] for item in held), Fraction(0)),
        reserved_delta=sum((item[2] for item in held), Fraction(0)),
        spent_epsilon=sum((item[1] for item in kept), Fraction(0)),
        spent_delta=sum((item[2] for item in kept), Fraction(0)),
        closed=bool(rows.find(kind="close", account=name)),
        releases=tuple(releases),
    )


def check_account(account: Account, plan: Plan) -> None:
    """Raise BudgetRefused unless the account's terms and balance allow the plan."""
    privacy, name = plan.spec.privacy, account.name
    if account.closed:
        raise BudgetRefused(f"Account {name!r} is closed: no more releases can be made from it.")
    if privacy.neighbours != account.neighbours:
        raise BudgetRefused(
            f"Account {name!r} protects under {account.neighbours}, but the spec asks for"
            f" {privacy.neighbours}; set privacy.neighbours to {account.neighbours}."
        )
    asked = (
        ("epsilon", privacy.epsilon, account.left_epsilon, account.epsilon),
        ("delta", privacy.delta, account.left_delta, account.delta),
    )
    for word, want, left, total in asked:
        if want > left:
            raise BudgetRefused(
                f"Release {plan.spec.release!r} asks for {word} {show(want)}, but account"
                f" {name!r} has {show(left)} left of {show(total)}. {_users(account)}"
                f"{_advice(word, left)}"
            )


def _users(account: Account) -> str:
    used = [item for item in account.releases if item[1] or item[2]]
    if not used:
        return "No release has used it yet."
    listed = ", ".join(
        f"{name} ({show(epsilon)}{', unfinished' if outcome == 'reserved' else ''})"
        for name, epsilon, _, outcome in used[-5:]
    )
    more = f" and {len(used) - 5} earlier" if len(used) > 5 else ""
    return f"Used by: {listed}{more}."


def _advice(word: str, left: Fraction) -> str:
    if left > 0:
        return f" The largest privacy.{word} that still fits is {show(left)}."
    return (
        " Set privacy.delta to 0, or name another account."
        if word == "delta"
        else " Nothing is left to spend."
    )


def show(value: Fraction) -> str:
    """Return an exact amount as a person reads it.

    >>> show(Fraction(1, 2)), show(Fraction("1e-9")), show(Fraction(3))
    ('0.5', '1e-09', '3')
    """
    return f"{float(value):.6g}"
