"""A declared regression, in the codes in which the confidential file is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis, DeclaredFactor
from dp_core.kernel.questions.regressions.features import (
    MOST_KNOTS,
    ONE,
    Factor,
    Features,
    Levels,
    Number,
    Product,
)
from dp_core.schema.definition import Column, Schema
from dp_core.schema.grid import stored_variable

Floats = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]

MOST_TELLING = 33
"""Most values of a number at which one of its functions is compared with the others."""

_NEARLY = 16.0  # of two functions, the largest difference at which they count as the same
_APART = 0.5  # most that straight lines differ from a function, in units of 1/`ONE`


@dataclass(frozen=True, slots=True)
class DeclaredRegression:
    """A declared analysis with its columns as public features.

    A number, or a function of a number, is one feature, from -1 at its least value on the grid to 1
    at its largest. Each level from the second on has an indicator. An interaction has the products.

    Attributes:
        analysis: The declared analysis.
        features: Features of the predictors; the first is 1, for the intercept.
        outcome: The outcome.
        ends: For each factor that is a number, its values at the features -1 and 1, in its own unit
            (dates: days since 1970-01-01).
    """

    analysis: DeclaredAnalysis
    features: Features
    outcome: Number | Levels
    ends: Mapping[DeclaredFactor, tuple[float, float]]

    @classmethod
    def of(cls, analysis: DeclaredAnalysis, schema: Schema) -> DeclaredRegression:
        """Return the regression for a schema that stores its numbers on grids.

        Raises:
            BadInput: if a function has no value somewhere, or cannot be approximated.
        """
        found = {
            factor: _scaled(factor, schema.column(factor.column))
            for factor in {*(each for term in analysis.terms for each in term), analysis.outcome}
        }
        factors = {factor: scaled for factor, (scaled, _) in found.items()}
        _check_different(analysis, factors, schema)
        products = [[factors[factor] for factor in term] for term in analysis.terms]
        return cls(
            analysis,
            Features(
                tuple(each[0] if len(each) == 1 else Product(tuple(each)) for each in products)
            ),
            _two_levels(analysis.outcome, schema) or factors[analysis.outcome],
            {factor: ends for factor, (_, ends) in found.items() if ends is not None},
        )

    @property
    def linear(self) -> bool:
        """Whether the outcome is a number."""
        return isinstance(self.outcome, Number)

    @property
    def together(self) -> Features:
        """Features of the predictors and of the outcome."""
        return Features((*self.features.all, self.outcome))

    @property
    def residuals(self) -> int:
        """Number of residuals of a record: 1, or the number of levels of the outcome less 1."""
        return self.outcome.width

    @property
    def coefficients(self) -> int:
        """Number of coefficients."""
        return self.residuals * self.features.width

    def complete(self, codes: Codes) -> NDArray[np.bool_]:
        """Return which records have a value in every column.

        Args:
            codes: Stored codes, shape (records, columns), in the order of `analysis.columns`.
        """
        return np.asarray((codes < np.array(sizes_of(self))).all(axis=1))

    def filled(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Return records in which missing values are uniform draws from the values of the column.

        Args:
            codes: Stored codes, as in `complete`.
            rng: Generator for post-processing.
        """
        sizes = np.array(sizes_of(self))
        drawn = rng.integers(0, sizes, size=codes.shape)
        return np.where(codes < sizes, codes, drawn).astype(codes.dtype)

    def least_spread(self, codes: Codes) -> float:
        """Return the least standard deviation of a function of a number in records; 1 without."""
        by_name = dict(zip(self.features.names, codes.T, strict=False))
        own = [
            each
            for each in self.features.factors
            if isinstance(each, Number) and len(each.knots) > 2
        ]
        return min((float(each.scaled(by_name[each.name]).std()) / ONE for each in own), default=1)

    def x(self, codes: Codes) -> Floats:
        """Return the features of records without missing values, shape (records, features)."""
        return np.asarray(self.features.matrix(codes[:, :-1]) / ONE)

    def y(self, codes: Codes) -> Floats:
        """Return the outcome of records: the feature of a number, or codes of levels."""
        if isinstance(self.outcome, Number):
            return np.asarray(self.outcome.scaled(codes[:, -1]) / ONE)
        return np.asarray(codes[:, -1], dtype=np.float64)


def sizes_of(regression: DeclaredRegression) -> tuple[int, ...]:
    """Return the number of codes of each column that are values; larger codes mean missing."""
    return tuple(each.codes for each in regression.together.claimed_codes())


def own_factor(column: Column) -> Factor:
    """Return the feature of a column that a formula names as it is."""
    if column.levels:
        return Levels(name=column.name, size=column.bins)
    positions = column.stored.bins
    return Number.line(column.name, positions, centre=0, reach=max(1, positions - 1))


