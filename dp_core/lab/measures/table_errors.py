"""Differences of two files, by their tables, by random range queries, and by kind of table.

A range query asks for the number of records with several columns within intervals; it is a task of
PrivSyn's evaluation (average error over random ranges). An interval is one of codes, in the
schema's order of levels; for columns without an order it is an arbitrary subset of levels.

Of households and their members, every table is counted in its own unit. A table of household
columns, with or without `members`, counts households. A table of person columns, with or without
household columns, counts persons. A table that names another member counts ordered pairs of
different members, weighted so that each household with at least two members counts 1 in all.

A comparison with confidential files is confidential; the functions do not know which it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, OTHER, LinkedColumns, with_members
from dp_core.metrics.marginal_error import (
    HouseholdTally,
    MarginalError,
    Tally,
    batches,
    summarise,
    tvd,
    within_limit,
)


def relative_entropy(real: ArrayLike, synthetic: ArrayLike, *, smoothing: float = 0.0) -> float:
    """Return D(real || synthetic) of two tables, each normalised to sum 1, in nats.

    It is infinite if a cell with mass in the real table has none in the synthetic one. Sampling
    alone produces such cells, so comparisons of records use `smoothing=1`.

    Args:
        real: Nonnegative counts, the distribution the expectation is over.
        synthetic: Nonnegative counts of the same shape.
        smoothing: Records added to the synthetic table, spread evenly over its cells; 0 by default.

    Returns:
        At least 0; 0 only for equal proportions. Infinite if the synthetic table has no mass.

    Raises:
        ValueError: if shapes differ, a count is negative, or the real table has no mass.

    >>> round(relative_entropy([1, 1], [1, 3]), 9)
    0.143841036
    """
    from scipy import stats

    p = np.asarray(real, dtype=np.float64)
    q = np.asarray(synthetic, dtype=np.float64)
    if p.shape != q.shape:
        raise ValueError(f"Tables of shapes {p.shape} and {q.shape} cannot be compared.")
    if smoothing < 0 or p.size == 0 or p.min() < 0 or q.min() < 0 or p.sum() <= 0:
        raise ValueError(
            "Relative entropy needs counts that are not negative, and not all 0 in the real table."
        )
    q = q + smoothing / q.size
    if q.sum() <= 0:
        return math.inf
    # Rounding must not give less than 0.
    return max(0.0, float(stats.entropy(p.ravel(), q.ravel())))


def max_cell_error(first: ArrayLike, second: ArrayLike) -> float:
    """Return the largest difference of a cell's proportions in two tables.

    Each table is normalised to sum 1 first; a table whose sum is not positive counts as zeros.
    Hardt, Ligett and McSherry (2012), Definition 1.1, with proportions instead of counts.

    >>> max_cell_error([1, 1, 2], [2, 1, 1])
    0.25
    """
    a = np.asarray(first, dtype=np.float64)
    b = np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"Tables of shapes {a.shape} and {b.shape} cannot be compared.")
    if not a.size:
        return 0.0
    total_a, total_b = float(a.sum()), float(b.sum())
    a = a / total_a if total_a > 0 else np.zeros_like(a)
    b = b / total_b if total_b > 0 else np.zeros_like(b)
    return float(np.abs(a - b).max())


NUMBER = 1000
"""Number of queries."""
WAYS = 3
"""Number of columns of a query."""
_SEED = 20_261_102
_CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class RangeQueries:
    """Queries over one domain.

    Attributes:
        domain: All columns.
        axes: Column numbers of each query, shape (queries, columns).
        low, high: First and last code of each interval, both included, same shape.
    """

    domain: Domain
    axes: NDArray[np.int64]
    low: Codes
    high: Codes

    def count(self, data: Dataset) -> NDArray[np.int64]:
        """Return the number of records in each range, shape (queries,).

        Raises:
            ValueError: if the data have another domain.
        """
        if data.domain != self.domain:
            raise ValueError("The data must have the domain of the range queries.")
        counts = np.zeros(len(self.axes), dtype=np.int64)
        for start in range(0, data.rows, _CHUNK_ROWS):
            codes = np.ascontiguousarray(data.codes[:, start : start + _CHUNK_ROWS])
            for query, axes in enumerate(self.axes):
                within = np.ones(codes.shape[1], dtype=bool)
                for axis, low, high in zip(axes, self.low[query], self.high[query], strict=True):
                    # Unsigned: what is below `low` wraps around to a large number.
                    within &= codes[axis] - low <= high - low
                counts[query] += int(np.count_nonzero(within))
        return counts

    def error(self, first: Dataset, second: Dataset) -> float:
        """Return the average absolute difference of the queries' proportions in two files.

        An empty file has proportions of 0.
        """
        one, other = (self.count(data) / max(data.rows, 1) for data in (first, second))
        return float(np.abs(one - other).mean())


def random_range_queries(domain: Domain) -> RangeQueries:
    """Return random queries, the same for every method on one domain.

    Each is over three columns, or all if there are fewer, drawn without replacement. Both ends of
    an interval are uniform codes, sorted.
    """
    rng = np.random.default_rng(_SEED)
    ways = min(WAYS, len(domain))
    axes = np.array(
        [np.sort(rng.choice(len(domain), size=ways, replace=False)) for _ in range(NUMBER)],
        dtype=np.int64,
    )
    sizes = np.array(domain.sizes, dtype=np.int64)[axes]
    ends = np.sort(rng.integers(0, sizes, size=(2, NUMBER, ways)), axis=0).astype(domain.code_type)
    return RangeQueries(domain, axes, ends[0], ends[1])


def full_tables(
    cliques: Sequence[Clique], files: Sequence[Dataset]
) -> Iterator[tuple[Clique, list[NDArray[np.int64]]]]:
    """Yield each of some distinct cliques with its whole table in every file."""
    for group in batches(files[0].domain, cliques):
        tallies = [Tally(data.domain, group).add(data) for data in files]
        for clique in group:
            yield clique, [tally.count(clique) for tally in tallies]


PairRows: TypeAlias = Callable[[], Iterable[Dataset]]
"""A function that returns the pair rows of a file in pieces, again at each call."""

KINDS = ("household", "person", "household x person", "member x member", "size")
"""The four kinds of pairs of columns, and the table of the number of members."""


def tables_by_kind(linked: LinkedColumns) -> dict[str, tuple[Clique, ...]]:
    """Return the tables of each kind; only those of the last kind have the number of members.

    >>> linked = LinkedColumns(household_columns=("h",), person_columns=("p", "q"), max_members=4)
    >>> for kind, tables in tables_by_kind(linked).items():
    ...     print(kind, tables)
    household ()
    person (('p', 'q'),)
    household x person (('h', 'p'), ('h', 'q'))
    member x member (('p', 'other.p'), ('p', 'other.q'), ('q', 'other.q'))
    size (('members',),)
    """
    homes, persons = linked.household_columns, linked.person_columns
    both = itertools.combinations_with_replacement(persons, 2)
    tables: tuple[Iterable[Clique], ...] = (
        itertools.combinations(homes, 2),
        itertools.combinations(persons, 2),
        itertools.product(homes, persons),
        ((one, OTHER + two) for one, two in both),
        ((MEMBERS,),) if len(linked.sizes) > 1 else (),
    )
    return {kind: tuple(each) for kind, each in zip(KINDS, tables, strict=True)}


def tables_in_own_units(
    domain: Domain, cliques: Sequence[Clique], files: Sequence[PairRows]
) -> Iterator[tuple[Clique, tuple[NDArray[np.float64], ...]]]:
    """Yield each clique with its table in every file.

    Args:
        domain: The domain of pair rows.
        cliques: Distinct cliques of it, each small enough to be counted with `members`.
        files: The files; their pair rows are read once for each group of tables.
    """
    wide = {clique: with_members(clique) for clique in cliques}
    for group in batches(domain, tuple(dict.fromkeys(wide.values()))):
        tallies = []
        for pieces in files:
            tallies.append(HouseholdTally(domain, group))
            for piece in pieces():
                tallies[-1].add(piece)
        for clique in (clique for clique in cliques if wide[clique] in group):
            yield clique, tuple(_own_unit(tally, clique) for tally in tallies)


def countable(domain: Domain, cliques: Iterable[Clique]) -> tuple[tuple[Clique, ...], int]:
    """Return the cliques whose tables with `members` are small enough, and the number of others."""
    every = tuple(cliques)
    kept = tuple(clique for clique in every if within_limit(domain, [with_members(clique)])[0])
    return kept, len(every) - len(kept)


def kind_errors(
    domain: Domain, real: PairRows, synthetic: Sequence[PairRows]
) -> dict[str, tuple[MarginalError, ...]]:
    """Return the average TVD over the tables of each kind, for each synthetic file.

    A kind is absent if it has no tables, or if the real file has nothing to count in them. For
    example, without a household of two members there are no pairs of members.

    Args:
        domain: The domain of pair rows.
        real: Pair rows of the real file.
        synthetic: Pair rows of the synthetic files, in the same codes.
    """
    assert domain.linked is not None
    found = {}
    for kind, every in tables_by_kind(domain.linked).items():
        cliques, skipped = countable(domain, every)
        tables = [
            (clique, [tvd(exact, each) for each in drawn])
            for clique, (exact, *drawn) in tables_in_own_units(domain, cliques, (real, *synthetic))
            if exact.any()
        ]
        if tables:
            found[kind] = tuple(
                summarise(
                    len(tables[0][0]),
                    {clique: distances[place] for clique, distances in tables},
                    skipped=skipped,
                )
                for place in range(len(synthetic))
            )
    return found


def _own_unit(tally: HouseholdTally, clique: Clique) -> NDArray[np.float64]:
    """Return the table of a clique in its own unit, from its table with `members`."""
    linked, wide = tally.domain.linked, with_members(clique)
    assert linked is not None
    table = np.moveaxis(tally.count(wide), wide.index(MEMBERS), -1)
    if not {*linked.others}.isdisjoint(clique):
        # The last code of another member's column is that of no other member.
        kept = [(slice(-1 if name in linked.others else None), name) for name in clique]
        table = table[tuple(part for part, name in kept if name != MEMBERS)]
    elif not {*linked.person_columns}.isdisjoint(clique):
        table = table * np.array(linked.sizes)
    if MEMBERS in clique:
        return np.moveaxis(table, -1, clique.index(MEMBERS))
    return np.asarray(table.sum(axis=-1), dtype=np.float64)
