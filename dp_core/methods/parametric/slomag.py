"""SLOMAG: numbers from a normal distribution, then levels by logistic regressions in sequence."""

from __future__ import annotations

from dataclasses import dataclass

from dp_core.errors import BadInput
from dp_core.methods.parametric.regressions.chained_regressions import ChainedRegressions
from dp_core.schema.variables import Variable, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Slomag(ChainedRegressions):
    """Draw numbers from a multivariate normal distribution, and levels given the numbers.

    Bowen & Liu (2020), section 4.3.2: sequential logistic regressions with marginal Gaussian
    distributions. The normal distribution is taken in its sequential form, each number linear in
    those before it with a normal residual: the same distribution and the same statistics (sums,
    squares and products about public middles), but always with a covariance matrix, whatever the
    noise is. Columns of levels follow, each by a logistic or multinomial regression on all before.

    In the paper the noise of Chaudhuri & Monteleoni (2009), which covers the exact minimiser of a
    penalised loss, is added to a draw from the posterior. A posterior draw moves by more than the
    minimiser does, so that this has no guarantee, and it is left out. So is noise on the sample
    covariance by half of its sensitivity under replace-one. Here the regression is private first,
    by sums with a proof (`ClassGradient`, or `ClassMinimiser`, that is output perturbation), and
    coefficients are drawn around it from a public covariance.

    Options are those of `ChainedRegressions`; in `order` numbers come first.
    """

    def by_default(self, variables: Variables) -> tuple[Variable, ...]:
        return (*variables.numeric, *variables.categorical)

    def arranged(self, variables: Variables) -> tuple[Variable, ...]:
        order = ChainedRegressions.arranged(self, variables)
        numeric = [variable.numeric for variable in order]
        if numeric != sorted(numeric, reverse=True):
            raise BadInput(
                "slomag draws numbers before levels; put them first in `order`, or take"
                " sequential_regression."
            )
        return order


METHOD = Slomag
