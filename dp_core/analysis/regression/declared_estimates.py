"""Coefficients of a declared analysis from the sums that a release measured for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from dp_core.analysis.regression.design import Design, Family, Floats, frequent_levels, make_design
from dp_core.analysis.regression.frames import Frame, levels_of, public_frame
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Totals
from dp_core.errors import BadInput
from dp_core.inference.combine import Combined, combine
from dp_core.inference.formulas.declared_analysis import (
    MOST_COEFFICIENTS,
    DeclaredAnalysis,
    DeclaredFactor,
    declared_analysis,
    same_analysis,
)
from dp_core.inference.formulas.formula import Formula
from dp_core.kernel.questions.regressions.features import ONE
from dp_core.kernel.questions.regressions.shortened import Scores, SecondMoments
from dp_core.methods.declared.declared_answers import declared_fits
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, telling_numbers
from dp_core.schema.definition import Schema
from dp_core.schema.grid import with_values

_LEAST_SPREAD = 8 / ONE
"""Least standard deviation of a feature: a function that varies less is mostly rounding."""
_SAME = 1e-3
"""Largest difference of two descriptions of a feature, which is at most 1."""
_LEAST_NOISE = 0.05
"""Smallest noise of an estimate, relative to its sampling variance, which is estimated too."""


def declared_estimates(
    bundle: Bundle, formula: Formula, frames: Sequence[Frame], family: Family | None
) -> tuple[Design, Combined, Floats] | None:
    """Return the coefficients from the sums that the release measured for a formula.

    Every level that the schema states has a coefficient, whether or not a set has the level.

    Args:
        bundle: The release.
        formula: The formula.
        frames: Complete rows of each set.
        family: Requested family; None if it follows from the outcome.

    Returns:
        A design that gives the names and the order of the coefficients; the coefficients: one
        estimate with each set, combined by Rubin's rule; and their variance by the sampling of the
        file, shape (coefficients,). None if the formula was not declared or its sums are not in the
        bundle, if this regression differs from the declared one (another family), if a function
        hardly varies among the values that occur, or if the release has no posterior sets, whose
        differences show how uncertain is what the sums do not tell.
    """
    analysis = _declared_as(bundle, formula)
    if analysis is None or bundle.rule != "posterior" or len(frames) < 2:
        return None
    schema = with_values(bundle.claims.schema, analysis.columns)
    regression = DeclaredRegression.of(analysis, schema)
    sums = _sums_of(bundle, regression)
    numbers = telling_numbers(regression, schema)
    public = public_frame(formula.columns, schema, 2 * MOST_COEFFICIENTS, numbers)
    references = frequent_levels(formula, frames, schema)
    try:
        design = make_design(formula, [public], schema, family, references)
    except BadInput:  # the family does not fit the outcome
        return None
    if sums is None or not _same_family(design, regression):
        return None
    rows = float(np.mean([frame.rows / (frame.rows + frame.dropped) for frame in frames]))
    codes = [_codes(frame, analysis, schema) for frame in frames]
    if regression.least_spread(np.concatenate(codes)) < _LEAST_SPREAD:
        return None
    fits = declared_fits(regression, *sums, codes, records=bundle.records * rows)
    transform = _transform(design, public, regression, schema)
    if transform is None:
        return None
    half, middle = _unit(regression)
    every = np.kron(_against(design, regression, schema), transform) * half
    estimates = np.array([every @ fit.coefficients.ravel() for fit in fits])
    estimates[:, 0] += middle
    covariances = np.array([_symmetric(every @ fit.covariance @ every.T) for fit in fits])
    degrees = None
    if design.outcome.family == "linear":
        degrees = max(rows * bundle.records - len(design.names), 1.0)
    sampling = [np.diag(every @ fit.sampling @ every.T) for fit in fits]
    combined = combine(estimates, covariances, "posterior", complete_df=degrees)
    return design, combined, np.mean(sampling, axis=0)


def combined_by_precision(
    names: Sequence[str],
    declared: Combined,
    others: Mapping[str, int],
    sets: Combined,
    hidden: Collection[str] = (),
    sampling: Floats | None = None,
) -> Combined:
    """Return the coefficients from sums and sets together, each weighted by the other's noise.

    The two estimates of a coefficient have the sampling error of the file in common, of variance W,
    and noise of their own. With noise of variances v of the sums and u of the sets, the sums have
    the weight u / (u + v). Sets can be biased, and sums hardly: if the two estimates differ by d, u
    is at least d^2 - v.

    Args:
        names: Names of all coefficients.
        declared: Their estimates from the sums.
        others: Positions of those that the sets tell, by name.
        sets: Estimates from the sets, whose intervals include the errors of the sets.
        hidden: Names of those that the noise of the sums hides, which follow from the sets alone
            where these tell them; none by default.
        sampling: Least sampling variance of each coefficient; by default that of the sets.
    """
    at = np.array([place for place, name in enumerate(names) if name in others], dtype=np.intp)
    there = np.array([others[names[place]] for place in at], dtype=np.intp)
    within, other = (np.zeros((len(names), len(names))) for _ in range(2))
    within[np.ix_(at, at)] = sets.within[np.ix_(there, there)]
    other[np.ix_(at, at)] = sets.variance[np.ix_(there, there)]
    if sampling is not None:
        # Values that are unrelated within a bin may vary less in the sets than in the file.
        lacking = np.sqrt(np.maximum(sampling / np.maximum(np.diag(within), 1e-300), 1.0))
        lacking[np.diag(within) == 0] = 1.0
        more = within * (np.outer(lacking, lacking) - 1)
        within, other = within + more, other + more
    own, other = declared.variance - within, other - within
    least = _LEAST_NOISE * np.diag(within)
    for noise in (own, other):
        np.fill_diagonal(noise, np.maximum(np.diag(noise), least))
    v, u = np.diag(own)[at], np.diag(other)[at]
    apart = declared.estimate[at] - sets.estimate[there]
    of_sums = np.ones(len(names))
    told = np.array([names[place] not in hidden for place in at], dtype=bool)
    u = np.where(told, np.maximum(u, apart**2 - v), u)
    other[at, at] = u
    of_sums[at] = np.where(told, u / np.maximum(u + v, 1e-300), 0.0)
    of_sets = 1 - of_sums
    estimate = declared.estimate.copy()
    estimate[at] = of_sums[at] * estimate[at] + of_sets[at] * sets.estimate[there]
    variance = within + np.outer(of_sums, of_sums) * own + np.outer(of_sets, of_sets) * other
    return replace(
        declared,
        estimate=estimate,
        variance=variance,
        by_differences=False,
        degrees_of_freedom=np.where(
            of_sums == 1, declared.degrees_of_freedom, declared.complete_df or np.inf
        ),
    )


def _declared_as(bundle: Bundle, formula: Formula) -> DeclaredAnalysis | None:
    """Return the declared analysis that a formula is; None if it is none."""
    schema = bundle.claims.schema
    declared = (declared_analysis(each, schema) for each in bundle.declared)
    return next((each for each in declared if same_analysis(formula, each, schema)), None)


def _sums_of(bundle: Bundle, regression: DeclaredRegression) -> tuple[Totals, list[Totals]] | None:
    moments, scores = None, list[Totals]()
    # In the order in which they were paid, whatever the order of the file.
    for item in sorted(bundle.measured, key=lambda item: item.grant):
        if not isinstance(item, Totals):
            continue
        of = item.of
        if isinstance(of, SecondMoments) and of.features == regression.together:
            moments = item
        if (
            isinstance(of, Scores)
            and of.features == regression.features
            and of.outcome == regression.outcome
        ):
            scores.append(item)
    return None if moments is None or not scores else (moments, scores)


def _same_family(design: Design, regression: DeclaredRegression) -> bool:
    family = design.outcome.family
    if regression.linear:
        return family == "linear"
    return family == ("logistic" if regression.residuals == 1 else "multinomial")


def _transform(
    design: Design, public: Frame, regression: DeclaredRegression, schema: Schema
) -> Floats | None:
    """Return the matrix that maps coefficients of the features to those of the design's columns.

    Both describe the same means at the made-up rows of the design. None if they do not.
    """
    features = [np.ones((public.rows, 1))]
    for term in regression.analysis.terms:
        parts = [_made_up(each, public, regression, schema) for each in term]
        features.append(reduce(_products, parts))
    x, whole = design.x[0], np.hstack(features)
    found = np.linalg.lstsq(x, whole, rcond=None)[0]
    same = x.shape[1] == whole.shape[1] and np.allclose(x @ found, whole, atol=_SAME)
    return np.asarray(found) if same else None


def _made_up(
    factor: DeclaredFactor, public: Frame, regression: DeclaredRegression, schema: Schema
) -> Floats:
    """Return the features of a factor at made-up rows, shape (rows, features)."""
    column, values = schema.column(factor.column), public.data[factor.column]
    if column.levels:
        labels = np.array(levels_of(column)[1:], dtype=object)
        return np.asarray(np.asarray(values, dtype=object)[:, None] == labels, dtype=np.float64)
    low, high = regression.ends[factor]
    numbers = factor.values(np.asarray(values, dtype=np.float64))
    return np.asarray((2 * numbers - low - high) / (high - low))[:, None]


def _products(one: Floats, other: Floats) -> Floats:
    return np.asarray((one[:, :, None] * other[:, None, :]).reshape(len(one), -1))


def _unit(regression: DeclaredRegression) -> tuple[float, float]:
    """Return the unit of the outcome's feature, and the value of the outcome at 0."""
    if not regression.linear:
        return 1.0, 0.0
    low, high = regression.ends[regression.analysis.outcome]
    return (high - low) / 2, (high + low) / 2


