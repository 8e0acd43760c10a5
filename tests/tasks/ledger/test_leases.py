"""Leases on both databases: who is taken over when, and that a late holder can write nothing.

A lease is what the database says, so nothing depends on how fast anything runs.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
import sqlalchemy as sa

from dp_core.errors import StageFailed
from tasks.ledger import leases
from tasks.ledger.database.ledger_tables import LEASES
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import HOME, KEY, begin, set_lease, steps_of
from tests.specs import plan_of

pytestmark = pytest.mark.usefixtures("town")

HOLDER = """
import sys
from tasks.ledger.ledger import Ledger

with Ledger(sys.argv[1]).lease("first", "home"):
    print("held", flush=True)
    sys.stdin.readline()
"""

WRITER = """
import sys
from dp_core.errors import StageFailed
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.ledger.ledger import Ledger

fence = int(sys.stdin.readline())
ledger = Ledger(sys.argv[1])
writer = ledger.writer_under("first", fence, ChargingWriter)
reservation = ledger.reservation("first")
writer.examine(reservation)
print("examined", flush=True)
sys.stdin.readline()
acts = (
    lambda: writer.judge(reservation, "fits"),
    lambda: ledger.writer_under("first", fence, ChargingWriter),
)
for late in acts:
    try:
        late()
    except StageFailed as error:
        print(error.row, flush=True)
