"""Beta-binomial synthesis of binary columns (McClure & Reiter 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Neighbours
from dp_core.methods.parametric.drawn_records import TableDraws
from dp_core.schema.variables import Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaBinomial(TableDraws):
    """Draw each binary column independently, with the posterior mean of its proportion.

    McClure & Reiter (2012), section 3.2.1 of Bowen & Liu (2020): k values, each 1 with probability
    (n_1 + a)/(n + 2a), a = 1/(e^(epsilon/k) - 1), exactly epsilon. The paper has one column; here
    each of p columns gets epsilon/p, and columns are independent in the sets. The prior is not an
    option: a smaller one is not private, and a larger one spends less than the budget. It is about
    k/epsilon, so with k = n a proportion moves towards 1/2 by 2/(2 + epsilon) of its distance,
    whatever n is. k is the number of records of a set: with fewer, sets would repeat values.
    """

    kind: ClassVar[Literal["independent", "urn"]] = "independent"

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        for variable in variables:
            if variable.numeric or variable.size != 2:
                codes = "1 code" if variable.size == 1 else f"{variable.size} codes"
                what = "is numeric" if variable.numeric else f"has {codes}"
                raise BadInput(
                    f"beta_binomial draws columns of two levels, and {variable.name!r} {what};"
                    " leave it out, or use multinomial_dirichlet or smoothed_histogram."
                )

    def tables(self, variables: Variables) -> tuple[Clique, ...]:
        """Return each column by itself."""
        return tuple((name,) for name in variables.domain.columns)


METHOD = BetaBinomial
