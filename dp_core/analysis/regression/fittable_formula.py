"""Finds the formula to fit instead of one whose terms separate the outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dp_core.analysis.regression.design import Design, Family, make_design
from dp_core.analysis.regression.fitting import fit_sets
from dp_core.analysis.regression.frames import Frame, levels_of
from dp_core.errors import BadInput, Separated
from dp_core.inference.formulas.formula import Formula, read_formula
from dp_core.schema.definition import Schema

MOST_TRIALS = 12
"""Most formulas that are tried."""
MOST_INDICATORS = 8
"""Most levels that a formula writes out."""


def with_remedy(
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
