"""Leases: which process may write for a release, and how an earlier holder is refused.

A lease has an expiry, which its holder extends, and a fence, a number that increases with every
holder. Each write of a release checks the fence inside its own transaction. A new holder has a
higher fence, so later writes of the earlier holder are refused, whether or not that process still
runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import psutil

from dp_core.errors import LedgerCorrupt, StageFailed
from dp_core.kernel.canonical import canonical_json
from tasks.ledger.database.ledger_store import StoredLease
from tasks.ledger.database.transaction import Transaction, now

LIFETIME_MS = 60_000
"""Time after which a lease expires without renewal, milliseconds."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that works on a release.

    Attributes:
        host: Name of its machine.
        boot: Identifier of that machine's current boot.
        space: Namespace of its process number; containers have different ones.
        process: Process number.
        started: Time at which it started, seconds since the boot if known, otherwise since 1970. It
            distinguishes processes with a reused number.
        home: Identifier of its home.
        since: Time at which it took the lease, UTC, ISO 8601; for display.
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
    """The exclusive right to write for a release, until another process takes it over.

    Attributes:
        release: Name of the release.
        fence: Number that increases with every holder.
        holder: The process that holds the lease.
    """

    release: str
    fence: int
    holder: Holder


def this_process(home: str) -> Holder:
    """Return this process as the holder of a lease."""
    return Holder(
        host=socket.gethostname(),
        boot=boot_id(),
        space=_space(),
        process=os.getpid(),
        started=_started(os.getpid()),
        home=home,
        since=now(),
    )


def acquire(book: Transaction, release: str, holder: Holder) -> Lease:
    """Take the lease of a release if it is free or expired, or its holder is dead.

    Args:
        book: The ledger, inside a write transaction.
        release: Name of the release.
        holder: The process that takes the lease.

    Raises:
        StageFailed: if another process holds it.
    """
    found, clock = _find(book, release), book.store.clock()
    if found is not None and found.expires > clock:
        other = _holder(release, found.holder)
        if not is_gone(other):
            raise StageFailed(_busy(release, other, found.expires - clock), row="at-work")
    lease = Lease(release, found.fence + 1 if found is not None else 1, holder)
    _store(book, lease, clock + LIFETIME_MS)
    return lease


def held(book: Transaction, release: str, fence: int) -> Lease:
    """Return the lease of a release that another process of this run took.

    Args:
        book: The ledger.
        release: Name of the release.
        fence: Fence of the lease.

    Raises:
        StageFailed: if another process took over.
    """
    found = _find(book, release)
    if found is None or found.fence != fence:
        raise _taken_over(release)
    return Lease(release, fence, _holder(release, found.holder))


def require(book: Transaction, lease: Lease) -> None:
    """Check that no other process took over the lease; an expired lease passes the check.

    Raises:
        StageFailed: if another process took over.
    """
    if not _is_current(book, lease):
        raise _taken_over(lease.release)


def _taken_over(release: str) -> StageFailed:
    return StageFailed(
        f"Another process took over release {release!r} while this one did not respond, so this"
        f" one stops. `dp-release status {release}` shows the state.",
        row="taken-over",
    )


def renew(book: Transaction, lease: Lease) -> None:
    """Extend the lease by its lifetime.

    Raises:
        StageFailed: if another process took over.
    """
    require(book, lease)
    _store(book, lease, book.store.clock() + LIFETIME_MS)


def give_up(book: Transaction, lease: Lease) -> None:
    """Free the lease at once, unless another process took it over."""
    if _is_current(book, lease):
        _store(book, lease, 0)


def holder_of(book: Transaction, release: str) -> Holder | None:
    """Return the process that works on a release, None if there is none."""
    found = _running(book, release)
    holder = None if found is None else _holder(release, found.holder)
    return None if holder is None or is_gone(holder) else holder


def ends(book: Transaction, release: str) -> str | None:
    """Return the time at which a lease expires without renewal; None if it is free.

    The time is in UTC, ISO 8601, to the second.
    """
    found = _running(book, release)
    if found is None:
        return None
    return datetime.fromtimestamp(found.expires / 1000, UTC).isoformat(timespec="seconds")


def check_leases(book: Transaction) -> None:
    """Check every lease, also those that ended.

    Raises:
        LedgerCorrupt: if a lease was changed.
    """
    for found in book.store.leases():
        _require_sealed(found)


def lease_seal(release: str, fence: int, holder: str, expires: int) -> str:
    """Return the checksum of a lease, in hex; for the arguments see `StoredLease`.

    Leases are renewed in place, so the chain of the entries cannot cover them.
    """
    return hashlib.sha256(canonical_json([release, fence, holder, expires])).hexdigest()


def _require_sealed(found: StoredLease) -> None:
    try:
        seal = lease_seal(found.release, found.fence, found.holder, found.expires)
    except (TypeError, ValueError):
        seal = ""
    if found.seal != seal:
        raise _changed(found.release)


def _changed(release: object) -> LedgerCorrupt:
    return LedgerCorrupt(f"The lease of release {release!r:.80} was changed.", row="ledger-changed")


def _find(book: Transaction, release: str) -> StoredLease | None:
    found = next(iter(book.store.leases(release)), None)
    if found is not None:
        _require_sealed(found)
    return found


def _running(book: Transaction, release: str) -> StoredLease | None:
    """Return the lease of a release; None if it has none, or one that expired."""
    found = _find(book, release)
    return None if found is None or found.expires <= book.store.clock() else found


def _is_current(book: Transaction, lease: Lease) -> bool:
    """Return whether a lease still belongs to its holder."""
    found = _find(book, lease.release)
    # The fence alone is not enough: a table restored from a backup can reuse one.
    return found is not None and (found.fence, found.holder) == (lease.fence, _text(lease.holder))


def _store(book: Transaction, lease: Lease, expires: int) -> None:
    values = lease.release, lease.fence, _text(lease.holder), expires
    book.store.set_lease(StoredLease(*values, seal=lease_seal(*values)))


def is_gone(holder: Holder) -> bool:
    """Return whether a holder is certainly dead; False if this machine cannot tell."""
    if holder.host != socket.gethostname():
        return False
    if (holder.boot, holder.space) != (boot_id(), _space()):
        # After a reboot, on a copy of the machine or in another container this cannot be decided.
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
    """Return the time at which a process started, in seconds since the boot if known.

    A time by the clock would change if the clock is set, and the process would look like another.
    """
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
        return ticks / os.sysconf("SC_CLK_TCK")
    return psutil.Process(process).create_time()


def boot_id() -> str:
    """Return the identifier of this machine's current boot."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return f"{psutil.boot_time():.0f}"


def _space() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _busy(release: str, other: Holder, left_ms: int) -> str:
    where = f"process {other.process} on {other.host}, since {other.since}"
    here = socket.gethostname(), boot_id(), _space()
    if (other.host, other.boot, other.space) == here:
        return (
            f"Another process is working on release {release!r} ({where}). Wait for it;"
            f" `dp-release status {release}` shows its state."
        )
    seconds = max(1, -(-left_ms // 1000))
    return (
        f"Another process is working on release {release!r} ({where}). Wait for it. If it is"
        f" dead, its lease expires in {seconds} s; then resume the release."
    )


def _holder(release: str, text: str) -> Holder:
    try:
        return Holder(**json.loads(text))
    except (ValueError, TypeError):
        raise _changed(release) from None


def _text(holder: Holder) -> str:
    return canonical_json(asdict(holder)).decode()
