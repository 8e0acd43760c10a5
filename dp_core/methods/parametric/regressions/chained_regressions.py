"""Base of the methods that draw one column after another by private regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_core.errors import BadInput
from dp_core.methods.parametric.regressions.column_by_column import (
    fit_chain,
    measure_chain,
)
from dp_core.methods.parametric.regressions.regression_questions import (
    Minimiser,
    Options,
    asked_in_all,
    expected,
    number_of_features,
)
from dp_core.methods.parametric.synthesizer import Ask, ParametricModel, Synthesizer
from dp_core.schema.privacy import Neighbours
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator

MOST_FEATURES = 500
"""Predictors of the last regression at most."""

MOST_ENTRIES = 20_000
"""Noisy numbers that one release of regressions asks for at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRegressions(Synthesizer):
    """Regress each column on those before it, and draw records in the same order.

    Attributes:
        order: Columns in the order in which they are drawn; the schema's if not stated. What is
            later is explained by what is earlier, so put what others depend on first.
        weights: Relative parts of the budget, one for each column in that order. If not stated they
            grow as the cube root of number of coefficients times squared sensitivity.
        minimiser: Of columns of levels: `gradient`, or `output`: output perturbation of the
            minimiser, which needs a penalty that biases it. For small files: rounding surely
            stays within the proof up to about 20 million records with 10 features, 5 million with
            50, 150,000 with 500. Beyond that it may go on in decimals of 60 digits, cell by cell,
            perhaps for days, and whether it does may hang on the file.
        steps: Gradients for each regression, each with an equal part of its budget. One is the best
            where the model of the predictors holds; a second corrects it where it does not.
        prior: Standard deviation beforehand of logistic coefficients, for predictors of levels, and
            of numbers when divided by `reach` of their standard deviations.
        reach: Predictors that are numbers are cut at so many noisy standard deviations from their
            noisy mean.
        ridge: Of `output`: weight of the penalty for each record of the file.
    """

    order: tuple[str, ...] = ()
    weights: tuple[Fraction, ...] = ()
    minimiser: Minimiser = "gradient"
    steps: int = 1
    prior: float = 5.0
    reach: float = 3.0
    ridge: Fraction = Fraction(1, 20)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadInput(f"steps is a number from 1, not {self.steps}.")
        for name in ("prior", "reach", "ridge"):
            if not 0 < (value := getattr(self, name)) < 1e6:
                raise BadInput(f"{name} is a positive number, not {float(value):g}.")
        if any(weight <= 0 for weight in self.weights):
            raise BadInput("weights are positive numbers.")

    @property
    def options(self) -> Options:
        """What the regressions need of these."""
        return Options(
            minimiser=self.minimiser,
            steps=self.steps,
            prior=self.prior,
            reach=self.reach,
            ridge=self.ridge,
            weights=self.weights,
        )

    def arranged(self, variables: Variables) -> tuple[Variable, ...]:
        """Return the columns in the order in which they are drawn."""
        if not self.order:
            return self.by_default(variables)
        if sorted(self.order) != sorted(variables.domain.columns):
            raise BadInput(
                "order names every column of the schema once, and nothing else; here it has"
                f" {len(self.order)} names for {len(variables)} columns."
            )
        return tuple(variables.named(name) for name in self.order)

    def by_default(self, variables: Variables) -> tuple[Variable, ...]:
        """Return the columns in the order that is taken if none is stated."""
        return variables.all

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        order = self.arranged(variables)
        if self.weights and len(self.weights) != len(order):
            raise BadInput(f"weights has {len(self.weights)} numbers for {len(order)} columns.")
        entries = sum(asked_in_all(order, self.options))
        width = number_of_features(order, self.options)
        if width > MOST_FEATURES:
            raise BadInput(
                f"The regressions would have {width:,} predictors, more than {MOST_FEATURES}: put"
                " columns of many levels last in `order`, or take fewer columns, or privsyn."
            )
        if entries > MOST_ENTRIES:
            raise BadInput(
                f"The regressions would have {entries:,} coefficients, more than {MOST_ENTRIES:,}:"
                " take fewer columns, or columns of fewer levels, or privsyn."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        return expected(self.arranged(variables), self.options)

    def measure(
        self,
        curator: Curator,
        variables: Variables,
        *,
        cost: Fraction,
        rows: int | None,  # noqa: ARG002
        zeros: StructuralZeros,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        replicate: int = 0,
    ) -> tuple[Released, ...]:
        return measure_chain(curator, self.arranged(variables), self.options, cost, replicate)

    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> ParametricModel:
        order = self.arranged(variables)
        return fit_chain(variables, order, self.options, released, rows, zeros)
