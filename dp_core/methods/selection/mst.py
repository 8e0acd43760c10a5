"""MST: the pairs of a spanning tree of strongly dependent columns, chosen privately.

McKenna, Miklau and Sheldon, Winning the NIST Contest, Journal of Privacy and Confidentiality 2021,
Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dp_core.client.released import tables_of
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Neighbours, Stage
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.workload import Allocation, shares
from dp_core.methods.selection.candidates.model_errors import (
    RoundModel,
    among,
    table_distances,
    tables_in_advance,
)
from dp_core.methods.selection.candidates.pairs import MOST_CELLS, pairs_up_to
from dp_core.methods.selection.selector import Selection, Selector

_WITHOUT_COLUMNS = (
    "`select: mst` compares pairs with what single columns imply; give the stage `one_way` a share."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mst(Selector):
    """Grow a spanning tree of pairs; each step privately chooses a pair far from independence.

    The method needs one-way tables (`one_way.share`), because it compares each pair with the
    product of its columns' tables. A column whose pairs all have too many cells is measured alone.

    The score of a pair is the paper's, its distance from independence, less the error that remains
    after measuring it: noise and sampling deviations, which are most of the distance of a pair with
    many cells.
    """

    chooses: ClassVar[bool] = True

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return tables_in_advance(domain, pairs_up_to(domain, MOST_CELLS))

    def largest_choice(self, domain: Domain) -> Fraction:
        """One over the number of edges: all measurements follow the last choice."""
        return Fraction(1, max(_edges(domain, pairs_up_to(domain, MOST_CELLS)), 1))

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:  # noqa: ARG002
        """Raise BadInput if one-way tables are not measured."""
        if "one_way" not in measured:
            raise BadInput(_WITHOUT_COLUMNS)

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        columns = tables_of(inputs.known)
        if not columns:
            raise BadInput(_WITHOUT_COLUMNS)
        pairs = pairs_up_to(domain, MOST_CELLS)
        model = RoundModel(domain, inputs.zeros, rows=curator.public_rows(), max_cells=MOST_CELLS)
        model.refit(columns)
        rounds = _edges(domain, pairs)
        noise = 0.0
        if rounds:
            noise = curator.count_noise(inputs.measure_cost / rounds).mean_absolute
        scores = table_distances(
            pairs, [model.answer(pair) for pair in pairs], noise=noise, drawn_in=True
        )
        part = {name: {name} for name in domain.columns}
        edges: list[Clique] = []
        for number in range(1, rounds + 1):
            apart = [place for place, (a, b) in enumerate(pairs) if part[a] is not part[b]]
            statistic = among(scores, apart)
            place = curator.choose(
                "select",
                f"edge {number}",
                statistic,
                inputs.select_cost / rounds,
                replicate=inputs.replicate,
            )
            one, two = statistic.cliques[place]
            edges.append((one, two))
            joined = part[one] | part[two]
            part.update(dict.fromkeys(joined, joined))
        alone = [(name,) for name in domain.columns if len(part[name]) == 1]
        cliques = sorted(edges, key=domain.axes) + alone
        # The rule with the least total error in the release's currency.
        allocation: Allocation = "epsilon" if curator.currency.kind == "pure" else "rho"
        return Selection(
            cliques=tuple(cliques),
            weights=shares([domain.size(clique) for clique in cliques], allocation),
        )


def _edges(domain: Domain, pairs: Sequence[Clique]) -> int:
    """Return the number of edges of a spanning forest of the pairs."""
    import networkx

    graph = networkx.Graph(pairs)
    graph.add_nodes_from(domain.columns)
    return len(domain) - int(networkx.number_connected_components(graph))


METHOD = Mst
