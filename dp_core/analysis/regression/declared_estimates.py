"""Coefficients of a declared analysis from the sums that a release measured for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_core.analysis.regression.design import Design, Family, Floats, make_design
from dp_core.analysis.regression.frames import Frame, levels_of, public_frame
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Totals
from dp_core.errors import BadInput
from dp_core.inference.combine import Combined, combine
from dp_core.inference.formulas.declared_analysis import (
    MOST_COEFFICIENTS,
    DeclaredAnalysis,
    declared_analysis,
    same_analysis,
)
from dp_core.inference.formulas.formula import Formula
from dp_core.kernel.questions.regressions.shortened import Scores, SecondMoments
from dp_core.methods.declared.declared_answers import declared_fits
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression
from dp_core.schema.definition import Column, Schema
from dp_core.schema.grid import with_values


def declared_estimates(
    bundle: Bundle,
    formula: Formula,
    design: Design,
    frames: Sequence[Frame],
    *,
    complete_df: float | None,
) -> Combined | None:
    """Return the coefficients from the sums that the release measured for a formula.

    Args:
        bundle: The release.
        formula: The formula.
        design: Its design on the sets, which gives the order of the coefficients.
        frames: Complete rows of each set.
        complete_df: Residual degrees of freedom of the regression on the file; None if infinite.

    Returns:
        The coefficients, one estimate with each set, combined by Rubin's rule. None if the formula
        was not declared, or if this regression differs from the declared one (weights, another
        family, a level that is in no set).
    """
    analysis = _declared_as(bundle, formula)
    if analysis is None or design.weights:
        return None
    schema = with_values(bundle.claims.schema, analysis.columns)
    regression = DeclaredRegression.of(analysis, schema)
    sums = _sums_of(bundle, regression)
    transform = _transform(formula, design, regression, schema)
    if sums is None or transform is None or not _same_family(design, regression):
        return None
    rows = [frame.rows / (frame.rows + frame.dropped) for frame in frames]
    fits = declared_fits(
        regression,
        *sums,
        [_codes(frame, analysis, schema) for frame in frames],
        records=bundle.records * float(np.mean(rows)),
    )
    half, middle = _unit(regression, schema)
    every = np.kron(np.eye(regression.residuals), transform) * half
    sign = -1.0 if _is_reversed(design, regression, schema) else 1.0
    estimates = np.array([sign * every @ fit.coefficients.ravel() for fit in fits])
    estimates[:, 0] += middle
    covariances = np.array([_symmetric(every @ fit.covariance @ every.T) for fit in fits])
    return combine(estimates, covariances, "posterior", complete_df=complete_df)


def estimates_without_sets(
    bundle: Bundle, formula: Formula, frames: Sequence[Frame], family: Family | None
) -> tuple[Design, Combined] | None:
    """Return the coefficients of a declared regression that has no solution on some set.

    Every level that the schema states has a coefficient, whether or not a set has the level.

    Args:
        bundle: The release.
        formula: The formula.
        frames: Complete rows of each set.
        family: Requested family; None if it follows from the outcome.

    Returns:
        A design that gives the names and the order of the coefficients, and the coefficients as
        from `declared_estimates`. None if the formula was not declared, or if this regression
        differs from the declared one.
    """
    if _declared_as(bundle, formula) is None:
        return None
    rows = float(np.mean([frame.rows / (frame.rows + frame.dropped) for frame in frames]))
    schema = bundle.claims.schema
    public = public_frame(formula.columns, schema, 2 * MOST_COEFFICIENTS)
    try:
        design = make_design(formula, [public], schema, family)
    except BadInput:  # the family does not fit the outcome
        return None
    degrees = None
    if design.outcome.family == "linear":
        degrees = max(rows * bundle.records - len(design.names), 1.0)
    found = declared_estimates(bundle, formula, design, frames, complete_df=degrees)
    return None if found is None else (design, found)


def _declared_as(bundle: Bundle, formula: Formula) -> DeclaredAnalysis | None:
    """Return the declared analysis that a formula is; None if it is none."""
    schema = bundle.claims.schema
    declared = (declared_analysis(each, schema) for each in bundle.declared)
    return next((each for each in declared if same_analysis(formula, each, schema)), None)


def relative_width(one: Combined, other: Combined, level: float) -> float:
    """Return the mean ratio of the widths of two results' intervals, as a geometric mean."""
    widths = []
    for found in (one, other):
        low, high = found.interval(level)
        widths.append(float(np.mean(np.log(np.maximum(high - low, 1e-300)))))
    return float(np.exp(widths[0] - widths[1]))


def _sums_of(bundle: Bundle, regression: DeclaredRegression) -> tuple[Totals, Totals] | None:
    moments = scores = None
    # In the order in which they were paid, whatever the order of the file: the last scores answer.
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
            scores = item
    return None if moments is None or scores is None else (moments, scores)


def _same_family(design: Design, regression: DeclaredRegression) -> bool:
    family = design.outcome.family
    if regression.linear:
        return family == "linear"
    return family == ("logistic" if regression.residuals == 1 else "multinomial")


def _transform(
    formula: Formula, design: Design, regression: DeclaredRegression, schema: Schema
) -> Floats | None:
    """Return the matrix that maps coefficients of the features to those of the design's columns.

    Returns:
        Shape (columns of the design, features); None if the design lacks a level.
    """
    features = {"": [0]}
    place = 1
    for each in regression.features.all:
        features[each.name] = list(range(place, place + each.width))
        place += each.width
    if len(design.names) != place or len(design.outcome.levels or ("",)) != (
        1 if regression.linear else regression.residuals + 1
    ):
        return None
    found, taken = np.zeros((place, place)), dict.fromkeys(features, 0)
    for row, term in enumerate(design.terms):
        name = (*formula.terms[term], "")[0]
        if taken[name] >= len(features[name]):
            return None
        own = features[name][taken[name]]
        taken[name] += 1
        if name and not schema.column(name).levels:
            half, middle = _scale(regression, schema.column(name))
            found[row, own] = 1 / half
            found[design.terms.index(formula.terms.index(())), own] -= middle / half
        else:
            found[row, own] += 1.0
    return found


def _scale(regression: DeclaredRegression, column: Column) -> tuple[float, float]:
    """Return the unit of a number's feature, and the number's value at feature 0.

    Dates count days since 1970-01-01, as in the frames.
    """
    low, high = regression.low[column.name], regression.high[column.name]
    return (high - low) / 2, (high + low) / 2 - column.scale.zero


def _unit(regression: DeclaredRegression, schema: Schema) -> tuple[float, float]:
    """Return the unit of the outcome's feature, and the value of the outcome at 0."""
    if not regression.linear:
        return 1.0, 0.0
    return _scale(regression, schema.column(regression.outcome.name))


def _is_reversed(design: Design, regression: DeclaredRegression, schema: Schema) -> bool:
    """Return whether the design models the first level of two instead of the second."""
    column = schema.column(regression.outcome.name)
    labels = levels_of(column)
    return not regression.linear and bool(labels) and design.outcome.levels[0] != labels[0]


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
