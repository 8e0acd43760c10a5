"""Eight processes at once on one ledger, some of them killed or stopped at random times.

With `DP_RELEASE_EXHAUSTIVE=1` each process does 500 operations; otherwise it is a shorter form.
What each process was told is in its own journal (`tests/ledger_worker.py`); the ledger is compared
with all of them, and its totals with sums made here.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from dp_core.kernel.cost.composition import RHO_UNITS, Amount, Terms
from dp_core.kernel.ledger.entries import Entry
from tasks.ledger.database.ledger_tables import LEASES
from tasks.ledger.ledger import Ledger
from tests.full import EXHAUSTIVE, at_full_size
from tests.ledger_worker import EPSILONS, LIFETIME_MS, anchor_in, batches_of, make_templates
from tests.ledgers import open_town

PROCESSES = 8
FULL = EXHAUSTIVE
OPERATIONS = 500 if FULL else 24 if at_full_size() else 16
DISTURBANCES = 60 if FULL else 8 if at_full_size() else 6
"""Four of five kill a process, the fifth stops one for longer than its lease lives."""
SECONDS = 1200 if FULL else 240
"""After which something hangs."""
ROOT = Path(__file__).parents[3]

ACCOUNTED = (10 if FULL else 4) + Fraction(PROCESSES * OPERATIONS, 50)
"""Epsilon of the accounts: too little for everything, enough that much is done before it ends."""
TERMS = {
    "town": Terms("basic", ACCOUNTED, Fraction("1e-3")),
    "ward": Terms("basic", ACCOUNTED / 3, Fraction("1e-3")),
    "lab": Terms("zcdp", ACCOUNTED / 20, Fraction("1e-3")),
    "bench": Terms("zcdp", ACCOUNTED / 40, Fraction("1e-3")),
}
ABOVE = {"ward": "town", "bench": "lab"}

pytestmark = [pytest.mark.slow, pytest.mark.any_database]


@dataclass
class Crowd:
    """Workers on one ledger, and what was seen of it while they worked."""

    url: str
    folder: Path
    random: random.Random
    launcher: subprocess.Popen[str]
    processes: dict[int, int] = field(default_factory=dict)
    seen: list[tuple[int, str]] = field(default_factory=list)
    fences: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    stops: int = 0

    def start(self, index: int) -> None:
        """Start a worker, which goes on where the one before it ended."""
        seed = self.random.getrandbits(32)
        words = [self.url, str(self.folder), index, OPERATIONS, seed]
        assert self.launcher.stdin is not None
        assert self.launcher.stdout is not None
        print(json.dumps(words), file=self.launcher.stdin, flush=True)
        self.processes[index] = int(self.launcher.stdout.readline())

    def is_done(self, index: int) -> bool:
        """Return whether a worker did everything; fail if it broke."""
        crash = self.folder / f"{index}.crash"
        assert not crash.exists(), crash.read_text()
        path = self.folder / f"{index}.jsonl"
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200))
            return b'{"event": "end"' in file.read()
        return False

    def disturb(self) -> None:
        """Kill somebody, or stop somebody for longer than a lease lives."""
        index = self.random.choice([index for index in self.processes if not self.is_done(index)])
        process = self.processes[index]
        with suppress(ProcessLookupError):
            if (self.kills + self.stops) % 5 == 4:
                os.kill(process, signal.SIGSTOP)
                time.sleep(LIFETIME_MS / 1000 + 0.3)
                os.kill(process, signal.SIGCONT)
                self.stops += 1
            else:
                os.kill(process, signal.SIGKILL)
                self.kills += 1

    def look(self, ledger: Ledger) -> None:
        """Compare the ledger with what must be true at every moment."""
        for account in ledger.accounts():
            used = account.balance.used
            assert used.within(account.terms.limit), account.name
            for part in (account.balance.reserved, account.balance.spent):
                assert min(part.main, part.delta) >= 0
        ledger.check_anchor()
        head = ledger.head()
        if self.seen:
            position, link = self.seen[-1]
            assert head.position >= position
            assert [entry.link for entry in ledger.entries(position=position)] == [link]
        self.seen.append((head.position, head.link))
        for release, fence in read_fences(ledger).items():
            assert fence >= self.fences.get(release, 0), release
            self.fences[release] = fence


def read_fences(ledger: Ledger) -> dict[str, int]:
    """Return the latest fence of each release."""
    with ledger._database.reading() as rows:
        found = rows.store.connection.execute(sa.select(LEASES.c.release, LEASES.c.fence))
        return {row.release: row.fence for row in found}


@contextmanager
def crowd(url: str, folder: Path, seed: int) -> Iterator[Crowd]:
    """Give the means to start workers; none outlives the block."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ledger_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    ) as launcher:
        try:
            yield Crowd(url, folder, random.Random(seed), launcher)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(launcher.pid, signal.SIGKILL)


