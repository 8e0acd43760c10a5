"""The store behind the ledger: what each one must do, and that nothing else depends on which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BudgetRefused, StageFailed
from dp_core.kernel.ledger.receipts import START
from dp_core.plan.plan import Plan
from tasks.ledger.database.ledger_store import LedgerStore, StoredLease
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservation_entries import reserve
from tests.both_writers import both_writers
from tests.ledgers import HOME, WHO, amount, measure, open_town, spend
from tests.specs import plan_of
from tests.tasks.ledger.memory_store import MemoryStore, memory_ledger

DECISION = {"plan": "plan", **WHO}


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def any_ledger(request, tmp_path) -> Ledger:
    """A ledger in memory, and one in each database."""
    if request.param == "memory":
        return memory_ledger(MemoryStore())
    if request.param == "sqlite":
        return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    return Ledger(request.getfixturevalue("postgres_url"))


@contextmanager
def stored(ledger: Ledger) -> Iterator[LedgerStore]:
    with ledger._database.writing() as book:
        yield book.store


def save(book: Transaction, ledger: Ledger) -> None:
    """Store the new entries of a transaction that began earlier."""
    with stored(ledger) as store:
        book.store = store
        book.save()


def test_a_transaction_that_began_before_another_ended_records_nothing(any_ledger):
    with any_ledger._database.reading() as book:
        late = Transaction(book.store)
        late.append("approve", about="plan", body=DECISION)
        late.append("withdraw", about="plan", body=DECISION)
    any_ledger.approve("other", **WHO)
    with pytest.raises(StageFailed) as refused:
        save(late, any_ledger)
    assert refused.value.row == "taken-over"
    assert [entry.about for entry in any_ledger.entries()] == [None, "other"]
    assert any_ledger.verify().entries == 2


def test_new_entries_are_found_before_they_are_stored_as_they_are_later(any_ledger):
    open_town(any_ledger)
    asked = (
        {"kinds": ("approve", "withdraw")},
        {"about": "plan"},
        {"about": "plan", "last": 1},
        {"kinds": ("open", "withdraw"), "last": 2},
        {"account": "town"},
        {"position": 3},
        {"position": 4, "kinds": ("approve",)},
        {"last": 3},
        {},
    )
    with any_ledger._database.writing() as book:
        book.append("approve", about="plan", body=DECISION)
        book.append("withdraw", about="plan", body=DECISION)
        book.append("approve", about="other", body={**DECISION, "plan": "other"})
        before = [book.find(**criteria) for criteria in asked]
        assert (book.approved("plan"), book.approved("other")) == (False, True)
    assert before == [any_ledger.entries(**criteria) for criteria in asked]
    assert [len(found) for found in before] == [3, 2, 1, 2, 1, 1, 0, 3, 5]


def test_a_total_is_read_as_the_latest_entry_left_it(any_ledger, tmp_path):
    open_town(any_ledger)
    with stored(any_ledger) as store:
        begun = store.totals(["account/town", "account/nowhere"])
    assert begun.keys() == {"account/town"}
    spend(any_ledger, plan_of(tmp_path))
    with stored(any_ledger) as store:
        after = store.totals(["account/nowhere", "account/town"])
        pages = [total for _, totals in store.page(0, 100) for total in totals]
    assert after != begun
    assert dict(pages)["account/town"] == after["account/town"]
    assert ("account/town", begun["account/town"]) in pages


def test_a_lease_is_replaced_and_another_one_is_left_alone(any_ledger):
    one, other = (StoredLease(name, 1, "{}", 5, "seal") for name in ("one", "other"))
    with stored(any_ledger) as store:
        assert store.head().position == 1
        assert not store.leases()
        for lease in (one, other, replace(one, fence=2)):
            store.set_lease(lease)
        assert store.leases("one") == [replace(one, fence=2)]
        assert store.leases("none") == []
        assert store.leases() == [replace(one, fence=2), other]


def test_an_empty_store_ends_at_the_start():
    head = MemoryStore().head()
    assert (head.position, head.link) == (0, START)


def test_a_release_is_the_same_on_every_store(any_ledger, tmp_path):
    """Rules, policies, leases and balances need nothing of the store but the protocol."""
    open_town(any_ledger)
    plan = plan_of(tmp_path)
    spend(any_ledger, plan)
    with both_writers(any_ledger, "second", HOME) as writer:
        second = plan_of(tmp_path, release="second", privacy="{epsilon: 0.5, delta: 1e-6}")
        held = measure(writer, second, ["one_way"])
        assert len(any_ledger.charges(held)) > 1
    assert [used.outcome for used in any_ledger.uses("town")] == ["finished", "reserved"]
    assert any_ledger.account("town").balance.used == amount("1.5", "1e-6")
    with pytest.raises(BudgetRefused):
        any_ledger.check(plan_of(tmp_path, release="third", privacy="{epsilon: 1.5}"))
    kinds = [entry.kind for entry, _ in any_ledger.all_entries()]
    assert kinds[:5] == ["ledger", "open", "reserve", "input", "charge"]
    assert any_ledger.verify().entries == len(kinds)


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> list[Plan]:
    """Plans of four releases, of which each costs more than half of the account's total."""
    folder = tmp_path_factory.mktemp("plans")
    return [
        plan_of(folder, release=f"r{place}", privacy="{epsilon: 1.25, delta: 1e-6}")
        for place in range(4)
    ]


@given(order=st.permutations([0, 0, 1, 1, 2, 2, 3, 3]))
def test_two_writers_never_spend_the_same_budget(plans, order):
    """Each writer reserves at its first turn and saves at its second, in any order."""
    store = MemoryStore()
    ledger = memory_ledger(store)
    open_town(ledger)
    begun: dict[int, Transaction] = {}
    saved = []
    for writer in order:
        try:
            if writer not in begun:
                begun[writer] = Transaction(store)
                reserve(begun[writer], plans[writer])
            else:
                begun[writer].save()
                saved += [writer] if begun[writer].has_appended else []
        except (BudgetRefused, StageFailed):
            pass
    assert len(saved) == 1
    assert ledger.account("town").balance.reserved == amount("1.25", "1e-6")
    assert ledger.verify().entries == 3
