"""What the ledger's rules refuse from whoever can write entries; people get better sentences."""

from dataclasses import replace

import pytest

from dp_core.accounts.chain_audit import MemoryBook, audit
from dp_core.errors import BudgetRefused, LedgerCorrupt
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.ledger.rules import Policy, judged
from dp_core.kernel.questions import calibration
from dp_core.policies.all_policies import POLICIES
from tasks.ledger.database import transaction
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import (
    HOME,
    LAPLACE,
    VANDAL,
    audited,
    begin,
    open_town,
    refuse,
    spend,
    step,
    steps_of,
)
from tests.specs import SCHEMA, plan_of

pytestmark = pytest.mark.any_database


@pytest.fixture
def ledger(ledger_url):
    ledger = Ledger(ledger_url)
    open_town(ledger)
    open_town(ledger, "village")
    return ledger


TENTH = {
    "epsilon": "1/10",
    "currency": {"kind": "pure", "limit": "1/10", "own_delta": "0"},
    "costs": {},
}


def reserve_body(plan, **changes):
    privacy = plan.spec.privacy
    body = {
        "epsilon": str(privacy.epsilon),
        "delta": str(privacy.delta),
        "neighbours": privacy.neighbours,
        "unit": "row",
        "plan": plan.hash,
        "sets": 1,
        "mode": "shared",
        "currency": plan.currency.to_json(),
        "costs": {stage: str(cost) for stage, cost in plan.costs.items()},
    }
    return body | changes


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, None),
        ({"epsilon": "1/1000"}, "does not imply its epsilon"),
        ({"epsilon": "-1"}, "does not imply its epsilon"),
        ({"epsilon": "0"}, "does not imply its epsilon"),
        ({"delta": "-1"}, "does not imply its epsilon"),
        ({"delta": "1"}, "does not imply its epsilon"),
        (
            {"currency": {"kind": "pure", "limit": "1000", "own_delta": "0"}},
            "does not imply its epsilon",
        ),
        (
            {"currency": {"kind": "pure", "limit": "0", "own_delta": "0"}, "costs": {}},
            "does not imply",
        ),
        ({"costs": {"one_way": "-99", "measure": "100"}}, "states costs of stages"),
        ({"costs": {"measure": "2"}}, "states costs of stages"),
        ({"neighbours": "replace-one"}, "another neighbouring relation"),
        (
            {"epsilon": "3", "currency": {"kind": "pure", "limit": "3", "own_delta": "0"}},
            "promises more",
        ),
    ],
)
def test_a_reservation_is_what_it_says(ledger, tmp_path, changes, rule):
    plan = plan_of(tmp_path)
    body = reserve_body(plan, **changes)
    before = ledger.head().position

    def write():
        with ledger._database.writing() as rows:
            rows.append("reserve", account="town", release="first", about=plan.hash, body=body)

    if rule is None:
        write()
        ledger.verify()
        return
    with pytest.raises(LedgerCorrupt, match=rule):
        write()
    assert ledger.head().position == before


@pytest.mark.parametrize("kind", ["input", "charge", "commit", "settle"])
def test_an_entry_of_a_release_names_the_account_that_pays(ledger, tmp_path, kind):
    plan = plan_of(tmp_path)
    (step,) = steps_of(plan, "one_way")[:1]
    bodies = {
        "input": ({"home": "h", "seal": "s"}, "hash of other data"),
        "charge": (
            {
                "batch": "b",
                "stage": step.stage,
                "step": step.name,
                "cost": str(step.cost),
                "event": step.event.to_json(),
            },
            "b",
        ),
        "commit": ({"batch": "b", "result": "0" * 64}, "b"),
        "settle": ({"outcome": "abandoned", "spent": "0", "seen": False}, None),
    }
    body, about = bodies[kind]
    with both_writers(ledger, "first", HOME) as writer:
        held = begin(writer, plan)
    with (
        ledger._database.writing() as rows,
        pytest.raises(LedgerCorrupt, match="belongs to no reservation"),
    ):
        rows.append(
            kind,
            account="village",
            release="first",
            reservation=held.position,
            about=about,
            body=body,
        )


def test_one_input_is_never_in_two_accounts(ledger, tmp_path):
    with both_writers(ledger, "first", HOME) as writer:
        begin(writer, plan_of(tmp_path))
    plan = plan_of(tmp_path, release="second", account="village")
    with both_writers(ledger, "second", HOME) as writer:
        held = writer.reserve(plan)
        with ledger._database.writing() as rows, pytest.raises(LedgerCorrupt, match="another acc"):
            rows.append(
                "input",
                account="village",
                release="second",
                reservation=held.position,
                about="input of first",
                body={"home": "home", "seal": "s"},
            )
    assert audited(ledger.all_entries()).entries == ledger.head().position