def own_places(features: Features, schema: Schema) -> dict[str, range]:
    """Return the places of the features of the columns that are predictors as they are, by name.

    Functions of numbers, and interactions, are left out.
    """
    found, place = {}, 1
    for each in features.all:
        if isinstance(each, Levels) or (
            isinstance(each, Number) and each == own_factor(schema.column(each.name))
        ):
            found[each.name] = range(place, place + each.width)
        place += each.width
    return found


def own_ends(column: Column) -> tuple[float, float]:
    """Return a number's values at the features -1 and 1; dates count days since 1970-01-01."""
    values = _values(column)
    return float(values[0]), float(values[-1])


def telling_numbers(regression: DeclaredRegression, schema: Schema) -> dict[str, Floats]:
    """Return values of each predictor that is a number which tell its functions from one another.

    They are its two ends, and of each function at most `MOST_TELLING` places where it turns.
    """
    places: dict[str, set[int]] = {}
    for factor in regression.features.factors:
        if isinstance(factor, Number):
            turns = np.array([place // 2 for place, _ in factor.knots])
            some = np.linspace(0, len(turns) - 1, min(len(turns), MOST_TELLING)).astype(np.intp)
            places.setdefault(factor.name, set()).update(turns[some].tolist())
    return {name: _values(schema.column(name))[sorted(of)] for name, of in places.items()}


def knots_of(values: Floats) -> list[int]:
    """Return the positions between which straight lines come within half a unit of a function.

    Args:
        values: The function at each position, in units of 1/`ONE`.

    Returns:
        The first, the last, and those where a line would be furthest away (Douglas & Peucker 1973).
    """
    found, pending = {0, len(values) - 1}, [(0, len(values) - 1)]
    while pending and len(found) <= MOST_KNOTS:
        first, last = pending.pop()
        line = np.linspace(values[first], values[last], last - first + 1)
        away = np.abs(values[first : last + 1] - line)
        if away.max() > _APART:
            # The first of nearly equal ones, so that rounding on another machine changes no knot.
            found.add(middle := first + int(np.argmax(away > away.max() - _APART / 1000)))
            pending += [(first, middle), (middle, last)]
    return sorted(found)


def _scaled(factor: DeclaredFactor, column: Column) -> tuple[Factor, tuple[float, float] | None]:
    """Return a factor's feature, and its values at the features -1 and 1 (None for levels)."""
    if column.levels:
        return own_factor(column), None
    if not factor.is_function:
        return own_factor(column), own_ends(column)
    values = factor.values(_values(column))
    low, high = float(values.min()), float(values.max())
    if not low < high:
        raise BadInput(f"{factor.code} is the same for all values of {column.name}; leave it out.")
    units = (2 * (values - low) / (high - low) - 1) * ONE
    places = knots_of(units)
    if len(places) > MOST_KNOTS:
        raise BadInput(
            f"{factor.code} rises and falls too often to be measured: straight lines between"
            f" {MOST_KNOTS:,} values do not describe it."
        )
    knots = tuple((2 * place, int(np.rint(units[place]))) for place in places)
    return Number(name=column.name, positions=len(values), knots=knots), (low, high)


def _check_different(
    analysis: DeclaredAnalysis, factors: Mapping[DeclaredFactor, Factor], schema: Schema
) -> None:
    """Raise BadInput if functions of a number are, nearly, combinations of one another."""
    by_column: dict[str, list[DeclaredFactor]] = {}
    for factor in dict.fromkeys(each for term in analysis.terms for each in term):
        by_column.setdefault(factor.column, []).append(factor)
    for name, own in by_column.items():
        if len(own) < 2:
            continue
        codes = np.arange(schema.column(name).stored.bins)
        x = np.hstack(
            [np.full((len(codes), 1), ONE), *(factors[each].matrix(codes) for each in own)]
        )
        for place, factor in enumerate(own, start=1):
            rest = np.linalg.lstsq(x[:, :place], x[:, place], rcond=None)[0]
            if np.abs(x[:, place] - x[:, :place] @ rest).max() < _NEARLY:
                raise BadInput(
                    f"{factor.code} is nearly a combination of"
                    f" {' and '.join(each.code for each in own[: place - 1])}; leave it out."
                )


def _two_levels(outcome: DeclaredFactor, schema: Schema) -> Levels | None:
    """Return the feature of an integer that can only be 0 or 1, which counts as two levels."""
    column = schema.column(outcome.column)
    if outcome.is_function or not column.type.whole:
        return None
    ends = (column.minimum, column.maximum)
    return Levels(name=column.name, size=2) if ends == (0, 1) else None


def _values(column: Column) -> Floats:
    """Return the value of each grid position; dates count days since 1970-01-01."""
    variable = stored_variable(column)
    places = np.arange(variable.positions) + 0.5
    return np.asarray(variable.low - column.scale.zero + variable.step * places)
