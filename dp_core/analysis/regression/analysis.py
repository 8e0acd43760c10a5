"""A regression on all sets, from the formula to the combined coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.analysis.regression.design import Design, Family, make_design
from dp_core.analysis.regression.fitting import Fit, coefficient_names, fit_sets
from dp_core.analysis.regression.frames import Frame, levels_of
from dp_core.inference.combine import Combined, Rule, combine
from dp_core.inference.formulas.formula import Formula, check_levels
from dp_core.schema.definition import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """A regression on every set.

    Attributes:
        formula: Formula that was fitted.
        design: Outcome and design of every set.
        fits: One for each set.
        combined: Combined coefficients; None for a single set, whose fit is `fits[0]`.
    """

    formula: Formula
    design: Design
    fits: tuple[Fit, ...]
    combined: Combined | None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return coefficient_names(self.design)


def analyse(
    formula: Formula,
    frames: Sequence[Frame],
    schema: Schema,
    rule: Rule,
    *,
    family: Family | None = None,
    size_factor: float = 1.0,
    references: Mapping[str, str] | None = None,
    by_bin: bool = False,
) -> Analysis:
    """Return a regression on every set, combined.

    Args:
        formula: Formula with columns of the schema.
        frames: Complete rows of each set.
        schema: Schema of the release.
        rule: Rule by which the sets are combined.
        family: Family of the regression; by default it follows from the outcome.
        size_factor: Factor for W if the sets differ in size from the file; 1 by default.
        references: Reference levels of categories; None (the default) for the most frequent ones.
        by_bin: Whether numbers enter by their means in a bin (`bin_means`); False by default.

    Raises:
        BadInput: if the regression has no solution on one of the sets.
    """
    categories = {column.name: levels_of(column) for column in schema.released if column.levels}
    check_levels(formula, categories)
    design = make_design(formula, frames, schema, family, references, by_bin=by_bin)
    fits = fit_sets(design)
    return Analysis(formula, design, fits, combine_fits(fits, rule, size_factor=size_factor))


def combine_fits(fits: Sequence[Fit], rule: Rule, *, size_factor: float = 1.0) -> Combined | None:
    """Return the coefficients of all sets, combined; None for a single set.

    Args:
        fits: One for each set.
        rule: Rule by which the sets are combined.
        size_factor: Factor for W if the sets differ in size from the file; 1 by default.
    """
    if len(fits) < 2:
        return None
    degrees = _complete_df(fits, size_factor)
    if fits[0].clustered:
        # The number of clusters does not depend on the size of a set: a smaller set overstates W.
        size_factor = max(size_factor, 1.0)
    by_design = fits[0].simple is not None
    return combine(
        np.array([fit.coefficients for fit in fits]),
        size_factor * np.array([fit.covariance for fit in fits]),
        rule,
        complete_df=None if by_design else degrees,
        design_df=degrees if by_design else None,
    )


def _complete_df(fits: Sequence[Fit], size_factor: float) -> float | None:
    """Return the residual degrees of freedom of the same regression on the file; None if infinite.

    A set may have more or fewer rows than the file, so its rows are converted to the file's number,
    as W is. The set with the fewest complete rows counts. If the file has hardly more records than
    coefficients, one degree is left. Those of a survey's clusters do not depend on the rows.
    """
    if fits[0].fixed_df:
        return min(fit.residual_df for fit in fits if fit.residual_df is not None)
    found = [
        (fit.residual_df + fit.coefficients.size) / size_factor - fit.coefficients.size
        for fit in fits
        if fit.residual_df is not None
    ]
    return max(min(found), 1.0) if found else None
