"""A clock that jumps ahead opens no later period until a person accepts the new time."""

import os
import time
from dataclasses import replace

import pytest

from dp_core.accounts.ledger_position import whereabouts
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt
from tasks.ledger.anchors import ledger_anchor, machine_clock
from tasks.ledger.anchors.anchor_notes import read_notes, write_notes
from tasks.run.home import open_ledger
from tests.ledgers import LAPLACE, WHO, basic, monthly, on, open_town, spend
from tests.specs import plan_of

pytestmark = pytest.mark.any_database

DAY = 86_400
HOUR = 3_600


class Clock:
    """The clock of the machine: time of day, time since the boot, and the boot."""

    def __init__(self, patch):
        self.patch, self.boot, self.since_boot, self.ahead = patch, "first", 1000, 0
        patch.setattr(ledger_anchor, "clock_now", self.read)
        on(patch, "2026-11-20")

    def read(self):
        return {"boot": self.boot, "offset": self.ahead}

    def jump(self, seconds, day=None):
        self.ahead += seconds
        if day:
            on(self.patch, day)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def ledger(home, ledger_url, clock, monkeypatch):  # noqa: ARG001
    monkeypatch.setenv("DP_RELEASE_LEDGER", ledger_url)
    found = open_ledger(home)
    open_town(found, terms=basic("6"), calendar=monthly("1"))
    return found


@pytest.fixture
def spent(ledger, tmp_path):  # noqa: ARG001
    """Spend what the account allows in November; the function asks for the same again."""
    plans = iter(range(9))

    def again():
        name = f"r{next(plans)}"
        spend(open_ledger(), plan_of(tmp_path, LAPLACE, release=name, privacy="{epsilon: 1}"))

    again()
    with pytest.raises(BudgetRefused):
        again()
    return again


def refused(does, says):
    with pytest.raises(LedgerCorrupt) as found:
        does()
    says(found.value)
    assert found.value.exit_code == 5
    assert "dp-release ledger adopt --by NAME --reason TEXT" in found.value.message
    return found.value.message


@pytest.mark.runbook("clock-jumped")
def test_a_jump_ahead_opens_no_later_period(ledger, spent, clock, says):
    head = ledger.head().position
    clock.jump(31 * DAY, "2026-12-21")
    assert "ahead by 31 days" in refused(spent, says)
    refused(lambda: ledger.approve("plan", **WHO), says)
    assert ledger.head().position == head
    # What only reads still works, and accepts nothing.
    assert open_ledger().account("town").name == "town"
    refused(spent, says)
    clock.jump(-31 * DAY, "2026-11-20")
    ledger.approve("plan", **WHO)


@pytest.mark.runbook("clock-jumped")
def test_a_person_accepts_the_new_time_once(ledger, spent, clock, says):
    clock.jump(31 * DAY, "2026-12-21")
    refused(spent, says)
    found = open_ledger(refuse=False).adopt(**WHO)
    assert (found.clock, found.behind, found.elsewhere) == ("31 days", 0, None)
    entry = ledger.head()
    assert (entry.kind, entry.body["clock"], entry.body["by"]) == ("adopt", 31 * DAY, "officer")
    spent()
    with pytest.raises(BudgetRefused):
        spent()
    ledger.verify()
    with pytest.raises(BadInput, match="nothing to adopt"):
        open_ledger(refuse=False).adopt(**WHO)
    clock.jump(31 * DAY, "2027-01-21")
    refused(spent, says)
    with ledger._database.reading() as book:
        # No statement takes it for a restored or copied ledger.
        assert "adopted" not in whereabouts(book, "town")


@pytest.mark.parametrize(("ahead", "allowed"), [(HOUR, True), (HOUR + 1, False)])
@pytest.mark.runbook("clock-jumped")
def test_a_clock_may_be_corrected_by_an_hour(ledger, clock, ahead, allowed, says):
    clock.jump(ahead)
    if allowed:
        ledger.approve("plan", **WHO)
        clock.jump(ahead)  # counted from the last entry
        ledger.withdraw("plan", **WHO)
        clock.jump(HOUR + 1)
    assert "ahead by 1 hour " in refused(lambda: ledger.approve("plan", **WHO), says)


@pytest.mark.runbook("clock-jumped")
def test_a_clock_that_was_set_back_may_be_set_right(ledger, clock, says):
    clock.jump(-40 * DAY)
    ledger.approve("plan", **WHO)
    clock.jump(40 * DAY)
    ledger.withdraw("plan", **WHO)
    clock.jump(2 * DAY)
    assert "ahead by 2 days" in refused(lambda: ledger.approve("plan", **WHO), says)


@pytest.mark.runbook("clock-jumped")
def test_a_reader_that_notes_a_head_does_not_accept_a_jump(ledger, home, clock, says):
    earlier = (home / "ledger.head").read_bytes()
    ledger.approve("plan", **WHO)
    (home / "ledger.head").write_bytes(earlier)  # as after a kill between commit and note
    clock.jump(31 * DAY)
    open_ledger().accounts()
    assert (home / "ledger.head").read_bytes() != earlier
    refused(lambda: ledger.withdraw("plan", **WHO), says)


@pytest.mark.parametrize("note", ["home", "state"])
@pytest.mark.runbook("clock-jumped")
def test_one_note_is_enough(ledger, home, tmp_path, clock, note, says):
    gone = {"home": tmp_path / "state" / f"{ledger.identity()}.json", "state": home / "ledger.head"}
    gone[note].unlink()
    clock.jump(DAY)
    assert "ahead by 24 hours" in refused(lambda: ledger.approve("plan", **WHO), says)


@pytest.mark.parametrize("why", ["another boot", "no such clock", "an earlier note"])
@pytest.mark.runbook("clock-jumped")
def test_without_a_clock_of_the_same_boot_nothing_is_refused(
    ledger, home, tmp_path, clock, why, monkeypatch, says
):
    if why == "another boot":
        clock.boot = "second"
    elif why == "no such clock":
        monkeypatch.setattr(ledger_anchor, "clock_now", dict)
    else:
        for path in (home / "ledger.head", tmp_path / "state" / f"{ledger.identity()}.json"):
            notes = read_notes(path)
            write_notes(path, {name: replace(one, clock={}) for name, one in notes.items()})
    clock.jump(31 * DAY)
    ledger.approve("plan", **WHO)
    if why == "no such clock":
        monkeypatch.setattr(ledger_anchor, "clock_now", clock.read)
        ledger.withdraw("plan", **WHO)
    clock.jump(31 * DAY)
    refused(lambda: ledger.approve("plan 2", **WHO), says)


def test_the_clock_of_this_machine_moves_with_its_uptime():
    before = machine_clock.clock_now()
    with open("/proc/uptime") as file:
        uptime = float(file.read().split()[0])
    assert abs(machine_clock.offset_of(before) - (time.time() - uptime)) < 60
    assert os.readlink("/proc/self/ns/time") in str(before["boot"])
    later = {**before, "offset": machine_clock.offset_of(before) + 50 * DAY}
    assert machine_clock.latest(before, [{}, later, before]) == later
    assert machine_clock.latest({}, [later]) is None