def is_alive(process: int) -> bool:
    """Return whether a process is there; the launcher leaves no zombies."""
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def read_journals(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all journals; the last line of a killed process may be torn."""
    found = []
    for index in range(PROCESSES):
        for number, line in enumerate((folder / f"{index}.jsonl").read_bytes().split(b"\n")):
            with suppress(ValueError):
                found.append({**json.loads(line), "index": index, "line": number})
    return found


def work_at_once(ledger: Ledger, workers: Crowd) -> None:
    """Let all work to the end, disturb them, and keep looking."""
    deadline = time.monotonic() + SECONDS
    whole = PROCESSES * OPERATIONS
    for index in range(PROCESSES):
        workers.start(index)
    while not all(workers.is_done(index) for index in range(PROCESSES)):
        assert time.monotonic() < deadline, "the workers hang"
        lines = sum(
            path.read_bytes().count(b'"event": "ask"') for path in workers.folder.glob("*.jsonl")
        )
        done = workers.kills + workers.stops
        # By the work that is done, not by the clock: a slow machine is not disturbed more often.
        if done < DISTURBANCES and lines > (done + workers.random.random()) * whole / DISTURBANCES:
            workers.disturb()
        workers.look(ledger)
        for index, process in workers.processes.items():
            if not is_alive(process) and not workers.is_done(index):
                workers.start(index)
        time.sleep(0.05)
    workers.look(ledger)


@pytest.fixture
def worked(ledger_url: str, tmp_path: Path) -> tuple[Ledger, Crowd, list[dict[str, Any]]]:
    """A ledger on which all workers have ended, and their journals."""
    ledger = Ledger(ledger_url, None, anchor_in(tmp_path, ledger_url))
    for name, terms in TERMS.items():
        open_town(ledger, name, terms, within=ABOVE.get(name))
    with crowd(ledger_url, tmp_path, seed=31) as workers:
        work_at_once(ledger, workers)
    return ledger, workers, read_journals(tmp_path)


def test_killed_processes_never_overspend_and_lose_or_double_no_charge(
    worked: tuple[Ledger, Crowd, list[dict[str, Any]]], tmp_path: Path
) -> None:
    ledger, workers, journals = worked
    ledger.check_anchor()
    found = ledger.anchor_findings()
    assert found is not None
    assert found.is_noted
    assert workers.kills >= DISTURBANCES // 3
    assert workers.stops
    entries = ledger.entries()
    assert ledger.verify().entries == len(entries)
    check_journals(entries, journals)
    check_holders(journals)
    check_entries(entries)
    check_sums(ledger, entries, tmp_path)
    check_refusals(journals)


def check_journals(entries: tuple[Entry, ...], journals: list[dict[str, Any]]) -> None:
    """What was acknowledged is there; what is there was asked for, and not more often."""
    by_position = {entry.position: entry for entry in entries}
    there: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind in ("input", "charge", "attempt", "commit", "settle"):
            there[entry.kind, entry.reservation, entry.body.get("batch")].append(entry)
    asked: Counter[tuple[Any, ...]] = Counter()
    done: Counter[tuple[Any, ...]] = Counter()
    reserves: Counter[str] = Counter()
    for line in journals:
        if line["event"] not in ("ask", "done") or line["what"] == "hold":
            continue
        if line["what"] == "reserve":
            if line["event"] == "ask":
                reserves[line["release"]] += 1
            else:
                entry = by_position[line["position"]]
                assert (entry.kind, entry.about) == ("reserve", line["plan"])
                assert entry.receipt.release == line["release"]
            continue
        kind = {"bind": "input"}.get(line["what"], line["what"])
        key = kind, line["position"], line.get("batch")
        (asked if line["event"] == "ask" else done)[key] += 1
        if line["event"] == "done":
            check_answer(line, there[key])
    for key, found in there.items():
        assert asked[key] >= (1 if key[0] == "charge" else len(found)), key
        if key[0] == "attempt":
            assert len(found) >= done[key], key
    for release, count in Counter(
        e.receipt.release for e in entries if e.kind == "reserve"
    ).items():
        assert count <= reserves[release]


def check_answer(line: dict[str, Any], there: list[Entry]) -> None:
    """What one worker was told about one operation is what the ledger says."""
    match line["what"]:
        case "bind":
            assert [entry.about for entry in there] == [line["input"]]
        case "charge":
            assert [entry.receipt.number for entry in there] == line["numbers"]
        case "attempt":
            assert line["fence"] in [entry.body["fence"] for entry in there]
        case "commit":
            assert [entry.body["result"] for entry in there] == [line["result"]]
        case "settle":
            assert [entry.body["outcome"] for entry in there] == [line["outcome"]]


def check_holders(journals: list[dict[str, Any]]) -> None:
    """Each holder has a fence of its own, and does nothing after the next one came."""
    came: dict[tuple[str, int], int] = {}
    for line in journals:
        if line["event"] == "done" and line["what"] == "hold":
            assert (line["release"], line["fence"]) not in came
            came[line["release"], line["fence"]] = line["time"]
    begun = {
        (line["index"], line["operation"]): line["time"]
        for line in journals
        if line["event"] == "ask" and "operation" in line
    }
    for line in journals:
        if line["event"] == "done" and "operation" in line:
            following = min(
                (
                    time
                    for (release, fence), time in came.items()
                    if release == line["release"] and fence > line["fence"]
                ),
                default=None,
            )
            assert following is None or begun[line["index"], line["operation"]] < following


def check_entries(entries: tuple[Entry, ...]) -> None:
    """A charge is there once, a commit at most once, and fences only grow."""
    charges = Counter(
        (e.receipt.release, e.body["stage"], e.body["step"]) for e in entries if e.kind == "charge"
    )
    assert set(charges.values()) == {1}
    commits = Counter((e.reservation, e.about) for e in entries if e.kind == "commit")
    assert set(commits.values()) == {1}
    fences: dict[str, int] = {}
    for entry in entries:
        if entry.kind == "attempt":
            assert entry.body["fence"] >= fences.get(entry.receipt.release, 0)
            fences[entry.receipt.release] = entry.body["fence"]


def check_sums(ledger: Ledger, entries: tuple[Entry, ...], folder: Path) -> None:
    """The balances are what the entries and the plans come to, added up here."""
    plans = make_templates(folder / "specs")
    used = {name: [Fraction(0), Fraction(0)] for name in TERMS}
    settled = {entry.reservation: entry for entry in entries if entry.kind == "settle"}
    charged: dict[int | None, list[str]] = defaultdict(list)
    for entry in entries:
        if entry.kind == "charge" and entry.about not in charged[entry.reservation]:
            charged[entry.reservation].append(str(entry.about))
    for entry in entries:
        if entry.kind != "reserve":
            continue
        account, size, *_ = entry.receipt.release.split("-")
        plan, pure = plans[f"{account}-{size}"], account in ("town", "ward")
        end = settled.get(entry.position)
        if end is None:
            part, amount = 0, Fraction(EPSILONS[int(size)]) if pure else plan.currency.limit
        else:
            part, amount = 1, Fraction(0)
            for batch in charged[entry.position]:
                for step in batches_of(plan)[batch]:
                    rho = step.event.rho() * RHO_UNITS
                    amount += step.cost if pure else Fraction(-(-rho // 1), RHO_UNITS)
            amount = min(amount, plan.currency.limit)
            if end.body["outcome"] == "returned":
                assert amount == 0
        name: str | None = account
        while name is not None:
            used[name][part] += amount
            name = ABOVE.get(name)
    for name, (reserved, spent) in used.items():
        balance = ledger.account(name).balance
        assert (balance.reserved, balance.spent) == tuple(
            Amount(value, Fraction(0)) for value in (reserved, spent)
        )
        assert reserved + spent <= TERMS[name].limit.main


EXPECTED = {
    "StageFailed": (
        "Another process is working",
        "Another process took over",
        "is closed",
        "is not bound to its input yet",
        "is committed; it is not drawn again",
        "was drawn",
        "already holds this entry",
    ),
    "BudgetRefused": ("left of",),
    "BadInput": ("The name",),
    "LedgerCorrupt": ("is for a result that was not charged",),
    "ValueError": ("Not charged", "with charges cannot be returned"),
}


def check_refusals(journals: list[dict[str, Any]]) -> None:
    """Nobody was refused for another reason than a rule; the total was tried."""
    refused = [line for line in journals if line["event"] == "refused"]
    for line in refused:
        assert any(text in line["text"] for text in EXPECTED[line["error"]]), line["text"]
    assert any(line["error"] == "BudgetRefused" for line in refused)
