"""Regressions that a release can measure directly: one column on others, without functions."""

from __future__ import annotations

from dataclasses import dataclass

from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import Formula, read_formula
from dp_core.schema.definition import Column, Schema

MOST_COEFFICIENTS = 60
"""Largest number of coefficients of a declared regression."""


@dataclass(frozen=True, slots=True)
class DeclaredAnalysis:
    """A regression of one column on others, without interactions, as a spec declares it.

    Attributes:
        formula: The formula as typed.
        outcome: Column of the outcome; a number has a linear regression, two levels a logistic and
            more levels a multinomial one.
        predictors: Columns of the predictors, in the order of the formula; besides them there is an
            intercept.
    """

    formula: str
    outcome: str
    predictors: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the outcome last."""
        return (*self.predictors, self.outcome)


FORM = "a declared analysis is one column on others as they are, such as 'income ~ age + sex'"


def declared_analysis(text: str, schema: Schema) -> DeclaredAnalysis:
    """Return the declared analysis of a formula.

    Args:
        text: The formula as typed.
        schema: Schema of the release.

    Raises:
        BadInput: if it is not a formula, or not of the form that can be measured.
    """
    formula = read_formula(text, schema.names)
    _check_form(formula, schema)
    outcome = formula.outcome_columns[0]
    predictors = tuple(term[0] for term in formula.terms if term)
    for name in (outcome, *predictors):
        _check_column(formula, name, schema)
    found = DeclaredAnalysis(formula.text, outcome, predictors)
    count = 1 + sum(_width(schema.column(name)) for name in predictors)
    count *= _width(schema.column(outcome))
    if count > MOST_COEFFICIENTS:
        raise BadInput(
            f"The formula {text!r:.120} has {count} coefficients; a declared analysis can have at"
            f" most {MOST_COEFFICIENTS}. Leave a column out."
        )
    return found


def same_analysis(formula: Formula, analysis: DeclaredAnalysis, schema: Schema) -> bool:
    """Return whether a formula is this declared analysis, with its predictors in any order.

    Args:
        formula: The formula.
        analysis: The declared analysis.
        schema: Schema of the release.
    """
    terms = [term for term in formula.terms if term]
    return (
        () in formula.terms
        and formula.outcome_columns == (analysis.outcome,)
        and all(len(term) == 1 for term in terms)
        and {*formula.columns} <= {*formula.by_level}
        and not _recoded_columns(formula, schema)
        and sorted(term[0] for term in terms) == sorted(analysis.predictors)
    )


def _check_form(formula: Formula, schema: Schema) -> None:
    if () not in formula.terms:
        raise BadInput(f"The formula {formula.text!r:.120} has no intercept; {FORM}.")
    for term in formula.terms:
        if len(term) > 1:
            raise BadInput(
                f"The formula {formula.text!r:.120} has the interaction {':'.join(term)}; {FORM}."
            )
    changed = [name for name in formula.columns if name not in formula.by_level]
    if len(formula.outcome_columns) > 1 or changed:
        name = changed[0] if changed else formula.outcome
        raise BadInput(f"The formula {formula.text!r:.120} computes with {name}; {FORM}.")
    named = [name for term in formula.terms for name in term]
    if len(set(named)) != len(named):
        raise BadInput(f"The formula {formula.text!r:.120} has a column in two terms; {FORM}.")
    for name in _recoded_columns(formula, schema):
        if not schema.column(name).levels:
            raise BadInput(
                f"The formula {formula.text!r:.120} treats the number {name} as levels; {FORM}."
            )
        raise BadInput(
            f"The formula {formula.text!r:.120} states how {name} is coded; write {name} alone."
            " Its first level is then the reference."
        )


def _recoded_columns(formula: Formula, schema: Schema) -> list[str]:
    """Return the columns inside C(...), except columns of levels in a plain C(column)."""
    description = formula.description
    found = []
    for term in (*description.lhs_termlist, *description.rhs_termlist):
        for factor in term.factors:
            if not factor.is_category:
                continue
            (name,) = (each for each in formula.columns if each in factor.columns)
            code = factor.code.replace(" ", "").replace('"', "'")
            plain = code in (f"C({name})", f"C(Q('{name}'))")
            if not plain or not schema.column(name).levels:
                found.append(name)
    return found


def _check_column(formula: Formula, name: str, schema: Schema) -> None:
    if name not in schema.domain.columns:
        source = next(each.source for each in schema.dependents if each.column.name == name)
        raise BadInput(
            f"The formula {formula.text!r:.120} uses {name!r}, which is derived from {source!r} and"
            f" not measured; use {source!r}."
        )
    column = schema.column(name)
    if column.levels and column.choice is not None:
        raise BadInput(
            f"The formula {formula.text!r:.120} uses {name!r}, whose levels are chosen privately;"
            " state its levels in the schema, or leave the column out."
        )
    labels = [level.label for level in column.levels]
    if len(set(labels)) != len(labels):
        raise BadInput(
            f"The formula {formula.text!r:.120} uses {name!r}, in which two levels have the same"
            " label; give each level its own label in the schema."
        )
    if column.bins < 2:
        what = "level" if column.levels else "bin"
        raise BadInput(
            f"The formula {formula.text!r:.120} uses {name!r}, which has only one {what}; leave the"
            f" column out, or give it more {what}s in the schema."
        )


def _width(column: Column) -> int:
    return column.bins - 1 if column.levels else 1
