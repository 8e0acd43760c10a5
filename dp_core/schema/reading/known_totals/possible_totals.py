"""Whether any records have public totals: a linear program over the combinations that can occur.

Records with the totals of some columns are a table of whole numbers over these columns. It is 0 in
every combination that no record can have, and has the totals as its margins. If no table of
nonnegative numbers is like this, no records are. For two columns the reverse holds, too
(transportation problem); for more, a table of numbers may exist and none of whole numbers.

A combination counts as possible if a cell of more columns is: those that rules tie to these, as far
as the cells can be enumerated. Leaving columns out makes more combinations possible, so totals are
never called contradictory that records can have.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Schema
from dp_core.tables.public_totals import PublicTotals, decisive

_MOST_CELLS = 1 << 20
"""Most cells that are enumerated for some totals."""
_MOST_POSSIBLE = 1 << 17
"""Most possible combinations of a linear program; levels that can occur with the same levels of
the other columns are one."""
_ROUNDING = 1e-6
"""Part of all records up to which totals are not called contradictory: the solver's precision."""

Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


def contradiction(totals: Sequence[PublicTotals], schema: Schema) -> tuple[str, ...]:
    """Return columns whose totals no records can have together; empty if none are found.

    Args:
        totals: Public totals whose sums agree.
        schema: The schema; of linked tables, the flat or the wide one.

    Returns:
        As few columns as possible, in the order of the totals.
    """
    by_name = {each.column: each for each in decisive(totals, schema.domain.nested)}
    tied = [
        tuple(name for name in by_name if _own(name, schema) in part) for part in _parts(schema)
    ]
    for size in range(1, max(map(len, tied), default=0) + 1):
        for names in (each for part in tied for each in itertools.combinations(part, size)):
            possible = _possible(names, schema)
            if possible is None or possible.all():
                continue
            if not _can_be_met(possible, [np.array(by_name[name].counts) for name in names]):
                return names
    return ()


def impossible_levels(totals: PublicTotals, schema: Schema) -> list[int]:
    """Return the codes of a column that have records by its totals, but that no record can have."""
    possible = _possible((totals.column,), schema)
    if possible is None:
        return []
    return [int(code) for code in np.flatnonzero(~possible & (np.array(totals.counts) > 0))]


def _own(name: str, schema: Schema) -> str:
    """Return the column by which rules name a column: the smallest areas stand for larger ones."""
    nested = schema.domain.nested
    return nested.lowest if nested is not None and name in nested.columns else name


def _parts(schema: Schema) -> Iterator[set[str]]:
    """Yield the sets of columns that rules tie to one another, directly or through others."""
    left = [{*rule.columns} for rule in schema.zeros.rules]
    while left:
        part = left.pop()
        while touching := [each for each in left if each & part]:
            left = [each for each in left if not each & part]
            part = part.union(*touching)
        yield part


def _with_tied(names: Collection[str], schema: Schema) -> tuple[str, ...]:
    """Return columns, and those that rules tie to them, as far as cells can be enumerated."""
    found = list(dict.fromkeys(names))
    rules = [rule.columns for rule in schema.zeros.rules]
    while True:
        near = {name for columns in rules if {*columns} & {*found} for name in columns}
        for name in sorted(near - {*found}, key=lambda name: schema.domain.size((name,))):
            if schema.domain.size((*found, name)) <= _MOST_CELLS:
                found.append(name)
                break
        else:
            return tuple(found)


def _possible(names: Sequence[str], schema: Schema) -> Flags | None:
    """Return which combinations of columns can occur; None if there are too many.

    Args:
        names: Columns, of which at most one is among nested ones.
        schema: The schema.
    """
    own = [_own(name, schema) for name in names]
    if schema.domain.size(tuple(own)) > _MOST_CELLS:
        return None
    every = _with_tied(own, schema)
    cells = ~schema.zeros.mask(schema.domain.project(every))
    found: Flags = np.logical_or.reduce(cells, axis=tuple(range(len(own), len(every))))
    for axis, (name, lowest) in enumerate(zip(names, own, strict=True)):
        if name != lowest:
            # A larger area can occur with a level if one of its smallest areas can.
            nested = schema.domain.nested
            assert nested is not None
            inside = np.moveaxis(found, axis, 0)
            summed = np.zeros((schema.domain.size((name,)), *inside.shape[1:]), dtype=bool)
            np.logical_or.at(summed, nested.map(name, lowest), inside)
            found = np.moveaxis(summed, 0, axis)
    return found


def _can_be_met(possible: Flags, totals: Sequence[Counts]) -> bool:
    """Return whether a nonnegative table of these possible cells has these sums.

    Args:
        possible: Which cells are possible, one axis for each column.
        totals: Sums for each level, by column.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    sums = [*totals]
    for axis, wanted in enumerate(sums):
        possible, sums[axis] = _merged(possible, axis, wanted)
    cells = np.argwhere(possible)
    if len(cells) > _MOST_POSSIBLE:
        return True
    number = np.arange(len(cells))
    of_levels = vstack(
        [
            csr_array((np.ones(len(cells)), (codes, number)), shape=(wanted.size, len(cells)))
            for codes, wanted in zip(cells.T, sums, strict=True)
        ]
    )
    # Each sum may be missed at a cost, so the program has a solution; its cost decides.
    missed = eye_array(of_levels.shape[0])
    records = int(totals[0].sum())
    solved = linprog(
        np.concatenate([np.zeros(len(cells)), np.ones(2 * of_levels.shape[0])]),
        A_eq=hstack([of_levels, missed, -missed]),
        b_eq=np.concatenate(sums) / records,
        method="highs",
    )
    return not (solved.status == 0 and solved.fun > max(0.5 / records, _ROUNDING))


def _merged(possible: Flags, axis: int, wanted: Counts) -> tuple[Flags, Counts]:
    """Return cells and sums with one level for those that can occur with the same levels.

    Levels without records are left out.
    """
    slices = np.moveaxis(possible, axis, 0)[wanted > 0]
    flat = np.packbits(slices.reshape(len(slices), -1), axis=1)
    _, first, of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    sums = np.zeros(first.size, dtype=np.int64)
    np.add.at(sums, of.reshape(-1), wanted[wanted > 0])
    return np.moveaxis(slices[first], 0, axis), sums
