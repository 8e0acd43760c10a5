"""Results of cells in JSON lines: one file for each experiment.

Each line is written in one piece when its cell is finished. A run that is killed while it writes
leaves part of a line at the end of a file. That part is removed before the next line is added, and
its cell is run again. `merge` replaces the lines of consecutive cells by one.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.figures.experiment import Cell, Setting, Values


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of a metric: number of values, their sum and their sum of squares."""

    number: int = 0
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.number + other.number, self.total + other.total, self.squares + other.squares
        )

    @property
    def mean(self) -> float:
        """Mean; NaN without values."""
        return self.total / self.number if self.number else math.nan

    @property
    def rms(self) -> float:
        """Root mean square."""
        return math.sqrt(self.squares / self.number) if self.number else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation of the values; 0 for a single one."""
        if not self.number:
            return math.nan
        spread = self.squares - self.number * self.mean**2
        return math.sqrt(max(spread, 0.0) / max(self.number - 1, 1))


def moments(values: Values) -> dict[str, list[float]]:
    """Return number, sum and sum of squares of each metric's finite values."""
    found = {}
    for name, each in values.items():
        finite = np.asarray(each, dtype=np.float64)
        finite = finite[np.isfinite(finite)]
        sums = Moments(len(finite), float(finite.sum()), float(np.square(finite).sum()))
        found[name] = _digits(sums)
    return found


class Store:
    """The results in one folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which need not exist yet."""
        self.folder = folder

    def _file(self, experiment: str) -> Path:
        return self.folder / f"{experiment}.jsonl"

    def add(self, cell: Cell, values: Values, cpu: float, versions: str) -> None:
        """Append a finished cell.

        Args:
            cell: The cell.
            values: Values of its repeats.
            cpu: CPU seconds that it took.
            versions: Versions of the software that made it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        line = {
            "setting": dict(cell.setting),
            "first": cell.first,
            "repeats": cell.repeats,
            "seed": cell.seed,
            "on": datetime.date.today().isoformat(),
            "with": versions,
            "cpu": round(cpu, 3),
            "moments": moments(values),
        }
        path = self._file(cell.experiment)
        with path.open("ab+") as file:
            file.seek(0)
            kept = file.read()
            if kept and not kept.endswith(b"\n"):
                file.truncate(kept.rfind(b"\n") + 1)
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()

    def lines(self, experiment: str) -> Iterator[Mapping[str, Any]]:
        """Return the lines of finished cells."""
        path = self._file(experiment)
        if path.exists():
            for line in path.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells of one experiment whose repeats are not stored, in the same order."""
        stored: dict[str, list[range]] = {}
        for line in self.lines(cells[0].experiment) if cells else ():
            own = range(line["first"], line["first"] + line["repeats"])
            stored.setdefault(_point_of(line["setting"], line["seed"]), []).append(own)
        return [
            cell
            for cell in cells
            if not any(
                own.start <= cell.first and cell.first + cell.repeats <= own.stop
                for own in stored.get(_point_of(cell.setting, cell.seed), ())
            )
        ]

    def merge(self, experiment: str) -> None:
        """Replace lines of one setting and day whose repeats follow one another by their sum.

        Another process must not write to the file at the same time. A line is never lost: the new
        file takes the place of the old one when it is complete.
        """
        merged: list[dict[str, Any]] = []
        last: dict[str, dict[str, Any]] = {}
        for line in sorted(self.lines(experiment), key=lambda each: each["first"]):
            name = _point_of(line["setting"], line["seed"])
            before = last.get(name)
            alike = before is not None and all(before[key] == line[key] for key in ("on", "with"))
            if before is None or not alike or line["first"] != before["first"] + before["repeats"]:
                last[name] = dict(line)
                merged.append(last[name])
                continue
            before["repeats"] += line["repeats"]
            before["cpu"] = round(before["cpu"] + line["cpu"], 3)
            sums = {metric: Moments(*each) for metric, each in before["moments"].items()}
            for metric, each in line["moments"].items():
                sums[metric] = sums.get(metric, Moments()) + Moments(*each)
            before["moments"] = {metric: _digits(each) for metric, each in sums.items()}
        if merged:
            new = self._file(experiment).with_suffix(".new")
            new.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in merged))
            new.replace(self._file(experiment))

    def points(self, experiment: str) -> list[Point]:
        """Return the stored repeats of every setting over all its cells; no repeat counts twice.

        Of cells with the same first repeat, the longest is used. So a short run before a long one
        does no harm.
        """
        found: dict[str, Point] = {}
        in_order = sorted(
            self.lines(experiment), key=lambda line: (line["first"], -line["repeats"])
        )
        for line in in_order:
            name = _point_of(line["setting"], line["seed"])
            point = found.setdefault(name, Point(line["setting"]))
            if line["first"] >= point.end:
                point.take(line)
        return list(found.values())


def _point_of(setting: Setting, seed: int) -> str:
    return json.dumps([dict(setting), seed])


def _digits(sums: Moments) -> list[float]:
    return [sums.number, *(float(f"{value:.9g}") for value in (sums.total, sums.squares))]


class Point:
    """All stored repeats of one setting."""

    def __init__(self, setting: Setting) -> None:
        """Start without repeats."""
        self.setting = setting
        self.end, self.repeats, self.cpu = 0, 0, 0.0
        self.days: set[str] = set()
        self.metrics: dict[str, Moments] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        """Add the repeats of one cell."""
        self.end = line["first"] + line["repeats"]
        self.repeats += line["repeats"]
        self.cpu += line["cpu"]
        self.days.add(line["on"])
        for name, sums in line["moments"].items():
            self.metrics[name] = self.metrics.get(name, Moments()) + Moments(*sums)
