"""Leases: who may write for a release now, and how a holder that wakes up late is refused.

A lease has an expiry, which its holder keeps moving, and a fence, a number that grows with every
holder. Each write of a release is checked against the fence inside its own transaction. So nobody
needs to be sure that an earlier holder is dead: whoever took over has the higher fence, and what
the earlier one still tries is refused.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import psutil
import sqlalchemy as sa

from dp_core.documents.canonical import canonical_json
from dp_core.errors import LedgerCorrupt, StageFailed
from tasks.ledger.database.ledger_tables import LEASES
from tasks.ledger.database.transaction import Transaction, now

LIFETIME_MS = 60_000
"""How long a lease holds without being renewed, milliseconds."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that works on a release.

    Attributes:
        host: Name of its machine.
        boot: What tells one start of that machine from another.
        space: What process numbers there are relative to, as in a container.
        process: Its number.
        started: When it started, seconds; numbers are used again.
        home: Identifier of its home.
        since: When it took the lease, for people.
    """

    host: str
    boot: str
    space: str
    process: int
    started: float
    home: str
    since: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for a release, as long as nobody took over.

    Attributes:
        release: Name.
        fence: Grows with every holder.
        holder: This process.
    """

    release: str
    fence: int
    holder: Holder


def this_process(home: str) -> Holder:
    """Return this process as the holder of a lease."""
    return Holder(
        host=socket.gethostname(),
        boot=_boot(),
        space=_space(),
        process=os.getpid(),
        started=_started(os.getpid()),
        home=home,
        since=now(),
    )


def acquire(book: Transaction, release: str, holder: Holder) -> Lease:
    """Take the lease of a release: a free one, an expired one, or a dead holder's.

    Raises:
        StageFailed: if another process holds it.
    """
    found = _find(book, release)
    if found is not None and found.expires > _clock(book):
        other = _holder(release, found.holder)
        if not is_gone(other):
            raise StageFailed(_busy(release, other, found.expires - _clock(book)), row="at-work")
    fence = found.fence + 1 if found is not None else 1
    values = {"fence": fence, "holder": _text(holder), "expires": _clock(book) + LIFETIME_MS}
    if found is None:
        statement: Any = sa.insert(LEASES).values(release=release, **values)
    else:
        statement = sa.update(LEASES).where(LEASES.c.release == release).values(**values)
    book.connection.execute(statement)
    return Lease(release, fence, holder)


def require(book: Transaction, lease: Lease) -> None:
    """Raise StageFailed unless this holder is the last one; an expired lease is still its own."""
    if not _is_held(book, lease):
        raise StageFailed(
            f"Another process took over release {lease.release!r} while this one did not answer;"
            f" nothing more is done here. `dp-release status {lease.release}` shows where it is.",
            row="taken-over",
        )


def renew(book: Transaction, lease: Lease) -> None:
    """Move the expiry on.

    Raises:
        StageFailed: if another process took over.
    """
    require(book, lease)
    _set_expiry(book, lease, _clock(book) + LIFETIME_MS)


def give_up(book: Transaction, lease: Lease) -> None:
    """Let the next holder come at once; a lease that another took over is left alone."""
    if _is_held(book, lease):
        _set_expiry(book, lease, 0)


def holder_of(book: Transaction, release: str) -> Holder | None:
    """Return who works on a release now, None if nobody does."""
    found = _find(book, release)
    if found is None or found.expires <= _clock(book):
        return None
    holder = _holder(release, found.holder)
    return None if is_gone(holder) else holder


def ends(book: Transaction, release: str) -> str | None:
    """Return when a lease ends if it is not renewed, UTC to the second; None if it is free."""
    found = _find(book, release)
    if found is None or found.expires <= _clock(book):
        return None
    return datetime.fromtimestamp(found.expires / 1000, UTC).isoformat(timespec="seconds")


def _find(book: Transaction, release: str) -> Any:
    query = sa.select(LEASES).where(LEASES.c.release == release)
    return book.connection.execute(query).first()


def _is_held(book: Transaction, lease: Lease) -> bool:
    """Return whether nobody took over a lease."""
    found = _find(book, lease.release)
    # Not the fence alone: it can come again where the table was restored from a backup.
    return found is not None and (found.fence, found.holder) == (lease.fence, _text(lease.holder))


def _set_expiry(book: Transaction, lease: Lease, expires: int) -> None:
    book.connection.execute(
        sa.update(LEASES).where(LEASES.c.release == lease.release).values(expires=expires)
    )


def _clock(book: Transaction) -> int:
    """Return milliseconds since 1970 by one clock for all holders: the database's."""
    if book.connection.dialect.name == "postgresql":
        query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        return int(book.connection.exec_driver_sql(query).scalar() or 0)
    return time.time_ns() // 1_000_000


def is_gone(holder: Holder) -> bool:
    """Return whether a holder surely died; what cannot be seen from here may be alive."""
    if holder.host != socket.gethostname():
        return False
    if (holder.boot, holder.space) != (_boot(), _space()):
        # Started again since, or a copy of that machine, or a container beside it.
        return False
    try:
        process = psutil.Process(holder.process)
        return (
            abs(_started(holder.process) - holder.started) > 1
            or process.status() == psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def _started(process: int) -> float:
    """Return when a process started, in seconds since the machine did where that is known.

    Not by the clock: it may be set while the process runs, which would then look like another.
    """
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
        return ticks / os.sysconf("SC_CLK_TCK")
    return psutil.Process(process).create_time()


def _boot() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return f"{psutil.boot_time():.0f}"


def _space() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _busy(release: str, other: Holder, left_ms: int) -> str:
    where = f"process {other.process} on {other.host}, since {other.since}"
    here = socket.gethostname(), _boot(), _space()
    if (other.host, other.boot, other.space) == here:
        return (
            f"Another process is working on release {release!r} ({where}); wait for it, or see"
            f" `dp-release status {release}`."
        )
    seconds = max(1, -(-left_ms // 1000))
    return (
        f"Another process is working on release {release!r} ({where}); wait for it. Should it be"
        f" dead, its lease ends in {seconds} s, and the release can then be resumed."
    )


def _holder(release: str, text: str) -> Holder:
    try:
        return Holder(**json.loads(text))
    except (ValueError, TypeError):
        raise LedgerCorrupt(
            f"The lease of release {release!r} was changed.", row="ledger-changed"
        ) from None


def _text(holder: Holder) -> str:
    return canonical_json(asdict(holder)).decode()
