"""A regression that a spec declares, so that the release measures it directly."""

from __future__ import annotations

from dataclasses import dataclass

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
