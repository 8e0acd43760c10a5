"""Which means, and so which coefficients, the schema allows for a formula.

If the predictors have levels and the formula gives every group a mean of its own, then the fitted
means are the means of the groups. Each of them is one of the possible answers of `query` to the
same question (`possible_answers`), so the coefficients are cut to the values that follow from
possible means. Other formulas, such as one with a slope, fit means that may lie outside the range
of the outcome for the confidential file too. These are not cut, but a concern says it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.analysis.query.answering import terms_of
from dp_core.analysis.query.asked_counts import MOST_LEVELS, Asked
from dp_core.analysis.query.possible_answers import PossibleAnswers, possible_answers
from dp_core.analysis.query.term_intervals import Ends
from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.interval_warnings import Concern, listed
from dp_core.inference.combine import Combined
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.formulas.grammar import is_monotone, parse
from dp_core.inference.intervals import interval
from dp_core.inference.questions.question import Question
from dp_core.schema.definition import Schema


@dataclass(frozen=True, slots=True, eq=False)
class PossibleMeans:
    """The possible means of a formula's outcome at the corners of its predictors.

    The corners are the combinations of all levels and of both ends of every number. The means are
    on the scale of the coefficients: logarithms for a Poisson regression.

    Attributes:
        outcome: Left side of the formula.
        corners: Design of the corners without repetitions, shape (corners, coefficients).
        means: The smallest and the largest mean at each corner.
        coefficients: The smallest and the largest value of each coefficient; None if the formula
            does not give each group a mean of its own.
    """

    outcome: str
    corners: Floats
    means: PossibleAnswers
    coefficients: PossibleAnswers | None

    def cut(self, found: Ends) -> Ends:
        """Return coefficients whose fitted means are possible, with their intervals.

        Only the coefficients of a formula that gives each group a mean of its own change.
        """
        own = self.coefficients
        if own is None:
            return found
        fitted = self.corners @ found[0]
        moved = np.clip(fitted, self.means.least, self.means.most) - fitted
        values = found[0] + np.linalg.solve(self.corners, moved)
        return own.cut(found, np.clip(values, own.least, own.most))

    def moves(self, combined: Combined) -> bool:
        """Return whether `cut` moves an estimate."""
        fitted = self.corners @ combined.estimate
        return self.coefficients is not None and self.means.outside((fitted, fitted, fitted))

    def concern(
        self, names: Sequence[str], given: Sequence[int], combined: Combined, level: float
    ) -> Concern | None:
        """Return the concern about fitted means that are undetermined or impossible, if any.

        Args:
            names: Names of the coefficients.
            given: Positions of those that are given; means that need others are left out.
            combined: The coefficients before they are cut.
            level: Confidence level of the intervals.
        """
        if self.coefficients is not None:
            ends = self.cut((combined.estimate, *combined.interval(level)))
            every = self.coefficients.uninformed(ends)
            unknown = tuple(names[place] for place in given if every[place])
            if not unknown:
                return None
            return Concern(
                "undetermined",
                unknown,
                f"{listed(unknown)} {'is' if len(unknown) == 1 else 'are'} not determined at this"
                " noise: the interval contains every value that the schema allows.",
            )
        others = np.setdiff1d(np.arange(len(names)), given)
        kept = ~self.corners[:, others].any(axis=1)
        corners = self.corners[kept]
        if not len(corners):
            return None
        means = PossibleAnswers(self.means.least[kept], self.means.most[kept], adds_up=False)
        fitted = corners @ combined.estimate
        variances = ((corners @ combined.variance) * corners).sum(axis=1)
        degrees = float(np.min(combined.degrees_of_freedom))
        ends = fitted, *interval(fitted, np.maximum(variances, 0.0), degrees, level)
        where = "with the predictors at the ends of their ranges"
        about = tuple(names[place] for place in given)
        if means.uninformed(ends).any():
            return Concern(
                "undetermined",
                about,
                f"The mean of {self.outcome} {where} is not determined at this noise: the interval"
                " of a fitted mean contains every value that the schema allows.",
            )
        if means.outside(ends):
            return Concern(
                "outside",
                about,
                f"A fitted mean of {self.outcome} {where} is outside the range that the schema"
                " allows: the noise is large, or the relation has another form.",
            )
        return None


def possible_means(formula: Formula, design: Design, schema: Schema) -> PossibleMeans | None:
    """Return the possible means of a formula's outcome; None if they are not known.

    They are known for the mean of a number, or of a monotone function of it, in a linear or Poisson
    regression.

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
    every = _ranges(name, groups or (), schema)
    anywhere = min(low for low, _ in every.values()), max(high for _, high in every.values())
    labels = [tuple(data[group].tolist()) for group in groups or ()]
    keys = zip(*labels, strict=True) if labels else [()] * len(x)
    written = np.array([every.get(key, anywhere) for key in keys])
    (factor,) = formula.description.lhs_termlist[0].factors
    with np.errstate(all="ignore"):
        ranges = np.sort(factor.eval({"transforms": {}}, {name: written}), axis=1)
    if np.isnan(ranges).any():
        return None
    rows, index = np.unique(x, axis=0, return_inverse=True)
    least, most = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(least, index.ravel(), ranges[:, 0])
    np.maximum.at(most, index.ravel(), ranges[:, 1])
    if family == "poisson":
        with np.errstate(divide="ignore"):
            least, most = np.log(np.maximum(least, 0.0)), np.log(most)
    own = None
    if groups is not None and len(rows) == rows.shape[1] == np.linalg.matrix_rank(rows):
        # Each coefficient is a sum of means, with the weights of its row of the inverse.
        inverse = np.asarray(np.linalg.inv(rows), dtype=np.float64)
        with np.errstate(invalid="ignore"):
            ends = np.array([np.where(inverse, inverse * each, 0.0) for each in (least, most)])
        sums = ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)
        own = PossibleAnswers(*sums, adds_up=False)
    return PossibleMeans(outcome, rows, PossibleAnswers(least, most, adds_up=False), own)


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
