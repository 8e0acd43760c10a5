"""Regressions that a release can measure directly: one column on others, and their interactions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.inference.formulas.factors import Factor
from dp_core.inference.formulas.formula import (
    Formula,
    check_levels,
    is_column,
    read_formula,
    written_name,
)
from dp_core.inference.formulas.grammar import BARE, parse
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema

MOST_COEFFICIENTS = 60
"""Largest number of coefficients of a declared regression."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, order=True)
class DeclaredFactor:
    """A column of a declared regression, or a function of a number.

    Attributes:
        column: Name of the column.
        code: The column, or the function, as a formula writes it.
    """

    column: str
    code: str

    @property
    def is_event(self) -> bool:
        """Whether it is a comparison, such as `age > 40`, and not a number or a column."""
        return self.is_function and isinstance(self._computed(np.zeros(1))[0], np.bool_)

    @property
    def is_function(self) -> bool:
        """Whether it is a function, and not the column itself."""
        return self.code != written_name(self.column)

    def values(self, numbers: Floats) -> Floats:
        """Return the function's values, same shape.

        Args:
            numbers: Values of the column; dates count days since 1970-01-01.

        Raises:
            BadInput: if one has no finite value.
        """
        try:
            values = self._computed(numbers).astype(np.float64)
        except (TypeError, ValueError, ArithmeticError):
            raise BadInput(
                f"{self.code} cannot be computed: {self.column} has numbers (a date counts days"
                " since 1970), so compare and combine it with numbers only."
            ) from None
        wrong = ~np.isfinite(values)
        if wrong.any():
            raise BadInput(
                f"{self.code} has no value where {self.column} is {numbers[wrong][0]:.10g}, which"
                f" the schema allows; change the limits of {self.column}, or use a function that"
                " has values there, such as log(x + 1)."
            )
        return values

    def _computed(self, numbers: Floats) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            found = Factor(self.code).eval({"transforms": {}}, {self.column: numbers})
        return np.broadcast_to(found, numbers.shape)


