"""Kills a release, lets it go on, and says whether anything was lost, repeated or left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.crashes.job import Place, recorded_points
from tests.crashes.points import Point

ROOT = Path(__file__).parents[2]


class ForkServer:
    """The process that has imported everything, and forks a child for each job."""

    def __init__(self) -> None:
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("DP_RELEASE_")
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.crashes.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            # A library's own threads would not be there in a child.
            env={**kept, **threads, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        )
        self._answer()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def ask(
        self, do: str, place: Place, *, point: Point | None = None, delay: float | None = None
    ) -> Ended:
        """Do a job in a child of its own; kill it after a delay, if one is given."""
        job = {
            "do": do,
            "folder": str(place.folder),
            "url": place.url,
            "kind": place.kind,
            "point": None if point is None else astuple(point),
            "delay": delay,
        }
        return self._order(job)

    def run(
        self, script: str, words: Sequence[object], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in a child of its own, as `subprocess.run([python, "-c", ...])` does.

        Args:
            script: Python.
            words: What comes after it.
            folder: Where; what it says is kept there.
            environment: All of it, for what the script itself sets up.
        """
        said = [folder / name for name in ("stdout.txt", "stderr.txt")]
        job = {
            "do": "script",
            "script": script,
            "words": [str(word) for word in words],
            "folder": str(folder),
            "environment": dict(environment),
            "said": [str(path) for path in said],
            "delay": None,
        }
        ended = self._order(job)
        code = -ended.signal if ended.signal else 1 if ended.failed else int(ended.answer)
        out, err = (path.read_text() for path in said)
        return subprocess.CompletedProcess([script], code, out, err + (ended.failed or ""))

    def _order(self, job: Mapping[str, Any]) -> Ended:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        said = answer["said"] or {}
        return Ended(answer["died"], answer["seconds"], said.get("done"), said.get("failed"))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The fork server ended with {self._process.wait()}.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: by which signal, after how long, with what answer or traceback."""

    signal: int | None
    seconds: float
    answer: Any
    failed: str | None

    @property
    def killed(self) -> bool:
        """Whether it was killed, and did not end by itself."""
        return self.signal == signal.SIGKILL


@dataclass(slots=True)
class Outcome:
    """What became of one killed release.

    Attributes:
        killed: Where or when it was killed.
        wrong: What is not as it must be; empty if all is well.
        met: Whether the kill came while the release was under way.
        drawn_again: Whether noise that had not reached its file was drawn again.
    """

    killed: str
    wrong: list[str] = field(default_factory=list)
    met: bool = True
    drawn_again: bool = False

    def __str__(self) -> str:
        return "\n    ".join(
            line for text in (self.killed, *self.wrong) for line in text.strip().splitlines()
        )


Url = Callable[[], str | None]
"""Gives the URL of an empty ledger for the next release; None is the home's own SQLite file."""


def in_the_home() -> None:
    """Keep the ledger in the home."""


_FROM_TIME_TO_TIME = ("tasks.run.home_notes._write",)
"""Functions that a thread calls at times, not after something."""


