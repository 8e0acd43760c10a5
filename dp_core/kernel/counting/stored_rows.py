"""The finished code store and every exact table counted from it, held against the document.

What chooses rows of a person, makes records of a panel, or counts a file in parts stands outside
the kernel. A fault there could let a unit weigh more than its events are calibrated to. So the
store holds beside each row a hash of its unit, and the kernel has noted the same hash of every raw
row that it read, from the column that the document names (`coding.raw_rows`). `checked_rows` weighs
every unit of the finished store against these notes before the first charge, and counts each column
by itself. `CheckedCounter` compares each table with the number of rows, and its margins with these
counts, before noise is drawn.

Privacy:
    What passes is a file with the units of the raw rows, none of which weighs more than the
    document says, and tables that have its number of rows and its one-way margins. A refusal tells
    of a fault of the program, and depends on no noise.

    *What is not found.* A table that counts a row twice and another one never, and has the right
    margins all the same. Of privately chosen or coarser codes only the number of rows is compared,
    because they are made outside the kernel. A unit whose rows stand under several identifiers is
    several units. Rows that are stored in place of another unit's, with its hash, count as that
    unit's: so do the values of a member in pair rows of another household, or of another person in
    a record of a panel. If the unit is a row, a row that is coded in place of another counts as it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes, stored_type
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, household_shares, pair_rows
from dp_core.kernel.counting.marginal import Counter, Marginal
from dp_core.kernel.document import protected_unit
from dp_core.kernel.errors import StageFailed

UNIT = "unit of privacy"
"""Column of a stored file, after those of the domain, with the hash of each row's unit."""
_PART_ROWS = 1 << 22
"""Approximate number of rows whose units are compared at a time."""


@dataclass(frozen=True, slots=True, repr=False)
class StoredRows:
    """What the kernel read in a finished code store. Confidential.

    Attributes:
        rows: Number of rows.
        total: What every table of them adds up to: the number of rows, or of all households'
            shares.
        margins: One-way counts of each column's codes, which add up to `total`.
    """

    rows: int
    total: int
    margins: Mapping[str, NDArray[np.int64]] = field(default_factory=dict, compare=False)


