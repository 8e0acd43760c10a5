"""The ledger does what a simple model does, whatever is asked of it in whatever order."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dp_core.accounts.chain_audit import audit, first_bad_link
from dp_core.errors import BadInput, BudgetRefused, ReleaseError
from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.kernel.cost.currency import Currency, Kind
from dp_core.kernel.cost.curves import gaussian_limit, zcdp_limit
from dp_core.kernel.ledger import rules
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.plan import Plan
from dp_core.policies.all_policies import POLICIES
from dp_core.policies.approval import CAUSES, DECISIONS
from dp_core.policies.budget_periods import Calendar
from tasks.ledger import leases, reservation_check
from tasks.ledger.charging import charging_writer as writer_module
from tasks.ledger.database import transaction
from tasks.ledger.database.sql_store import SqlStore
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tests.both_writers import BothWriters
from tests.full import at_full_size, exhaustive
from tests.ledgers import VANDAL, take_everything
from tests.postgres import PostgresServer
from tests.specs import plan_of
from tests.tasks.ledger.ledger_model import LIFETIME_MS, Model, Taken, Variant

KEY = b"k" * 32
BEGIN = date(2100, 1, 20)  # after the day of the empty ledger that every example begins with
ACCOUNTS = ("town", "ward", "school")
RELEASES = ("one", "two", "three")
WAITS = "three"
"""The release that a person decides about in any case."""
HOMES = ("north", "north", "south")
"""Of the processes, by number modulo 3."""

SMALL = Fraction("1e-6")
VARIANTS = (
    Variant(Fraction(1, 2), Fraction(0), "pure", Fraction(1, 2)),
    Variant(Fraction(1), Fraction(0), "pure", Fraction(1)),
    Variant(Fraction(1), SMALL, "zcdp", zcdp_limit(Fraction(1), SMALL)),
    Variant(Fraction(1), SMALL, "gaussian", gaussian_limit(Fraction(1), SMALL)),
)
BATCHES: dict[str, list[tuple[str, Fraction]]] = {
    "first": [("one_way", Fraction(1))],
    "pair": [("measure", Fraction(1, 3)), ("measure", Fraction(1, 3))],
    "last": [("measure", Fraction(1, 3))],
    "large": [("measure", Fraction(1, 2))],
}
"""Of each step its stage and its part of what the stage has; `large` and all others do not fit."""

MONTHS = {"month": 1, "quarter": 3}
CALENDARS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "period": st.sampled_from(("month", "quarter")),
            "epsilon": st.sampled_from((Fraction(1), Fraction(3, 2))),
            "delta": st.just(SMALL),
            "carry_over": st.booleans(),
        }
    ),
)
TERMS = st.one_of(
    st.builds(
        Terms,
        st.just("basic"),
        st.sampled_from((Fraction(2), Fraction(4))),
        st.sampled_from((SMALL, Fraction("1e-5"))),
    ),
    st.builds(
        Terms,
        st.just("zcdp"),
        st.sampled_from((Fraction(1), Fraction(3))),
        st.just(Fraction("1e-5")),
        st.sampled_from((Fraction(0), SMALL)),
    ),
)
NAMES = st.sampled_from(ACCOUNTS)
PICK = st.integers(0, 3)
NAMED = {"by": "officer", "reason": "test"}


class LedgerMachine(RuleBasedStateMachine):
    """Does the same to a ledger and to a model, and compares all they say."""

    fresh: Callable[[], str]
    """Returns the URL of an empty ledger."""
    template: Plan

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        self.model = Model(BEGIN)
        self.processes = [0, 1, 2]
        self.born = 3
        self.holds: list[tuple[BothWriters, int]] = []
        self.known: dict[str, list[Reservation]] = {}
        for module in (transaction, leases, reservation_check):
            if hasattr(module, "now"):
                self.patches.setattr(module, "now", lambda: f"{self.model.today}T10:00:00+00:00")
        # A policy that tries to change what it sees can change nothing that the rules read.
        self.patches.setattr(transaction, "POLICIES", (*POLICIES, VANDAL))
        self.patches.setattr(SqlStore, "clock", lambda _: self.model.clock)
        self.patches.setattr(leases, "is_gone", lambda one: one.process in self.model.dead)
        self.url = type(self).fresh()
        self.ledger = Ledger(self.url)

    def teardown(self) -> None:
        try:
            self.check_receipts(self.model.taken)
        finally:
            self.patches.undo()

    # -- comparing

    def both(self, refusal: type[Exception] | None, do: Callable[[], Any]) -> Any:
        """Do something that must be refused or done as the model says; return what it returns."""
        if refusal is None:
            return do()
        with pytest.raises(refusal):
            do()
        return None

    @invariant()
    def balances_are_the_models_and_nothing_is_overspent(self) -> None:
        found = {account.name: account for account in self.ledger.accounts()}
        assert set(found) == set(self.model.accounts)
        for name, account in found.items():
            sums = account.balance.reserved, account.balance.spent
            assert sums == tuple(Amount(*pair) for pair in self.model.sums(name))
            assert account.left == Amount(*self.model.room(name))
            total = account.total_left
            assert total == account.terms.limit - sums[0] - sums[1]
            assert min(total.main, total.delta) >= 0
            assert account.terms.limit == Amount(*self.model.limit(name))

    @invariant()
    def the_whole_ledger_verifies(self) -> None:
        assert self.ledger.verify(KEY).entries == self.model.entries

    @invariant()
    def policies_only_refuse(self) -> None:
        """Whatever was accepted with policies is accepted by the kernel's rules alone."""
        entries = ((entry, None) for entry, _ in self.ledger.all_entries())
        assert audit(entries, ()).entries == self.model.entries

    @invariant()
    def the_last_release_is_as_the_model_has_it(self) -> None:
        self.check_receipts(self.model.taken[-1:])
        for release, lease in self.model.leases.items():
            holder = self.ledger.holder(release)
            held = self.model.refuses_hold(release) is not None
            assert (holder.process if holder else None) == (lease["process"] if held else None)

    def check_receipts(self, taken: list[Taken]) -> None:
        """Compare the receipts and charges of reservations with the model's."""
        by_position = {one.position: one for many in self.known.values() for one in many}
        for one in taken:
            held = by_position[one.position]
            receipts = self.ledger.receipts(held)
            assert [receipt.kind for receipt in receipts] == one.receipts
            assert [receipt.number for receipt in receipts] == [*range(1, len(receipts) + 1)]
            assert first_bad_link(receipts) is None
            charges = self.ledger.charges(held)
            assert [(c.batch, c.stage, c.step, c.cost, c.number) for c in charges] == [
                tuple(c[key] for key in ("batch", "stage", "step", "cost", "number"))
                for c in one.charges
            ]
            for charge in charges:
                assert charge.draws == one.draws.get(charge.batch, 1)
                assert charge.result == one.commits.get(charge.batch)
            gate = self.ledger.gate(held)
            assert (gate.held, gate.decided) == (one.held and str(one.held), one.decided)
            assert gate.looks == tuple(map(str, one.looks))

    # -- accounts and plans

    @initialize(terms=TERMS)
    def begin(self, terms: Terms) -> None:
        self.open("town", terms, None, None, approved_only=False)

    @rule(
        name=NAMES,
        terms=TERMS,
        calendar=CALENDARS,
        within=st.one_of(st.none(), NAMES),
        approved_only=st.sampled_from((False, False, True)),
    )
    def open_account(
        self, name: str, terms: Terms, calendar: Any, within: str | None, approved_only: bool
    ) -> None:
        self.open(name, terms, calendar, within, approved_only=approved_only)

    def open(
        self, name: str, terms: Terms, calendar: Any, within: str | None, *, approved_only: bool
    ) -> None:
        known, above = self.model.accounts, self.model.accounts.get(within or "")
        taken = name in known or (within is not None and (above is None or above["closed"]))
        made = None
        if calendar is not None:
            calendar = {**calendar, "months": MONTHS[calendar["period"]], "start": self.model.day}
            made = as_calendar(calendar)
        self.both(
            BadInput if taken else None,
            lambda: self.ledger.open_account(
                name,
                terms=terms,
                neighbours="add-remove",
                calendar=made,
                within=within,
                approved_only=approved_only,
                **NAMED,
            ),
        )
        if not taken:
            self.model.add()
            known[name] = {
                "composition": terms.composition,
                "epsilon": terms.epsilon,
                "delta": terms.delta,
                "own_delta": terms.own_delta,
                "within": within,
                "calendar": calendar,
                "approved_only": approved_only,
                "closed": False,
            }

    def account(self, pick: int) -> str:
        """Return one of the accounts that are open."""
        names = list(self.model.accounts)
        return names[pick % len(names)]

    @rule(
        pick=PICK,
        epsilon=st.sampled_from((Fraction(-1), Fraction(0), Fraction(1, 2), Fraction(1))),
        allowance=st.sampled_from((None, Fraction(1, 2), Fraction(-1, 2))),
    )
    def raise_account(self, pick: int, epsilon: Fraction, allowance: Fraction | None) -> None:
        name = self.account(pick)
        account = self.model.accounts[name]
        total, calendar = account["epsilon"] + epsilon, account["calendar"]
        if calendar is not None and allowance is not None:
            calendar = {**calendar, "epsilon": calendar["epsilon"] + allowance}
        same = (total, calendar) == (account["epsilon"], account["calendar"])
        bad = account["closed"] or epsilon < 0 or same
        if calendar is not None:
            bad = bad or calendar["epsilon"] < account["calendar"]["epsilon"]
        self.both(
            BadInput if bad else None,
            lambda: self.ledger.raise_account(
                name,
                epsilon=total,
                calendar=as_calendar(calendar) if calendar else None,
                **NAMED,
            ),
        )
        if not bad:
            self.model.add()
            account |= {"epsilon": total, "calendar": calendar}

    @rule(
        pick=PICK,
        composition=st.sampled_from(("basic", "zcdp")),
        own_delta=st.sampled_from((Fraction(0), SMALL / 10)),
    )
    def restate_account(self, pick: int, composition: Any, own_delta: Fraction) -> None:
        name = self.account(pick)
        account = self.model.accounts[name]
        before = {key: account[key] for key in ("composition", "own_delta")}
        refusal: type[Exception] | None = None
        after = {"composition": composition, "own_delta": own_delta}
        if account["closed"] or before == after or (composition == "basic" and own_delta):
            refusal = BadInput
        else:
            account |= after
            limit, used = self.model.limit(name), self.model.used(name)
            if used[0] > limit[0] or used[1] > limit[1]:
                refusal = BudgetRefused
                account |= before
        self.both(
            refusal,
            lambda: self.ledger.restate_account(
                name,
                composition=composition,
                own_delta=own_delta,
                period_delta=as_calendar(account["calendar"]).delta
                if account["calendar"]
                else None,
                **NAMED,
            ),
        )
        if refusal is None:
            self.model.add()

    @precondition(lambda self: len(self.model.accounts) > 1)
    @rule(pick=PICK)
    def close_account(self, pick: int) -> None:
        account = self.model.accounts[self.account(pick)]
        bad = account["closed"]
        self.both(
            BadInput if bad else None,
            lambda: self.ledger.close_account(self.account(pick), **NAMED),
        )
        if not bad:
            self.model.add()
            account["closed"] = True

    @rule(
        release=st.sampled_from(RELEASES),
        pick=PICK,
        asked=st.sampled_from(VARIANTS),
        withdraw=st.booleans(),
    )
    def decide(self, release: str, pick: int, asked: Variant, withdraw: bool) -> None:
        plan = self.plan(release, self.account(pick), asked).hash
        bad = (plan in self.model.approved) != withdraw
        do = self.ledger.withdraw if withdraw else self.ledger.approve
        self.both(BadInput if bad else None, lambda: do(plan, **NAMED))
        if not bad:
            self.model.add()
            self.model.approved ^= {plan}
        standing = self.ledger.approval(plan)
        assert (standing is not None) == (plan in self.model.approved)

    def plan(self, release: str, account: str, asked: Variant) -> Plan:
        """Return the plan of a release that asks for a variant."""
        spec = self.template.spec
        document = {**spec.document, "release": release, "account": account, "asks": str(asked)}
        privacy = replace(spec.privacy, epsilon=asked.epsilon, delta=asked.delta)
        spec = replace(
            spec,
            release=release,
            account=account,
            document=document,
            privacy=privacy,
            publish="after-approval" if release == WAITS else "at-once",
        )
        kind: Kind = asked.kind  # type: ignore[assignment]
        return replace(
            self.template, spec=spec, currency=Currency(kind, asked.limit), costs=costs_of(asked)
        )

    # -- who holds what

    @rule(release=st.sampled_from(RELEASES), pick=PICK)
    def take(self, release: str, pick: int) -> None:
        process = self.processes[pick % 3]
        home = HOMES[process % 3]
        holder = replace(leases.this_process(home), process=process)
        refusal = self.model.refuses_hold(release)

        def acquire() -> BothWriters:
            with self.ledger._database.writing() as book:
                return BothWriters(self.ledger._database, leases.acquire(book, release, holder))

        found = self.both(refusal, acquire)
        if refusal is None:
            fence = found.lease.fence
            assert fence > self.model.leases.get(release, {"fence": 0})["fence"]
            expires = self.model.clock + LIFETIME_MS
            self.model.leases[release] = {"fence": fence, "process": process, "expires": expires}
            self.holds.append((found, process))

    def held(self, pick: int) -> tuple[BothWriters, type[Exception] | None, str]:
        """Return a holder, one of the latest, what its fence is told, and its home."""
        found, process = self.holds[-1 - pick % len(self.holds)]
        fence = found.lease.fence
        return found, self.model.refuses_write(found.release, fence), HOMES[process % 3]

    @precondition(lambda self: self.holds)
    @rule(pick=PICK, gives_up=st.booleans())
    def renew_or_leave(self, pick: int, gives_up: bool) -> None:
        found, late, _ = self.held(pick)

        def do() -> None:
            with self.ledger._database.writing() as book:
                (leases.give_up if gives_up else leases.renew)(book, found.lease)

        self.both(None if gives_up else late, do)
        if late is None:
            ends = 0 if gives_up else self.model.clock + LIFETIME_MS
            self.model.leases[found.release]["expires"] = ends

    @rule(pick=PICK)
    def a_process_dies_and_another_begins(self, pick: int) -> None:
        gone = self.processes[pick % 3]
        self.model.dead.add(gone)
        self.processes[pick % 3] = self.born
        self.born += 1
        self.holds = [(found, process) for found, process in self.holds if process != gone]

    @precondition(lambda self: self.holds)
    @rule(pick=PICK, by=PICK, data=st.sampled_from(("data", "other")))
    def a_holder_wakes_up_late(self, pick: int, by: int, data: str) -> None:
        found, process = self.holds[-1 - pick % len(self.holds)]
        self.model.clock += LIFETIME_MS
        self.take(found.release, by)
        if found.release in self.known:
            place = self.holds[::-1].index((found, process))
            self.bind(place, stale=False, data=data)
            self.settle(place, stale=False, outcome="abandoned", stored=False)

    @rule(milliseconds=st.sampled_from((10_000, LIFETIME_MS)))
    def time_passes(self, milliseconds: int) -> None:
        self.model.clock += milliseconds

    @rule(days=st.sampled_from((1, 12, 40, -30)))
    def the_day_changes(self, days: int) -> None:
        self.model.today += timedelta(days=days)

    @rule()
    def the_database_is_opened_again(self) -> None:
        self.ledger = Ledger(self.url)
        self.holds = [
            (BothWriters(self.ledger._database, one.lease), who) for one, who in self.holds
        ]

    # -- releases

    @precondition(lambda self: self.holds)
    @rule(pick=PICK, account=st.one_of(PICK, NAMES), asked=st.sampled_from(VARIANTS))
    def reserve(self, pick: int, account: int | str, asked: Variant) -> None:
        found, late, _ = self.held(pick)
        name = self.account(account) if isinstance(account, int) else account
        plan = self.plan(found.release, name, asked)
        refusal = late or self.model.refuses_reserve(found.release, name, asked, plan.hash)
        made = self.both(refusal, lambda: found.reserve(plan))
        if refusal is None:
            taken = self.model.reserve(found.release, name, asked, plan.hash)
            taken.waits = found.release == WAITS
            assert (made.position, made.day) == (taken.position, taken.day)
            self.known.setdefault(found.release, []).append(made)

    def open_release(self, pick: int, stale: bool) -> Any:
        """Return a holder, a reservation of its release, the model's, and what it is told."""
        found, late, home = self.held(pick)
        known = self.known[found.release]
        held = known[0] if stale else known[-1]
        taken = self.model.last(found.release)
        assert taken is not None
        if late is None and (held.position != taken.position or taken.outcome is not None):
            late = writer_module.StageFailed
        return found, held, taken, late, home

    def can_work(self) -> bool:
        """Return whether every holder's release was reserved once."""
        return bool(self.holds) and all(one.release in self.known for one, _ in self.holds)

    STALE = st.sampled_from((False, False, False, True))

    @precondition(can_work)
    @rule(pick=PICK, stale=STALE, data=st.sampled_from(("data", "data", "other")))
    def bind(self, pick: int, stale: bool, data: str) -> None:
        found, held, taken, late, home = self.open_release(pick, stale)
        # Other data than the bound are an attempt that is refused: `test_refused_attempts`.
        data = data if taken.given is None else taken.given[0]
        refusal = late or self.model.refuses_bind(taken, data, home)
        self.both(refusal, lambda: found.bind_input(held, data, KEY))
        if refusal is None and taken.given is None:
            self.model.add()
            taken.given = data, home
            self.model.inputs.append((data, taken.account))

    @precondition(can_work)
    @rule(pick=PICK, stale=STALE, batch=st.sampled_from(list(BATCHES)))
    def charge(self, pick: int, stale: bool, batch: str) -> None:
        found, held, taken, late, home = self.open_release(pick, stale)
        # A stale reservation may have had another currency than the latest.
        pays = held.currency
        asked = next(one for one in VARIANTS if (one.kind, one.limit) == (pays.kind, pays.limit))
        steps = steps_of(asked, batch)
        plain = [(step.stage, step.cost) for step in steps]
        limits = costs_of(taken.variant)
        refusal = late or self.model.refuses_charge(taken, batch, plain, home, limits)
        made = self.both(refusal, lambda: found.charge(held, batch, steps))
        if refusal is None:
            if not taken.numbers(batch):
                for step in steps:
                    self.model.add()
                    taken.receipts.append("charge")
                    taken.charges.append(
                        {
                            "batch": batch,
                            "stage": step.stage,
                            "step": step.name,
                            "cost": step.cost,
                            "rho": step.event.rho(),
                            "number": len(taken.receipts),
                        }
                    )
            assert [charge.number for charge in made] == taken.numbers(batch)

    @precondition(can_work)
    @rule(pick=PICK, stale=STALE, batch=st.sampled_from(list(BATCHES)))
    def draw_again(self, pick: int, stale: bool, batch: str) -> None:
        found, held, taken, late, _ = self.open_release(pick, stale)
        refusal = late or self.model.refuses_attempt(taken, batch)
        self.both(refusal, lambda: found.record_redraw(held, batch))
        if refusal is None:
            self.model.add()
            taken.draws[batch] = taken.draws.get(batch, 1) + 1

    @precondition(can_work)
    @rule(pick=PICK, stale=STALE, batch=st.sampled_from(list(BATCHES)))
    def commit(self, pick: int, stale: bool, batch: str) -> None:
        found, held, taken, late, _ = self.open_release(pick, stale)
        refusal = late or self.model.refuses_commit(taken, batch)
        result = f"{self.model.entries:064x}"
        self.both(refusal, lambda: found.commit(held, batch, result))
        if refusal is None:
            self.model.add()
            taken.receipts.append("commit")
            taken.commits[batch] = result

    @precondition(can_work)
    @rule(
        pick=PICK,
        stale=STALE,
        outcome=st.sampled_from(
            ("finished", "abandoned", "returned", "failed-thresholds", "withdrawn")
        ),
        stored=st.booleans(),
    )
    def settle(self, pick: int, stale: bool, outcome: str, stored: bool) -> None:
        found, held, taken, late, home = self.open_release(pick, stale)
        refusal = late or self.model.refuses_end(taken, outcome)
        self.both(refusal, lambda: found.settle(held, outcome, stored=stored))
        if refusal is None:
            self.model.add()
            taken.receipts.append("settle")
            elsewhere = taken.given is not None and taken.given[1] != home
            hidden = elsewhere and bool(taken.charges)
            taken.outcome, taken.seen = outcome, stored or bool(taken.commits) or hidden

    # -- the gate

    @precondition(can_work)
    @rule(pick=PICK, stale=STALE, cause=st.sampled_from(CAUSES))
    def await_approval(self, pick: int, stale: bool, cause: Any) -> None:
        found, held, taken, late, _ = self.open_release(pick, stale)
        self.both(late, lambda: found.await_approval(held, cause, ["0" * 64]))
        if late is None and taken.held is None:
            self.model.add()
            taken.held = self.model.latest

    @precondition(lambda self: self.holds)
    @rule(pick=PICK)
    def look(self, pick: int) -> None:
        found, late, _ = self.held(pick)
        refusal = late or self.model.refuses_look(found.release)
        self.both(refusal, lambda: found.look(**NAMED))
        taken = self.model.last(found.release)
        if refusal is None and taken is not None:
            self.model.add()
            taken.looks.append(self.model.latest)

    @precondition(can_work)
    @rule(pick=PICK, stale=STALE, decision=st.sampled_from(DECISIONS))
    def decide_about(self, pick: int, stale: bool, decision: Any) -> None:
        found, held, taken, late, _ = self.open_release(pick, stale)
        refusal = late or (None if taken.held else BadInput)
        self.both(refusal, lambda: found.decide(held, decision, **NAMED))
        if refusal is None:
            self.model.add()
            self.model.add()
            taken.receipts.append("settle")
            taken.decided, taken.seen = decision, True
            taken.outcome = "finished" if decision == "publish" else "withdrawn"

    @rule(release=st.sampled_from(RELEASES), pick=PICK, asked=st.sampled_from(VARIANTS))
    def a_release_is_held(self, release: str, pick: int, asked: Variant) -> None:
        """Let one get far and hold it back, which few examples would come to."""
        self.a_release_gets_far(release, pick, asked)
        mine = [place for place, (one, _) in enumerate(self.holds[::-1]) if one.release == release]
        if mine and release in self.known:
            self.await_approval(mine[0], stale=False, cause="thresholds")

    @rule(release=st.sampled_from(RELEASES), pick=PICK, asked=st.sampled_from(VARIANTS))
    def a_release_gets_far(self, release: str, pick: int, asked: Variant) -> None:
        """Hold, reserve, bind and charge in one go: else few examples would come so far."""
        self.take(release, pick)
        mine = [place for place, (one, _) in enumerate(self.holds[::-1]) if one.release == release]
        if not mine:
            return
        self.reserve(mine[0], pick, asked)
        if release in self.known:
            self.bind(mine[0], stale=False, data="data")
            self.charge(mine[0], stale=False, batch="first")
            self.charge(mine[0], stale=False, batch="pair")


