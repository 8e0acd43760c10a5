"""Pictures: a figure against epsilon, and stacked bars of sign and significance (CIPHER)."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.lab.comparison.cells import BOOTSTRAP, Declaration
from dp_core.lab.comparison.figures import FIGURE, shares_of
from dp_core.lab.comparison.summary import Row, files, shown_figures
from dp_core.lab.measures.inference_agreement import MEANING, Outcome

_LOOK: Mapping[Outcome, tuple[str, str, str]] = {
    Outcome.BEST: ("#0b559f", "", "white"),
    Outcome.NEUTRAL: ("#d9d9d9", "", "black"),
    Outcome.TYPE_2_SAME: ("#7fb8e0", "", "black"),
    Outcome.TYPE_1_SAME: ("#f7d04a", "", "black"),
    Outcome.TYPE_2_OPPOSITE: ("#7fb8e0", "////", "black"),
    Outcome.TYPE_1_OPPOSITE: ("#f7d04a", "////", "black"),
    Outcome.WORST: ("#a6320b", "", "white"),
}
"""Fill, hatching and colour of the text. The colours can be distinguished without red-green
vision; opposite signs are hatched, so that the bars can be read in black and white."""
_ACROSS = 4
"""Most panels in a row."""
_LABELLED = 0.07
"""Smallest share that is labelled with its number."""
_BACKED = {"facecolor": "#ffffffcc", "edgecolor": "none", "pad": 0.6}


@dataclass(frozen=True, slots=True)
class Bar:
    """One stack.

    Attributes:
        label: Label below the bar.
        shares: Share of each outcome; they sum to 1. If empty, "not compared" is printed.
    """

    label: str
    shares: Mapping[Outcome, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars side by side, such as a method's at each epsilon.

    Attributes:
        title: Title above the bars.
        bars: Bars from left to right.
    """

    title: str
    bars: tuple[Bar, ...]


def significance_png(panels: Sequence[Panel], *, title: str, notice: str, axis: str) -> bytes:
    """Return a PNG of stacked bars.

    Args:
        panels: At least one panel; a row has at most four.
        title: Title of the picture.
        notice: Who may see the picture; its first line, also in its metadata.
        axis: Name of the variable by which the bars of a panel differ.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    down = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / down)
    most = max(len(panel.bars) for panel in panels)
    tallest = max(len(_below(bar.label, most).splitlines()) for p in panels for bar in p.bars)
    width = across * (1.1 + max(0.62 * most, 1.4)) + 3.3
    height = 1.25 + down * (2.75 + 0.16 * tallest)
    picture = Figure(figsize=(max(width, 6.4), height), layout="constrained")
    grid = picture.subplots(down, across, squeeze=False, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        _draw_stacks(axes, panels[place], most)
        if place % across == 0:
            axes.set_ylabel("share of the coefficients, %")
        if place + across >= len(panels):
            axes.set_xlabel(axis)
    handles = [
        Patch(
            facecolor=_LOOK[kind][0],
            hatch=_LOOK[kind][1],
            edgecolor="#444444",
            linewidth=0.5,
            label=f"{kind}\n{textwrap.fill(MEANING[kind], 30)}",
        )
        for kind in reversed(Outcome)
    ]
    picture.legend(
        handles=handles,
        loc="outside right center",
        frameon=False,
        fontsize=8,
        labelspacing=0.9,
        handlelength=1.6,
        handleheight=1.6,
    )
    wide = round(13 * max(width, 6.4))
    head = [*textwrap.wrap(notice, wide, max_lines=2), *textwrap.wrap(title, wide)]
    picture.suptitle("\n".join(head), fontsize=9, x=0.01, ha="left", parse_math=False)
    written = io.BytesIO()
    picture.savefig(written, format="png", dpi=130, metadata={"Description": notice})
    return written.getvalue()


def _draw_stacks(axes: Any, panel: Panel, most: int) -> None:
    for place, bar in enumerate(panel.bars):
        if not bar.shares:
            axes.text(place, 50, "not compared", rotation=90, ha="center", va="center", fontsize=8)
        bottom = 0.0
        for kind in Outcome:
            share = bar.shares.get(kind, 0.0)
            colour, hatch, ink = _LOOK[kind]
            if not share:
                continue
            axes.bar(
                place,
                100 * share,
                bottom=100 * bottom,
                width=0.78,
                color=colour,
                hatch=hatch,
                edgecolor="#444444",
                linewidth=0.5,
            )
            if share >= _LABELLED:
                axes.text(
                    place,
                    100 * (bottom + share / 2),
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    color=ink,
                    fontsize=8,
                    bbox=_BACKED if hatch else None,
                )
            bottom += share
    axes.set_xticks(
        range(len(panel.bars)),
        [_below(bar.label, most) for bar in panel.bars],
        fontsize=8,
        parse_math=False,
    )
    axes.set_xlim(-0.6, max(len(panel.bars), most) - 0.4)
    axes.set_ylim(0, 100)
    axes.set_title(panel.title, fontsize=10, loc="left", parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)


def _below(label: str, bars: int) -> str:
    """Return a label broken into lines that do not run into the next bar's."""
    return textwrap.fill(label, 9 if bars > 2 else 18)


_COLOURS = 10
"""Colours of matplotlib's default cycle; further methods have dashed lines."""
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
            color=f"C{place % _COLOURS}",
            marker=_MARKERS[place % len(_MARKERS)],
            linestyle="-" if place < _COLOURS else "--",
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
