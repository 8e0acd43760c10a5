"""Noisy low-order parities, the Fourier coefficients of the joint table, in one event.

Barak, Chaudhuri, Dwork, Kale, McSherry & Talwar, "Privacy, accuracy, and consistency too: a
holistic solution to contingency table release", PODS 2007. The parities of up to k binary columns
determine every table of up to k columns, and are released in one event with the same noise. The
exact sensitivity is used instead of the number of coefficients; see `Parities.l1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dp_core.client.noise_scale import sensitivities
from dp_core.client.released import ReleasedKind
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Neighbours, Relation
from dp_core.kernel.questions.counting_queries import Parities
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.mwem import check_binary, check_number, parities
from dp_core.methods.selection.selector import Asked, Selection, Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Fourier(Selector):
    """Measure every parity of up to `order` columns, in one event.

    Nothing is chosen, so the stage `select` needs no share.

    Attributes:
        order: Largest number of columns of a parity.
    """

    rounds: ClassVar[bool] = True
    adaptive: ClassVar[bool] = False
    gives: ClassVar[frozenset[ReleasedKind]] = frozenset({"answers"})

    order: int = 2

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError(f"order is a whole number from 1, not {self.order}.")

    def check(self, domain: Domain) -> None:
        check_binary(domain, "select: fourier", "`method: privsyn`, or `method: mwem` with cells")
        check_number(domain, self._orders, of_cells=False, option="select: fourier")

    def select_events(self, domain: Domain, relation: Relation) -> Sequence[Asked]:
        queries = self.queries(domain, relation.of_rows)
        l1, l2_squared = sensitivities(QueryCounts(queries), relation)
        return [Asked(Fraction(1), l1, l2_squared, float(queries.length))]

    def queries(self, domain: Domain, neighbours: Neighbours) -> Parities:
        """Return the parities to measure."""
        queries = parities(domain, self._orders)
        if neighbours == "add-remove" or not queries.cliques:
            # The number of records is measured with the parities unless it is public.
            queries = Parities(((), *queries.cliques))
        return queries

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return ((), *parities(domain, self._orders).cliques)

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        queries = self.queries(domain, curator.neighbours)
        answers = curator.answer(
            "measure",
            "parities",
            queries,
            inputs.select_cost + inputs.measure_cost,
            replicate=inputs.replicate,
            round=1,
        )
        return Selection(measured=(answers,))

    @property
    def _orders(self) -> tuple[int, ...]:
        return tuple(range(1, self.order + 1))


METHOD = Fourier
