"""The parts of a file's tables that a budget may be divided among, by their expected worth. Public.

A part is a column, or what a pair or a triple adds to its smaller tables. How much a part is worth
follows from one-way tables and from the dependence of pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.linear_questions import MOST_ENTRIES, Interaction
from dp_core.methods.dependence_forest import residual_dependence
from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.costs import Costs
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.budget.residual_balance import (
    Parts,
    beyond_larger_areas,
    kind_weights,
    larger_areas,
    with_sums_of_areas,
)
from dp_core.methods.selection.budget.wanted_shares import CertainParts
from dp_core.tables.cliques import cliques_of, number_of_cliques

_TRIPLE_PART = 0.05  # a triple's own deviation, relative to the mean of its pairs
_LEAST_PART = 0.1  # smallest part of a pair's deviation that is not ascribed to sampling
_MOST_TRIPLE_CELLS = 2**12
_MOST_TRIPLES = 700
_MOST_LISTED = 60_000  # triples that are compared with each other
_TOTAL_UNKNOWN = 0.1  # part of the records; with a larger error columns also tell the total


def measurable_parts(
    domain: Domain,
    columns: Sequence[NDArray[np.float64]],
    known: NDArray[np.float64],
    dependence: Mapping[Clique, float],
    costs: Costs,
    typical: float | None = None,
    wanted: CertainParts | None = None,
    *,
    order: int,
) -> tuple[Parts, tuple[Clique, ...], frozenset[Clique]]:
    """Return what may be measured: parts, their cliques, and which cliques are interactions.

    Args:
        domain: All columns.
        columns: Estimated one-way tables, in records.
        known: Noise variance of a cell of each one-way table, in records squared.
        dependence: Dependence (L1 distance from independence) of each pair that may be
            measured, in records.
        costs: Noise of a table and of an interaction.
        typical: Dependence of the other pairs, in records; None for that of a typical file.
        wanted: What the workload's measurements tell; None without a workload.
        order: Largest number of columns of a part: 1, 2 or 3. If everything is measured as
            complete tables, or in a file with nested columns, there are no parts of three.
    """
    rows = max(float(columns[0].sum()), 1.0)
    typical = usual(rows) if typical is None else typical
    chance = Chance.of(domain, columns, rows)
    # Sampling alone makes columns of the file look dependent; that part is subtracted.
    dependence = {
        pair: math.sqrt(max(value**2 - chance.pair(pair) ** 2, (_LEAST_PART * value) ** 2))
        for pair, value in dependence.items()
    }
    dependence = beyond_larger_areas(domain, dependence)
    beyond = residual_dependence(domain, dependence, rows)
    dependence = beyond.dependence
    served = {**beyond.reach, **kind_weights(domain, dependence)}
    others = number_of_cliques(domain, 2) - len(dependence)
    apart = max(typical - beyond.unseen / max(others, 1), 0.0)
    unlisted_pairs = others * math.hypot(apart, chance.mean_pair)
    triples, unlisted = _triples(
        domain, dependence, chance, typical, some=order > 2 and not costs.whole
    )
    cliques = (*((name,) for name in domain.columns), *dependence, *triples)
    # Interactions say nothing about the number of records.
    total = float((1 / (known * domain.sizes)).sum()) ** -0.5
    least = 2 if total > _TOTAL_UNKNOWN * rows else 1
    sizes = [domain.project(clique).sizes for clique in cliques]
    kinds = wanted.kinds if wanted else {}
    measured_apart = [
        clique
        for clique, its in zip(cliques, sizes, strict=True)
        if kinds.get(clique, len(its) >= least and costs.apart(its))
    ]
    # What the workload measures alone has its place already.
    alone = _alone(domain, sorted(measured_apart, key=lambda clique: clique not in kinds))
    margin = np.full((len(cliques), 2), np.inf)
    for at, clique in enumerate(cliques):
        if len(clique) == 2 and clique not in alone:
            margin[at] = costs.table * sizes[at][1], costs.table * sizes[at][0]
    noise = np.array(
        [costs.own(its, alone=clique in alone) for clique, its in zip(cliques, sizes, strict=True)]
    )
    parts = Parts(
        columns=columns,
        known=with_sums_of_areas(domain, wanted.columns if wanted else known),
        cliques=[domain.axes(clique) for clique in cliques],
        dependence=np.array([0.0] * len(domain) + [*dependence.values()] + [*triples.values()]),
        noise=noise,
        margin=margin,
        exponent=costs.exponent,
        floor=costs.floor,
        unlisted=(unlisted_pairs, unlisted),
        drawn=chance.mean_triple,
        told=wanted.precisions(cliques, domain) if wanted else None,
        reach=np.array([served.get(clique, 1.0) for clique in cliques]),
        also=larger_areas(domain, cliques, noise, margin),
    )
    return parts, cliques, alone


def _triples(
    domain: Domain,
    dependence: Mapping[Clique, float],
    chance: Chance,
    typical: float,
    *,
    some: bool,
) -> tuple[dict[Clique, float], float]:
    """Return the deviation of each triple to consider, and the sum over the other triples."""
    number = number_of_cliques(domain, 3)
    if not some or domain.nested is not None or number > _MOST_LISTED:
        others = number_of_cliques(domain, 2) - len(dependence)
        mean = (sum(dependence.values()) + others * typical) / max(len(dependence) + others, 1)
        return {}, number * math.hypot(_TRIPLE_PART * mean, chance.mean_triple)
    found: dict[Clique, float] = {}
    seen: dict[Clique, float] = {}
    for clique in cliques_of(domain, 3):
        pairs = [dependence.get(pair, typical) for pair in itertools.combinations(clique, 2)]
        deviation = _TRIPLE_PART * sum(pairs) / 3
        seen[clique] = math.hypot(deviation, chance.triple(clique))
        if domain.size(clique) <= _MOST_TRIPLE_CELLS:
            found[clique] = deviation
    best = sorted(found, key=lambda clique: domain.size(clique) / seen[clique])
    kept = {clique: found[clique] for clique in best[:_MOST_TRIPLES]}
    return kept, sum(seen.values()) - sum(seen[clique] for clique in kept)


def _alone(domain: Domain, cliques: Sequence[Clique]) -> frozenset[Clique]:
    """Return the cliques that may all be measured as interactions together, in order."""
    left = MOST_ENTRIES
    found = []
    for clique in cliques:
        left -= Interaction(clique, domain.project(clique).sizes).length
        if left < 0:
            break
        found.append(clique)
    return frozenset(found)
