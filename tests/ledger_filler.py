"""Ledgers with a long history, filled fast: for benchmarks and for tests of what history costs."""

from __future__ import annotations

import os
from fractions import Fraction

import sqlalchemy as sa

from dp_core.accounts.chain_audit import MemoryBook
from dp_core.accounts.ledger_position import whereabouts
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.ledger.entries import Entry, charge_key, make_entry, unique_key
from dp_core.kernel.ledger.receipts import PUBLISHED, START, make_receipt
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.plan import Plan
from tasks.ledger.database.ledger_tables import ENTRIES, TOTALS
from tasks.ledger.database.sql_store import columns_of
from tasks.ledger.database.transaction import now
from tasks.ledger.input_seals import seal
from tasks.ledger.ledger import Ledger
from tests.ledger_worker import named
from tests.ledgers import totals_after

CHARGES = 100
"""Of one release, in one batch."""
PAGE = 100
"""Releases written in one transaction while a ledger is filled."""
KEY = b"k" * 32
INPUT = "input of all"
"""Hash of the one file that every release is of."""


def steps_of(plan: Plan) -> list[Step]:
    """Return as many equal steps as a release has charges."""
    cost = plan.costs["measure"] / CHARGES
    event = plan.currency.noise_event(cost, l1=1, l2_squared=1)
    return [Step("measure", f"table {place}", cost, event, (4,)) for place in range(CHARGES)]


class Filler:
    """Writes whole releases without asking the database anything in between."""

    def __init__(self, ledger: Ledger) -> None:
        """Go on from what is in a ledger."""
        self._ledger = ledger
        self._book = MemoryBook()
        for entry in ledger.entries():
            self._book.add(entry, totals_after(entry, self._book))
        self._position, self._link = ledger.head().position, ledger.head().link
        self._receipt = 0, START
        self._rows: list[dict[str, object]] = []
        self._totals: list[dict[str, object]] = []
        self._changed: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, *, about: str | None, key: str | None = None, **values: object) -> int:
        """Add an entry as `Transaction.append` does; return its position."""
        position, recorded = self._position + 1, now()
        number, previous = self._receipt if kind in PUBLISHED else (-1, START)
        if kind == "reserve":
            number, previous, values["reservation"] = 0, START, position
        reservation = values.pop("reservation")
        receipt = make_receipt(
            number=number + 1, kind=kind, at=recorded[:10], previous=previous, **values
        )
        draft = Entry(
            position=position,
            receipt=receipt,
            reservation=reservation,
            about=about,
            key=key or unique_key(receipt, about, reservation),
            recorded=recorded,
            salt=os.urandom(16).hex(),
        )
        entry = make_entry(draft, self._link)
        after = totals_after(entry, self._book)
        self._book.add(entry, after)
        self._changed |= {subject: (position, value) for subject, value in after.items()}
        if kind in PUBLISHED:
            self._receipt = receipt.number, receipt.hash
        self._position, self._link = position, entry.link
        self._rows.append(columns_of(entry))
        return position

    def end_transaction(self) -> None:
        """Write the running totals that changed, as a transaction of the program does."""
        for subject, (position, value) in self._changed.items():
            self._totals.append({"subject": subject, "position": position, "value": value})
        self._changed = {}

    def release(self, plan: Plan, *, settle: bool = True) -> None:
        """Write one release from its reservation to its end."""
        spec, privacy = plan.spec, plan.spec.privacy
        common: dict[str, object] = {"account": spec.account, "release": spec.release}
        body: dict[str, object] = {
            "epsilon": str(privacy.epsilon),
            "delta": str(privacy.delta),
            "neighbours": privacy.neighbours,
            "unit": "row",
            "plan": plan.hash,
            "sets": spec.sets,
            "mode": spec.mode,
            "currency": plan.currency.to_json(),
            "costs": {stage: str(cost) for stage, cost in plan.costs.items()},
        }
        common["reservation"] = None
        common["reservation"] = self.add("reserve", about=plan.hash, body=body, **common)
        self.end_transaction()
        sealed = seal(KEY, self._position, spec.release, spec.account, INPUT)
        self.add("input", about=INPUT, body={"home": "home", "seal": sealed}, **common)
        self.end_transaction()
        steps = steps_of(plan)
        for step in steps:
            key = charge_key(spec.release, step.stage, step.name, INPUT, plan.hash)
            body = {
                "batch": "tables",
                "stage": step.stage,
                "step": step.name,
                "cost": str(step.cost),
                "event": step.event.to_json(),
                "asks": dict(step.asks),
            }
            self.add("charge", about="tables", key=key, body=body, **common)
        self.end_transaction()
        self.add("commit", about="tables", body={"batch": "tables", "result": START}, **common)
        self.end_transaction()
        if settle:
            spent = sum((step.cost for step in steps), Fraction(0))
            body = {"outcome": "finished", "spent": str(spent), "seen": True}
            body |= whereabouts(self._book, spec.account)
            self.add("settle", about=None, body=body, **common)
            self.end_transaction()

    def write(self) -> None:
        """Put everything that was added into the database."""
        with self._ledger._database.writing() as rows:
            rows.store.connection.execute(sa.insert(ENTRIES), self._rows)
            rows.store.connection.execute(sa.insert(TOTALS), self._totals)
        self._rows, self._totals = [], []


def fill(url: str, plan: Plan, releases: int) -> Ledger:
    """Return a ledger with so many finished releases of one account, within another."""
    ledger = Ledger(url)
    terms = Terms("basic", plan.spec.privacy.epsilon * 2 * releases + 10, Fraction(0))
    for name, within in (("country", None), ("town", "country")):
        ledger.open_account(
            name, terms=terms, neighbours="add-remove", within=within, by="it", reason="to measure"
        )
    filler = Filler(ledger)
    for place in range(releases):
        filler.release(named(plan, f"old-{place}"), settle=place % 1000 != 0)
        if place % PAGE == PAGE - 1 or place == releases - 1:
            filler.write()
    return ledger