"""


def lease_of(url):
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        query = sa.select(LEASES).where(LEASES.c.release == "first")
        row = connection.execute(query).mappings().one()
    return dict(row, holder=json.loads(row["holder"]))


def other(**changes):
    """Return the text of a holder that is this process but for the changes."""
    return json.dumps(asdict(leases.this_process(HOME)) | changes)


def take(ledger, release="first"):
    """Hold a release and say under which fence."""
    with ledger.lease(release, HOME) as writer:
        return writer.lease.fence


# -- one holder


def test_a_release_has_one_holder_and_each_has_a_higher_fence(ledger, ledger_url):
    with ledger.lease("first", HOME) as writer:
        assert writer.lease.fence == 1
        assert ledger.holder("first") == writer.lease.holder
        with pytest.raises(StageFailed, match="Another process is working on release 'first'"):
            take(Ledger(ledger_url))
        assert take(ledger, "second") == 1
        assert writer.lease.fence == lease_of(ledger_url)["fence"]
    assert ledger.holder("first") is None
    assert lease_of(ledger_url)["expires"] == 0
    assert lease_of(ledger_url)["holder"]["process"] == os.getpid()
    assert [take(ledger) for _ in range(3)] == [2, 3, 4]


def test_a_release_is_let_go_when_its_work_fails(ledger):
    with pytest.raises(KeyError), ledger.lease("first", HOME):
        raise KeyError
    assert take(ledger) == 2


def test_an_expired_lease_is_taken_over_even_from_the_living(ledger, ledger_url):
    with ledger.lease("first", HOME):
        set_lease(ledger_url, expires=1)
        assert ledger.holder("first") is None
        assert take(ledger) == 2


def test_an_expired_lease_is_still_its_holders_until_another_comes(ledger, ledger_url, tmp_path):
    with ledger.lease("first", HOME) as writer:
        set_lease(ledger_url, expires=1)
        writer.require()
        assert writer.reserve(plan_of(tmp_path)).release == "first"


# -- a holder that wakes up late


@pytest.mark.any_database
@pytest.mark.parametrize("progress", ["nothing", "reserved", "bound", "charged"])
def test_a_late_holder_is_refused_on_every_write(ledger, ledger_url, tmp_path, progress):
    plan = plan_of(tmp_path)
    steps = steps_of(plan, "one_way")
    with both_writers(ledger, "first", HOME) as late:
        known = progress in ("bound", "charged")
        reservation = begin(late, plan) if known else late.reserve(plan)
        if progress == "nothing":
            late.settle(reservation, "returned")
        if progress == "charged":
            late.charge(reservation, "one_way-0", steps)
        before = ledger.verify()
        set_lease(ledger_url, expires=1)
        with both_writers(ledger, "first", HOME) as now:
            for write in (
                late.require,
                lambda: late.reserve(plan),
                lambda: late.bind_input(reservation, "input of first", KEY),
                lambda: late.charge(reservation, "one_way-0", steps),
                lambda: late.record_redraw(reservation, "one_way-0"),
                lambda: late.commit(reservation, "one_way-0", "0" * 64),
                lambda: late.settle(reservation, "abandoned"),
            ):
                with pytest.raises(StageFailed, match="took over release 'first'"):
                    write()
            assert ledger.verify() == before
            now.require()
        # Also after that one let go: the fence stays above that of the late one.
        with pytest.raises(StageFailed, match="took over"):
            late.reserve(plan)
        assert ledger.verify() == before
    assert lease_of(ledger_url)["fence"] == 2


def test_the_end_of_a_late_holder_and_its_renewals_leave_the_next_lease_alone(ledger, ledger_url):
    with ledger._database.writing() as rows:
        late = leases.acquire(rows, "first", leases.this_process(HOME))
    set_lease(ledger_url, expires=1)
    with ledger.lease("first", HOME) as now:
        before = lease_of(ledger_url)
        with ledger._database.writing() as rows:
            leases.give_up(rows, late)
        with pytest.raises(StageFailed), ledger._database.writing() as rows:
            leases.renew(rows, late)
        assert lease_of(ledger_url) == before
        now.require()


def test_a_lease_of_the_same_fence_that_another_holds_is_left_alone(ledger, ledger_url):
    """A table that was restored from a backup gives a fence a second time."""
    with ledger.lease("first", HOME) as writer:
        set_lease(ledger_url, holder=other(host="elsewhere"))
        with pytest.raises(StageFailed, match="Another process took over"):
            writer.require()
        before = lease_of(ledger_url)
    assert lease_of(ledger_url) == before
    assert before["expires"] > 0


def test_a_lease_is_renewed_while_its_holder_lives(ledger, ledger_url, monkeypatch):
    renewed = threading.Event()
    renew = leases.renew

    def told(rows, lease):
        renew(rows, lease)
        renewed.set()

    monkeypatch.setattr(leases, "renew", told)
    monkeypatch.setattr(leases, "LIFETIME_MS", 400)
    with ledger.lease("first", HOME):
        begun = lease_of(ledger_url)["expires"]
        assert renewed.wait(60)
        renewed.clear()
        assert renewed.wait(60)
        lease = lease_of(ledger_url)
        assert lease["expires"] > begun
        assert lease["fence"] == 1
    assert lease_of(ledger_url)["expires"] == 0


# -- a holder of two processes


def test_a_second_process_writes_under_the_lease_of_its_parent_until_it_is_taken_over(
    ledger, ledger_url, tmp_path
):
    with ledger.lease("first", HOME) as writer:
        writer.reserve(plan_of(tmp_path))
        before = lease_of(ledger_url)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, ledger_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        with process:
            process.stdin.write(f"{writer.lease.fence}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline() == b"examined\n"
            assert ledger.head().kind == "examine"
            assert lease_of(ledger_url) == before  # it neither took nor renewed the lease
            set_lease(ledger_url, expires=1)
            with ledger.lease("first", HOME):
                process.stdin.write(b"go on\n")
                process.stdin.flush()
                assert process.stdout.read() == b"taken-over\n" * 2
    assert ledger.head().kind == "examine"


# -- who is dead


def test_a_killed_process_is_taken_over_at_once_and_a_living_one_is_not(ledger, ledger_url):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, ledger_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    with process:
        assert process.stdout.readline() == b"held\n"
        assert ledger.holder("first").process == process.pid
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(StageFailed, match=rf"process {process.pid} on .*Wait for it"):
            take(ledger)
        process.send_signal(signal.SIGKILL)
        # A zombie: its parent has not looked, and its number is still there.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ledger.holder("first") is None
        assert take(ledger) == 2


@pytest.mark.parametrize(
    "changes",
    [{"started": 1.0}, {"process": 2**22 + 7}],
    ids=["number used again", "no such process"],
)
def test_a_holder_that_surely_died_is_taken_over_at_once(ledger, ledger_url, changes):
    take(ledger)
    set_lease(ledger_url, expires=2**52, holder=other())
    with pytest.raises(StageFailed):
        take(ledger)
    set_lease(ledger_url, holder=other(**changes))
    assert ledger.holder("first") is None
    assert take(ledger) == 2


@pytest.mark.parametrize(
    "changes",
    [{"host": "elsewhere"}, {"boot": "another"}, {"space": "pid:[1]", "process": 1}],
    ids=["host", "a copy of this machine", "container"],
)
def test_a_holder_that_cannot_be_seen_keeps_its_lease_until_it_ends(ledger, ledger_url, changes):
    take(ledger)
    set_lease(ledger_url, expires=2**52, holder=other(started=1.0, **changes))
    with pytest.raises(StageFailed, match=r"expires in \d+ s"):
        take(ledger)
    assert ledger.holder("first") is not None
    set_lease(ledger_url, expires=1)
    assert take(ledger) == 2


def test_who_looks_from_another_machine_waits(ledger, ledger_url, monkeypatch):
    take(ledger)
    set_lease(ledger_url, expires=2**52, holder=other(process=2**22 + 7))
    monkeypatch.setattr(socket, "gethostname", lambda: "another machine")
    with pytest.raises(StageFailed, match="expires in"):
        take(ledger)


def test_a_clock_that_is_set_makes_no_living_process_look_dead(ledger, ledger_url, monkeypatch):
    """`create_time` is by the clock; the start since the machine's own is not."""
    import psutil

    take(ledger)
    set_lease(ledger_url, expires=2**52, holder=other())
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: 1.0)
    if not Path("/proc/self/stat").exists():
        pytest.skip("the start of a process is known by the clock only")
    with pytest.raises(StageFailed, match="Wait for it"):
        take(ledger)
