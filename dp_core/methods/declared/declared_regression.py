"""A declared regression, in the codes in which the confidential file is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number, Predictor
from dp_core.schema.definition import Column, Schema
from dp_core.schema.grid import stored_variable

Floats = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class DeclaredRegression:
    """A declared analysis with its columns as public features.

    A number is one feature, from -1 at the lowest position of its grid to 1 at the highest. Each
    level from the second on has an indicator.

    Attributes:
        analysis: The declared analysis.
        features: Features of the predictors; the first is 1, for the intercept.
        outcome: The outcome.
        low: For each number, its value at feature -1, in the unit of the column (dates: day
            ordinals).
        high: For each number, its value at feature 1.
    """

    analysis: DeclaredAnalysis
    features: Features
    outcome: Number | Levels
    low: Mapping[str, float]
    high: Mapping[str, float]

    @classmethod
    def of(cls, analysis: DeclaredAnalysis, schema: Schema) -> DeclaredRegression:
        """Return the regression for a schema that stores its numbers on grids."""
        ends = {
            name: _ends(schema.column(name))
            for name in analysis.columns
            if not schema.column(name).levels
        }
        return cls(
            analysis,
            Features(tuple(_predictor(schema.column(name)) for name in analysis.predictors)),
            _outcome(schema.column(analysis.outcome)),
            {name: low for name, (low, _) in ends.items()},
            {name: high for name, (_, high) in ends.items()},
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
    return tuple(
        each.positions if isinstance(each, Number) else each.size
        for each in regression.together.all
    )


def _predictor(column: Column) -> Predictor:
    if column.levels:
        return Levels(name=column.name, size=column.bins)
    positions = column.stored.bins
    return Number(name=column.name, positions=positions, centre=0, reach=max(1, positions - 1))


def _outcome(column: Column) -> Number | Levels:
    """Return the outcome; an integer that can only be 0 or 1 counts as two levels."""
    if column.type.whole and (column.minimum, column.maximum) == (0, 1):
        return Levels(name=column.name, size=2)
    return _predictor(column)


def _ends(column: Column) -> tuple[float, float]:
    variable = stored_variable(column)
    low = variable.low + variable.step / 2
    return low, low + variable.step * max(1, variable.positions - 1)
