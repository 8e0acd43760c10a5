"""The finished code store and every exact table counted from it, held against the document.

What chooses rows of a person, makes records of a panel, or counts a file in parts stands outside
the kernel. A fault there could let a unit weigh more than its events are calibrated to. So the
store holds beside each row a hash of its unit, which the kernel made of the raw column
(`coding.unit_hashes`) under a random key that is never stored. `checked_rows` weighs every unit of
the finished store before the first charge, and counts each column by itself. `CheckedCounter`
compares each table with the number of rows, and its margins with these counts, before noise is
drawn.

Privacy:
    What passes is a file in which no unit weighs more than the document says, and tables that have
    its number of rows and its one-way margins. A refusal tells of a fault of the program, and
    depends on no noise.

    *What is not found.* A table that counts a row twice and another one never, and has the right
    margins all the same. Of privately chosen or coarser codes only the number of rows is compared,
    because they are made outside the kernel. A unit whose rows stand under several identifiers, or
    were stored with the hashes of other units, is several units here. If the unit is a row, there
    are no hashes, so a row that was coded twice counts as two. A record of a panel that was made of
    rows of two persons bears the hash of one.
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
from dp_core.kernel.document import ProtectedUnit, protected_unit
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

    A person has at most `max_rows` rows, a person of a panel one; the pair rows of a household are
    exactly its shares. Takes about .1 s for a million rows; memory for `_PART_ROWS` rows.

    Args:
        folder: Folder of the code store.
        document: The kernel's document, or its part about the file (`document.FILE_KEYS`).

    Raises:
        StageFailed: if a unit has another weight, or the columns are not the document's.
    """
    import pyarrow as pa  # which no plan loads

    from dp_core.kernel.coding.coding_rule import coding_rule

    unit = protected_unit(document["unit"])
    codes = {each["name"]: coding_rule(each).codes for each in document["columns"]}
    columns = [(name, stored_type(number)) for name, number in codes.items()]
    if unit.word != "row":
        columns.append((UNIT, np.dtype(np.uint64)))
    files = []
    try:
        for path in sorted(folder.glob("chunk-*.arrow")):
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
            if [(one.name, one.type.to_pandas_dtype()) for one in batch.schema] != columns:
                raise unusable("has other columns than its document")
            found = zip(columns, batch.columns, strict=True)
            files.append({name: column.to_numpy() for (name, _), column in found})
    except (OSError, pa.ArrowException) as error:
        raise unusable("is damaged", error) from None
    rows = sum(len(file[columns[0][0]]) for file in files)
    weights, least, most = _weights(unit, document["records"])
    margins = _margins(files, codes, weights)
    if unit.word == "row":
        return StoredRows(rows, rows, margins)
    total, parts = 0, math.ceil(rows / _PART_ROWS)
    for part in range(parts):
        mine = [file[UNIT] % np.uint64(parts) == part for file in files]
        units = np.concatenate([file[UNIT][own] for file, own in zip(files, mine, strict=True)])
        weigh = np.ones(len(units), np.int64)
        if unit.word == "household":
            sizes = [file[MEMBERS][own] for file, own in zip(files, mine, strict=True)]
            weigh = weights[np.concatenate(sizes)]
        order = np.argsort(units)
        starts = np.flatnonzero(np.diff(units[order], prepend=~units[order[:1]]))
        sums = np.add.reduceat(weigh[order], starts) if len(starts) else weigh
        # privacy: every event is calibrated to units of this weight.
        if (sums < least).any() or (sums > most).any():
            raise unusable(f"holds a {unit.word} of another weight than its document states")
        total += int(weigh.sum())
    return StoredRows(rows, total, margins)


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


def _weights(unit: ProtectedUnit, records: Mapping[str, Any]) -> tuple[NDArray[np.int64], int, int]:
    """Return the weight of a row for each code of `members`, and the least and most of a unit."""
    if unit.word != "household":
        return np.ones(1, np.int64), 1, unit.most
    shares = household_shares(unit.most)
    members = range(records["min_members"], unit.most + 1)
    return np.array([shares // pair_rows(each) for each in members], np.int64), shares, shares


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
