"""Changes drawn records so that they meet public totals exactly: post-processing.

Drawn records meet the tables of their model up to rounding. Here as few of them as possible get
another level. They are chosen at random from levels with too many records, and obey all rules
afterwards. Where every such change breaks a rule, a record becomes a copy of another one. If no
single copy brings the totals nearer, an integer program finds the smallest number of copies that
together meet the totals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.definition import Schema
from dp_core.schema.linked.possible_members import households_with
from dp_core.schema.rules.feasible_values import Block, blocks_of
from dp_core.schema.rules.possible_codes import possible
from dp_core.schema.structure.public_totals import decisive
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows

_TRIES = 50  # rounds; each tries other records and levels where a rule forbade a change
_MOST_CELLS = 1000  # combinations of levels among which exchanges of whole records are sought
_MOST_NODES = 10_000  # nodes of the search for exchanges that together meet all totals
_MOST_CHECKED = 1 << 16  # records that are checked at a time

Rows = NDArray[np.intp]


def with_totals(
    schema: Schema,
    data: Dataset,
    counts: Mapping[str, NDArray[np.int64]],
    *,
    rng: np.random.Generator,
) -> Dataset:
    """Return records that meet numbers of records by level.

    Args:
        schema: Schema of the codes. Of linked tables, records are households.
        data: Records that obey all rules; pair rows of whole households of linked tables.
        counts: Number of records for each code of a column, by column; each adds up to the number
            of records. Of nested columns, at most one has counts.
        rng: Generator for post-processing.

    Raises:
        BadInput: if no change of records is found with which rules and totals hold together.
    """
    records = _Records.of(schema, data)
    for name, wanted in counts.items():
        _move(records, name, wanted, rng=rng)
    _exchange(records, counts, rng=rng)
    return records.dataset()


def drawn_at_once(schema: Schema) -> bool:
    """Return whether public totals require that a set is drawn in one piece.

    Totals of several columns may be met together in the whole set, but not in each piece.
    """
    return len(decisive(schema.totals, schema.domain.nested)) > 1


@dataclass(slots=True, eq=False)
class _Records:
    """Synthetic records, or households, whose codes are changed in place.

    Attributes:
        schema: Their schema.
        data: The records as they were drawn.
        names: The columns of `codes`.
        codes: Codes, shape (columns, records).
        homes: The households as they were drawn; None for a single table.
        source: For each household, the drawn household whose members it has.
        blocks: Rules between the columns of `names` that values must obey.
    """

    schema: Schema
    data: Dataset
    names: tuple[str, ...]
    codes: Codes
    homes: HouseholdRows | None
    source: Rows
    blocks: Sequence[Block]

    @classmethod
    def of(cls, schema: Schema, data: Dataset) -> _Records:
        linked, homes, own = schema.linked, None, schema
        names, codes = data.domain.columns, data.codes.copy()
        if linked is not None:
            homes, own = from_pair_rows(linked, data), schema.household_schema
            names, codes = linked.household_columns, homes.households.copy()
        blocks = blocks_of(own)
        return cls(schema, data, names, codes, homes, np.arange(codes.shape[1]), blocks)

    def level(self, name: str) -> Codes:
        """Return the code of each record in a column."""
        found: Codes = self.codes[self.names.index(name)]
        return found

    def is_ruled(self, name: str) -> bool:
        """Return whether a rule names a column, or one of those nested with it."""
        rules = [rule.columns for rule in self.schema.zeros.rules]
        rules += [rule.columns for rule in self.schema.rules]
        return any({*self._with_nested(name)} & {*columns} for columns in rules)

    def changed(
        self, rows: Rows, name: str, levels: NDArray[np.int64], *, rng: np.random.Generator
    ) -> Codes:
        """Return the codes of records after they got other levels, shape (columns, rows).

        If the column is nested, one of the smallest areas within the new one is drawn, in
        proportion to the records there.
        """
        found: Codes = self.codes[:, rows].copy()
        nested = self.schema.domain.nested
        if nested is None or name not in nested.columns:
            found[self.names.index(name)] = levels
            return found
        lowest = levels if name == nested.lowest else self._smallest(name, levels, rng=rng)
        for each in nested.columns:
            codes = lowest if each == nested.lowest else nested.map(each, nested.lowest)[lowest]
            found[self.names.index(each)] = codes
        return found

    def obeys(self, rows: Rows, codes: Codes) -> NDArray[np.bool_]:
        """Return which records obey all rules with other codes, shape (rows,).

        Args:
            rows: The records.
            codes: Their codes, shape (columns, rows).
        """
        parts = [
            self._obeys(rows[at : at + _MOST_CHECKED], codes[:, at : at + _MOST_CHECKED])
            for at in range(0, rows.size, _MOST_CHECKED)
        ]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    def replace(self, rows: Rows, donors: Rows) -> None:
        """Replace records by copies of others; a household is copied with its members."""
        self.codes[:, rows] = self.codes[:, donors]
        self.source[rows] = self.source[donors]

    def members(self) -> NDArray[np.int64]:
        """Return the number of members of each household; 1 for records of a single table."""
        if self.homes is None:
            return np.ones(self.source.size, dtype=np.int64)
        return self.homes.sizes[self.source]

    def dataset(self) -> Dataset:
        """Return the records; of linked tables their pair rows."""
        if self.homes is None:
            return Dataset(self.data.domain, self.codes)
        return self._pair_rows(np.arange(self.source.size), self.codes)

    def _with_nested(self, name: str) -> tuple[str, ...]:
        nested = self.schema.domain.nested
        return (name,) if nested is None or name not in nested.columns else nested.columns

    def _smallest(
        self, name: str, levels: NDArray[np.int64], *, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        nested = self.schema.domain.nested
        assert nested is not None
        above = nested.map(name, nested.lowest)
        drawn = np.bincount(self.level(nested.lowest), minlength=above.size)
        order, asked = np.argsort(above, kind="stable"), np.argsort(levels, kind="stable")
        wanted, starts = np.unique(levels[asked], return_index=True)
        first = np.searchsorted(above[order], wanted)
        last = np.searchsorted(above[order], wanted, side="right")
        found = np.empty(levels.size, dtype=np.int64)
        for rows, low, high in zip(np.split(asked, starts[1:]), first, last, strict=True):
            inside = order[low:high]
            weights = drawn[inside] if drawn[inside].any() else np.ones(inside.size)
            found[rows] = rng.choice(inside, size=rows.size, p=weights / weights.sum())
        return found

    def _obeys(self, rows: Rows, codes: Codes) -> NDArray[np.bool_]:
        own = Dataset(self.data.domain.project(self.names), codes)
        if self.homes is None:
            kept = ~self.schema.zeros.violations(own)
        else:
            pairs = self._pair_rows(rows, codes)
            sizes = self.members()[rows]
            kept = ~households_with(self.schema.zeros.violations(pairs), sizes)
        for block in self.blocks:
            kept &= possible(block, own)
        return kept

    def _pair_rows(self, rows: Rows, codes: Codes) -> Dataset:
        linked, homes = self.schema.linked, self.homes
        assert linked is not None
        assert homes is not None
        source = self.source[rows]
        sizes, ends = homes.sizes[source], np.cumsum(homes.sizes)
        # Places of the members of each household, one household after another.
        place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        persons = np.repeat((ends - homes.sizes)[source], sizes) + place
        whole = HouseholdRows(codes, sizes, homes.persons[:, persons])
        return to_pair_rows(linked, self.data.domain, whole)


def _move(
    records: _Records, name: str, wanted: NDArray[np.int64], *, rng: np.random.Generator
) -> None:
    """Give records of levels with too many another level, unless this breaks a rule."""
    ruled = records.is_ruled(name)
    for _ in range(_TRIES if ruled else 1):
        level = records.level(name)
        gap = np.bincount(level, minlength=wanted.size) - wanted
        if not gap.any():
            return
        rows = _surplus(level, gap, rng=rng)
        levels = rng.permutation(np.repeat(np.arange(wanted.size), np.maximum(-gap, 0)))
        codes = records.changed(rows, name, levels, rng=rng)
        if ruled:
            kept = records.obeys(rows, codes)
            rows, codes = rows[kept], codes[:, kept]
        records.codes[:, rows] = codes


def _surplus(level: Codes, gap: NDArray[np.int64], *, rng: np.random.Generator) -> Rows:
    """Return random records of each level with too many, as many as are too many."""
    among = rng.permutation(np.flatnonzero(gap[level] > 0))
    among = among[np.argsort(level[among], kind="stable")]
    sizes = np.bincount(level[among], minlength=gap.size)
    place = np.arange(among.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found: Rows = among[place < gap[level[among]]]
    return found


def _exchange(
    records: _Records, counts: Mapping[str, NDArray[np.int64]], *, rng: np.random.Generator
) -> None:
    """Replace whole records by copies of others, until all totals are met.

    Raises:
        BadInput: if no replacements meet the totals.
    """
    while True:
        levels = [records.level(name) for name in counts]
        gaps = [
            np.bincount(level, minlength=wanted.size) - wanted
            for level, wanted in zip(levels, counts.values(), strict=True)
        ]
        if not any(gap.any() for gap in gaps):
            return
        cells, of, held = np.unique(
            np.stack(levels), axis=1, return_inverse=True, return_counts=True
        )
        of = of.reshape(-1)
        out, into = (
            np.flatnonzero(
                np.any([sign * gap[own] > 0 for gap, own in zip(gaps, cells, strict=True)], axis=0)
            )
            for sign in (1, -1)
        )
        out, into = (rng.permutation(each)[:_MOST_CELLS] for each in (out, into))
        gained = np.zeros((out.size, into.size), dtype=np.int64)
        for gap, own in zip(gaps, cells, strict=True):
            better = np.where(gap[own[out]] > 0, 1, -1)[:, None]
            better = better + np.where(gap[own[into]] < 0, 1, -1)
            gained += np.where(own[out][:, None] == own[into], 0, better)
        if not gained.size or gained.max() <= 0:
            target = _nearest_table(cells, held, list(counts.values()))
            if target is None:
                raise _not_met(records, gaps, counts)
            rows = np.concatenate(
                [
                    rng.permutation(np.flatnonzero(of == cell))[: held[cell] - target[cell]]
                    for cell in np.flatnonzero(target < held)
                ]
            )
            more = rng.permutation(np.repeat(np.arange(held.size), np.maximum(target - held, 0)))
            for cell in np.unique(more):
                own = rows[more == cell]
                records.replace(own, _donors(records, own, np.flatnonzero(of == cell), rng=rng))
            return
        one, other = np.unravel_index(
            rng.choice(np.flatnonzero(gained == gained.max())), gained.shape
        )
        start, end = out[one], into[other]
        moved = [
            min(max(int(gap[own[start]]), 1), max(int(-gap[own[end]]), 1))
            for gap, own in zip(gaps, cells, strict=True)
            if own[start] != own[end]
        ]
        number = min(*moved, int(held[start])) if moved else 0
        rows = rng.permutation(np.flatnonzero(of == start))[:number]
        records.replace(rows, _donors(records, rows, np.flatnonzero(of == end), rng=rng))


def _nearest_table(
    cells: NDArray[np.integer], held: NDArray[np.int64], counts: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64] | None:
    """Return the table with given totals that changes the fewest records; None if none is found.

    A table is the number of records in each cell. The function serves totals that no single
    exchange of records brings nearer, but several exchanges together meet.

    Args:
        cells: The combinations of levels that some records have, shape (columns, cells).
        held: Number of records of each, shape (cells,).
        counts: Number of records for each level, by column.
    """
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    number = np.arange(held.size)
    of_levels = vstack(
        [
            csr_array((np.ones(held.size), (codes, number)), shape=(wanted.size, held.size))
            for codes, wanted in zip(cells, counts, strict=True)
        ]
    )
    # Variables: the table, then the records that each cell loses.
    whole = hstack([of_levels, csr_array((of_levels.shape[0], held.size))])
    wanted = np.concatenate(counts)
    lost = hstack([eye_array(held.size), eye_array(held.size)])
    solved = milp(
        np.concatenate([np.zeros(held.size), np.ones(held.size)]),
        integrality=np.ones(2 * held.size),
        constraints=[LinearConstraint(whole, wanted, wanted), LinearConstraint(lost, lb=held)],
        options={"node_limit": _MOST_NODES},
    )
    if solved.x is None:
        return None
    found = np.rint(solved.x[: held.size]).astype(np.int64)
    return found if np.array_equal(of_levels @ found, wanted) else None


def _donors(records: _Records, rows: Rows, among: Rows, *, rng: np.random.Generator) -> Rows:
    """Return a random record for each of some records; of as many members, if there is one."""
    members, found = records.members(), rng.choice(among, size=rows.size)
    for size in np.unique(members[rows]):
        alike, mine = among[members[among] == size], members[rows] == size
        if alike.size:
            found[mine] = rng.choice(alike, size=int(mine.sum()))
    return found


def _not_met(
    records: _Records, gaps: list[NDArray[np.int64]], counts: Mapping[str, NDArray[np.int64]]
) -> BadInput:
    name, gap = next((n, g) for n, g in zip(counts, gaps, strict=True) if g.any())
    code = int(np.argmin(gap))
    label = records.schema.column(name).code_labels()[code]
    return BadInput(
        "The public totals cannot be met by records that obey all rules:"
        f" {-gap[code]:,} more records need {name} = {label!r}, but no record can get this level."
        " What was paid stays spent. Correct `totals` or the rules, and release again under another"
        " name."
    )