def checked_rows(folder: Path, document: Mapping[str, Any]) -> StoredRows:
    """Return the number of rows of a finished code store, whose units all have the right weight.

    They are the units of the raw rows that the kernel read for it. A person has as many rows as
    were read, but at most `max_rows`, and a person of a panel one. The pair rows of a household are
    those of as many members as were read with its key, but at most `max_members`. So they are
    exactly its shares. Takes about .1 s for a million rows; memory for `_PART_ROWS` rows.

    Args:
        folder: Folder of the code store.
        document: The kernel's document, or its part about the file (`document.FILE_KEYS`).

    Raises:
        StageFailed: if a unit has another weight, or the columns are not the document's.
    """
    import pyarrow as pa  # which no plan loads

    from dp_core.kernel.coding.coding_rule import coding_rule
    from dp_core.kernel.coding.raw_rows import Role, notes_file

    unit = protected_unit(document["unit"])
    codes = {each["name"]: coding_rule(each).codes for each in document["columns"]}
    columns = [(name, stored_type(number)) for name, number in codes.items()]
    if unit.word != "row":
        columns.append((UNIT, np.dtype(np.uint64)))
    roles: Sequence[Role] = ("identified_by", "link") if unit.link else ("identified_by",)
    files = []
    try:
        read = [np.fromfile(folder / notes_file(unit, role), np.uint64) for role in roles]
        for path in sorted(folder.glob("chunk-*.arrow")):
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
            if [(one.name, one.type.to_pandas_dtype()) for one in batch.schema] != columns:
                raise unusable("has other columns than its document")
            found = zip(columns, batch.columns, strict=True)
            files.append({name: column.to_numpy() for (name, _), column in found})
    except (OSError, pa.ArrowException) as error:
        raise unusable("is damaged", error) from None
    rows = sum(len(file[columns[0][0]]) for file in files)
    pairs, least, shares = np.ones(1, np.int64), 0, 1
    if unit.link:
        pairs = np.array([pair_rows(members) for members in range(unit.most + 1)], np.int64)
        least, shares = document["records"]["min_members"], household_shares(unit.most)
    margins = _margins(files, codes, shares // pairs[least:])
    if unit.word == "row":
        if int(read[0].sum()) != rows:
            raise unusable("holds another number of rows than were read")
        return StoredRows(rows, rows, margins)
    units, parts = 0, math.ceil(max(rows, *map(len, read)) / _PART_ROWS) if rows else 0
    for part in range(parts):
        mine = [file[UNIT] % np.uint64(parts) == part for file in files]
        stored = np.concatenate([file[UNIT][own] for file, own in zip(files, mine, strict=True)])
        order = np.argsort(stored)
        noted = np.concatenate([notes[notes % np.uint64(parts) == part] for notes in read])
        whose, times = np.unique(noted, return_counts=True)
        if unit.waves:  # a person who takes part in no wave has no record
            kept = np.isin(whose, stored)
            whose, times = whose[kept], times[kept]
        weigh, right = np.minimum(times, unit.most), True
        if unit.link:
            members = np.minimum(times - 1, unit.most)  # all but the household's own row
            weigh = pairs[members]
            codes_of = [file[MEMBERS][own] for file, own in zip(files, mine, strict=True)]
            codes_right = np.repeat(members - least, weigh)
            right = np.array_equal(np.concatenate(codes_of)[order], codes_right)
        # privacy: every event is calibrated to units of this weight.
        if not (right and np.array_equal(stored[order], np.repeat(whose, weigh))):
            raise unusable(f"holds a {unit.word} of another weight than its document states")
        units += len(whose)
    return StoredRows(rows, units * shares if unit.link else rows, margins)


def _margins(
    files: Sequence[Mapping[str, NDArray[Any]]],
    codes: Mapping[str, int],
    weights: NDArray[np.int64],
) -> dict[str, NDArray[np.int64]]:
    """Return the weight of all rows with each code of a column, by the column's name."""
    margins = {name: np.zeros(number, np.int64) for name, number in codes.items()}
    for file in files:
        weigh = weights[file[MEMBERS]] if len(weights) > 1 else None
        for name, counts in margins.items():
            if len(file[name]) and int(file[name].max()) >= len(counts):
                raise unusable("holds a code that its document does not have")
            # Sums of whole numbers below 2^53 are exact.
            counts += np.bincount(file[name], weigh, len(counts)).astype(np.int64)
    return margins


def unusable(what: str, error: Exception | None = None) -> StageFailed:
    """Return the error about a code store that cannot be used."""
    return StageFailed(
        f"The code store {what}; resume the release to write it again.",
        internal=None if error is None else str(error),
        row="codes-damaged",
    )


class CheckedCounter:
    """A counter that refuses every table whose sum or margins are not those of the stored rows.

    Its results are confidential if those of the other counter are.
    """

    def __init__(
        self,
        counter: Counter,
        domain: Domain,
        total: int | None = None,
        margins: Mapping[str, NDArray[np.int64]] = MappingProxyType({}),
    ) -> None:
        """Check a counter.

        Args:
            counter: Counts the confidential file.
            domain: Its columns and their numbers of codes.
            total: What every table adds up to, as `checked_rows` found it; None (the default)
                where there is no code store: then tables that are counted together add up alike.
            margins: One-way counts of the columns whose codes are the stored ones; none by default.
        """
        self._counter, self._domain, self._total = counter, domain, total
        self._margins = margins

    def __repr__(self) -> str:
        return f"CheckedCounter({len(self._domain)} columns, confidential)"

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique.

        Raises:
            StageFailed: if one has another shape than its columns, a cell that is no whole number
                from 0, or another sum than the file.
        """
        found = self._counter.count(cliques)
        self.check({clique: found[clique] for clique in cliques})
        return found

    def check(self, found: Mapping[Clique, Marginal]) -> None:
        """Raise StageFailed unless tables are as `count` may return them."""
        total = self._total
        for clique, table in found.items():
            self._require(table.domain == self._domain.project(clique))
            self._require(table.counts.shape == table.domain.sizes)
            total = self._add_up(table.counts, total)
            for at, column in enumerate(clique):
                if column in self._margins:
                    others = tuple(axis for axis in range(len(clique)) if axis != at)
                    self._require_margin(column, table.counts.sum(axis=others))

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        """Return the cells of a clique that hold a record, and the number of records in each.

        Raises:
            StageFailed: if a cell is not in the domain or repeated, a count is no whole number from
                1, or they have another sum than the file.
        """
        cells, counts = self._counter.observed(clique)
        sizes = self._domain.project(clique).sizes
        self._require(cells.shape == (len(counts), len(sizes)) and cells.dtype.kind == "u")
        self._require(all(cells[:, at].max(initial=0) < size for at, size in enumerate(sizes)))
        later = np.zeros(max(len(counts) - 1, 0), np.bool_)
        for column in reversed(cells.T):
            later = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & later)
        self._require(bool(later.all()) and bool((counts > 0).all()))
        self._add_up(counts, self._total)
        for at, column in enumerate(clique):
            if column in self._margins:
                found = np.bincount(cells[:, at], counts, sizes[at])
                self._require_margin(column, found.astype(np.int64))
        return cells, counts

    def _require_margin(self, column: str, found: NDArray[np.int64]) -> None:
        # privacy: one part counted twice for another would double the units in it.
        self._require(np.array_equal(found, self._margins[column]))

    def _add_up(self, counts: NDArray[np.int64], total: int | None) -> int:
        """Return the sum of counts, which are whole numbers from 0, and add up to a total."""
        self._require(counts.dtype == np.int64)
        # privacy: a part that is counted twice would double every unit in it. No sum of numbers up
        # to the total wraps around, because a table has at most 2^31 cells.
        found = int(counts.sum())
        most = found if total is None else total
        self._require(not counts.size or 0 <= int(counts.min()) <= int(counts.max()) <= most)
        self._require(found == most)
        return found

    def _require(self, right: bool) -> None:
        if not right:
            raise StageFailed(
                "An exact table does not add up to the stored rows, so nothing was drawn from it."
                " Resume the release; if it fails again, the program that counts is at fault."
            )
