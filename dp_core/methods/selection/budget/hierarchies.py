"""Levels of areas and kinds of linked tables in the division of the budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain

_LEAST_PART = 0.5  # at least this part of a pair's deviation is not due to the larger areas


@dataclass(frozen=True, slots=True, eq=False)
class AlsoTold:
    """Parts about which the measurement of another part also tells something.

    Attributes:
        source: Positions of the measured parts, shape (number,).
        target: Positions of the parts about which they tell something, same shape.
        variance: Noise variance of a cell of the target, from measuring the source with the whole
            budget, in records squared, same shape.
    """

    source: NDArray[np.intp]
    target: NDArray[np.intp]
    variance: NDArray[np.float64]


def larger_areas(
    domain: Domain,
    cliques: Sequence[Clique],
    noise: NDArray[np.float64],
    margin: NDArray[np.float64],
) -> AlsoTold | None:
    """Return what tables of small areas tell about larger ones; None without nested columns.

    A sum over smaller areas has the noise of all of them.

    Args:
        domain: All columns.
        cliques: Columns of each part: columns first, then pairs, then others.
        noise: Noise variance of a cell of each part's own deviation, shape (parts,).
        margin: Noise variance of the cells of a pair's columns from measuring it, shape (parts, 2);
            infinite if it does not tell them.
    """
    nested = domain.nested
    if nested is None:
        return None
    place = {clique: at for at, clique in enumerate(cliques)}
    found: list[tuple[int, int, float]] = []
    for at, clique in enumerate(cliques):
        lower = next((name for name in clique if nested.depth(name)), None)
        if lower is None or len(clique) > 2:
            continue
        for upper in nested.columns[: nested.depth(lower)]:
            areas = domain.size((lower,)) / domain.size((upper,))
            named = {upper if name == lower else name for name in clique}
            above = place.get(tuple(name for name in domain.columns if name in named))
            if above is not None:
                found.append((at, above, float(noise[at]) * areas))
            told = float(margin[at][clique.index(lower)]) if len(clique) == 2 else math.inf
            if math.isfinite(told):
                found.append((at, place[(upper,)], told * areas))
    source, target, variance = zip(*found, strict=True)
    return AlsoTold(
        np.array(source, dtype=np.intp), np.array(target, dtype=np.intp), np.array(variance)
    )


def with_sums_of_areas(domain: Domain, known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise variance of each one-way table, pooled with the sums of smaller areas.

    Args:
        domain: All columns.
        known: Noise variance of a cell of each one-way table, in records squared.
    """
    if domain.nested is None:
        return known
    precision = 1 / known
    for lower in domain.nested.columns:
        for upper in domain.nested.columns[: domain.nested.depth(lower)]:
            areas = domain.size((lower,)) / domain.size((upper,))
            one, other = domain.axes((upper, lower))
            precision[one] += 1 / (known[other] * areas)
    return np.asarray(1 / precision)


def beyond_larger_areas(domain: Domain, dependence: Mapping[Clique, float]) -> dict[Clique, float]:
    """Return what each pair's dependence adds to that of the pair with the next larger areas.

    Args:
        domain: All columns; unless some are nested, nothing changes.
        dependence: Dependence of each pair, in records.
    """
    nested, found = domain.nested, dict(dependence)
    if nested is None:
        return found
    for pair, value in dependence.items():
        lower = next((name for name in pair if nested.above(name) is not None), None)
        if lower is None:
            continue
        named = {nested.above(name) if name == lower else name for name in pair}
        larger = dependence.get(tuple(name for name in domain.columns if name in named), 0.0)
        found[pair] = math.sqrt(max(value**2 - larger**2, (_LEAST_PART * value) ** 2))
    return found


def kind_weights(domain: Domain, pairs: Iterable[Clique]) -> Mapping[Clique, float]:
    """Return the weight of each pair's error, so that the four kinds weigh the same; mean 1.

    The kinds are household x household, household x person, person x person, and member x other
    member. Without these weights the most frequent kind would get most of the budget. The result is
    empty for a file of one table, where every pair weighs 1.

    Args:
        domain: All columns.
        pairs: The pairs that may be measured.
    """
    linked = domain.linked
    if linked is None:
        return {}

    def kind(pair: Clique) -> tuple[int, int]:
        of_person = sum(name in linked.person_columns for name in pair)
        return of_person, sum(name in linked.others for name in pair)

    kinds = {pair: kind(pair) for pair in pairs}
    numbers = Counter(kinds.values())
    each = len(kinds) / max(len(numbers), 1)
    return {pair: each / numbers[own] for pair, own in kinds.items()}
