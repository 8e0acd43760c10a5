"""What the simulations of the comparative study share: combining, scoring, tables and figures.

Bowen & Liu (2020), section 4. The simulations are `simulation1.py` and so on; each is a fast path
of a few lines of NumPy over thousands of repeats, whose noise is continuous and seeded: it protects
nobody and is for experiments only. Tests hold it against the library, which makes real releases.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchmarks.papers.common import versions

LOGS = tuple(range(-4, 5))
"""Logarithms of the epsilons of the figures."""
SETS = 5
"""m: independent sets, each with its part of epsilon."""
BLOCK = 2_000_000
"""Numbers that are held at a time, about."""

COLOURS = {
    "original": "#000000",
    "MS, no privacy": "#888888",
    "MODIPS": "#1f77b4",
    "MODIPS, corrected": "#17becf",
    "Laplace": "#d62728",
    "MD": "#2ca02c",
    "BB-MR": "#9467bd",
    "perturbed histogram": "#d62728",
    "smoothed histogram": "#2ca02c",
    "NP-DIPS": "#d62728",
}
MARKERS = dict(zip(COLOURS, ".xosD^v^v^", strict=True))


@dataclass(frozen=True, slots=True)
class Score:
    """How good estimates and their 95 % intervals are, over many repeats.

    Attributes:
        bias: Mean error.
        rmse: Root of the mean squared error.
        coverage: Part of the intervals that hold the truth.
        width: Mean width of the intervals.
        repeats: Usable ones.
    """

    bias: float
    rmse: float
    coverage: float
    width: float
    repeats: int

    def __str__(self) -> str:
        return f"{self.bias:+.4f} {self.rmse:.4f} {self.coverage:.3f} {self.width:.4f}"


Curves = Mapping[str, Sequence[Score]]
"""For each method its scores, at the epsilons of `LOGS`."""


def combine(
    estimates: NDArray[np.float64], variances: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return estimate and half the width of its 95 % interval, from m sets or from one.

    Equations 9 to 11, with the sets along the last axis: T = W + B/m with
    (m - 1)(1 + m W/B)^2 degrees of freedom.
    """
    sets = estimates.shape[-1]
    within = variances.mean(axis=-1)
    if sets == 1:
        return estimates[..., 0], special.ndtri(0.975) * np.sqrt(within)
    between = estimates.var(axis=-1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        freedom = (sets - 1) * (1 + sets * within / between) ** 2
    # Beyond a million it is normal; so it is where all sets agree.
    freedom = np.nan_to_num(np.minimum(freedom, 1e6), nan=1e6)
    half = special.stdtrit(freedom, 0.975) * np.sqrt(within + between / sets)
    return estimates.mean(axis=-1), half


def score(
    estimates: NDArray[np.float64], half: NDArray[np.float64], truth: float | NDArray[np.float64]
) -> Score:
    """Return the score of estimates and half widths, shape (repeats,), of those that are finite."""
    usable = np.isfinite(estimates) & np.isfinite(half)
    if not usable.any():
        return Score(np.nan, np.nan, np.nan, np.nan, 0)
    error = (estimates - truth)[usable]
    half = half[usable]
    return Score(
        float(error.mean()),
        float(np.sqrt((error**2).mean())),
        float((np.abs(error) <= half).mean()),
        float(2 * half.mean()),
        int(usable.sum()),
    )


def moments(
    records: NDArray[np.float64],
) -> tuple[
    tuple[NDArray[np.float64], NDArray[np.float64]],
    tuple[NDArray[np.float64], NDArray[np.float64]],
]:
    """Return mean and variance of each sample (last axis), each with its estimated variance.

    The variance of a sample variance is s^4 (2/(n - 1) + excess kurtosis/n).
    """
    size = records.shape[-1]
    mean = records.mean(axis=-1)
    square = (records - mean[..., None]) ** 2
    second, fourth = square.mean(axis=-1), (square**2).mean(axis=-1)
    kurtosis = np.divide(fourth, second**2, out=np.full(second.shape, 3.0), where=second > 0) - 3
    variance = second * size / (size - 1)
    spread = variance**2 * np.maximum(2 / (size - 1) + kurtosis / size, 0.0)
    return (mean, variance / size), (variance, spread)


def blocks(repeats: int, numbers: int) -> Sequence[int]:
    """Return how many repeats each block has, so that no block holds much more than `BLOCK`."""
    each = max(1, min(repeats, BLOCK // max(numbers, 1)))
    return [min(each, repeats - first) for first in range(0, repeats, each)]


def print_curves(curves: Curves, logs: Sequence[int] = LOGS) -> None:
    """Print bias, RMSE, coverage and width of each method at each epsilon."""
    print("| method | log epsilon | bias | RMSE | coverage | width |")
    print("|---|---|---|---|---|---|")
    for method, scores in curves.items():
        for log, found in zip(logs, scores, strict=True):
            figures = str(found).replace(" ", " | ")
            print(f"| {method} | {log:+d} | {figures} |")


def draw(
    panels: Mapping[str, Curves],
    path: Path,
    title: str,
    *,
    logs: Sequence[int] = LOGS,
    alike: bool = True,
) -> None:
    """Write a figure like the paper's: a column for each panel, bias to width from top to bottom.

    Args:
        panels: Curves by the panel's heading.
        path: Of the PNG.
        title: Above all.
        logs: Logarithms of the epsilons.
        alike: Whether the panels of a row have one scale.
    """
    import matplotlib as mpl
    import matplotlib.ticker

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = ("bias", "RMSE", "coverage of 95 %", "width of 95 %")
    figure, axes = plt.subplots(
        4, len(panels), figsize=(0.8 + 3.1 * len(panels), 9.5), squeeze=False, sharex=True,
        sharey="row" if alike else False, layout="constrained",
    )  # fmt: skip
    for column, (heading, curves) in enumerate(panels.items()):
        axes[0, column].set_title(heading, fontsize=10)
        for method, scores in curves.items():
            figures = np.array([[s.bias, s.rmse, s.coverage, s.width] for s in scores]).T
            for row, values in enumerate(figures):
                axes[row, column].plot(
                    logs, values, label=method, color=COLOURS[method], marker=MARKERS[method],
                    markersize=4, linewidth=1.2,
                    linestyle="--" if method in ("original", "MS, no privacy") else "-",
                )  # fmt: skip
        axes[2, column].axhline(0.95, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes[0, column].axhline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes[2, column].set_ylim(-0.03, 1.03)
        axes[3, column].set_xlabel("log epsilon")
        for row in range(4):
            axes[row, column].grid(alpha=0.25)
            axes[row, column].set_xticks(logs)
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name)
        if row in (1, 3):
            for axis in axes[row]:
                axis.set_yscale("log")
                axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
                axis.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
                axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=max(3, min(len(labels), 2 * len(panels))),
        frameon=False,
    )
    figure.suptitle(title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"{path.name} written")


def main(description: str, run: Callable[[int, int, Path | None], None], repeats: int) -> None:
    """Run a simulation from the command line.

    Args:
        description: For `--help`.
        run: Takes the number of repeats, the seed and the folder for figures, if any.
        repeats: Unless the command line has another number.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for the figures")
    arguments = parser.parse_args()
    print(versions())
    started, used = time.perf_counter(), time.process_time()
    run(arguments.repeats, arguments.seed, arguments.out)
    print(f"{time.perf_counter() - started:.0f} s, {time.process_time() - used:.0f} s of CPU")