def _against(design: Design, regression: DeclaredRegression, schema: Schema) -> Floats:
    """Return the matrix that maps log odds against the first level to those that are modelled.

    Returns:
        Shape (levels - 1, levels - 1); the identity for a number.
    """
    labels, modelled = levels_of(schema.column(regression.outcome.name)), design.outcome.levels
    whole = np.vstack([np.zeros(regression.residuals), np.eye(regression.residuals)])
    if regression.linear or not labels:
        return whole[1:]
    rows = whole[[labels.index(level) for level in modelled]]
    return np.asarray(rows[1:] - rows[0])


def _codes(frame: Frame, analysis: DeclaredAnalysis, schema: Schema) -> Codes:
    """Return the stored codes of a set's complete rows, shape (rows, columns)."""
    found = []
    for name in analysis.columns:
        column, values = schema.column(name), frame.data[name]
        if column.levels:
            labels = {label: code for code, label in enumerate(levels_of(column))}
            place = np.array([labels[each] for each in values.cat.categories], dtype=np.int64)
            found.append(place[values.cat.codes.to_numpy()])
            continue
        edges = np.array([float(edge) for edge in column.stored.edges[1:-1]])
        numbers = np.asarray(values, dtype=np.float64) + column.scale.zero
        found.append(np.searchsorted(edges, numbers, side="right"))
    return np.column_stack(found).astype(np.int64)


def _symmetric(matrix: Floats) -> Floats:
    return np.asarray((matrix + matrix.T) / 2)
