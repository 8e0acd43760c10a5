"""How far the running stage of a release is, and how long it will still take.

A short measurement that reads no data gives the speed of the machine. A machine has two speeds:
that of the interpreter, which Prefect, Great Expectations and imports wait for, and that of array
work, which counting and sampling wait for. Each is stated relative to the machine on which the unit
costs of `stage_work` were measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TRUSTED = 0.25
"""Part of a stage after which only its own pace counts, and no longer the forecast."""

ENOUGH_S = 1.0
"""Forecast seconds of the finished stages from which they correct the forecast of the next."""
MOST_WRONG = 10.0
"""Largest factor of that correction, in both directions."""
SOON_S = 0.1
"""Seconds of a stage before which a report says nothing about its pace."""
ON_TIME = 0.9
"""Part of its expected time up to which a stage counts as done in proportion to the time passed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a running stage is. For staff: durations depend on the size of the data.

    Attributes:
        stage: Name of the stage.
        done: Estimated part of the stage that is done, 0 to 1, from its reports and its expected
            time; it never decreases. None if there is neither a forecast nor a report.
        seconds: Seconds since the stage began.
        left: Expected seconds until its end; None if that is unknown, or if the stage takes longer
            than expected.
    """

    stage: str
    done: float | None
    seconds: float
    left: float | None

    @property
    def percent(self) -> int | None:
        """The part that is done, in percent, rounded down; None if it is unknown."""
        return None if self.done is None else int(100 * self.done)

    def in_words(self) -> str:
        """Return the part that is done, and the time left or passed.

        >>> Moment("synthesize", 0.4, 30.0, 41.0).in_words()
        '40 %, about 40 s left'
        >>> Moment("reconstruct", 0.97, 130.0, None).in_words()
        '97 %, takes longer than expected: 3 min so far'
        >>> Moment("copy", None, 7.0, None).in_words()
        '7 s so far'
        """
        if self.done is None:
            return f"{span(self.seconds)} so far"
        if self.left is None:
            return f"{self.percent} %, takes longer than expected: {span(self.seconds)} so far"
        return f"{self.percent} %, about {span(self.left)} left"


class StagePace:
    """Follows the stages of a release.

    The time left combines the forecast with the pace that the stage had so far. The more of the
    stage is done, the more its own pace counts. The forecast of a stage is corrected by how much
    longer than forecast the stages before it took, as on a machine that does other work too.
    """

    def __init__(
        self, expected: Mapping[str, float], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with a forecast.

        Args:
            expected: Expected seconds by name of the stage; stages may be missing.
            now: Clock in seconds; others are for tests.
        """
        self._expected, self._now = dict(expected), now
        self._began: dict[str, float] = {}
        self._running: str | None = None
        self._done = self._heard = self._shown = 0.0
        self._took = self._foreseen = 0.0

    def update(self, stage: str, done: float) -> None:
        """Note that a stage is `done`, 0 to 1; a new stage ends the one before."""
        now = self._now()
        if stage != self._running:
            self._running, self._done, self._heard, self._shown = stage, 0.0, 0.0, 0.0
            self._began[stage] = now
        self._done = min(1.0, max(self._done, done))
        self._heard = now - self._began[stage]
        if self._done >= 1.0:
            self._running = None
            if stage in self._expected:
                self._took += self._heard
                self._foreseen += self._expected[stage]

    def moment(self) -> Moment | None:
        """Return how far the running stage is; None between two stages."""
        stage, done, heard = self._running, self._done, self._heard
        if stage is None:
            return None
        seconds = self._now() - self._began[stage]
        whole = self._whole(stage, done, heard)
        self._shown = max(self._shown, done, 0.0 if whole is None else _part(seconds / whole))
        if whole is None:
            return Moment(stage, self._shown or None, seconds, None)
        return Moment(stage, self._shown, seconds, whole - seconds if whole > seconds else None)

    def _whole(self, stage: str, done: float, heard: float) -> float | None:
        """Return the expected seconds of the whole stage, above 0; None if unknown."""
        expected = self._expected.get(stage) or None
        if expected is not None and self._foreseen >= ENOUGH_S:
            expected *= min(max(self._took / self._foreseen, 1 / MOST_WRONG), MOST_WRONG)
        if done <= 0 or heard < SOON_S:
            return expected
        own = heard / done
        if expected is None:
            return own
        weight = min(1.0, done / TRUSTED)
        return weight * own + (1 - weight) * expected


def _part(passed: float) -> float:
    """Return the part of a stage that counts as done.

    It is the part of the expected time up to `ON_TIME`. After that it grows ever more slowly and
    stays below 1, so that a stage that takes longer than expected still moves.

    Args:
        passed: Seconds since the stage began, divided by its expected seconds.
    """
    if passed <= ON_TIME:
        return passed
    late = 1 - ON_TIME
    return 1 - late**2 / (passed - ON_TIME + late)


def span(seconds: float) -> str:
    """Return a length of time as people say it.

    >>> [span(seconds) for seconds in (0.4, 7, 42, 100, 7000)]
    ['1 s', '7 s', '40 s', '2 min', '1.9 h']
    """
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 90 * 60:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


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
