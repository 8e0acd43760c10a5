"""Scheduled releases in a row, while worker, server, database and Dask are killed at random times.

    python -m tests.crashes.scheduled --releases 50 --seed 1 --dask

Nobody mends anything: what ends is started again, as systemd would, and what was left unfinished
goes on by the deployment `resume-unfinished`. In the end every bundle has to verify, the ledger
too, every release must have spent what its plan says, each step once, and no run or task is left
running in Prefect.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
import urllib.error
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.bundle.verification.verify import verify
from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tests.crashes.job import wrong_charges
from tests.deployments.site import Site, seconds_ahead
from tests.postgres import PostgresServer

VICTIMS = ("worker", "worker with its runs", "server", "database")
EPSILON, DELTA = Fraction(1), Fraction("1e-6")


@dataclass
class Chaos:
    """One row of releases, and who is killed meanwhile.

    Attributes:
        site: The installation.
        postgres: Its databases.
        every: Seconds between kills, on average.
        random: Chooses victims and times.
        killed: How often each was killed.
        moments: For which releases are scheduled.
    """

    site: Site
    postgres: PostgresServer
    every: float
    random: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    moments: list[datetime] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Of the releases that there have to be."""
        return [f"town-{moment:%Y%m%d-%H%M%S}" for moment in self.moments]

    def begin(self, releases: int, interval: int) -> None:
        """Deploy, with a schedule that fires for each release, and one for the upkeep."""
        self.site.deploy(
            often={
                "schedules": [{"interval": 15, "active": True}],
                "parameters": {"patience": 45, "first_wait": 3, "most_failures": 1000},
            }
        )
        first = seconds_ahead(10)
        self.moments = [first + timedelta(seconds=interval * each) for each in range(releases)]
        rule = f"RRULE:FREQ=SECONDLY;INTERVAL={interval};COUNT={releases}"
        self.site.schedule(
            "scheduled-release/monthly",
            {"rrule": f"DTSTART:{first:%Y%m%dT%H%M%S}\n{rule}", "timezone": "UTC"},
        )

    def go(self, seconds: float, say: Any) -> bool:
        """Kill and start again until every release is published, or the time is over."""
        until = time.monotonic() + seconds
        strike = time.monotonic() + self._pause()
        published: list[str] = []
        while time.monotonic() < until:
            time.sleep(0.5)
            self._mend()
            now = [name for name in self.names if (self.site.out_root / name).is_dir()]
            if len(now) > len(published):
                say(f"{len(now)} published, {sum(self.killed.values())} kills")
            published = now
            if len(published) == len(self.names) and self._all_done():
                return True
            if len(published) < len(self.names) and time.monotonic() > strike:
                dask = ("scheduler",) if self.site.installation.dask_port else ()
                self._kill(self.random.choice((*VICTIMS, *dask)))
                strike = time.monotonic() + self._pause()
        return False

    def _pause(self) -> float:
        return self.random.expovariate(1 / self.every) + 1

    def _mend(self) -> None:
        # A second later, as a service manager does.
        down = [part for part in self.site.installation.parts if part.process.poll() is not None]
        if self.postgres.pid is None:
            time.sleep(1)
            self.postgres.start()
        if down:
            time.sleep(1)
            self.site.installation.mend()

    def _kill(self, victim: str) -> None:
        self.killed[victim] += 1
        if victim == "database":
            # All of it, as a service manager does; its backends would not go by themselves.
            pid = self.postgres.pid
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)
            return
        parts = {part.name: part for part in self.site.installation.parts}
        process = parts[victim.split()[0]].process
        with contextlib.suppress(ProcessLookupError):
            if victim == "worker with its runs":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()

    def _all_done(self) -> bool:
        """Whether every run of the schedule is completed, and no task of any is left running."""
        unfinished = {
            "flows": {"name": {"any_": ["scheduled-release"]}},
            "task_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}},
        }
        try:
            states = [run["state"]["type"] for run in self.site.runs()]
            left = self.site.ask("POST", "/task_runs/filter", unfinished)
        except (OSError, urllib.error.URLError, ValueError):
            return False
        return not left and states.count("COMPLETED") == len(states) == len(self.names)