@dataclass(frozen=True, slots=True)
class DeclaredAnalysis:
    """A regression of one column on others that a release measures, as a spec declares it.

    Attributes:
        formula: The formula as typed.
        outcome: The outcome; a number has a linear regression, two levels a logistic and more
            levels a multinomial one.
        terms: Factors of each term besides the intercept; those of one factor first. Reference
            levels do not matter: they change neither the model nor what is measured.
    """

    formula: str
    outcome: DeclaredFactor
    terms: tuple[tuple[DeclaredFactor, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, each once, the outcome's last."""
        used = (each.column for term in self.terms for each in term)
        return (*dict.fromkeys(used), self.outcome.column)

    @property
    def model(self) -> str:
        """The formula without spelling: equal for analyses that measure the same."""
        terms = sorted((len(term), ":".join(_codes(sorted(term)))) for term in self.terms)
        return f"{self.outcome.code} ~ {' + '.join(text for _, text in terms) or '1'}"


FORM = "a declared analysis is one column on others, such as 'log(income) ~ age + I(age**2) * sex'"


def declared_analysis(text: str, schema: Schema) -> DeclaredAnalysis:
    """Return the declared analysis of a formula.

    Args:
        text: The formula as typed.
        schema: Schema of the release.

    Raises:
        BadInput: if it is not a formula, or not of the form that can be measured.
    """
    formula = read_formula(text, schema.names)
    if () not in formula.terms:
        raise BadInput(f"The formula {formula.text!r:.120} has no intercept; {FORM}.")
    if formula.learns:
        raise BadInput(
            f"The formula {formula.text!r:.120} uses {formula.learns[0]}, which learns from the"
            " rows; write the numbers, as in I((age - 40) / 10)."
        )
    columns = [schema.column(name) for name in formula.columns]
    labels = {each.name: [level.label for level in each.levels] for each in columns if each.levels}
    check_levels(formula, labels)
    described = formula.description
    outcome = _factor(formula, described.lhs_termlist[0].factors[0], schema)
    if outcome.is_event:
        raise BadInput(
            f"The formula {formula.text!r:.120} has the event {outcome.code} as its outcome;"
            f" declare {written_name(outcome.column)} itself, or a column of two levels."
        )
    terms = tuple(
        tuple(_factor(formula, each, schema) for each in term.factors)
        for term in sorted(described.rhs_termlist, key=lambda term: len(term.factors))
        if term.factors
    )
    _check_spelling(formula, labels)
    _check_terms(formula, terms)
    count = 1 + sum(prod(_width(schema.column(each.column)) for each in term) for term in terms)
    count *= _width(schema.column(outcome.column))
    if count > MOST_COEFFICIENTS:
        raise BadInput(
            f"The formula {text!r:.120} has {count} coefficients; a declared analysis can have at"
            f" most {MOST_COEFFICIENTS}. Leave a term out."
        )
    return DeclaredAnalysis(formula.text, outcome, terms)


def same_analysis(formula: Formula, analysis: DeclaredAnalysis, schema: Schema) -> bool:
    """Return whether a formula is this declared analysis, whatever the order of its terms.

    Args:
        formula: The formula.
        analysis: The declared analysis.
        schema: Schema of the release.
    """
    try:
        return declared_analysis(formula.text, schema).model == analysis.model
    except BadInput:
        return False


def _factor(formula: Formula, factor: Any, schema: Schema) -> DeclaredFactor:
    """Return a factor of a formula.

    Raises:
        BadInput: if it is neither a column nor a function of one number.
    """
    said = f"The formula {formula.text!r:.120}"
    names = [name for name in formula.columns if name in factor.columns]
    if len(names) != 1:
        together = " and ".join(names) or "no column"
        raise BadInput(
            f"{said} has {factor.code}, a function of {together}; {FORM}. An interaction is written"
            " with : or *."
        )
    (name,) = names
    _check_column(formula, name, schema)
    column = schema.column(name)
    if column.levels:
        # How levels are compared changes neither the model nor what is measured.
        if not is_column(factor.code, name):
            raise BadInput(
                f"{said} computes with the levels of {name}; write {name} alone, or"
                f" C({written_name(name)}, Treatment('level')) for another reference."
            )
        return DeclaredFactor(name, written_name(name))
    if factor.is_category:
        raise BadInput(f"{said} treats the number {name} as levels; {FORM}.")
    if is_column(factor.code, name):
        return DeclaredFactor(name, written_name(name))
    found = DeclaredFactor(name, _without_np(factor.code))
    if found.is_function:
        found.values(np.array([float(end - column.scale.zero) for end in legal_range(column)]))
    return found


def _check_spelling(formula: Formula, categories: Collection[str]) -> None:
    """Raise BadInput for a category that terms write differently, as in `sex + age:C(sex, Sum)`."""
    factors = {factor for term in formula.description.rhs_termlist for factor in term.factors}
    for name in categories:
        written = sorted(each.code for each in factors if name in each.columns)
        if len(written) > 1:
            raise BadInput(
                f"The formula {formula.text!r:.120} writes {name} as {' and as '.join(written)};"
                " write it alike in every term."
            )


def _check_terms(formula: Formula, terms: Sequence[tuple[DeclaredFactor, ...]]) -> None:
    """Raise BadInput for a term that stands there twice, or an interaction without its parts."""
    there = {frozenset(term) for term in terms}
    if len(there) < len(terms):
        twice = next(term for at, term in enumerate(terms) if {*term} in map(set, terms[:at]))
        raise BadInput(
            f"The formula {formula.text!r:.120} has {':'.join(_codes(twice))} twice; remove one."
        )
    for term in terms:
        for part in combinations(term, len(term) - 1):
            if part and frozenset(part) not in there:
                raise BadInput(
                    f"The formula {formula.text!r:.120} has {':'.join(_codes(term))} without"
                    f" {':'.join(_codes(part))}; write {' * '.join(_codes(term))}."
                )


def _without_np(code: str) -> str:
    """Return a factor in which functions of `BARE` have no `np.`."""
    tree = parse(code, code)
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(called, ast.Attribute) and called.attr in BARE:
            node.func = ast.Name(called.attr)
    return ast.unparse(tree)


def _codes(factors: Iterable[DeclaredFactor]) -> list[str]:
    return [each.code for each in factors]


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