class Matrix:
    """Kills one release after another, each in a place of its own."""

    def __init__(
        self,
        server: ForkServer,
        folder: Path,
        url: Url = in_the_home,
        kind: str = "plain",
    ) -> None:
        self._server = server
        self._folder = folder
        self._url = url
        self._kind = kind
        self._count = 0
        self._seconds: float | None = None

    def points(self) -> list[Point]:
        """Return every point of a release, in order, as two undisturbed runs both met it.

        The note of the progress is left out: a thread writes it every now and then, so how often a
        run meets it depends on the load of the machine.
        """
        first, second = self._record(), self._record()
        both = {point for point in second if point.place not in _FROM_TIME_TO_TIME}
        return [point for point in first if point in both]

    def recoveries(self, points: Sequence[Point]) -> list[tuple[Point, Point]]:
        """Return points that only a killed release meets as it goes on, each after its kill.

        Args:
            points: Of an undisturbed run; the first of every name is tried.
        """
        known = {point.name for point in points}
        found: dict[str, tuple[Point, Point]] = {}
        for kill in _firsts(points):
            place = self._place()
            self._server.ask("die", place, point=kill)
            self._server.ask("record", place)
            for met in recorded_points(place):
                if met.name not in known:
                    found.setdefault(met.name, (kill, met))
            self._remove(place)
        return list(found.values())

    def duration(self) -> float:
        """Return how long an undisturbed release takes, in seconds; if recorded, a little more."""
        if self._seconds is not None:
            return self._seconds
        place = self._place()
        ended = self._server.ask("work", place)
        assert ended.failed is None, ended.failed
        self._remove(place)
        return ended.seconds

    def kill_at(self, point: Point, *, again: float | Point | None = None) -> Outcome:
        """Kill a release at a point, let it go on, and look at what is left.

        Args:
            point: Where.
            again: Where, or after how many seconds, the process that goes on is killed as well.
        """
        place = self._place()
        outcome = Outcome(f"killed at {point}{_told(again)}")
        first = self._server.ask("die", place, point=point)
        if not first.killed:
            outcome.met = False
            outcome.wrong.append(first.failed or "the point was not met")
        return self._go_on(place, outcome, again)

    def kill_after(self, delay: float, *, again: float | None = None) -> Outcome:
        """Kill a release at a time, let it go on, and look at what is left."""
        place = self._place()
        outcome = Outcome(f"killed{_told(delay)}{_told(again)}")
        first = self._server.ask("work", place, delay=delay)
        if not first.killed:
            outcome.met = False
            outcome.wrong += [first.failed] if first.failed else []
        return self._go_on(place, outcome, again)

    def _go_on(self, place: Place, outcome: Outcome, again: float | Point | None) -> Outcome:
        kept = place.results()
        if again is not None:
            if isinstance(again, Point):
                second = self._server.ask("die", place, point=again)
                if not second.killed:
                    outcome.wrong.append("the second point was not met")
            else:
                second = self._server.ask("work", place, delay=again)
            outcome.wrong += _refused(second)
            outcome.wrong += changed(kept, place)
            # What had its name after the first kill and what got it before the second.
            kept = {**place.results(), **kept}
        last = self._server.ask("work", place)
        outcome.wrong += _refused(last)
        if last.signal is not None:
            outcome.wrong.append(f"going on ended with signal {last.signal}")
        outcome.wrong += changed(kept, place)
        looked = self._server.ask("inspect", place)
        if looked.answer is None:
            outcome.wrong.append(looked.failed or f"looking ended with signal {looked.signal}")
        else:
            outcome.wrong += looked.answer["wrong"]
            outcome.drawn_again = looked.answer["drawn_again"]
        if not outcome.wrong:
            self._remove(place)
        else:
            outcome.wrong.append(f"all of it is in {place.folder}")
        return outcome

    def _record(self) -> list[Point]:
        place = self._place()
        ended = self._server.ask("record", place)
        assert ended.failed is None, ended.failed
        self._seconds = ended.seconds
        looked = self._server.ask("inspect", place)
        assert looked.failed is None, looked.failed
        assert looked.answer["wrong"] == []
        points = recorded_points(place)
        self._remove(place)
        return points

    def _place(self) -> Place:
        self._count += 1
        folder, url = self._folder / f"kill-{self._count:04d}", self._url()
        if self._kind != "reused":
            return Place(folder, url, self._kind).prepare()
        first = Place(folder, url).prepare()
        ended = self._server.ask("work", first)
        assert ended.failed is None, ended.failed
        (folder / "work" / "town.csv").unlink()
        place = Place(folder, url, self._kind)
        place.out.parent.mkdir()
        return place

    def _remove(self, place: Place) -> None:
        shutil.rmtree(place.folder)


def _refused(ended: Ended) -> list[str]:
    """Return why going on failed; where nothing was left to do, it says so and that is right."""
    over = ("is finished; its bundle is in", "has ended (finished)", "that release is withdrawn")
    if ended.failed is None or any(words in ended.failed for words in over):
        return []
    return [ended.failed]


def changed(kept: Mapping[str, bytes], place: Place) -> list[str]:
    """Say which stored results are not as they were."""
    now = place.results()
    return [
        f"the stored result {name} was {'changed' if name in now else 'lost'}"
        for name, content in kept.items()
        if now.get(name) != content
    ]


def _told(again: float | Point | None) -> str:
    if again is None:
        return ""
    return f", then at {again}" if isinstance(again, Point) else f", after {again * 1000:.1f} ms"


def _firsts(points: Sequence[Point]) -> list[Point]:
    """Return the first point of every name."""
    firsts: dict[str, Point] = {}
    for point in points:
        firsts.setdefault(point.name, point)
    return list(firsts.values())


def changing(points: Sequence[Point]) -> list[Point]:
    """Return the points at which the disk is not as it was at the point before.

    A killed process leaves its files, and no lock. So to be killed before something is done, or
    after something was read or waited for, is to be killed after what was done last.
    """
    still = (".reading:", ":fsync", ":fdatasync", ":begin", "flock", "lockf")
    return [
        point
        for point in points
        if point.moment != "before" and not any(what in point.name for what in still)
    ]


def spread(points: Sequence[Point], number: int) -> list[Point]:
    """Return so many points from all over a run: of each equal part of it the rarest name so far.

    Args:
        points: In the order in which they are met.
        number: How many, at most all.
    """
    taken: Counter[str] = Counter()
    chosen = []
    for part in range(number):
        first, last = (len(points) * edge // number for edge in (part, part + 1))
        chosen.append(min(points[first:last], key=lambda point: taken[point.name]))
        taken[chosen[-1].name] += 1
    return chosen
