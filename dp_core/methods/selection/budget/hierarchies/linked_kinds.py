"""Weights of the four kinds of pairs of linked tables in the division of the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dp_core.tables.domain import Clique, Domain


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
