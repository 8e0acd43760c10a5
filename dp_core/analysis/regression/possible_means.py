"""Which means, and so which coefficients, the schema allows for a formula.

If the predictors have levels and the formula gives every group a mean of its own, then the fitted
means are the means of the groups. Each of them is one of the possible answers of `query` to the
same question (`possible_answers`), so the coefficients are cut to the values that follow from
possible means. Other formulas, such as one with a slope, fit means that may lie outside the range
of the outcome for the confidential file too. These are not cut.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dp_core.analysis.query.answering import terms_of
from dp_core.analysis.query.asked_counts import MOST_LEVELS, Asked
from dp_core.analysis.query.possible_answers import PossibleAnswers, possible_answers
from dp_core.analysis.query.term_intervals import Ends
from dp_core.analysis.regression.design import Design, Floats
from dp_core.inference.combine import Combined
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.formulas.grammar import is_monotone, parse
from dp_core.inference.questions.question import Question
from dp_core.schema.definition import Schema


@dataclass(frozen=True, slots=True, eq=False)
class PossibleMeans:
    """The possible means of a formula's outcome in each combination of its predictors' levels.

    They are on the scale of the coefficients: logarithms for a Poisson regression.

    Attributes:
        corners: Design of the combinations without repetitions, shape (corners, coefficients).
        means: The smallest and the largest mean in each.
        coefficients: The smallest and the largest value of each coefficient.
    """

    corners: Floats
    means: PossibleAnswers
    coefficients: PossibleAnswers

    def cut(self, found: Ends) -> Ends:
        """Return coefficients whose fitted means are possible, with their intervals."""
        own = self.coefficients
        fitted = self.corners @ found[0]
        moved = np.clip(fitted, self.means.least, self.means.most) - fitted
        values = found[0] + np.linalg.solve(self.corners, moved)
        return own.cut(found, np.clip(values, own.least, own.most))

    def moves(self, combined: Combined) -> bool:
        """Return whether `cut` moves an estimate."""
        fitted = self.corners @ combined.estimate
        return self.means.outside((fitted, fitted, fitted))


def possible_means(formula: Formula, design: Design, schema: Schema) -> PossibleMeans | None:
    """Return the possible means of a formula's outcome; None if they do not give the coefficients.

    They do for the mean of a number, or of a monotone function of it, in a linear or Poisson
    regression that gives each group a mean of its own.

    Args:
        formula: The formula.
        design: Its design.
        schema: Schema of the release.
    """
    family, outcome = design.outcome.family, design.outcome.name
    if design.corners is None or family not in ("linear", "poisson"):
        return None
    if not is_monotone(parse(outcome, outcome)):
        return None
    (name,), (data, x) = formula.outcome_columns, design.corners
    groups = _groups(formula, schema)
    rows, index = np.unique(x, axis=0, return_inverse=True)
    if groups is None or not len(rows) == rows.shape[1] == np.linalg.matrix_rank(rows):
        return None
    every = _ranges(name, groups, schema)
    anywhere = min(low for low, _ in every.values()), max(high for _, high in every.values())
    labels = [tuple(data[group].tolist()) for group in groups]
    keys = zip(*labels, strict=True) if labels else [()] * len(x)
    written = np.array([every.get(key, anywhere) for key in keys])
    (factor,) = formula.description.lhs_termlist[0].factors
    with np.errstate(all="ignore"):
        ranges = np.sort(factor.eval({"transforms": {}}, {name: written}), axis=1)
    if np.isnan(ranges).any():
        return None
    least, most = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(least, index.ravel(), ranges[:, 0])
    np.maximum.at(most, index.ravel(), ranges[:, 1])
    if family == "poisson":
        with np.errstate(divide="ignore"):
            least, most = np.log(np.maximum(least, 0.0)), np.log(most)
    # Each coefficient is a sum of means, with the weights of its row of the inverse.
    inverse = np.asarray(np.linalg.inv(rows), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        ends = np.array([np.where(inverse, inverse * each, 0.0) for each in (least, most)])
    sums = ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)
    return PossibleMeans(
        rows,
        PossibleAnswers(least, most, adds_up=False),
        PossibleAnswers(*sums, adds_up=False),
    )


def _groups(formula: Formula, schema: Schema) -> tuple[str, ...] | None:
    """Return the predictors if their levels make groups that `query` can tell apart."""
    names = tuple(dict.fromkeys(name for term in formula.terms for name in term))
    labels = [[level.label for level in schema.column(name).in_sets.levels] for name in names]
    told = all(each and len(set(each)) == len(each) for each in labels)
    return names if told and math.prod(map(len, labels)) <= MOST_LEVELS else None


def _ranges(
    name: str, groups: tuple[str, ...], schema: Schema
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return the smallest and the largest mean of a number, by the labels of the groups."""
    written = schema.coarse or schema
    asked = Asked.of(Question(measure="mean", number=name, by=groups), written)
    possible = possible_answers(asked, terms_of(asked))
    zero, found = float(schema.column(name).scale.zero), {}
    ends = dict(zip(asked.labels(), zip(possible.least, possible.most, strict=True), strict=True))
    codes = [schema.column(group).label_codes().items() for group in groups]
    for each in itertools.product(*codes):
        low, high = ends.get(tuple(code for _, code in each), (math.nan, math.nan))
        if not math.isnan(low):
            found[tuple(label for label, _ in each)] = (float(low) - zero, float(high) - zero)
    return found
