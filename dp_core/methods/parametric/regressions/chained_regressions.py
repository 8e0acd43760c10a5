"""Base class of the methods that draw columns in sequence by private regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dp_core.errors import BadInput
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.parametric.regressions.column_by_column import (
    fit_chain,
    measure_chain,
)
from dp_core.methods.parametric.regressions.regression_questions import (
    Minimiser,
    asked_in_all,
    number_of_features,
    planned_questions,
)
from dp_core.methods.parametric.synthesizer import Ask, ParametricModel, Synthesizer
from dp_core.schema.privacy import Neighbours
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released

MOST_FEATURES = 500
"""Largest number of predictors of the last regression."""

MOST_ENTRIES = 20_000
"""Largest number of noisy values in one release of all regressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRegressions(Synthesizer):
    """Regress each column on those before it, and draw records in the same order.

    Attributes:
        order: Columns in the order in which they are drawn; the schema's order by default. Each
            column is regressed on those before it, so put columns that others depend on first.
        minimiser: How the regressions are fitted. `gradient`: to a noisy gradient, with model
            records as predictors. `functional`: the functional mechanism, which minimises a noisy
            polynomial of degree 2 in the coefficients (`functional_mechanism`); it asks what
            `gradient` asks. Its polynomial touches a logistic loss at the intercepts that give the
            noisy proportions of the column; with `functional-zero` at coefficients 0, as published,
            which moves proportions towards equal ones. `output`, for categorical columns: output
            perturbation of the minimiser of a penalised loss, which the penalty biases. `output` is
            for small files: rounding errors are certain to stay within the proof up to about
            20 million records with 10 features, 5 million with 50 and 150,000 with 500. For larger
            files the computation may continue in decimals of 60 digits, which can take days, and
            whether it does can depend on the file.
    """

    order: tuple[str, ...] = ()
    minimiser: Minimiser = "gradient"

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
        """Return the columns in the order that is used if the spec states none."""
        return variables.all

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        order = self.arranged(variables)
        entries = sum(asked_in_all(order, self.minimiser))
        width = number_of_features(order)
        if width > MOST_FEATURES:
            raise BadInput(
                f"The regressions would have {width:,} predictors, more than {MOST_FEATURES}: put"
                " columns of many levels last in `order`, or use fewer columns, or privsyn."
            )
        if entries > MOST_ENTRIES:
            raise BadInput(
                f"The regressions would have {entries:,} coefficients, more than {MOST_ENTRIES:,}:"
                " use fewer columns, columns of fewer levels, or privsyn."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        return planned_questions(self.arranged(variables), self.minimiser)

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        return measure_chain(inputs, self.arranged(variables), self.minimiser)

    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> ParametricModel:
        order = self.arranged(variables)
        return fit_chain(variables, order, self.minimiser, released, rows, zeros)
