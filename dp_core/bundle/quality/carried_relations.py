"""Which relations between columns a release carries, and which noise hides; from public values.

A measured pair carries a relation if the noise alone would rarely have made its interaction, the
part of the table that its columns do not determine. Noise gives the sum of its squared coordinates,
in units of their variance, a chi-squared distribution with (p - 1)(q - 1) degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from dp_core.bundle.quality.relations import measured_cliques
from dp_core.client.released import Released
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.reconstruction.estimates.raking import without_dependence
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.schema.definition import Schema
from dp_core.text.pages.number_texts import plural

BY_CHANCE = 0.001
"""Probability with which noise alone makes an independent pair stand out."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class CarriedRelations:
    """How many relations of a release stand out from its noise.

    Attributes:
        pairs: Number of pairs of columns of two levels or more, of which is known whether they
            stand out; 0 if no table of counts tells any.
        clear: Number of measured pairs whose dependence stands out from the noise.
        hidden: The other measured pairs.
        with_more: About how many of these would stand out at half the noise, less what noise alone
            adds to their squared coordinates and one standard deviation of it.
        missing: Pairs that no measured table contains.
        numbers: Pairs of columns with ordered values that are hidden or missing.
        larger: Number of measured tables of three columns and more.
    """

    pairs: int
    clear: int
    hidden: tuple[Clique, ...]
    with_more: int
    missing: tuple[Clique, ...]
    numbers: tuple[Clique, ...]
    larger: int

    @property
    def in_words(self) -> str:
        """What the sets carry, in sentences; empty if nothing is known of any pair."""
        if not self.pairs:
            return ""
        stand = "stands" if self.clear == 1 else "stand"
        said = [
            f"Of {plural(self.pairs, 'pair')} of columns, {self.clear:,} {stand} out from noise."
        ]
        if self.hidden:
            said.append(
                f"Noise hides the relation of {len(self.hidden):,} more that were measured."
            )
        if self.with_more:
            said.append(
                f"About {self.with_more:,} of these would stand out at half the noise: with twice"
                " the epsilon, with fewer columns, or with coarser bins."
            )
        if self.missing:
            were = "was" if len(self.missing) == 1 else "were"
            said.append(
                f"{len(self.missing):,} {were} not measured: the sets have what is implied."
            )
        if self.numbers:
            named = [" × ".join(pair) for pair in self.numbers[:_NAMED]]
            if len(self.numbers) > _NAMED:
                named.append(f"{len(self.numbers) - _NAMED:,} more")
            said.append(f"Do not rely on these correlations: {', '.join(named)}.")
        if not self.larger:
            said.append("A relation of three columns is there only as far as pairs imply it.")
        return " ".join(said)


def carried_relations(
    released: Sequence[Released], schema: Schema, pooled: Pooled
) -> CarriedRelations:
    """Return which relations a release carries.

    Args:
        released: Everything that was measured.
        schema: Published schema.
        pooled: All its measurements, from `relations.pool_release`.
    """
    others = () if schema.linked is None else schema.linked.others
    domain, nested = pooled.domain, pooled.domain.nested
    columns = [name for name in domain.columns if name not in others and domain.size((name,)) > 1]
    tables, _ = measured_cliques(released)
    pairs = [
        pair
        for pair in combinations(columns, 2)
        if nested is None or not {*pair} <= {*nested.columns}
    ]
    missing = unmeasured_groups(pairs, tables, nested) if any(tables.values()) else pairs
    clear, hidden, more = 0, list[Clique](), 0
    for pair in sorted({*pairs} - {*missing}, key=domain.axes):
        found = _beyond_noise(pair, schema, pooled)
        if found is None:
            continue
        size, free, least = found
        if size > least:
            clear += 1
        else:
            hidden.append(pair)
            more += free + 4 * max(size - free - math.sqrt(2 * free), 0.0) > least
    known = clear + len(hidden)
    ordered = {each.name for each in schema.columns if not each.levels or each.type.ordered}
    return CarriedRelations(
        pairs=known and known + len(missing),
        clear=clear,
        hidden=tuple(hidden),
        with_more=more,
        missing=tuple(missing),
        numbers=tuple(pair for pair in (*hidden, *missing) if {*pair} <= ordered),
        larger=len({clique for own in tables.values() for clique in own if len(clique) > 2}),
    )


def _beyond_noise(pair: Clique, schema: Schema, pooled: Pooled) -> tuple[float, int, float] | None:
    """Return a pair's sum of squared coordinates, its degrees of freedom, and its bound.

    It is None if the measurements do not tell the pair's interaction and both of its columns.
    """
    from scipy.special import chdtri

    told = pooled.observed(pair)
    ones = [each for name in pair if (each := pooled.counts((name,))) is not None]
    if told is None or len(ones) < 2:
        return None
    one, other = (each.clip(min=0.0) for each in ones)
    expected = without_dependence(pooled.domain, pair, one, other, zeros=schema.zeros)
    interaction, variance = told
    size = float(((interaction - beyond(expected)) ** 2).sum()) / max(variance, 1e-12)
    free = (one.size - 1) * (other.size - 1)
    return size, free, float(chdtri(free, BY_CHANCE))
