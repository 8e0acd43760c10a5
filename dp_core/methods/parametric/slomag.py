"""SLOMAG: normal numeric columns, then categorical columns by sequential logistic regressions."""

from __future__ import annotations

from dataclasses import dataclass

from dp_core.errors import BadInput
from dp_core.methods.parametric.regressions.column_by_column import ChainedRegressions
from dp_core.schema.variables import Variable, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Slomag(ChainedRegressions):
    """Draw numeric columns from a normal distribution, then the categorical columns.

    Bowen & Liu (2020), section 4.3.2: sequential logistic regressions with marginal Gaussian
    distributions. The normal distribution is used in its sequential form: each numeric column is
    linear in those before it, with a normal residual. That is the same distribution with the same
    statistics (sums, squares and products of deviations from public midpoints), but its covariance
    matrix is valid whatever the noise is. Categorical columns follow, each by a logistic or
    multinomial regression on all columns before it.

    The paper adds the noise of Chaudhuri & Monteleoni (2009) to a draw from the posterior, whose
    sensitivity is larger, and to the covariance noise for half of its sensitivity under
    replace-one. Here the regression itself is released privately, and coefficients are drawn around
    it with a public covariance.

    The options are those of `ChainedRegressions`; in `order` numeric columns come first.
    """

    def by_default(self, variables: Variables) -> tuple[Variable, ...]:
        return (*variables.numeric, *variables.categorical)

    def arrange(self, variables: Variables) -> tuple[Variable, ...]:
        order = ChainedRegressions.arrange(self, variables)
        numeric = [variable.numeric for variable in order]
        if numeric != sorted(numeric, reverse=True):
            raise BadInput(
                "slomag draws numbers before levels; put them first in `order`, or take"
                " sequential_regression."
            )
        return order


METHOD = Slomag