def wrong_with(chaos: Chaos) -> list[str]:
    """Return what is wrong in the end: nothing, if all is well."""
    site, wrong = chaos.site, []
    ledger = site.ledger()
    from tasks.run.home import home_key

    ledger.verify(home_key(site.home, ledger))
    missing = set(chaos.names) - set(ledger.releases())
    wrong += [f"{name} was never reserved" for name in sorted(missing)]
    more = set(ledger.releases()) - set(chaos.names)
    wrong += [f"{name} was not scheduled" for name in sorted(more)]
    for name in ledger.releases():
        wrong += [f"{name}: {what}" for what in _wrong_release(site, ledger, name)]
    balance = ledger.account("town").balance
    planned = len(chaos.names) * EPSILON, len(chaos.names) * DELTA
    if (balance.spent.main, balance.spent.delta) != planned:
        wrong.append(f"the account spent {balance.spent}, and the plans are {planned}")
    if (balance.reserved.main, balance.reserved.delta) != (0, 0):
        wrong.append(f"the account has {balance.reserved} reserved")
    return wrong


def _wrong_release(site: Site, ledger: Any, name: str) -> list[str]:
    wrong: list[str] = []
    out = site.out_root / name
    if not out.is_dir():
        return ["it has no bundle"]
    wrong += [check.sentence for check in verify(out).failures]
    reservation = ledger.reservation(name)
    charges = ledger.charges(reservation)
    plan = make_plan(load_spec(site.specs / f"{name}.release.yaml"))
    if reservation.outcome != "finished":
        wrong.append(f"the reservation is {reservation.outcome}")
    return wrong + wrong_charges(charges, plan, site.home / "runs" / name)


def drawn_again(site: Site) -> int:
    """Return how many draws were done again under their charge, unseen."""
    return len(site.ledger().entries(kinds=("attempt",)))


def run_chaos(
    folder: Path,
    postgres: PostgresServer,
    *,
    releases: int,
    seed: int,
    every: float,
    interval: int,
    seconds: float,
    dask: bool = False,
    say: Any = lambda _text: None,
) -> tuple[Chaos, list[str]]:
    """Make a row of releases under kills; return what was done and what is wrong."""
    site = Site(folder, postgres, dask=dask)
    chaos = Chaos(site, postgres, every, random.Random(seed))
    try:
        site.installation.up()
        chaos.begin(releases, interval)
        done = chaos.go(seconds, say)
    finally:
        site.installation.down()
        postgres.start()
    wrong = wrong_with(chaos)
    if not done:
        wrong.append(f"not all was done in {seconds:.0f} seconds")
    return chaos, wrong


def main(words: Sequence[str] | None = None) -> int:
    """Do it, and say what became of it."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=30.0, help="Seconds between kills.")
    parser.add_argument("--interval", type=int, default=20, help="Seconds between schedules.")
    parser.add_argument("--dask", action="store_true", help="Count on Dask, and kill it, too.")
    parser.add_argument("--limit", type=float, help="Seconds; 120 for each release and 300 more.")
    parser.add_argument("--keep", type=Path, help="Folder that is left for a look.")
    given = parser.parse_args(words)
    limit = given.limit or 300 + 120 * given.releases
    began = time.monotonic()
    # Told to end, it ends its processes too; in the background a shell lets Ctrl-C be ignored.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit("told to end"))

    def say(text: str) -> None:
        sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")
        sys.stdout.flush()

    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(PostgresServer())
        chaos, wrong = run_chaos(
            folder.absolute(),
            postgres,
            releases=given.releases,
            seed=given.seed,
            every=given.every,
            interval=given.interval,
            seconds=limit,
            dask=given.dask,
            say=say,
        )
        kills = ", ".join(f"{what} {number}" for what, number in sorted(chaos.killed.items()))
        say(
            f"{given.releases} releases, killed: {kills or 'nobody'}; {drawn_again(chaos.site)}"
            f" draws were done again unseen; {len(wrong)} things are wrong;"
            f" {time.monotonic() - began:.0f} s"
        )
        for what in wrong:
            say(f"WRONG {what}")
        if wrong and given.keep:
            say(chaos.site.told())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
