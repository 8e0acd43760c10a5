"""Rows of a comparison: mean and spread of the runs of each method at each epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dp_core.lab.comparison.cells import BOOTSTRAP, OUTCOMES, PLAIN, Cell, Outcome, Result
from dp_core.lab.comparison.figures import FIGURES
from dp_core.lab.measures.scaled_error import relative_error


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and spread of one figure over several runs.

    Attributes:
        mean: Mean of the runs.
        deviation: Sample standard deviation; None for one run.
        runs: Number of runs.
    """

    mean: float
    deviation: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one epsilon on one file.

    Attributes:
        cell: The first of its runs; the others differ in number and seed only.
        figures: Figures by name, without those that no run has.
        runs: Number of requested runs.
        outcomes: Number of runs with each outcome.
        sentences: Why some runs have no figures, each reason once.
    """

    cell: Cell
    figures: Mapping[str, Spread]
    runs: int
    outcomes: Mapping[Outcome, int]
    sentences: tuple[str, ...]

    @property
    def done(self) -> int:
        """Number of runs that have figures."""
        return self.outcomes.get("done", 0)


def spread(values: Sequence[float]) -> Spread:
    """Return mean and sample standard deviation of at least one value.

    >>> spread([1.0, 3.0])
    Spread(mean=2.0, deviation=1.4142135623730951, runs=2)
    """
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Spread(mean, None, 1)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(mean, math.sqrt(squares / (len(values) - 1)), len(values))


def summarise(results: Sequence[tuple[Cell, Result | None]]) -> tuple[Row, ...]:
    """Return one row for each method and epsilon, in the order of the cells.

    Args:
        results: Every cell with its result; None if it has not been run.
    """
    groups: dict[tuple[object, ...], list[tuple[Cell, Result | None]]] = {}
    for cell, result in results:
        place = (cell.file, cell.label, cell.epsilon, cell.delta, cell.neighbours)
        groups.setdefault(place, []).append((cell, result))
    return _with_relative([_row(group) for group in groups.values()])


def files(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the names of the files, in the order of the rows."""
    return tuple(dict.fromkeys(row.cell.file for row in rows))


def shown_figures(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the names of the figures that some row has, in the order of the table."""
    return tuple(
        figure.name for figure in FIGURES if any(figure.name in row.figures for row in rows)
    )


def _row(group: Sequence[tuple[Cell, Result | None]]) -> Row:
    outcomes: dict[Outcome, int] = {}
    values: dict[str, list[float]] = {}
    sentences: dict[str, None] = {}
    for _, result in group:
        if result is None:
            continue
        outcomes[result.outcome] = outcomes.get(result.outcome, 0) + 1
        if result.sentence:
            sentences[result.sentence] = None
        for name, value in result.figures.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return Row(
        cell=group[0][0],
        figures={name: spread(found) for name, found in values.items()},
        runs=len(group),
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES if outcome in outcomes},
        sentences=tuple(sentences),
    )


def _with_relative(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Add the relative error: 0 for the bootstrap of the file, 1 for `independent`."""
    floors = {
        row.cell.file: row.figures.get("tvd2") for row in rows if row.cell.method == BOOTSTRAP
    }
    plain = {_guarantee(row): row.figures.get("tvd2") for row in rows if row.cell.method == PLAIN}
    found = []
    for row in rows:
        floor, baseline = floors.get(row.cell.file), plain.get(_guarantee(row))
        own = row.figures.get("tvd2")
        if floor and baseline and own:
            width = baseline.mean - floor.mean
            value = relative_error(own.mean, floor=floor.mean, baseline=baseline.mean)
            if not math.isnan(value):
                deviation = None if own.deviation is None else own.deviation / width
                relative = Spread(value, deviation, own.runs)
                row = replace(row, figures={**row.figures, "relative": relative})
        found.append(row)
    return tuple(found)


def _guarantee(row: Row) -> tuple[str | None, ...]:
    return row.cell.file, row.cell.epsilon, row.cell.delta, row.cell.neighbours
