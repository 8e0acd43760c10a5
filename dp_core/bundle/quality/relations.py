"""Relations that the sets of a release contain, known from public figures. Public side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from dp_core.client.released import Measurement, Released, SparseTable, Totals, interactions_of
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.questions.linear_questions import BinnedCounts, CellCounts, Interaction
from dp_core.methods.bin_density.bin_bias import bin_bias
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.replicates.posterior.posterior_tables import undrawn_pairs
from dp_core.methods.trends import is_trend
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Schema
from dp_core.tables.cliques import cliques_of


@dataclass(frozen=True, slots=True)
class Relations:
    """What is known about the pairs and the bins of a release.

    Attributes:
        pairs: Number of pairs of columns.
        carried: Number of pairs that a measured table contains.
        missing: The other pairs, as "a × b".
        undrawn: In mode `posterior`, those of the other pairs that the sets do not draw.
        wide_bins: Columns whose bins change slopes, as "age (-12 %)".
    """

    pairs: int
    carried: int
    missing: tuple[str, ...]
    undrawn: tuple[str, ...]
    wide_bins: tuple[str, ...]


def relations(released: Sequence[Released], schema: Schema, *, mode: Mode = "shared") -> Relations:
    """Return the relations of a release.

    Args:
        released: Everything that was measured.
        schema: Published schema; its numbers may be on a grid.
        mode: How the sets were made.
    """
    tables, _ = measured_cliques(released)
    groups = list(cliques_of(schema.domain, 2))
    missing = unmeasured_groups(groups, tables, schema.domain.nested)
    posterior = missing and mode == "posterior"
    limited = {*undrawn_pairs(schema.domain, released)} if posterior else set()
    return Relations(
        pairs=len(groups),
        carried=len(groups) - len(missing),
        missing=tuple(" × ".join(pair) for pair in missing),
        undrawn=tuple(" × ".join(pair) for pair in missing if pair in limited),
        wide_bins=wide_bins(released, schema),
    )


def measured_cliques(
    released: Sequence[Released],
) -> tuple[dict[int, list[Clique]], dict[int, list[Clique]]]:
    """Return the columns of the measured tables and of the sums, by the number of the set."""
    tables: dict[int, list[Clique]] = {}
    sums: dict[int, list[Clique]] = {}
    beyond: list[tuple[int, Clique]] = []
    for item in released:
        if isinstance(item, Measurement | SparseTable) and item.clique:
            tables.setdefault(item.replicate, []).append(item.clique)
        elif is_trend(item) or getattr(item, "stage", "") in ("domain", "analyses"):
            continue  # no table: it chose bins and levels, or belongs to one declared formula
        elif isinstance(item, Totals) and isinstance(item.of, Interaction):
            beyond.append((item.replicate, item.of.clique))
        elif isinstance(item, Totals) and isinstance(item.of, BinnedCounts):
            tables.setdefault(item.replicate, []).append(item.of.clique)
        elif isinstance(item, Totals):
            sums.setdefault(item.replicate, []).append(item.of.clique)
    # An interaction says nothing about its margins; with all of them it gives a whole table.
    for number, clique in sorted(beyond, key=lambda each: len(each[1])):
        held = [set(table) for table in tables.get(number, ())]
        margins = combinations(clique, len(clique) - 1) if len(clique) > 2 else ()
        if all(any(set(margin) <= table for table in held) for margin in margins):
            tables.setdefault(number, []).append(clique)
    return tables, sums


def as_table(item: Released, schema: Schema) -> Measurement | None:
    """Return a noisy table of counts as a `Measurement`; None for any other release."""
    if isinstance(item, Measurement):
        fits = item.domain == schema.domain.project(item.clique)
        return item if fits else None
    if isinstance(item, Totals) and isinstance(item.of, CellCounts):
        domain, missing = schema.domain.project(item.of.by), len(item.of.numbers)
        if domain.sizes != item.of.sizes:
            return None
        # Sum over which numbers are missing; the noise adds up.
        axes = tuple(range(len(domain), len(domain) + missing))
        return Measurement(
            domain,
            item.values.reshape(item.of.shape).sum(axis=axes),
            noise=item.noise,
            scale=item.scale * math.sqrt(2**missing),
            stage=item.stage,
            replicate=item.replicate,
            grant=item.grant,
        )
    return None


def pool_release(
    schema: Schema, released: Sequence[Released], *, rows: float | None = None
) -> Pooled:
    """Return the pooled measurements of a release.

    Tables of single sets (mode `split`) are independent measurements of the same file, so those of
    all sets are used. Counts of cells that a parametric method measured are used as tables.

    Args:
        schema: The schema as written, not on a grid.
        released: Everything that was measured.
        rows: Number of records if it is public, otherwise None.
    """
    tables = [found for item in released if (found := as_table(item, schema)) is not None]
    return pool(schema.domain, [*tables, *interactions_of(released)], rows=rows)


WIDE = 0.05
"""Relative change of a slope by bins from which the report names a column."""


def wide_bins(released: Sequence[Released], schema: Schema) -> tuple[str, ...]:
    """Return the columns whose bins alone change a slope on them or of them, as "age (-12 %)".

    The change is the larger of the two. Columns with a change below `WIDE` are left out.

    Args:
        released: Everything that was measured, of all sets.
        schema: Published schema.
    """
    found = []
    pooled = pool(schema.domain, released)
    for column in schema.columns:
        counts, variance = pooled.counts((column.name,)), pooled.variance((column.name,))
        if counts is None or variance is None or column.choice is not None:
            continue
        bias = bin_bias(column, counts, math.sqrt(variance))
        change = 0.0 if bias is None else min(bias.predictor, bias.outcome) - 1
        if change <= -WIDE:
            found.append(f"{column.name} ({100 * change:+.0f} %)")
    return tuple(found)
