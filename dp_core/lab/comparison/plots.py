"""Plots of a comparison: each figure against epsilon, with the spread of the runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.lab.comparison.cells import BOOTSTRAP, Declaration
from dp_core.lab.comparison.figures import FIGURE, shares_of
from dp_core.lab.comparison.significance_plot import Bar, Panel, significance_png
from dp_core.lab.comparison.summary import Row, files, shown_figures

_COLOURS = (
    "#1f77b4",
    "#d62728",
    "#2ca02c",
    "#9467bd",
    "#ff7f0e",
    "#17becf",
    "#8c564b",
    "#e377c2",
    "#bcbd22",
    "#3b4cc0",
    "#006d5b",
    "#a50f5c",
)
_MARKERS = "osD^vP*X<>ph"
_LINEAR = frozenset({"misclassified", "svm", "relative"})
_WIDE = 8
"""Ratio of the largest to the smallest error above which its axis is logarithmic."""
_STEP = 1.02
"""Factor between the positions of two methods at one epsilon, which separates error bars."""


def draw_plots(rows: Sequence[Row], declaration: Declaration, folder: Path) -> tuple[Path, ...]:
    """Write one PNG for each file and figure; return their paths.

    Args:
        rows: Rows of the comparison; the bootstrap is a horizontal line.
        declaration: Declaration in the first line and the metadata of each picture.
        folder: Folder for the pictures, created if necessary; its older pictures are deleted.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    written = []
    for file in files(rows):
        mine = [row for row in rows if row.cell.file == file]
        methods = list(
            dict.fromkeys(row.cell.label for row in mine if row.cell.method != BOOTSTRAP)
        )
        for name in (name for name in shown_figures(mine) if FIGURE[name].drawn):
            picture = Figure(figsize=(8.6, 5.2), layout="constrained")
            FigureCanvasAgg(picture)
            _draw(picture.add_subplot(), mine, methods, name)
            picture.suptitle(
                textwrap.fill(declaration.sentence, 130, max_lines=2),
                fontsize=7,
                color="#555555",
                parse_math=False,
            )
            path = folder / f"{file}-{name}.png"
            picture.savefig(path, dpi=120, metadata={"Description": declaration.sentence})
            written.append(path)
        panels = _outcomes(mine, methods)
        if panels:
            path = folder / f"{file}-sss.png"
            drawn = significance_png(
                panels,
                title=f"{file}: sign and significance of the formulas' coefficients",
                notice=declaration.sentence,
                axis="epsilon",
            )
            path.write_bytes(drawn)
            written.append(path)
    return tuple(written)


def _outcomes(rows: Sequence[Row], methods: Sequence[str]) -> list[Panel]:
    """Return a panel of stacked bars for the bootstrap and each method that has outcomes."""
    found = []
    for method in (BOOTSTRAP, *methods):
        bars = []
        for row in rows:
            shares = shares_of({name: spread.mean for name, spread in row.figures.items()})
            if row.cell.label == method and shares:
                bars.append(
                    (Fraction(row.cell.epsilon or 0), Bar(row.cell.epsilon or "no noise", shares))
                )
        if bars:
            bars.sort(key=lambda one: one[0])
            found.append(Panel(method, tuple(bar for _, bar in bars)))
    return found


def _draw(axes: Any, rows: Sequence[Row], methods: Sequence[str], name: str) -> None:
    from matplotlib.ticker import LogLocator

    figure = FIGURE[name]
    for place, method in enumerate(methods):
        points = _points([row for row in rows if row.cell.label == method], name)
        if not points:
            continue
        shift = _STEP ** (place - (len(methods) - 1) / 2)
        axes.errorbar(
            [epsilon * shift for epsilon, _, _ in points],
            [mean for _, mean, _ in points],
            yerr=[deviation for _, _, deviation in points],
            label=method,
            color=_COLOURS[place % len(_COLOURS)],
            marker=_MARKERS[place % len(_MARKERS)],
            linestyle="-" if place < len(_COLOURS) else "--",
            linewidth=1.4,
            markersize=5,
            capsize=2.5,
            elinewidth=1,
        )
    for row in rows:
        if row.cell.method == BOOTSTRAP and name in row.figures and name not in ("cpu", "memory"):
            axes.axhline(
                row.figures[name].mean, color="#555555", linestyle=":", label="bootstrap (floor)"
            )
    epsilons = sorted({float(Fraction(row.cell.epsilon)) for row in rows if row.cell.epsilon})
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xticks([], minor=True)
    if epsilons:
        # Otherwise a single epsilon would stretch the steps between methods over the axis.
        axes.set_xlim(*limits(epsilons, len(methods)))
    values = [row.figures[name].mean for row in rows if name in row.figures]
    if name not in _LINEAR and min(values) > 0 and max(values) > _WIDE * min(values):
        axes.set_yscale("log", subs=())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
    elif not figure.higher and min(values) >= 0:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("epsilon")
    axes.set_ylabel(figure.label)
    better = "higher is better" if figure.higher else "lower is better"
    axes.set_title(
        f"{rows[0].cell.file}: {figure.label} ({better})", fontsize=11, loc="left", parse_math=False
    )
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)


def limits(epsilons: Sequence[float], methods: int) -> tuple[float, float]:
    """Return the limits of the axis, with margins and a ratio of at least 4.

    Args:
        epsilons: Ascending.
        methods: Number of methods side by side at each epsilon.

    >>> limits([1.0], 3)
    (0.5, 2.0)
    """
    first, last = epsilons[0], epsilons[-1]
    ratio = last / first
    margin = max(ratio**0.08 * _STEP ** (methods / 2), 2 / ratio**0.5)
    return first / margin, last * margin


def _points(rows: Sequence[Row], name: str) -> list[tuple[float, float, float]]:
    """Return epsilon, mean and deviation of one method's rows, by epsilon."""
    return sorted(
        (float(Fraction(row.cell.epsilon)), found.mean, found.deviation or 0.0)
        for row in rows
        if row.cell.epsilon and (found := row.figures.get(name))
    )
