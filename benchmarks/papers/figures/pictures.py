"""Pictures and tables of what is stored of a figure."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.figures.store import Point, Store
from benchmarks.papers.figures.view import Drawing, Figure, View
from dp_core.lab.comparison.plots import Bar, Panel, significance_png
from dp_core.lab.measures.inference_agreement import Outcome

MOST_BYTES = 150_000
"""Of a picture; a larger one is written again in fewer colours."""
MARKS = "osD^vP*X<>"
OFF_AXIS = "none"
"""A value of the axis that stands for every one: what does not depend on it is a level line."""


def points_of(drawing: Drawing, store: Store) -> list[Point]:
    """Return the stored points that a figure draws."""
    return [
        point
        for name in drawing.experiments
        for point in store.points(name)
        if drawing.wants(point.setting)
    ]


def panels_of(drawing: Drawing, points: Sequence[Point]) -> dict[str, dict[str, list[Point]]]:
    """Return points by panel and line, in the order of the settings."""
    found: dict[str, dict[str, list[Point]]] = {}
    for point in points:
        panel = named(drawing.panels, point)
        line = named(drawing.lines, point)
        found.setdefault(panel, {}).setdefault(line, []).append(point)
    return found


def named(keys: Sequence[str], point: Point) -> str:
    """Return the values of keys as a heading; the value alone where it speaks for itself."""
    parts = []
    for key in keys:
        value = point.setting.get(key)
        if value is not None:
            speaks = key in ("method", "file", "tables", "part", "column")
            parts.append(str(value) if speaks else f"{key} = {value}")
    return ", ".join(parts)


def level(drawing: Drawing, points: Sequence[Point]) -> bool:
    """Return whether a line has one point that does not depend on the axis."""
    if len(points) != 1:
        return False
    (point,) = points
    return point.setting.get(drawing.axis) == OFF_AXIS or point.setting.get("method") in (
        "original",
        "MS, no privacy",
        "the data themselves",
    )


def ticks(drawing: Drawing, points: Sequence[Point]) -> list[object]:
    """Return the values of the axis, in order."""
    found: list[object] = []
    for point in points:
        value = point.setting.get(drawing.axis)
        if value != OFF_AXIS and value not in found:
            found.append(value)
    return sorted(found, key=_number) if all(_number(v) is not None for v in found) else found  # type: ignore[arg-type, return-value]


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def repeats_of(points: Sequence[Point]) -> str:
    """Return how many repeats the points have."""
    numbers = sorted({point.repeats for point in points})
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def picture(figure: Figure, store: Store, folder: Path) -> Path | None:
    """Write the picture of a figure; None if it is a table, or nothing is stored of it."""
    drawing = figure.drawing
    points = points_of(drawing, store) if drawing else []
    if drawing is None or drawing.kind == "table" or not points:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{figure.name}.png"
    title = f"{figure.paper}, {figure.number}: {figure.caption} ({repeats_of(points)} repeats)"
    if drawing.kind == "bars":
        path.write_bytes(_bars(drawing, points, title))
    else:
        _lines(drawing, points, title, path)
    if path.stat().st_size > MOST_BYTES:
        _fewer_colours(path)
    return path


def _fewer_colours(path: Path) -> None:
    """Write a picture again in 64 colours, and smaller if need be."""
    from PIL import Image

    with Image.open(path) as read:
        whole = read.convert("RGB")
    for part in (1.0, 0.8, 0.65):
        size = (round(part * whole.width), round(part * whole.height))
        whole.resize(size).quantize(64).save(path, optimize=True)
        if path.stat().st_size <= MOST_BYTES:
            return


def _bars(drawing: Drawing, points: Sequence[Point], title: str) -> bytes:
    panels = []
    for panel, lines in panels_of(drawing, points).items():
        for line, each in lines.items():
            bars = []
            for point in each:
                shares = {kind: point.metrics[f"outcome {kind}"].mean for kind in Outcome}
                bars.append(Bar(str(point.setting[drawing.axis]), shares))
            panels.append(Panel(", ".join(filter(None, (line, panel))), tuple(bars)))
    return significance_png(
        panels, title=title, notice="Best to Worst as in Table 1 of the paper", axis="epsilon"
    )


def _lines(drawing: Drawing, points: Sequence[Point], title: str, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels, marks = panels_of(drawing, points), ticks(drawing, points)
    numbers = [_number(mark) for mark in marks]
    even = None in numbers or (
        not drawing.log and not all(isinstance(m, (int, float)) for m in marks)
    )
    places = {mark: float(at if even else numbers[at] or 0.0) for at, mark in enumerate(marks)}
    names = list(dict.fromkeys(line for lines in panels.values() for line in lines))
    colours = dict(zip(names, itertools.cycle(f"C{i}" for i in range(10))))
    columns = len(panels)
    # Of a single panel the quantities stand side by side.
    shape = (len(drawing.views), columns) if columns > 1 else (1, len(drawing.views))
    size = (1.2 + min(2.9, 14 / shape[1]) * shape[1], 0.9 + 2.2 * shape[0])
    figure, grid = plt.subplots(
        *shape,
        figsize=size,
        squeeze=False,
        sharex=True,
        sharey="row" if drawing.alike and columns > 1 else False,
        layout="constrained",
    )
    axes = grid if columns > 1 else grid.T
    for column, (panel, lines) in enumerate(panels.items()):
        axes[0, column].set_title(panel, fontsize=8)
        for row, view in enumerate(drawing.views):
            axis = axes[row, column]
            for number, name in enumerate(names):
                if each := lines.get(name):
                    look = {"color": colours[name], "label": name, "linewidth": 1.1}
                    if level(drawing, each):
                        axis.axhline(view.value(each[0]), linestyle="--", **look)
                        continue
                    mark = MARKS[number % len(MARKS)]
                    _line(axis, view, drawing, places, each, {**look, "marker": mark})
                    if row == 0 and (known := drawing.paper.get(name)):
                        at = [value for value in marks if value in known]
                        look |= {"linestyle": ":", "marker": "x", "label": f"{name}, paper"}
                        axis.plot([places[v] for v in at], [known[v] for v in at], **look)
            if view.log:
                axis.set_yscale("log")
            if "covered" in view.metrics[0]:
                axis.axhline(0.95, color="#999999", linewidth=0.7)
            if drawing.log and not even:
                axis.set_xscale("log")
            if even:
                axis.set_xticks(list(places.values()), [str(mark) for mark in marks])
            axis.tick_params(labelsize=7, which="both")
            axis.grid(alpha=0.25)
            if column == 0:
                axis.set_ylabel(view.label, fontsize=8)
    for axis in grid[-1]:
        axis.set_xlabel(drawing.name or drawing.axis, fontsize=8)
    handles, labels = [], []
    for axis in axes.ravel():
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 2 + shape[1]),
        frameon=False, fontsize=7,
    )  # fmt: skip
    figure.suptitle(textwrap.fill(title, int(14 * size[0])), fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _line(
    axis: Any,
    view: View,
    drawing: Drawing,
    places: Mapping[object, float],
    points: Sequence[Point],
    look: Mapping[str, object],
) -> None:
    points = sorted(points, key=lambda point: places[point.setting[drawing.axis]])
    x = np.array([places[point.setting[drawing.axis]] for point in points])
    y = np.array([view.value(point) for point in points])
    axis.plot(x, y, markersize=3.2, **look)
    if view.spread:
        off = np.array([view.deviation(point) for point in points])
        axis.fill_between(x, y - off, y + off, color=look["color"], alpha=0.12)


def table(figure: Figure, store: Store) -> Iterator[str]:
    """Return the lines of a figure's table: of each panel, quantity and line the values."""
    drawing = figure.drawing
    points = points_of(drawing, store) if drawing else []
    if drawing is None or not points:
        return
    marks = ticks(drawing, points) or [OFF_AXIS]
    yield f"{repeats_of(points)} repeats, {min(min(p.days) for p in points)} to" + (
        f" {max(max(p.days) for p in points)}; {drawing.name or drawing.axis}:"
    )
    for panel, lines in panels_of(drawing, points).items():
        for view in drawing.views:
            yield ""
            yield f"{', '.join(filter(None, (panel, view.label)))}"
            width = max(len(name) for name in lines)
            yield f"{'':<{width}} " + " ".join(f"{mark!s:>9}" for mark in marks)
            for name, each in lines.items():
                if level(drawing, each):
                    cells = [shown(view.value(each[0]))] * len(marks)
                else:
                    known = {p.setting.get(drawing.axis): view.value(p) for p in each}
                    cells = [shown(known.get(mark, math.nan)) for mark in marks]
                yield f"{name:<{width}} " + " ".join(f"{cell:>9}" for cell in cells)
                if view is drawing.views[0] and (paper := drawing.paper.get(name)):
                    cells = [shown(paper.get(mark, math.nan)) for mark in marks]
                    yield f"{'  paper':<{width}} " + " ".join(f"{cell:>9}" for cell in cells)


def shown(value: float) -> str:
    """Return a number in about nine characters at most; a dash for none."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.4f}" if abs(value) < 10 and value % 1 else f"{value:.5g}"
