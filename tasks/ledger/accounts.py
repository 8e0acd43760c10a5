"""Accounts as people ask about them: total, reserved, spent, left, and what each release took."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from fractions import Fraction

from dp_core.errors import BadInput
from dp_core.wall.accounting.composition import Amount, Terms
from dp_core.wall.ledger.account_terms import Charter
from dp_core.wall.ledger.running_totals import Balance, balance, lineage, room_on, subtree, taken
from tasks.ledger.database.transaction import Rows
from tasks.ledger.refusals import account_names, no_account


@dataclass(frozen=True, slots=True)
class Used:
    """What one release took of an account's total.

    Attributes:
        release: Name.
        account: Account that it named; another where this one stands above it.
        amount: In what the account adds up in.
        epsilon, delta: Guarantee of the release by itself.
        outcome: `finished`, `abandoned`, `returned`, or `reserved` while it is under way.
        day: Of its reservation.
    """

    release: str
    account: str
    amount: Amount
    epsilon: Fraction
    delta: Fraction
    outcome: str
    day: datetime.date


@dataclass(frozen=True, slots=True)
class Above:
    """An account above another, where it leaves less than that one has itself.

    Attributes:
        name: Unique in the ledger.
        terms: Its own, in which `left` is counted.
        left: What it can promise today.
    """

    name: str
    terms: Terms
    left: Amount


@dataclass(frozen=True, slots=True)
class Account:
    """One protected population, its total, and what became of it.

    Attributes:
        charter: Its terms.
        balance: Reserved and spent.
        left: What it can promise today, by its own total and calendar.
        above: The account above it that leaves the least, None where none leaves less than `left`.
        day: Today.
    """

    charter: Charter
    balance: Balance
    left: Amount
    above: Above | None
    day: datetime.date

    @property
    def name(self) -> str:
        """Unique in the ledger."""
        return self.charter.name

    @property
    def terms(self) -> Terms:
        """Its total, and how releases add up."""
        return self.charter.terms

    @property
    def total_left(self) -> Amount:
        """What its own total leaves, whatever its calendar says."""
        return self.terms.limit - self.balance.used

    def holds(self, amount: Amount) -> int:
        """Return how many more releases of an amount its own total holds."""
        left = self.total_left
        fits = left.main // amount.main
        return max(0, int(min(fits, left.delta // amount.delta) if amount.delta else fits))


def read_account(rows: Rows, name: str) -> Account:
    """Return an account with its balance.

    Raises:
        BadInput: if there is none of that name, naming the nearest.
    """
    accounts = lineage(rows, name)
    if not accounts:
        raise BadInput(no_account(account_names(rows), name), row="no-account")
    charter, today = accounts[0], rows.today()
    left = room_on(rows, charter, today)
    others = [Above(above.name, above.terms, room_on(rows, above, today)) for above in accounts[1:]]
    less = [other for other in others if _leaves_less(other, charter.terms, left)]
    least = min(less, key=lambda other: other.terms.epsilon_of(other.left), default=None)
    return Account(charter, balance(rows, name), left, least, today)


def _leaves_less(above: Above, terms: Terms, left: Amount) -> bool:
    """Return whether an account above leaves less; by epsilon where they add up otherwise."""
    if above.terms.composition == terms.composition == "basic":
        return not left.within(above.left)
    return above.terms.epsilon_of(above.left) < terms.epsilon_of(left)


def read_uses(rows: Rows, account: Account) -> tuple[Used, ...]:
    """Return what every release took of an account's total, in the order of their reservation."""
    found: list[tuple[int, Used]] = []
    for promise, settlement in rows.promises_of(subtree(rows, account.name)):
        amount = taken(rows, account.charter, promise, settlement)
        outcome = "reserved" if settlement is None else str(settlement.body["outcome"])
        epsilon, delta = promise.epsilon, promise.delta
        if outcome == "returned":
            epsilon, delta = Fraction(0), Fraction(0)
        used_by = Used(
            promise.release, promise.account, amount, epsilon, delta, outcome, promise.day
        )
        found.append((promise.position, used_by))
    return tuple(used for _, used in sorted(found, key=lambda item: item[0]))
