"""Expected error of the sets in each pair of columns, from the differences between the sets.

A set of mode `posterior` or `noise-aware` is a draw of what the file may have been, given the noisy
answers. So a set differs from the file as much as from another set, and the mean distance between
two sets estimates that of a set from the file. In mode `split` each set has its own noise: the
distance of two sets is sqrt(2) times that of one from the file. Sets of mode `shared` have common
noise, which their differences do not show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from dp_core.metrics.marginal_error import Tally, tvd
from dp_core.plan.release_spec import Mode
from dp_core.tables.domain import Clique

_FACTORS: Mapping[Mode, float] = {
    "posterior": 1.0,
    "noise-aware": 1.0,
    "split": math.sqrt(0.5),
}
"""Expected distance of a set from the file, as a multiple of that between two sets."""


def set_distances(
    tallies: Sequence[Tally],
    counted: Sequence[Clique],
    pairs: Iterable[tuple[str, str]],
    mode: Mode,
) -> dict[tuple[str, str], float] | None:
    """Return the expected TVD between a set and the file in each pair that was counted.

    It does not include an error that all sets have in common.

    Args:
        tallies: One per synthetic set.
        counted: The marginals that they hold.
        pairs: Pairs of columns in the order of the domain.
        mode: How the sets were made.

    Returns:
        Distances by pair; None if the differences between the sets do not show the noise.
    """
    if len(tallies) < 2 or mode not in _FACTORS:
        return None
    found = {}
    for pair in pairs:
        holders = [clique for clique in counted if {*pair} <= {*clique}]
        if not holders:
            continue
        clique = min(holders, key=lambda each: tallies[0].domain.size(each))
        others = tuple(axis for axis, name in enumerate(clique) if name not in pair)
        tables = [tally.count(clique).sum(axis=others) for tally in tallies]
        distances = [tvd(one, other) for one, other in combinations(tables, 2)]
        found[pair] = _FACTORS[mode] * sum(distances) / len(distances)
    return found
