"""Distances between two files of households and their members, in each kind of table.

Every table is counted in its own unit. A table of household columns, with or without `members`,
counts households. A table of person columns, with or without household columns, counts persons. A
table that names another member counts ordered pairs of different members, weighted so that each
household with at least two members counts 1 in all.

A comparison with confidential files is confidential; the functions do not know which it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, OTHER, LinkedColumns, with_members
from dp_core.metrics.marginal_error import (
    HouseholdTally,
    MarginalError,
    batches,
    summarise,
    tvd,
    within_limit,
)

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
