"""What a ledger should be, in plain dicts and fractions: written apart from the kernel.

Every sum is made again from the whole history each time it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.kernel.cost import curves
from dp_core.kernel.cost.composition import RHO_UNITS

Pair = tuple[Fraction, Fraction]
ZERO = Fraction(0)
MOST_DRAWS = 5
LIFETIME_MS = 60_000

rho_limit = lru_cache(maxsize=None)(curves.zcdp_limit)
CURVES = {
    "zcdp": lru_cache(maxsize=None)(curves.zcdp_epsilon),
    "gaussian": lru_cache(maxsize=None)(curves.gaussian_epsilon),
}


@dataclass(frozen=True)
class Variant:
    """What a release asks for: its guarantee, and the currency that it pays in."""

    epsilon: Fraction
    delta: Fraction
    kind: str
    limit: Fraction


@dataclass
class Taken:
    """One reservation and all that became of it; `waits`: a person decides about it in any case."""

    position: int
    account: str
    release: str
    variant: Variant
    plan: str
    day: date
    outcome: str | None = None
    seen: bool = False
    given: tuple[str, str] | None = None
    waits: bool = False
    held: date | None = None
    looks: list[date] = field(default_factory=list)
    decided: str | None = None
    receipts: list[str] = field(default_factory=lambda: ["reserve"])
    charges: list[dict[str, Any]] = field(default_factory=list)
    draws: dict[str, int] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)

    def charged(self, stage: str) -> Fraction:
        """Return what a stage was charged."""
        return sum((one["cost"] for one in self.charges if one["stage"] == stage), ZERO)

    def numbers(self, batch: str) -> list[int]:
        """Return the numbers of the receipts of a batch's charges."""
        return [one["number"] for one in self.charges if one["batch"] == batch]


