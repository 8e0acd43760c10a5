"""Results of single runs in a CSV, which a stopped or wider benchmark adds to, and their tables."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeAlias

Key: TypeAlias = tuple[str, str, str, str, int]
AGAINST = ("independent", "mst", "privsyn")
"""The issue compares with the best of these."""
WAYS = ("tvd2", "tvd3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run.

    Attributes:
        file: Name of the file.
        data: Its fingerprint; results of another file of that name do not count.
        method: Preset or peer.
        epsilon: Of the guarantee, as it was written.
        run: From 0; the seed of post-processing.
        status: `ok`, or why there are no figures.
        tvd2: Average TVD of all pairs of columns; NaN without figures, and so the next.
        tvd3: Average TVD of all, or of 300 seeded, triples.
        wall: Seconds of the whole process, imports included.
        cpu: CPU seconds of it.
        megabytes: Its peak memory.
        commit: Of the program; information only.
        said: Last line of a run that failed.
        boosted: Part of real rows that boosted trees get wrong, where that is asked.
        histogram: The same of histogram-based boosted trees.
    """

    file: str
    data: str
    method: str
    epsilon: str
    run: int
    status: str
    tvd2: float
    tvd3: float
    wall: float
    cpu: float
    megabytes: float
    commit: str
    said: str = ""
    boosted: float = math.nan
    histogram: float = math.nan

    @property
    def key(self) -> Key:
        """What makes it the same run as another."""
        return self.file, self.data, self.method, self.epsilon, self.run


NAMES = tuple(field.name for field in fields(Result))
LEARNERS = ("boosted", "histogram")
NUMBERS = (*WAYS, "wall", "cpu", "megabytes", *LEARNERS)


def read(path: Path) -> dict[Key, Result]:
    """Return all results of a file; of two of the same run the later one counts."""
    if not path.exists():
        return {}
    found = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = {name: float(row[name]) for name in NUMBERS if row.get(name)}
            texts = {name: row[name] for name in NAMES if name not in NUMBERS and name != "run"}
            result = Result(run=int(row["run"]), **texts, **numbers)  # type: ignore[arg-type]
            found[result.key] = result
    return found


def append(path: Path, result: Result) -> None:
    """Add one result to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names: Sequence[str] = NAMES
    if path.exists():  # an older file may have fewer columns
        names = path.read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
    values = {
        name: f"{value:.6g}" if isinstance(value, float) else value
        for name, value in asdict(result).items()
    }
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        if names is NAMES:
            writer.writeheader()
        writer.writerow(values)


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean of some runs and its standard error (NaN of one run)."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if math.isnan(self.error) else f" ({self.error:.4f})")


def figure(values: Sequence[float]) -> Figure:
    """Return mean and standard error."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Figure(mean, math.nan)
    return Figure(mean, statistics.stdev(values) / len(values) ** 0.5)


HEADS = {
    "tvd2": "2-way TVD",
    "tvd3": "3-way TVD",
    "boosted": "boosted trees",
    "histogram": "histogram trees",
}


def table(results: Iterable[Result], methods: Sequence[str], ways: Sequence[str] = WAYS) -> str:
    """Return a markdown table, one line for each file, epsilon and method."""
    groups = _grouped(results)
    heads = " | ".join(HEADS[way] for way in ways)
    lines = [
        f"| file | epsilon | method | runs | {heads} | wall s | CPU s | peak MB |",
        "|---|--:|---|" + "--:|" * (len(ways) + 4),
    ]
    for file, epsilon in dict.fromkeys(key[:2] for key in groups):
        for method in methods:
            found = groups.get((file, epsilon, method), [])
            done = [result for result in found if result.status == "ok"]
            head = f"| {file} | {epsilon} | {method} | {len(done)} |"
            if done:
                errors = (figure([getattr(result, way) for result in done]) for way in ways)
                wall, cpu = (
                    statistics.fmean(getattr(result, name) for result in done)
                    for name in ("wall", "cpu")
                )
                most = max(result.megabytes for result in done)
                lines.append(
                    f"{head} {' | '.join(map(str, errors))} | {wall:.1f} | {cpu:.1f} | {most:.0f} |"
                )
            elif found:
                last = found[-1]
                empty = " |" * (len(ways) - 1)
                lines.append(
                    f"{head} {last.status} |{empty} {last.wall:.1f} | {last.cpu:.1f}"
                    f" | {last.megabytes:.0f} |"
                )
    return "\n".join(lines)


def against_best(results: Iterable[Result], methods: Sequence[str]) -> str:
    """Return a markdown table of mean log-ratios to the best of independent, mst and privsyn.

    Zero is as good as the best of the three on each file, which nobody knows beforehand; -0.1 is
    about 10 % better. `clear` counts a difference below two standard errors as none. The standard
    error is that of the noise of the runs, on these files. Files on which one of the two has no
    figures are left out.
    """
    groups = _grouped(results)
    lines = [
        "| epsilon | figure | method | files | mean log-ratio | clear | worst file |",
        "|--:|---|---|--:|--:|--:|---|",
    ]
    for epsilon in dict.fromkeys(key[1] for key in groups):
        for way in WAYS:
            for method in methods:
                ratios = _ratios(groups, epsilon, way, method)
                if not ratios:
                    continue
                mean = statistics.fmean(ratio.mean for ratio in ratios.values())
                error = sum(ratio.error**2 for ratio in ratios.values()) ** 0.5 / len(ratios)
                clear = statistics.fmean(
                    0.0 if abs(ratio.mean) < 2 * ratio.error else ratio.mean
                    for ratio in ratios.values()
                )
                worst = max(ratios, key=lambda file: ratios[file].mean)
                lines.append(
                    f"| {epsilon} | {way} | {method} | {len(ratios)} |"
                    f" {mean:+.3f}{'' if math.isnan(error) else f' ({error:.3f})'} | {clear:+.3f}"
                    f" | {worst} {ratios[worst].mean:+.2f} |"
                )
    return "\n".join(lines)


def _ratios(
    groups: Mapping[tuple[str, str, str], Sequence[Result]], epsilon: str, way: str, method: str
) -> dict[str, Figure]:
    """Return the log-ratio of a method to the best of three, for each file."""
    found = {}
    for file in dict.fromkeys(key[0] for key in groups if key[1] == epsilon):
        figures = {}
        for name in {*AGAINST, method}:
            values = [
                getattr(result, way)
                for result in groups.get((file, epsilon, name), [])
                if result.status == "ok"
            ]
            if values:
                figures[name] = figure(values)
        rivals = [name for name in AGAINST if name in figures]
        if not rivals or method not in figures:
            continue
        best = min(rivals, key=lambda name: figures[name].mean)
        own, other = figures[method], figures[best]
        error = math.hypot(own.error / own.mean, other.error / other.mean)
        same = method == best
        found[file] = Figure(math.log(own.mean / other.mean), 0.0 if same else error)
    return found


def _grouped(results: Iterable[Result]) -> dict[tuple[str, str, str], list[Result]]:
    found: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.file, result.epsilon, result.method), []).append(result)
    return found
