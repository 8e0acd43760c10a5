"""What a question is answered from: the pooled tables of a release, and its public facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dp_core.analysis.query.declared.declared_sums import DeclaredSums, declared_sums
from dp_core.analysis.query.drawn_shares import DrawnSets, drawn_sets
from dp_core.bundle.quality.distant_totals import explained_by_noise
from dp_core.bundle.quality.relations import as_table, pool_release
from dp_core.bundle.reading import Bundle
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.definition import Schema
from dp_core.schema.privacy import Relation
from dp_core.tables.public_totals import PublicTotals, known_counts
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.released import Paid, Released, ReleasedKind, kind_of


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The pooled tables of a release, and what is public about it.

    Attributes:
        schema: The published schema as written, not on a grid.
        pooled: All noisy tables and interactions, those of all sets together.
        relation: Neighbouring relation.
        currency: Currency of the release with its total; None if unknown.
        unused: Kinds of measurements that questions are not answered from.
        has_sets: Whether the release has synthetic sets; True by default.
        totals: Public totals, which are taken as exact counts of the file.
        distant: Public totals that are not used, because noise does not explain their distance from
            the noisy tables.
        drawn: The sets, if they consist of private draws; otherwise None.
        declared: Sums that were measured for declared means and totals; empty without any.
    """

    schema: Schema
    pooled: Pooled
    relation: Relation
    currency: Currency | None = None
    unused: tuple[ReleasedKind, ...] = ()
    has_sets: bool = True
    totals: tuple[PublicTotals, ...] = ()
    distant: tuple[PublicTotals, ...] = ()
    drawn: DrawnSets | None = None
    declared: tuple[DeclaredSums, ...] = ()


def sources_of(bundle: Bundle) -> Sources:
    """Return what questions about a bundle are answered from.

    The tables of all sets are used. The number of records is exact if it is public.
    """
    claims = bundle.claims
    schema = claims.schema.coarse or claims.schema
    found = pooled_sources(
        schema,
        bundle.measured,
        rows=claims.records,
        relation=claims.relation,
        currency=claims.currency,
        has_sets=claims.sets > 0,
    )
    return replace(found, drawn=drawn_sets(bundle, schema), declared=declared_sums(bundle))


def pooled_sources(
    schema: Schema,
    released: Sequence[Released],
    *,
    rows: float | None,
    relation: Relation,
    currency: Currency | None = None,
    has_sets: bool = True,
) -> Sources:
    """Return what questions are answered from, given measurements.

    Args:
        schema: The schema as written, not on a grid.
        released: Everything that was measured.
        rows: Number of records if it is public, otherwise None.
        relation: Neighbouring relation.
        currency: Currency of the release with its total; None if unknown.
        has_sets: Whether the release has synthetic sets; True by default.
    """
    other = [
        kind_of(item)
        for item in released
        if kind_of(item) in ("answers", "sparse", "totals")
        and as_table(item, schema) is None
        and isinstance(item, Paid)
        and item.stage not in ("domain", "analyses")  # chose bins; answers declared analyses
    ]
    pooled = pool_release(schema, released, rows=rows)
    unused = tuple(dict.fromkeys(other))
    near = tuple(each for each in schema.totals if explained_by_noise(each, pooled))
    if near:
        pooled = replace(
            pooled, rows=float(near[0].records), known=known_counts(near, schema.domain)
        )
    distant = tuple(each for each in schema.totals if each not in near)
    return Sources(schema, pooled, relation, currency, unused, has_sets, near, distant)
