"""How a figure is drawn from stored points: lines over an axis, one row of panels per quantity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.papers.figures.experiment import Setting
from benchmarks.papers.figures.store import Point

Statistic = Literal["mean", "rms", "absolute mean", "log odds"]


@dataclass(frozen=True, slots=True)
class View:
    """One quantity of a figure.

    Attributes:
        label: Label of its axis, and of its rows in the table.
        metrics: Names of metrics, over which the statistic is averaged; a name that ends in `*`
            stands for all names with that beginning.
        statistic: Statistic of each metric over the repeats.
        log: Whether its axis is logarithmic.
        weight: Factor by which a value is multiplied, such as the paper's cost; None for 1.
        spread: Whether one standard deviation of the repeats is shaded.
    """

    label: str
    metrics: tuple[str, ...]
    statistic: Statistic = "mean"
    log: bool = False
    weight: Callable[[Setting], float] | None = None
    spread: bool = False

    def _names(self, point: Point) -> list[str]:
        found = []
        for name in self.metrics:
            if name.endswith("*"):
                found += [each for each in point.metrics if each.startswith(name[:-1])]
            elif name in point.metrics:
                found.append(name)
        return found

    def value(self, point: Point) -> float:
        """Return the value at a point; NaN if nothing is stored."""
        found = []
        for name in self._names(point):
            sums = point.metrics[name]
            if not sums.number:
                continue
            if self.statistic == "rms":
                found.append(sums.rms)
            elif self.statistic == "absolute mean":
                found.append(abs(sums.mean))
            elif self.statistic == "log odds":
                # Half a success and half a failure more, so that none and all have odds.
                odds = (sums.total + 0.5) / (sums.number - sums.total + 0.5)
                found.append(math.log(odds))
            else:
                found.append(sums.mean)
        weight = self.weight(point.setting) if self.weight else 1.0
        return weight * sum(found) / len(found) if found else math.nan

    def deviation(self, point: Point) -> float:
        """Return the weighted standard deviation of one metric's repeats; 0 for several metrics."""
        names = self._names(point)
        weight = self.weight(point.setting) if self.weight else 1.0
        return weight * point.metrics[names[0]].deviation if len(names) == 1 else 0.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """How points become panels.

    Attributes:
        experiments: Names of the experiments.
        axis: Key of a setting along the horizontal axis.
        views: Rows of panels.
        panels: Keys that make a column of panels for each combination of their values.
        lines: Keys that make a line.
        where: Values that settings must have; one of them, if several are given for a key.
        name: Label of the horizontal axis.
        kind: Lines, stacked bars of the outcomes of inferences, or a table without a picture.
        log: Whether the horizontal axis is logarithmic.
        paper: The paper's own numbers for the first view, by line and value of the axis.
        alike: Whether all panels of a row have the same scale.
    """

    experiments: tuple[str, ...]
    axis: str
    views: tuple[View, ...]
    panels: tuple[str, ...] = ()
    lines: tuple[str, ...] = ("method",)
    where: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    name: str = ""
    kind: Literal["lines", "bars", "table"] = "lines"
    log: bool = False
    paper: Mapping[str, Mapping[object, float]] = field(default_factory=dict)
    alike: bool = True

    def wants(self, setting: Setting) -> bool:
        """Return whether a setting is drawn."""
        return all(setting.get(key) in values for key, values in self.where.items())


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper about a figure, and whether our results confirm it.

    Attributes:
        text: The claim.
        verdict: `confirmed`, `refuted`, `in part`, or `not testable`.
        why: The numbers or the reason.
    """

    text: str
    verdict: Literal["confirmed", "refuted", "in part", "not testable"]
    why: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure or table of a paper.

    Attributes:
        name: Name of the figure and of its picture.
        paper, number: Paper and number of the figure, such as `CIPHER` and `Figure 2`.
        caption: Caption in a few words.
        drawing: How it is drawn; None if it is not reproduced.
        reason: Why it is not reproduced.
        claims: Claims of the paper about it.
    """

    name: str
    paper: str
    number: str
    caption: str
    drawing: Drawing | None = None
    reason: str = ""
    claims: tuple[Claim, ...] = ()