def as_calendar(values: dict[str, Any]) -> Calendar:
    """Return a calendar of the model as the ledger has it."""
    return Calendar(**{key: value for key, value in values.items() if key != "months"})


def costs_of(asked: Variant) -> dict[Any, Fraction]:
    """Return the budget of each stage."""
    return {"one_way": asked.limit / 10, "measure": asked.limit * 9 / 10}


def steps_of(asked: Variant, batch: str) -> list[Step]:
    """Return the steps of a batch."""
    kind: Kind = asked.kind  # type: ignore[assignment]
    found = []
    for place, (stage, part) in enumerate(BATCHES[batch]):
        cost = costs_of(asked)[stage] * part
        event = Currency(kind, asked.limit).noise_event(cost, l1=1, l2_squared=1)
        found.append(Step(stage, f"{batch} {place}", cost, event, (2,)))
    return found


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A plan whose name, account and amounts are replaced."""
    return plan_of(tmp_path_factory.mktemp("plan"))


@pytest.fixture
def sqlite_machine(template: Plan, tmp_path: Path) -> type[LedgerMachine]:
    """The machine, each example on a copy of one empty ledger."""
    empty, count = tmp_path / "empty.db", iter(range(10**6))
    Ledger(f"sqlite:///{empty}")

    def fresh() -> str:
        path = tmp_path / f"{next(count)}.db"
        shutil.copy(empty, path)
        return f"sqlite:///{path}"

    return machine(fresh, template)


def machine(fresh: Callable[[], str], template: Plan) -> type[LedgerMachine]:
    """Return the machine for one kind of database."""
    members = {"fresh": staticmethod(fresh), "template": template}
    return type("LedgerMachine", (LedgerMachine,), members)


def many(examples: int, steps: int, *phases: Phase) -> settings:
    """Return settings: deterministic, as many examples, each of as many steps."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        database=None,
        deadline=None,
        phases=phases or (Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
    )


