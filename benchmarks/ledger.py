"""A ledger with a million charges: what its history costs whoever writes, reads or checks it.

Fills ledgers with releases of 100 charges each, with the program's own entries, links and running
totals, then times the real operations. Two peers in the same run: adding all rows up again, as
version 0.1 did for each balance, and a plain INSERT of the same rows into a table without a chain.

    python benchmarks/ledger.py
    python benchmarks/ledger.py --database postgresql     # a cluster of its own, fsync on
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa

from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import START
from dp_core.plan.plan import Plan
from tasks.ledger.database.ledger_tables import ENTRIES
from tasks.ledger.database.sql_store import columns_of
from tasks.ledger.ledger import Ledger
from tests import postgres
from tests.both_writers import BothWriters, both_writers
from tests.ledger_filler import CHARGES, KEY, fill, steps_of
from tests.ledger_worker import named
from tests.specs import plan_of

SERVER = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "max_wal_size": "2GB"}


def timed(do: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds that something takes: of the clock, and of this process's CPU."""
    started, used = time.perf_counter(), time.process_time()
    do()
    return (time.perf_counter() - started) * 1000, (time.process_time() - used) * 1000


def spread(times: list[tuple[float, float]]) -> str:
    """Return median and 99th percentile of the clock, and the median of CPU."""
    wall, used = sorted(wall for wall, _ in times), [used for _, used in times]
    last = wall[min(len(wall) - 1, int(0.99 * len(wall)))]
    middle, cpu = statistics.median(wall), statistics.median(used)
    return f"median {middle:8.1f}  99th {last:8.1f}  CPU {cpu:8.1f}"


def fold(ledger: Ledger) -> Fraction:
    """Return the balance as version 0.1 made it: from every row of the account."""
    found = Fraction(0)
    with ledger._database.reading() as rows:
        query = sa.select(ENTRIES.c.kind, ENTRIES.c.body).where(ENTRIES.c.account == "town")
        for kind, text in rows.store.connection.execute(query.order_by(ENTRIES.c.position)):
            body = json.loads(text)
            if kind == "charge":
                found += Fraction(body["cost"])
    return found


def plain_insert(ledger: Ledger, entries: list[Entry]) -> None:
    """Insert the rows of entries into a table that has neither chain, index nor trigger."""
    columns = [sa.Column(column.name, column.type) for column in ENTRIES.columns]
    table = sa.Table("plain", sa.MetaData(), *columns)
    with ledger._database.writing() as rows:
        table.create(rows.store.connection, checkfirst=True)
        rows.store.connection.execute(sa.insert(table), [columns_of(entry) for entry in entries])


def measure(ledger: Ledger, plan: Plan, count: int) -> dict[str, str]:
    """Return the times of the operations, each on releases of its own, one line per operation."""
    found: dict[str, list[tuple[float, float]]] = {}

    def take(name: str, do: Callable[[], object]) -> None:
        found.setdefault(name, []).append(timed(do))

    def work(writer: BothWriters, mine: Plan, *, charge: bool) -> None:
        take("open a reservation", lambda: writer.reserve(mine))
        reservation = writer.reservation()
        assert reservation is not None
        if not charge:
            writer.settle(reservation, "returned")
            return
        writer.bind_input(reservation, f"input of {mine.spec.release}", KEY)
        steps = steps_of(mine)
        take("charge a batch of 100", lambda: writer.charge(reservation, "tables", steps))
        take("commit it", lambda: writer.commit(reservation, "tables", START))
        take("settle", lambda: writer.settle(reservation, "finished"))

    for place in range(count):
        mine = named(plan, f"new-{place}")
        with both_writers(ledger, mine.spec.release, "home") as writer:
            work(writer, mine, charge=place % 10 == 0)
    held = ledger.reservation("old-1")
    assert held is not None
    for _ in range(10):
        take("read one account's balance", lambda: ledger.account("town"))
        take("status of one release", lambda: (ledger.charges(held), ledger.holder("old-1")))
    with_charges = list(ledger.entries(release="old-1", kinds=("charge",)))
    for _ in range(10):
        take("peer: plain INSERT of 100 rows", lambda: plain_insert(ledger, with_charges))
    take("every release of an account", lambda: ledger.uses("town"))
    take("peer: add up every row", lambda: fold(ledger))
    return {name: spread(times) for name, times in found.items()}


def peak_memory() -> int:
    """Return the peak of this program in KB; getrusage's is also that of whoever started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def verify(url: str) -> None:
    """Check a ledger in this process; write its figures as JSON."""
    ledger = Ledger(url)
    ledger.head()
    before = peak_memory()
    wall, used = timed(ledger.verify)
    peak = peak_memory()
    json.dump({"wall": wall, "cpu": used, "peak": peak, "more": peak - before}, sys.stdout)


def verified(url: str, charges: int) -> str:
    """Return the figures of `verify` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--verify", url], check=True, capture_output=True, text=True
    )
    values = json.loads(done.stdout)
    per = 100_000 / charges / 1000
    return (
        f"{values['wall'] / 1000:8.1f} s ({values['wall'] * per:.2f} s per 100,000 charges,"
        f" CPU {values['cpu'] * per:.2f}), peak {values['peak'] / 1024:.0f} MB"
        f" ({values['more'] / 1024:.0f} more than before)"
    )


@contextlib.contextmanager
def databases(kind: str) -> Iterator[Callable[[], str]]:
    """Give a function that returns the URL of a fresh database."""
    if kind == "postgresql":
        postgres.SETTINGS.update(SERVER)
        with postgres.PostgresServer() as server:
            yield server.create_database
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = iter(Path(folder, f"{place}.db") for place in range(100))
        yield lambda: f"sqlite:///{next(paths)}"


def size_of(ledger: Ledger) -> float:
    """Return the size of a ledger's database in megabytes."""
    with ledger._database.reading() as rows:
        if ledger._database.dialect == "sqlite":
            query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        else:
            query = "SELECT pg_database_size(current_database())"
        return float(rows.store.connection.exec_driver_sql(query).scalar() or 0) / 1e6


def machine(ledger: Ledger) -> str:
    """Return versions and machine in one line."""
    with ledger._database.reading() as rows:
        word = "sqlite_version()" if ledger._database.dialect == "sqlite" else "version()"
        version = str(rows.store.connection.exec_driver_sql(f"SELECT {word}").scalar())[:30]
    return (
        f"{ledger._database.dialect} {version}; SQLAlchemy {sa.__version__}, Python"
        f" {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    )


def main() -> None:
    """Print one table per size of history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--charges", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--operations", type=int, default=200)
    parser.add_argument("--verify", help="URL of a ledger to check, and nothing else")
    options = parser.parse_args()
    if options.verify:
        verify(options.verify)
        return
    with tempfile.TemporaryDirectory() as scratch, databases(options.database) as fresh:
        plan = plan_of(Path(scratch), privacy="{epsilon: 0.01}")
        for charges in options.charges:
            url = fresh()
            started = time.perf_counter()
            ledger = fill(url, plan, charges // CHARGES)
            seconds = time.perf_counter() - started
            print(f"\n{machine(ledger)}")
            print(f"{charges:,} charges, {size_of(ledger):.0f} MB, filled in {seconds:.0f} s; ms")
            for name, line in measure(ledger, plan, options.operations).items():
                print(f"{name:32} {line}", flush=True)
            print(f"{'verify':32} {verified(url, charges)}", flush=True)


if __name__ == "__main__":
    main()
