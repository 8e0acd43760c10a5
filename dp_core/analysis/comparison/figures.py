"""The figures of a comparison: what each is called, what it means, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dp_core.metrics.significance import Outcome


@dataclass(frozen=True, slots=True)
class Figure:
    """One column of a comparison's table.

    Attributes:
        name: In `results.csv` and JSON.
        label: In tables and on axes.
        meaning: One line below the table.
        higher: Whether higher is better.
        drawn: Whether it has a picture of its own.
    """

    name: str
    label: str
    meaning: str
    higher: bool = False
    drawn: bool = True


FIGURES: tuple[Figure, ...] = (
    Figure("tvd1", "1-way TVD", "average total variation distance of all columns' tables"),
    Figure("tvd2", "2-way TVD", "the same over all pairs of columns"),
    Figure("tvd3", "3-way TVD", "the same over all triples, or 300 of them (fixed sample)"),
    Figure("cell", "max cell", "largest error of any cell of the pairs' tables, as a proportion"),
    Figure(
        "kl2",
        "KL pairs",
        "relative entropy real || synthetic, nats, average over pairs; one"
        " record is spread over each synthetic table",
    ),
    Figure("kl", "KL joint", "the same of the whole table, where it has at most 4,194,304 cells"),
    Figure(
        "ranges",
        "range error",
        "average error of 1,000 random range queries over three columns, as a proportion",
    ),
    Figure(
        "misclassified",
        "misclassified",
        "wrong predictions of the target on real test records,"
        " gradient-boosted trees trained on synthetic ones",
    ),
    Figure(
        "svm", "SVM accuracy", "right predictions likewise, linear support vector machine", True
    ),
    Figure(
        "best",
        "SSS best",
        "share of the formulas' coefficients with the file's sign and significance at 5 % (CIPHER,"
        " Table 1; all seven outcomes are in results.csv and drawn; formulas that could not be"
        " fitted are left out and listed)",
        True,
    ),
    Figure(
        "overlap",
        "CI overlap",
        "average part that the 95 % intervals of these coefficients have in common with the"
        " file's (Karr et al. 2006; apart: 0)",
        True,
    ),
    Figure(
        "width",
        "CI width",
        "length of these intervals in lengths of the file's, geometric mean; wide ones overlap"
        " well and find little",
        drawn=False,
    ),
    Figure(
        "relative",
        "relative",
        "2-way TVD on a scale from 0 (bootstrap) to 1 (`independent` at this epsilon)",
    ),
    Figure(
        "cost",
        "TVD x cells",
        "cost-normalised error: 2-way TVD times the noisy numbers that were"
        " kept (CIPHER, Section 3.1); compare only methods of similar TVD",
    ),
    Figure(
        "cpu",
        "CPU s",
        "processor seconds of measuring, fitting and drawing, in a process of"
        " its own, without its start-up; packages that only the method needs are loaded within",
    ),
    Figure("memory", "MB", "peak memory of that process, megabytes"),
)
"""In the order of the table."""

_DIGITS = {"relative": 3, "best": 2, "overlap": 2, "width": 2}
"""Digits after the point, where not four."""

FIGURE: Mapping[str, Figure] = {figure.name: figure for figure in FIGURES}


def about_runs(most: int) -> str:
    """Return what stands below a table about the runs its numbers are of.

    Args:
        most: Number of runs with figures of the row that has the most.
    """
    if most > 1:
        return "Mean of the runs and, after ±, their standard deviation."
    return "1 run each: no spread."


def shown_number(name: str, value: float) -> str:
    """Return a figure with the digits that people compare.

    >>> shown_number("tvd2", 0.01234), shown_number("memory", 512.3), shown_number("cpu", 12.34)
    ('.0123', '512', '12.3')
    """
    if name == "memory":
        return f"{value:,.0f}"
    if name == "cpu":
        return f"{value:.1f}"
    if name == "cost":
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    text = f"{value:.{_DIGITS.get(name, 4)}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def figure_name(kind: Outcome) -> str:
    """Return what the share of an outcome is called among the figures of a run.

    >>> figure_name(Outcome.TYPE_2_SAME)
    'sss II+'
    """
    return f"sss {kind}"


def shares_of(figures: Mapping[str, float | None]) -> dict[Outcome, float]:
    """Return the share of each outcome among a run's figures; empty if it has none."""
    found = {kind: figures.get(figure_name(kind)) for kind in Outcome}
    return {kind: share for kind, share in found.items() if share is not None}
