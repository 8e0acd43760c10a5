"""What a question is answered from: the pooled tables of a release, and its public facts.

If the sets consist of private draws, their tables do not count some columns. But the mechanism of
the draws is public, so the posterior of a level's share is known (Charest 2011;
`dp_core.inference.private_draws`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.declared_sums import DeclaredSums, declared_sums
from dp_core.analysis.query.set_counts import SetCounts, set_counts_of
from dp_core.bundle.quality.relations import as_table, pool_release
from dp_core.bundle.quality.table_fit import explained_by_noise
from dp_core.bundle.reading import Bundle, PrivateDraws
from dp_core.client.released import Measurement, Paid, Released, ReleasedKind, kind_of
from dp_core.inference.private_draws import GroupDraws, GroupPosterior, group_posterior
from dp_core.inference.questions.question import Question
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.privacy import Relation
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.structure.public_totals import PublicTotals, known_counts

NOTE = (
    "The estimate and its interval come from the posterior given the private draws and their"
    " mechanism, with a uniform prior for each share (Charest 2011). It is a credible interval."
)
_STEPS = 41
"""Number of candidate values for the number of records, if it is noisy."""
_REACH = 8.0
"""Standard deviations of the noise that the candidates span on either side."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnSets:
    """The sets of a release that consist of private draws.

    Attributes:
        draws: Mechanism of every draw; for each column one for all sets, or one for each set.
        sets: Numbers of the sets.
        counts: Returns the number of rows of a set by codes of a column.
        rows, chances: Possible numbers of records of the file with their probabilities.
    """

    draws: tuple[PrivateDraws, ...]
    sets: range
    counts: Callable[[int, str], NDArray[np.int64]]
    rows: NDArray[np.float64]
    chances: NDArray[np.float64]

    def posterior(self, column: str, codes: Sequence[int]) -> GroupPosterior | None:
        """Return the posterior of the number of records with some codes; None if not known.

        It is not known if the column was not drawn, was drawn in bins, or if its sets hold some
        records more often than others.
        """
        own = [draw for draw in self.draws if column in draw.columns]
        if not own or any(column in draw.binned for draw in own):
            return None
        # One draw that all sets share is in every set; the first has all of it.
        sets = self.sets if len(own) == len(self.sets) else self.sets[:1]
        if len(own) != len(sets):
            return None
        found = []
        for draw, number in zip(own, sets, strict=True):
            by_code = self.counts(number, column)
            size, inside = int(by_code.sum()), int(by_code[list(codes)].sum())
            copies = 1
            if size > draw.records:
                copies, left = divmod(size, draw.records)
                if left:
                    return None
            virtual = float(draw.virtual) * draw.cells / len(by_code)
            found.append(
                GroupDraws(
                    kind=draw.kind,
                    # Of fewer rows than draws, the set is a part of them, as good as any other.
                    records=size // copies,
                    inside=inside // copies,
                    virtual_inside=virtual * len(codes),
                    virtual_outside=virtual * (len(by_code) - len(codes)),
                )
            )
        return group_posterior(found, self.rows, self.chances)


def drawn_sets(bundle: Bundle, schema: Schema) -> DrawnSets | None:
    """Return the sets of a release if they consist of private draws as drawn, otherwise None."""
    if not bundle.draws or schema.zeros.rules or schema.rules:
        return None  # impossible records were replaced, so the sets are not the draws

    def counts(number: int, column: str) -> NDArray[np.int64]:
        drawn = bundle.read_set(number, [column]).column(column).combine_chunks()
        own = schema.column(column)
        return np.bincount(codes_of(own, drawn), minlength=own.size)

    rows, chances = _rows(bundle)
    return DrawnSets(bundle.draws, range(1, bundle.claims.sets + 1), counts, rows, chances)


def _rows(bundle: Bundle) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return possible numbers of records, with their probabilities given the noisy ones."""
    if bundle.claims.records is not None:
        return np.array([max(1.0, float(bundle.claims.records))]), np.ones(1)
    noisy = [each for each in bundle.measured if isinstance(each, Measurement) and not each.clique]
    if not noisy:
        return np.array([max(1.0, round(bundle.records))]), np.ones(1)
    weights = np.array([1 / each.variance for each in noisy])
    values = np.array([float(each.values) for each in noisy])
    centre, spread = float(weights @ values / weights.sum()), float(weights.sum()) ** -0.5
    tried = np.rint(centre + spread * np.linspace(-_REACH, _REACH, _STEPS))
    rows = np.unique(np.maximum(tried, 1.0))
    logs = np.zeros(len(rows))
    for each, value in zip(noisy, values, strict=True):
        away = np.abs(rows - value) / each.scale
        logs -= away if each.noise == "laplace" else away**2 / 2
    chances = np.exp(logs - logs.max())
    return rows, chances / chances.sum()


def asked_groups(question: Question, schema: Schema) -> tuple[str, list[tuple[int, ...]]] | None:
    """Return the column and the codes of each group; None if the question is not about one column.

    Such questions are `share of x`, `share of x = level`, `share by x` and the same for counts.
    """
    simple = question.measure in ("share", "count") and not (
        question.where or question.between or question.waves
    )
    asked = (*question.groups, *(condition.column for condition in question.of))
    if not simple or len(asked) != 1:
        return None
    if asked[0] not in schema.domain.columns:
        return None  # computed from another column
    if question.of:
        return asked[0], [question.of[0].codes]
    return asked[0], [(code,) for code in range(schema.column(asked[0]).size)]


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
        set_counts: Counts of the sets, if they follow the posterior of the tables; otherwise None.
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
    set_counts: SetCounts | None = None


def sources_of(bundle: Bundle) -> Sources:
    """Return what questions about a bundle are answered from.

    The tables of all sets are used, and for sums of a number's values the sets themselves
    (`dp_core.analysis.query.set_counts`). The number of records is exact if it is public.
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
    return replace(
        found,
        drawn=drawn_sets(bundle, schema),
        declared=declared_sums(bundle),
        set_counts=set_counts_of(bundle, schema),
    )


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