class Model:
    """Accounts, reservations, leases and the clock of one ledger."""

    def __init__(self, today: date) -> None:
        self.accounts: dict[str, dict[str, Any]] = {}
        self.taken: list[Taken] = []
        self.approved: set[str] = set()
        self.inputs: list[tuple[str, str]] = []
        self.leases: dict[str, dict[str, int]] = {}
        self.dead: set[int] = set()
        self.clock = 1_000_000
        self.today = today
        self.latest = today
        self.entries = 1

    # -- sums

    def lineage(self, name: str) -> Iterator[str]:
        """Yield an account and those above it."""
        while name:
            yield name
            name = self.accounts[name]["within"]

    def amount(self, taken: Taken, account: dict[str, Any]) -> Pair:
        """Return what a reservation takes of an account."""
        asked, basic = taken.variant, account["composition"] == "basic"
        if basic:
            whole = asked.epsilon, asked.delta
        else:
            whole = (asked.limit**2 / 2 if asked.kind == "pure" else asked.limit), ZERO
        if taken.outcome is None:
            return whole
        if not taken.charges:
            return whole if taken.seen else (ZERO, ZERO)
        if not basic:
            rho = sum(math.ceil(one["rho"] * RHO_UNITS) for one in taken.charges)
            return min(Fraction(rho, RHO_UNITS), whole[0]), ZERO
        cost = sum((one["cost"] for one in taken.charges), ZERO)
        if asked.kind == "pure":
            return cost, ZERO
        if taken.seen or cost == asked.limit:
            return whole
        return min(asked.epsilon, CURVES[asked.kind](cost, asked.delta)), asked.delta

    def sums(self, name: str, index: int | None = None) -> tuple[Pair, Pair]:
        """Return what is reserved and what is spent of an account, or of one period of it."""
        account, found = self.accounts[name], [[ZERO, ZERO], [ZERO, ZERO]]
        for taken in self.taken:
            if name not in self.lineage(taken.account):
                continue
            if index is not None and index != self.index(account, taken.day):
                continue
            part = found[taken.outcome is not None]
            for place, value in enumerate(self.amount(taken, account)):
                part[place] += value
        return (found[0][0], found[0][1]), (found[1][0], found[1][1])

    def used(self, name: str, index: int | None = None) -> Pair:
        """Return what nobody else can be promised."""
        reserved, spent = self.sums(name, index)
        return reserved[0] + spent[0], reserved[1] + spent[1]

    @staticmethod
    def index(account: dict[str, Any], day: date) -> int:
        """Return the number of the period that a day is in."""
        months, start = account["calendar"]["months"], account["calendar"]["start"]
        first, this = (12 * one.year + one.month - 1 for one in (start, day))
        return max(0, this // months - first // months)

    @staticmethod
    def whole(account: dict[str, Any], epsilon: Fraction, delta: Fraction) -> Pair:
        """Return a total or an allowance in what an account adds up in."""
        if account["composition"] == "basic":
            return epsilon, delta
        return rho_limit(epsilon, account["delta"] - account["own_delta"]), delta

    def limit(self, name: str) -> Pair:
        """Return the total of an account."""
        account = self.accounts[name]
        basic = account["composition"] == "basic"
        delta = account["delta" if basic else "own_delta"]
        return self.whole(account, account["epsilon"], delta)

    def room(self, name: str) -> Pair:
        """Return what one account leaves today, by its total and its calendar."""
        account, day = self.accounts[name], self.day
        limit, used = self.limit(name), self.used(name)
        left = limit[0] - used[0], limit[1] - used[1]
        calendar = account["calendar"]
        if calendar is None:
            return left
        once = self.whole(account, calendar["epsilon"], calendar["delta"])
        index = self.index(account, day)
        if not calendar["carry_over"]:
            used = self.used(name, index)
            index = 0
        here = once[0] * (index + 1) - used[0], once[1] * (index + 1) - used[1]
        return min(left[0], here[0]), min(left[1], here[1])

    # -- the clock and the chain

    @property
    def day(self) -> date:
        """The day that the next entry has: never before that of the last."""
        return max(self.today, self.latest)

    def add(self) -> int:
        """Count one more entry; return its position."""
        self.latest = self.day
        self.entries += 1
        return self.entries

    # -- which error an operation meets, None if it is done; in the order of the ledger's checks

    def refuses_write(self, release: str, fence: int) -> type[Exception] | None:
        """Return what a holder with a fence is told."""
        return None if self.leases[release]["fence"] == fence else StageFailed

    def refuses_hold(self, release: str) -> type[Exception] | None:
        """Return what a process is told that wants to hold a release."""
        lease = self.leases.get(release)
        free = lease is None or lease["expires"] <= self.clock or lease["process"] in self.dead
        return None if free else StageFailed

    def last(self, release: str) -> Taken | None:
        """Return the latest reservation of a release."""
        return next((taken for taken in self.taken[::-1] if taken.release == release), None)

    def refuses_reserve(
        self, release: str, account: str, asked: Variant, plan: str
    ) -> type[Exception] | None:
        """Return what a reservation is told; one that is there for the same plan is no error."""
        held = self.last(release)
        if held is not None and held.outcome not in (None, "returned"):
            return BadInput
        if held is not None and held.outcome is None:
            if held.plan == plan:
                return None
            if held.charges:
                return BadInput
            if held.held:
                return LedgerCorrupt  # it would be given back, and a person decides
        if account not in self.accounts:
            return BudgetRefused
        names = list(self.lineage(account))
        if any(self.accounts[name]["closed"] for name in names):
            return BudgetRefused
        if plan not in self.approved and any(
            self.accounts[name]["approved_only"] for name in names
        ):
            return BudgetRefused
        new = Taken(0, account, release, asked, plan, self.day)
        if held is not None and held.outcome is None:
            self.taken.remove(held)  # for the moment: it is given back first
        try:
            for name in names:
                amount, room = self.amount(new, self.accounts[name]), self.room(name)
                if amount[0] > room[0] or amount[1] > room[1]:
                    return BudgetRefused
        finally:
            if held is not None and held not in self.taken:
                self.taken.append(held)
                self.taken.sort(key=lambda taken: taken.position)
        return None

    def reserve(self, release: str, account: str, asked: Variant, plan: str) -> Taken:
        """Reserve, giving back what the release held for another plan."""
        held = self.last(release)
        if held is not None and held.outcome is None:
            if held.plan == plan:
                return held
            held.outcome = "returned"
            held.receipts.append("settle")
            self.add()
        position = self.add()
        self.taken.append(Taken(position, account, release, asked, plan, self.day))
        return self.taken[-1]

    def refuses_bind(self, taken: Taken, data: str, home: str) -> type[Exception] | None:
        """Return what binding an input is told."""
        if taken.given is not None:
            return None if taken.given[1] == home else StageFailed
        top = [*self.lineage(taken.account)][-1]
        others = any(
            data == known and [*self.lineage(who)][-1] != top for known, who in self.inputs
        )
        return BadInput if others else self.refuses_more(taken)

    def refuses_charge(
        self, taken: Taken, batch: str, steps: list[tuple[str, Fraction]], home: str, limits: Any
    ) -> type[Exception] | None:
        """Return what a charge is told; one that is there is no error."""
        if taken.given is None or taken.given[1] != home:
            return StageFailed
        if taken.numbers(batch):
            return None
        stage = steps[0][0]
        asked = sum((cost for _, cost in steps), ZERO)
        if taken.charged(stage) + asked > limits[stage]:
            return BudgetRefused
        return self.refuses_more(taken)

    def refuses_attempt(self, taken: Taken, batch: str) -> type[Exception] | None:
        """Return what another draw is told."""
        if not taken.numbers(batch):
            return ValueError
        tired = taken.draws.get(batch, 1) >= MOST_DRAWS
        return StageFailed if batch in taken.commits or tired else self.refuses_more(taken)

    def refuses_commit(self, taken: Taken, batch: str) -> type[Exception] | None:
        """Return what a commit is told."""
        if not taken.numbers(batch):
            return LedgerCorrupt
        return self.refuses_more(taken) or (StageFailed if batch in taken.commits else None)

    # -- the gate

    @staticmethod
    def refuses_more(taken: Taken) -> type[Exception] | None:
        """Return what any further entry of a release is told by its gate."""
        return LedgerCorrupt if taken.held else None

    def refuses_look(self, release: str) -> type[Exception] | None:
        """Return what a look is told: only what is held or over is looked at."""
        seen = self.last(release)
        if seen is None or seen.outcome == "returned":
            return BadInput
        return None if seen.outcome or seen.held else BadInput

    def refuses_end(self, taken: Taken, outcome: str) -> type[Exception] | None:
        """Return what ending a release without a decision is told."""
        if outcome == "returned" and taken.charges:
            return ValueError
        if taken.held or outcome == "withdrawn":
            return LedgerCorrupt
        return LedgerCorrupt if outcome == "finished" and taken.waits else None
