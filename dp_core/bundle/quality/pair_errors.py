"""Expected errors of noisy tables and of sets in pairs of columns, from public values alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from dp_core.bundle.quality.relations import measured_cliques
from dp_core.client.released import Measurement, Released
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.marginal_error import Tally, tvd
from dp_core.metrics.noise_size import expected_tvd
from dp_core.plan.release_spec import Mode
from dp_core.tables.nested_columns import NestedColumns

State = Literal["measured", "implied", "unmeasured"]
"""How a pair is known: from a table or interaction of exactly these two columns, from a table of
more columns only, or not at all."""


@dataclass(frozen=True, slots=True)
class PairError:
    """The error of the table of one pair of columns.

    Attributes:
        state: How the pair is known.
        tvd: Its error, a TVD of at most 1; None if it is not known.
    """

    state: State
    tvd: float | None


def pair_states(
    released: Sequence[Released], columns: Sequence[str], nested: NestedColumns | None = None
) -> dict[tuple[str, str], State]:
    """Return how each pair of columns is known, in the order of `itertools.combinations`.

    Args:
        released: Everything that was measured.
        columns: Names in the order of the domain.
        nested: Columns that lie within one another: tables of smaller areas imply those of larger
            ones. None by default.
    """
    tables, _ = measured_cliques(released)
    own = {frozenset(clique) for found in tables.values() for clique in found if len(clique) == 2}
    pairs = list(combinations(columns, 2))
    missing = {*unmeasured_groups(pairs, tables, nested)}

    def state(pair: tuple[str, str]) -> State:
        if pair in missing:
            return "unmeasured"
        return "measured" if frozenset(pair) in own else "implied"

    return {pair: state(pair) for pair in pairs}


def pair_noise(
    pooled: Pooled,
    released: Iterable[Released],
    pairs: Mapping[tuple[str, str], State],
    *,
    records: float,
) -> dict[tuple[str, str], PairError]:
    """Return the TVD that noise alone is expected to cause in the table of each of these pairs.

    All measurements are pooled, as in `dp-release query`. For a cell with noise of standard
    deviation s the expected absolute noise is s sqrt(2/pi), which is exact for normal noise. If one
    table of the two columns alone has less by the law of its own noise, that is used. The error is
    not known where the tables do not determine every cell.

    Args:
        pooled: All measurements, from `relations.pool_release`.
        released: The same, one by one.
        pairs: Pairs with their states, from `pair_states`.
        records: Public or estimated number of records.
    """
    single = _single(released, pooled.domain, records)

    def error_of(pair: Clique) -> float | None:
        variance = pooled.variance(pair)
        if variance is None:
            return None
        absolute = math.sqrt(2 / math.pi * variance)
        found = pooled.domain.size(pair) * absolute / (2 * max(records, 1.0))
        return min(found, single.get(frozenset(pair), 1.0), 1.0)

    return {
        pair: PairError(state, None if state == "unmeasured" else error_of(pair))
        for pair, state in pairs.items()
    }


def _single(
    released: Iterable[Released], domain: Domain, records: float
) -> dict[frozenset[str], float]:
    """Return the expected TVD of each measured table of two columns, from its own noise alone."""
    found: dict[frozenset[str], float] = {}
    for item in released:
        if not isinstance(item, Measurement) or len(item.clique) != 2:
            continue
        if item.domain != domain.project(item.clique):
            continue
        pair, cells = frozenset(item.clique), item.values.size
        tvd = expected_tvd(item.noise, item.scale, cells=cells, records=records)
        found[pair] = min(tvd, found.get(pair, 1.0))
    return found


_FACTORS: Mapping[Mode, float] = {
    "posterior": 1.0,
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

    A set of mode `posterior` is a draw of what the file may have been, so it differs from the file
    as much as from another set. In mode `split` each set has its own noise: the distance of two
    sets is sqrt(2) times that of one from the file. Sets of mode `shared` have common noise, which
    their differences do not show. An error that all sets have in common is not included.

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