def test_a_policy_can_refuse_an_entry_but_not_write_a_total_of_the_rules(ledger, tmp_path):
    with both_writers(ledger, "first", HOME) as writer:
        begin(writer, plan_of(tmp_path))
    entries = [entry for entry, _ in ledger.all_entries()]
    walk = lambda: ((entry, None) for entry in entries)  # noqa: E731
    assert audit(walk(), ()).entries == len(entries)
    for refused in {entry.kind for entry in entries}:
        never = Policy(
            "never", lambda entry, _, no=refused: "x" if entry.kind == no else None, none
        )
        with pytest.raises(LedgerCorrupt, match=rf"\({refused}\) x"):
            audit(walk(), (never,))
    for subject in ("account/town", "reservation/3"):
        for own in ({subject: "[[0,0],[0,0]]"}, Lying({subject: "[[0,0],[0,0]]"}), {"x/y": "1"}):
            forging = Policy("forging", none_refused, lambda *_, own=own: own, ("mine/",))
            with pytest.raises(LedgerCorrupt):
                audit(walk(), (forging,))
            with pytest.raises(ValueError, match="forging"):
                judged(entries[1], MemoryBook(), (forging,))
        taken = Policy("taken", none_refused, none, (subject[:3],))
        with pytest.raises(ValueError, match="write totals"):
            judged(entries[1], MemoryBook(), (taken,))
    first, second = (Policy(name, none_refused, none, ("mine/",)) for name in "ab")
    with pytest.raises(ValueError, match="write totals 'mine/'"):
        judged(entries[1], MemoryBook(), (first, second))


