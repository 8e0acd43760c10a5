"""A regression on all sets, from the formula to the combined coefficients.

If the terms of a formula separate the outcomes, it finds the formula to fit instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.analysis.regression.design import Design, Family, make_design
from dp_core.analysis.regression.fitting import coefficient_names, fit_sets
from dp_core.analysis.regression.frames import Frame, levels_of
from dp_core.analysis.regression.weighted import Fit
from dp_core.errors import BadInput, Separated
from dp_core.inference.combine import Combined, Rule, combine
from dp_core.inference.formulas.formula import Formula, check_levels, read_formula
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
) -> Analysis:
    """Return a regression on every set, combined.

    Args:
        formula: Formula with columns of the schema.
        frames: Complete rows of each set.
        schema: Schema of the release.
        rule: Rule by which the sets are combined.
        family: Family of the regression; by default it follows from the outcome.
        size_factor: Factor for W if the sets differ in size from the file; 1 by default.

    Raises:
        BadInput: if the regression has no solution on one of the sets; `Separated`, with a formula
            that has one, if its terms separate the outcomes.
    """
    categories = {column.name: levels_of(column) for column in schema.released if column.levels}
    check_levels(formula, categories)
    design = make_design(formula, frames, schema, family)
    try:
        fits = fit_sets(design)
    except Separated as error:
        raise _with_remedy(error, formula, design, frames, schema, family) from None
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


MOST_TRIALS = 12
"""Most formulas that are tried."""
MOST_INDICATORS = 8
"""Most levels that a formula writes out."""


def _with_remedy(
    error: Separated,
    formula: Formula,
    design: Design,
    frames: Sequence[Frame],
    schema: Schema,
    family: Family | None,
) -> Separated:
    """Return the error of separation, with a formula that fits every set if one is found.

    The first formula leaves out the term that separates most, and the next ones each other term. If
    a level of a category separates, a formula that merges it with the reference level is tried
    before all others.

    Args:
        error: The error of the fit.
        formula: The formula that was fitted.
        design: Its design.
        frames: Complete rows of each set.
        schema: Schema of the release.
        family: Requested family; None if it follows from the outcome.
    """
    trials = 0
    for text, change in _candidates(error, formula, design, schema):
        trials += 1
        if trials > MOST_TRIALS:
            break
        try:
            read = read_formula(text, schema.names)
            fit_sets(make_design(read, frames, schema, family))
        except BadInput:
            continue
        return _extended(error, f"The formula {text!r}, {change}, can be fitted.", text)
    names = _term_names(formula)
    if len(names) == 1:
        why = f"{names[0]} is the only term"
    elif trials > MOST_TRIALS:
        why = f"none of the {MOST_TRIALS} that were tried can be fitted"
    else:
        why = "leaving out one term does not help"
    return _extended(error, f"No formula is suggested, because {why}.", "")


def _extended(error: Separated, sentence: str, text: str) -> Separated:
    extended = Separated(f"{error.message} {sentence}")
    extended.column, extended.fittable = error.column, text
    return extended


def _candidates(
    error: Separated, formula: Formula, design: Design, schema: Schema
) -> Iterator[tuple[str, str]]:
    """Yield formulas to try, each with words for how it differs."""
    names = _term_names(formula)
    culprit = ""
    if error.column is not None:
        culprit = formula.description.rhs_termlist[design.terms[error.column]].name()
    merged = None
    if error.column is not None and culprit in names:
        merged = _merged(design.names[error.column], culprit, schema)
    if merged is not None:
        text, level, reference = merged
        terms = [text if name == culprit else name for name in names]
        yield _text(formula, terms), f"which merges {level!r} of {culprit} with {reference!r}"
    for name in sorted(names, key=lambda one: one != culprit):
        # An interaction with the term would still separate.
        left = [one for one in names if name not in one.split(":")]
        if left and set(left) != set(names):
            out = ", ".join(one for one in names if one not in left)
            yield _text(formula, left), f"which leaves out {out}"


def _merged(column: str, term: str, schema: Schema) -> tuple[str, str, str] | None:
    """Return indicators of the other levels, the level that separates, and the reference level."""
    if term not in schema.names or not schema.column(term).levels or not term.isidentifier():
        return None
    levels = levels_of(schema.column(term))
    level = column.removeprefix(f"{term}[T.").removesuffix("]")
    others = [one for one in levels[1:] if one != level]
    if level not in levels[1:] or not 1 <= len(others) <= MOST_INDICATORS:
        return None
    return " + ".join(f"I({term} == {one!r})" for one in others), level, levels[0]


def _term_names(formula: Formula) -> list[str]:
    return [term.name() for term in formula.description.rhs_termlist if term.factors]


def _text(formula: Formula, terms: Sequence[str]) -> str:
    start = "" if () in formula.terms else "0 + "
    return f"{formula.outcome} ~ {start}{' + '.join(terms)}"
