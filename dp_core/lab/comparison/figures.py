"""The figures of a comparison: names, meanings and formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dp_core.lab.measures.inference_agreement import Outcome


@dataclass(frozen=True, slots=True)
class Figure:
    """One column of a comparison's table.

    Attributes:
        name: Name in `results.csv` and JSON.
        label: Name in tables and on axes.
        meaning: Explanation below the table.
        higher: Whether higher is better.
        drawn: Whether it is plotted.
    """

    name: str
    label: str
    meaning: str
    higher: bool = False
    drawn: bool = True


FIGURES: tuple[Figure, ...] = (
    Figure(
        "tvd1", "1-way TVD", "mean total variation distance over the tables of all single columns"
    ),
    Figure("tvd2", "2-way TVD", "the same over all pairs of columns"),
    Figure(
        "tvd_household",
        "household",
        "linked tables: mean TVD over all pairs of household columns",
    ),
    Figure("tvd_person", "person", "the same over all pairs of person columns"),
    Figure(
        "tvd_both",
        "household x person",
        "the same over all pairs of a household column and a person column",
    ),
    Figure(
        "tvd_members",
        "member x member",
        "the same over all pairs of person columns of two different members of a household",
    ),
    Figure("tvd_size", "size", "linked tables: TVD of the number of members"),
    Figure(
        "tvd3",
        "3-way TVD",
        "mean TVD over all triples of columns, or 300 of them (fixed sample)",
    ),
    Figure(
        "cell", "max cell", "largest error of a cell in the tables of all pairs, as a proportion"
    ),
    Figure(
        "kl2",
        "KL pairs",
        "relative entropy real || synthetic in nats, mean over pairs, with one"
        " record spread over each synthetic table",
    ),
    Figure("kl", "KL joint", "the same for the joint table, if it has at most 4,194,304 cells"),
    Figure(
        "ranges",
        "range error",
        "mean error of 1,000 random range queries over three columns, as a proportion",
    ),
    Figure(
        "kmarginal",
        "k-marginal",
        "NIST's k-marginal score, 1000 (1 - 2-way TVD): 1000 is best (evaluation.md)",
        True,
        drawn=False,
    ),
    Figure(
        "propensity",
        "pMSE ratio",
        "propensity mean squared error of a tree of depth 6, divided by its mean with permuted"
        " labels; 1 if the tree finds chance only",
        drawn=False,
    ),
    Figure(
        "correlations",
        "correlation",
        "mean absolute difference of Pearson correlations of ordered columns",
        drawn=False,
    ),
    Figure(
        "components",
        "PCA",
        "largest Kolmogorov-Smirnov distance along the file's first five components",
        drawn=False,
    ),
    Figure(
        "matched",
        "exact matches",
        "of the records that occur once in the file, the share that the method repeats; from at"
        " most 20,000 records of each file",
        drawn=False,
    ),
    Figure(
        "subgroups",
        "subgroup ratio",
        "largest over smallest error of a column's levels, for the most unequal column of --group",
        drawn=False,
    ),
    Figure(
        "excess",
        "subgroup excess",
        "largest error of a level of these columns divided by what sampling alone predicts",
        drawn=False,
    ),
    Figure(
        "membership",
        "membership",
        "advantage of membership inference by distance, with records that no method saw as control",
        drawn=False,
    ),
    Figure(
        "singling",
        "singling out",
        "risk of singling out, excess over the control (Giomi et al. 2023)",
        drawn=False,
    ),
    Figure("linking", "linkability", "risk of linkability, likewise", drawn=False),
    Figure(
        "inferring",
        "inference",
        "largest risk of inferring one of the last ten columns, likewise",
        drawn=False,
    ),
    Figure(
        "misclassified",
        "misclassified",
        "share of wrong predictions of the target on real test records by"
        " gradient-boosted trees trained on synthetic records",
    ),
    Figure(
        "svm",
        "SVM accuracy",
        "share of correct predictions by a linear support vector machine",
        True,
    ),
    Figure(
        "best",
        "SSS best",
        "share of the formulas' coefficients with the sign and the significance at 5 % that they"
        " have in the file (CIPHER, Table 1; results.csv and a plot show all seven outcomes;"
        " formulas that could not be fitted are left out and listed)",
        True,
    ),
    Figure(
        "overlap",
        "CI overlap",
        "mean overlap of the 95 % intervals of these coefficients with those of the file (Karr et"
        " al. 2006; 0 for disjoint intervals)",
        True,
    ),
    Figure(
        "width",
        "CI width",
        "length of these intervals relative to those of the file, geometric mean; wide intervals"
        " overlap well but detect little",
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
        "cost-normalised error: 2-way TVD times the number of noisy numbers that"
        " were kept (CIPHER, Section 3.1); compare only methods of similar TVD",
    ),
    Figure(
        "cpu",
        "CPU s",
        "processor seconds for measuring, fitting and drawing in a separate"
        " process, without its start-up but with the packages that only the method needs",
    ),
    Figure("memory", "MB", "peak memory of that process, megabytes"),
)
"""In the order of the table."""

_DIGITS = {
    "relative": 3,
    "best": 2,
    "overlap": 2,
    "width": 2,
    "propensity": 1,
    "subgroups": 1,
    "excess": 1,
}
"""Digits after the decimal point, 4 by default."""

FIGURE: Mapping[str, Figure] = {figure.name: figure for figure in FIGURES}


def about_runs(most: int) -> str:
    """Return the note below a table about runs.

    Args:
        most: Largest number of runs with figures in a row.
    """
    if most > 1:
        return "The figures are means over the runs, followed by ± their standard deviation."
    return "Each figure is from 1 run, so no standard deviation is given."


def shown_number(name: str, value: float) -> str:
    """Return a figure with a suitable number of digits.

    >>> shown_number("tvd2", 0.01234), shown_number("memory", 512.3), shown_number("cpu", 12.34)
    ('.0123', '512', '12.3')
    """
    if name in ("memory", "kmarginal"):
        return f"{value:,.0f}"
    if name == "cpu":
        return f"{value:.1f}"
    if name == "cost":
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    text = f"{value:.{_DIGITS.get(name, 4)}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def figure_name(kind: Outcome) -> str:
    """Return the name of an outcome's share among the figures of a run.

    >>> figure_name(Outcome.TYPE_2_SAME)
    'sss II+'
    """
    return f"sss {kind}"


def shares_of(figures: Mapping[str, float | None]) -> dict[Outcome, float]:
    """Return the share of each outcome among a run's figures; empty if it has none."""
    found = {kind: figures.get(figure_name(kind)) for kind in Outcome}
    return {kind: share for kind, share in found.items() if share is not None}
