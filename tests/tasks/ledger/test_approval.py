"""Holds, looks and decisions in the ledger: what may follow what, asked of writer and audit."""

import pytest

from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from dp_core.kernel.cost.composition import NOTHING
from dp_core.kernel.ledger import rules
from dp_core.policies import approval
from tests.both_writers import both_writers
from tests.ledgers import HOME, KEY, LAPLACE, WHO, begin, measure, on, steps_of, take_everything
from tests.specs import plan_of

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("town")]

WAITING = LAPLACE + "publish: after-approval\n"
SETS = ["0" * 64]


@pytest.fixture
def plan(tmp_path):
    return plan_of(tmp_path, WAITING, privacy="{epsilon: 1}")


def test_a_held_release_keeps_its_reservation_until_a_person_decides(ledger, plan, monkeypatch):
    on(monkeypatch, "2027-01-20")
    with both_writers(ledger, "first", HOME) as writer:
        held = measure(writer, plan)
        writer.await_approval(held, "after-approval", SETS)
    assert ledger.gate(held).held == "2027-01-20"
    assert ledger.account("town").balance.reserved.main == 1

    on(monkeypatch, "2027-01-24")
    with both_writers(ledger, "first", HOME) as writer:
        writer.look(**WHO)
        writer.look(**WHO)
        on(monkeypatch, "2027-01-25")
        settled = writer.decide(held, "publish", **WHO)
    assert settled.outcome == "finished"
    assert ledger.account("town").balance.reserved == NOTHING
    end = ledger.receipts(settled)[-1]
    assert end.body["decision"] == {
        "held": "2027-01-20",
        "cause": "after-approval",
        "looks": ["2027-01-24", "2027-01-24"],
        "decided": "publish",
    }
    # Names and reasons stay in the house.
    assert not any("officer" in str(receipt.to_json()) for receipt in ledger.receipts(settled))
    ledger.verify()


def test_held_twice_is_held_since_the_first_time(writer, plan, monkeypatch):
    on(monkeypatch, "2027-01-20")
    held = measure(writer, plan)
    first = writer.await_approval(held, "after-approval", SETS)
    on(monkeypatch, "2027-01-21")
    assert writer.await_approval(held, "thresholds", []) == first


@pytest.mark.parametrize("what", ["charge", "attempt", "commit", "finished", "abandoned"])
def test_nothing_is_drawn_or_ended_otherwise_for_a_held_release(ledger, writer, plan, what):
    held = measure(writer, plan, ["one_way"])
    writer.await_approval(held, "after-approval", SETS)
    before = ledger.head().position
    todo = {
        "charge": lambda: writer.charge(held, "measure-0", steps_of(plan, "measure")),
        "attempt": lambda: writer.record_redraw(held, "one_way-0"),
        "commit": lambda: writer.commit(held, "one_way-0", "1" * 64),
    }
    with pytest.raises((LedgerCorrupt, StageFailed)):
        todo.get(what, lambda: writer.settle(held, what))()
    assert ledger.head().position == before
    ledger.verify()


def test_what_is_to_wait_for_a_person_is_not_finished_without_one(writer, plan):
    held = measure(writer, plan)
    with pytest.raises(LedgerCorrupt, match="was not approved"):
        writer.settle(held, "finished")
    writer.settle(held, "abandoned")


def test_a_look_comes_after_all_is_made_and_a_decision_once(ledger, writer, plan):
    held = measure(writer, plan)
    with pytest.raises(BadInput, match="is not made yet"):
        writer.look(**WHO)
    with pytest.raises(BadInput, match="does not await approval"):
        writer.decide(held, "publish", **WHO)
    writer.await_approval(held, "after-approval", SETS)
    assert writer.decide(held, "withdraw", **WHO).outcome == "withdrawn"
    for decision in approval.DECISIONS:
        with pytest.raises(StageFailed, match="is closed"):
            writer.decide(held, decision, **WHO)
    # What is over is looked at freely, and that is on record too.
    assert len(writer.look(**WHO).looks) == 1
    ledger.verify()


def test_other_data_for_a_held_release_are_refused_and_counted(ledger, writer, plan):
    held = measure(writer, plan, ["one_way"])
    writer.await_approval(held, "after-approval", SETS)
    with pytest.raises(BadInput, match="changed since it began"):
        writer.bind_input(held, "other data", KEY)
    assert ledger.attempts("town").refused == 1
    assert ledger.gate(held).held
    ledger.verify()


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("settle", {"outcome": "finished"}, "states another decision"),
        ("settle", {"outcome": "withdrawn"}, "states another decision"),
        ("decide", {"decision": "again", **WHO}, "states an unknown decision"),
        ("hold", {"cause": "a whim", "sets": []}, "without a valid cause"),
        ("charge", {}, "comes after its release was held"),
    ],
)
def test_the_audit_refuses_what_the_writer_would_never_add(
    ledger, plan, monkeypatch, kind, body, words
):
    """What follows a hold is added past the rules; the audit names it."""
    with both_writers(ledger, "first", HOME) as writer:
        held = measure(writer, plan, ["one_way"])
        if kind != "hold":
            writer.await_approval(held, "after-approval", SETS)
    from tasks.ledger import reservation_entries

    add, settle = reservation_entries.add, reservation_entries.add_settlement
    with monkeypatch.context() as patch:
        take_everything(patch)
        with both_writers(ledger, "first", HOME) as writer, writer._writing() as rows:
            if kind == "settle":
                patch.setattr(reservation_entries, "settled_with", lambda _: {})
                settle(rows, held, body["outcome"], seen=True)
            elif kind == "charge":
                charge = rows.latest(kinds=("charge",), reservation=held.position)
                more = {**charge.body, "stage": "measure", "batch": "more", "step": "more"}
                from dp_core.kernel.ledger.entries import charge_key

                step = (plan.spec.release, more["stage"], "more")
                key = charge_key(*step, "input of first", plan.hash)
                add(rows, held, "charge", about="more", key=key, body=more)
            else:
                add(rows, held, kind, body=body)
    with pytest.raises(LedgerCorrupt, match=words):
        ledger.verify()


@pytest.mark.parametrize(
    ("gate", "outcome", "words"),
    [
        (approval.Gate(), "withdrawn", "withdraws a release that was not held"),
        (approval.Gate("d", "thresholds"), "finished", "without a decision"),
        (approval.Gate("d", "thresholds"), "abandoned", "without a decision"),
        (
            approval.Gate("d", "thresholds", (), "withdraw"),
            "finished",
            "has another outcome than the decision",
        ),
        (
            approval.Gate("d", "thresholds", (), "publish"),
            "withdrawn",
            "has another outcome than the decision",
        ),
    ],
)
def test_a_release_ends_as_was_decided(gate, outcome, words):
    body = {"outcome": outcome, **approval.settled_with(gate)}
    assert words in str(approval._broken_by_end(body, gate, after_approval=True))
    assert outcome in rules.OUTCOMES


def test_a_release_that_is_returned_was_not_looked_at(writer, plan):
    writer.settle(begin(writer, plan), "returned")
    with pytest.raises(BadInput, match="measured nothing"):
        writer.look(**WHO)
