"""How far the clock of this machine has jumped ahead since the ledger was last noted.

An entry is never dated before the last one, so a clock that is set back reopens no period. A clock
that jumps ahead would open later periods. Within one boot, the time of day minus the time since the
boot changes only if the clock is set; a suspended machine counts as running. Between boots, and on
a system that does not tell the time since its boot, nothing is known and nothing is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from tasks.ledger.database.ledger_store import Place
from tasks.ledger.leases import boot_id

LIMIT_S = 3_600
"""Seconds by which a clock may be set ahead between two writes to the ledger."""


def clock_now() -> Place:
    """Return `boot`, with the namespace of its clocks, and `offset`; see `Note.clock`.

    Empty on a system that does not tell the time since its boot.
    """
    with suppress(AttributeError, OSError):
        space = os.readlink("/proc/self/ns/time")
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        return {"boot": f"{boot_id()} {space}", "offset": round(time.time() - since_boot)}
    return {}


def offset_of(clock: Place) -> int:
    """Return the offset of a clock that is known, seconds."""
    return int(clock["offset"] or 0)


def latest(now: Place, noted: Iterable[Place]) -> Place | None:
    """Return the noted clock of the present boot that is most ahead; None without one."""
    known = (clock for clock in noted if clock and clock["boot"] == now.get("boot"))
    return max(known, key=offset_of, default=None)


def in_words(seconds: int) -> str:
    """Return a time as whole days, or as whole hours if it is less than two days."""
    size, unit = (86_400, "day") if seconds >= 2 * 86_400 else (3_600, "hour")
    number = seconds // size
    return f"{number} {unit}" + ("s" if number > 1 else "")
