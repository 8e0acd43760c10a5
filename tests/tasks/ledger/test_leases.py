"""Who may write for a release: one process at a time, and a dead one stands in nobody's way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dp_core.errors import StageFailed
from tasks.ledger import leases
from tasks.ledger.ledger import Ledger
from tests.ledgers import basic, open_town, set_lease
from tests.specs import plan_of

HOLDER = """
import sys
from tasks.ledger.ledger import Ledger

with Ledger(sys.argv[1]).lease("first", "this home") as hold:
    sys.stdout.write(f"{hold.lease.fence}\\n")
    sys.stdout.flush()
    sys.stdin.readline()
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(file):
    ledger = Ledger(f"sqlite:///{file}")
    open_town(ledger, terms=basic("2", "0"))
    return ledger


@pytest.fixture
def holder(ledger, file):
    """Another process that holds the release; it says its fence and waits for a line."""
    assert ledger.holder("first") is None
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, f"sqlite:///{file}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout.readline() == b"1\n"
    yield process
    process.kill()
    process.communicate()


def change(file, statement, *parameters):
    """Change the table of leases from outside."""
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute(statement, parameters)


def value_of(file, column):
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute(f"SELECT {column} FROM leases").fetchone()[0]


def test_a_release_is_held_by_one_process_and_another_release_by_another(ledger, holder):
    match = f"working on release 'first' \\(process {holder.pid} on"
    with pytest.raises(StageFailed, match=match):
        ledger.lease("first", "this home").__enter__()
    assert ledger.holder("first").process == holder.pid
    with ledger.lease("second", "this home") as writer:
        assert writer.lease.fence == 1
    assert ledger.holder("second") is None


def test_a_killed_holder_on_the_same_machine_is_taken_over_at_once(ledger, holder):
    holder.kill()
    holder.wait()
    assert ledger.holder("first") is None
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2


def test_a_killed_holder_whose_parent_has_not_looked_is_taken_over_too(ledger, holder):
    """It is a zombie: its number is still there."""
    holder.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2
    assert holder.wait() == -signal.SIGKILL


def test_a_stopped_holder_is_not_taken_for_dead_before_its_lease_ends(ledger, file, holder):
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(StageFailed, match="Another process is working"):
        ledger.lease("first", "this home").__enter__()
    set_lease(f"sqlite:///{file}", expires=0)
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2


def test_a_release_is_held_once_within_a_process_too(ledger):
    with ledger.lease("first", "this home"):
        with pytest.raises(StageFailed, match="Another process is working"):
            ledger.lease("first", "this home").__enter__()
        assert ledger.holder("first") is not None
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2


def test_a_release_is_let_go_when_its_work_fails(ledger):
    with pytest.raises(KeyError), ledger.lease("first", "this home"):
        raise KeyError
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2


@pytest.mark.usefixtures("holder")
def test_a_number_of_a_process_that_another_one_has_now_is_not_the_holder(ledger, file):
    text = json.loads(value_of(file, "holder"))
    text["started"] -= 100
    set_lease(f"sqlite:///{file}", holder=json.dumps(text))
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2


@pytest.mark.parametrize("place", ["host", "boot", "space"])
def test_a_holder_that_cannot_be_seen_from_here_keeps_its_lease_until_it_ends(
    ledger, file, holder, place
):
    text = json.loads(value_of(file, "holder")) | {place: "elsewhere"}
    set_lease(f"sqlite:///{file}", holder=json.dumps(text))
    holder.kill()
    holder.wait()
    with pytest.raises(StageFailed, match=r"expires in \d+ s"):
        ledger.lease("first", "this home").__enter__()
    set_lease(f"sqlite:///{file}", expires=0)
    with ledger.lease("first", "this home") as writer:
        assert writer.lease.fence == 2


def test_whoever_was_taken_over_is_refused_on_every_write_and_ends_nobody_elses_lease(
    ledger, file, tmp_path
):
    plan = plan_of(tmp_path)
    with ledger.lease("first", "this home") as first:
        reservation = first.reserve(plan)
        set_lease(f"sqlite:///{file}", expires=0)
        with ledger.lease("first", "this home") as second:
            before = ledger.head()
            for write in (
                first.require,
                lambda: first.reserve(plan),
                lambda: first.bind_input(reservation, "hash", b"k" * 32),
                lambda: first.charge(reservation, "batch", []),
                lambda: first.record_redraw(reservation, "batch"),
                lambda: first.commit(reservation, "batch", "0" * 64),
                lambda: first.settle(reservation, "abandoned"),
            ):
                with pytest.raises(StageFailed, match="Another process took over release 'first'"):
                    write()
            assert ledger.head() == before
            assert second.reserve(plan) == reservation
            assert ledger.holder("first") == second.lease.holder
    assert ledger.reservation("first").outcome is None


def test_a_late_holder_that_ends_leaves_the_lease_of_the_next_one_alone(ledger, file):
    with contextlib.ExitStack() as later:
        with ledger.lease("first", "this home"):
            set_lease(f"sqlite:///{file}", expires=0)
            second = later.enter_context(ledger.lease("first", "this home"))
        assert ledger.holder("first") == second.lease.holder
        second.require()
    assert ledger.holder("first") is None


def test_a_lease_of_the_same_fence_that_another_holds_is_left_alone(ledger, file):
    """A table that was restored from a backup gives a fence a second time."""
    with ledger.lease("first", "this home") as writer:
        other = json.loads(value_of(file, "holder")) | {"host": "elsewhere"}
        set_lease(f"sqlite:///{file}", holder=json.dumps(other))
        with pytest.raises(StageFailed, match="Another process took over"):
            writer.require()
        ends = value_of(file, "expires")
    assert value_of(file, "expires") == ends > 0
    assert ledger.holder("first").host == "elsewhere"


def test_a_lease_is_renewed_while_its_holder_lives(ledger, file, monkeypatch):
    monkeypatch.setattr(leases, "LIFETIME_MS", 40)
    renewed = threading.Event()
    renew = leases.renew

    def for_long(rows, lease):
        monkeypatch.setattr(leases, "LIFETIME_MS", 60_000)
        renew(rows, lease)
        renewed.set()

    monkeypatch.setattr(leases, "renew", for_long)
    with ledger.lease("first", "this home") as writer:
        before = value_of(file, "expires")
        assert renewed.wait(60)
        change(file, "UPDATE leases SET fence = fence")  # after the transaction that renewed
        assert value_of(file, "expires") > before + 50_000
        assert ledger.holder("first") == writer.lease.holder