def test_the_ledger_does_what_the_model_does(sqlite_machine: type[LedgerMachine]) -> None:
    run_state_machine_as_test(sqlite_machine, settings=many(10 if at_full_size() else 5, 30))


@exhaustive
@pytest.mark.full
def test_the_ledger_does_what_the_model_does_for_long(
    sqlite_machine: type[LedgerMachine],
) -> None:
    run_state_machine_as_test(sqlite_machine, settings=many(150, 50))


@pytest.mark.full
def test_the_ledger_on_postgresql_does_what_the_model_does(
    postgres_server: PostgresServer, template: Plan
) -> None:
    machine_there = machine(postgres_server.create_database, template)
    run_state_machine_as_test(machine_there, settings=many(5, 25))


def forget_the_room(patch: pytest.MonkeyPatch) -> None:
    """Let a release be promised more than an account has."""
    take_everything(patch)
    patch.setattr(reservation_check, "_check_room", lambda *_: None)


def give_back_too_much(patch: pytest.MonkeyPatch) -> None:
    """Let every release that is over have spent half of what it did."""
    real = rules.settled
    patch.setattr(rules, "settled", lambda *args: Amount(real(*args).main / 2, real(*args).delta))


def forget_the_fence(patch: pytest.MonkeyPatch) -> None:
    """Let a holder write whose lease another took over."""
    patch.setattr(leases, "require", lambda *_: None)


@pytest.mark.full
@pytest.mark.parametrize(
    "mutate",
    [
        forget_the_room,
        forget_the_fence,
        give_back_too_much,
    ],
)
def test_the_model_notices_a_ledger_that_does_something_else(
    sqlite_machine: type[LedgerMachine],
    mutate: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    # `Failed` is what `pytest.raises` says where nothing was raised.
    with pytest.raises((AssertionError, ReleaseError, pytest.fail.Exception)):
        run_state_machine_as_test(sqlite_machine, settings=many(200, 60, Phase.generate))