def test_a_policy_cannot_change_what_the_rules_read(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(transaction, "POLICIES", (*POLICIES, VANDAL))
    monkeypatch.setattr("tasks.ledger.charging.charging_writer.check_stages", lambda *_: None)
    with both_writers(ledger, "first", HOME) as writer:
        held = begin(writer, plan_of(tmp_path, LAPLACE))
        half = held.costs["measure"] / 2
        for name in ("one", "two"):
            writer.charge(held, name, [step(held, "measure", name, half)])
        for more in (half, half / 100):
            with pytest.raises(LedgerCorrupt, match="more than stage 'measure' has"):
                writer.charge(held, "more", [step(held, "measure", "more", more)])
    ledger.verify()
    walk = [(entry, None) for entry, _ in ledger.all_entries()]
    plain, spoilt = audit(walk, ()), audit(walk, (VANDAL,))
    assert plain == spoilt
    assert plain.entries == ledger.head().position


def test_an_extension_is_asked_only_if_the_reservation_names_it(ledger, tmp_path):
    dense, fixed = plan_of(tmp_path, "", method="privsyn"), plan_of(tmp_path, release="second")
    assert (dense.extensions, fixed.extensions) == (("indif",), ())
    for plan in (dense, fixed):
        with both_writers(ledger, plan.spec.release, HOME) as writer:
            held = begin(writer, plan)
            (step,) = steps_of(plan, "one_way")[:1]
            event = replace(step.event, scale=step.event.scale * 64, l1_sensitivity=64)
            ask = replace(step, asks={"name": "indif", "length": 1}, event=event)
            if plan is dense:
                writer.charge(held, "one_way-0", [ask])
                continue
            with pytest.raises(LedgerCorrupt, match="asks an extension"):
                writer.charge(held, "one_way-0", [ask])
            for name in ("indif ", "whole file", ""):
                with pytest.raises(LedgerCorrupt, match="does not have"):
                    writer.charge(held, "one_way-0", [replace(step, asks={"name": name})])
            urn = PolyaUrnEvent(step.event.scale * 1000, 1)
            with pytest.raises(LedgerCorrupt, match="draws otherwise"):
                writer.charge(held, "one_way-0", [replace(step, event=urn)])
            writer.charge(held, "one_way-0", [step])
    ledger.verify()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_charge_for_less_than_its_question_can_change_is_refused(ledger, tmp_path, neighbours):
    open_town(ledger, "people", unit="person", neighbours=neighbours)
    privacy = f"{{epsilon: 1, neighbours: {neighbours}}}"
    plan = of_persons(tmp_path, "first", "interview", privacy=privacy)
    enough = 3 if neighbours == "add-remove" else 6
    with both_writers(ledger, "first", HOME) as writer:
        held = begin(writer, plan)
        step, *_ = steps_of(plan, "one_way")
        assert step.event.l1_sensitivity == enough
        for event in (
            replace(step.event, l1_sensitivity=enough - 1),
            replace(step.event, scale=step.event.scale * 9, l1_sensitivity=1),
        ):
            with pytest.raises(LedgerCorrupt, match="a smaller effect of one unit"):
                writer.charge(held, "one_way-0", [replace(step, event=event)])
        for asks in ({"name": "scores"}, {"name": "interaction", "length": 2}):
            with pytest.raises(LedgerCorrupt, match="a smaller effect of one unit"):
                writer.charge(held, "one_way-0", [replace(step, asks=asks)])
        asks = {"name": "interaction", "columns": ["a", "b"], "sizes": [2, 3]}
        large = replace(step.event, scale=step.event.scale * 10**6, l1_sensitivity=10**6)
        writer.charge(
            held, "one_way-0", [step, replace(step, name="a x b", asks=asks, event=large)]
        )
    ledger.verify()


def test_an_audit_finds_a_charge_for_less_than_its_question_can_change(
    ledger, tmp_path, monkeypatch
):
    """It was written by a program without the rule."""
    plan = plan_of(tmp_path)
    with both_writers(ledger, "first", HOME) as writer:
        held = begin(writer, plan)
        step, *_ = steps_of(plan, "one_way")
        little = replace(step, asks={"name": "scores", "length": 2, "change": 2})
        with monkeypatch.context() as patch:
            patch.setattr(calibration, "calibrated", lambda *_: True)
            writer.charge(held, "one_way-0", [little])
            ledger.verify()
        with pytest.raises(LedgerCorrupt, match="a smaller effect of one unit"):
            ledger.verify()


def test_an_account_of_core_questions_refuses_plans_with_extensions(ledger, tmp_path):
    open_town(ledger, "core", core_only=True)
    open_town(ledger, "ward", within="core")
    for account in ("core", "ward"):
        plan = plan_of(tmp_path, "", method="privsyn", account=account, release=account)
        with both_writers(ledger, account, HOME) as writer:
            with pytest.raises(BudgetRefused, match=r"core questions only.*indif"):
                writer.reserve(plan)
            body = reserve_body(plan, extensions=["indif"])
            with (
                ledger._database.writing() as rows,
                pytest.raises(LedgerCorrupt, match="more than core"),
            ):
                rows.append("reserve", account=account, release=account, about="p", body=body)
            writer.reserve(plan_of(tmp_path, account=account, release=account))
    ledger.verify()


def of_persons(folder, release, column, account="people", **more):
    schema = SCHEMA.replace("unit: row", f"unit: {{column: {column}, max_rows: 3}}")
    return plan_of(folder / release, schema=schema, release=release, account=account, **more)


def test_releases_of_one_family_identify_persons_by_one_column(ledger, tmp_path):
    open_town(ledger, "people", unit="person")
    for name in ("north", "south"):
        open_town(ledger, name, unit="person", within="people")
    refuse(ledger, of_persons(tmp_path, "typo", "interveiw", "north"))  # returned: fixes nothing
    spend(ledger, of_persons(tmp_path, "first", "interview", "north"))
    before = ledger.head()
    for account in ("north", "south", "people"):
        plan = of_persons(tmp_path, f"{account}-2", "batch", account)
        with both_writers(ledger, plan.spec.release, HOME) as writer:
            with pytest.raises(BudgetRefused, match="by 'batch', but release 'first'") as caught:
                writer.reserve(plan)
            with pytest.raises(LedgerCorrupt, match="other columns than release 'first'"):
                write_reservation(ledger, plan, account, **plan.spec.privacy.protects.stated)
        assert caught.value.row == "other-relation"
        assert ledger.head() == before
    spend(ledger, of_persons(tmp_path, "third", "interview", "south"))
    ledger.verify()


def test_releases_of_one_account_identify_households_by_one_link(ledger, tmp_path):
    open_town(ledger, "homes", unit="household")
    plan = plan_of(tmp_path)
    household = {"unit": "household", "max_members": 4}

    def write(release, **columns):
        write_reservation(ledger, plan, "homes", release, **household, **columns, **TENTH)

    write("zero")  # as versions did that stated no column
    write("first", identified_by="home")  # as earlier versions did
    write("second", identified_by="home", link="home_id")
    for columns in ({"link": "street"}, {"identified_by": "street"}):
        with pytest.raises(LedgerCorrupt, match="other columns than release"):
            write("third", **{"identified_by": "home", "link": "home_id"} | columns)
    write("third", identified_by="home")
    ledger.verify()


def write_reservation(ledger, plan, account, release=None, **changes):
    release, body = release or plan.spec.release, reserve_body(plan, **changes)
    with ledger._database.writing() as rows:
        rows.append("reserve", account=account, release=release, about=plan.hash, body=body)


class Lying(dict):
    """Totals that show other subjects than they have."""

    def __iter__(self):
        return iter(["mine/x"])


def none(_entry, _book):
    return {}


def none_refused(_entry, _book):
    return None
