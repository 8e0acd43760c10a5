"""Processor time and peak memory of a piece of work in this process."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a piece of work used.

    Attributes:
        cpu_seconds: Processor time of all threads of the process.
        seconds: Time on the clock.
        peak_bytes: Largest resident memory of the process in that time, including the interpreter.
    """

    cpu_seconds: float
    seconds: float
    peak_bytes: int


class Meter:
    """Measures time and memory from its creation on.

    On Linux the earlier peak is reset. Elsewhere, or if the system does not allow that, the peak is
    that of the process since its start.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            _FORGET.write_text("5")  # resets the peak to what is resident now
        self._clock = time.perf_counter()
        self._cpu = time.process_time()

    def usage(self) -> Usage:
        """Return the resources used since the meter was created."""
        return Usage(time.process_time() - self._cpu, time.perf_counter() - self._clock, _peak())


def _peak() -> int:
    # getrusage is the last resort: its peak survives exec, so it could be the parent's.
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
