"""The speed of a machine, from a short measurement that reads no data.

A machine has two speeds: that of the interpreter, which Prefect, Great Expectations and imports
wait for, and that of array work, which counting and sampling wait for. Each is stated relative to
the machine on which the unit costs of `stage_work` were measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INTERPRETER_S, ARRAYS_S = 0.0032, 0.0013
"""Seconds of CPU of one probe of each kind on the machine of the unit costs."""

_TIMES = 5
_STEPS = 40_000
_VALUES, _CELLS = 1_000_000, 4_096


@dataclass(frozen=True, slots=True)
class Machine:
    """What a forecast knows about a machine. Public: it depends on no data.

    Attributes:
        interpreter: Time of interpreted code relative to the machine of the unit costs; 2 is half
            as fast.
        arrays: Time of array work, relative in the same way.
        processors: Processors that a release may use, at least 1.
    """

    interpreter: float = 1.0
    arrays: float = 1.0
    processors: int = 1

    def __post_init__(self) -> None:
        if not (self.interpreter > 0 and self.arrays > 0 and self.processors >= 1):
            raise ValueError("Speeds are above 0, and a machine has at least one processor.")

    def faster(self, other: Machine) -> Machine:
        """Return the faster of two measurements of the same machine, in each kind of work.

        Other programs can only slow a measurement down, so the fastest one is the nearest.
        """
        return Machine(
            min(self.interpreter, other.interpreter),
            min(self.arrays, other.arrays),
            self.processors,
        )


REFERENCE = Machine()
"""One processor of the machine on which the unit costs were measured."""


def measure_machine(
    processors: int, *, now: Callable[[], float] = time.thread_time, times: int = _TIMES
) -> Machine:
    """Return the speed of this machine; takes about 40 ms by default.

    Args:
        processors: Processors that a release may use.
        now: Returns the CPU time of this thread, in seconds; others are for tests.
        times: Number of repetitions; the fastest counts.
    """
    values = (np.arange(_VALUES, dtype=np.int64) * 2_654_435_761) % _CELLS
    return Machine(
        _fastest(_interpret, now, times) / INTERPRETER_S,
        _fastest(lambda: _count(values), now, times) / ARRAYS_S,
        processors,
    )


def _fastest(work: Callable[[], object], now: Callable[[], float], times: int) -> float:
    taken = []
    for _ in range(times):
        started = now()
        work()
        taken.append(now() - started)
    return max(min(taken), 1e-6)


def _interpret() -> int:
    found: dict[int, int] = {}
    for step in range(_STEPS):
        found[step & 255] = found.get(step & 255, 0) + step
    return len(found)


def _count(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.bincount(values, minlength=_CELLS))
