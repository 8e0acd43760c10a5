"""Stacked bars of sign and significance outcomes, like Figures 5 and 7 of the CIPHER paper."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dp_core.lab.measures.significance import MEANING, Outcome

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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    down = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / down)
    most = max(len(panel.bars) for panel in panels)
    tallest = max(len(_below(bar.label, most).splitlines()) for p in panels for bar in p.bars)
    width = across * (1.1 + max(0.62 * most, 1.4)) + 3.3
    height = 1.25 + down * (2.75 + 0.16 * tallest)
    picture = Figure(figsize=(max(width, 6.4), height), layout="constrained")
    FigureCanvasAgg(picture)
    grid = picture.subplots(down, across, squeeze=False, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        _draw(axes, panels[place], most)
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


def _draw(axes: Any, panel: Panel, most: int) -> None:
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
