"""Total variation distance between tables, and its average over all small marginals.

A comparison with confidential counts is confidential; one of noisy or synthetic tables is public.
The caller knows which it is; the functions do not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, with_members

TRIPLES = 300
"""Largest number of three-way tables; of more, a sample with a fixed seed is used."""
CELL_LIMIT = 5_000_000
"""Largest number of cells of a table; a larger one is left out and counted as such."""
BATCH_CELLS = 4_000_000
_CHUNK_ROWS = 1 << 18
_COMPILED_VISITS = 1 << 22
"""Least rows times tables of a piece that justify loading the compiled counting."""
_EMPTY_CELLS = 1 << 16
"""Least cells of a table whose empty cells are looked for before distances are computed."""
_CELLS_PER_RECORD = 8
"""Cells for each record above which a table is mostly empty; its occupied cells are sorted."""
_SAMPLE_SEED = 20_261_101
_MOST_KEYS = 1 << 62

Cells: TypeAlias = tuple[Codes, NDArray[np.int64]]
"""Codes of some cells, shape (cells, columns), and their counts, shape (cells,)."""


def tvd(first: ArrayLike, second: ArrayLike) -> float:
    """Return the total variation distance of two tables, each normalised to sum 1.

    Half of the L1 distance. A table without mass (sum not positive) is at distance 1 from one with
    mass and at distance 0 from another without.

    >>> tvd([1, 1], [2, 0])
    0.5
    """
    a, b = np.asarray(first), np.asarray(second)
    if a.shape != b.shape:
        raise ValueError(f"Tables of shapes {a.shape} and {b.shape} cannot be compared.")
    if a.size >= _EMPTY_CELLS:
        # A cell that is empty in both adds nothing. Most cells of a large table are.
        a, b = a.ravel(), b.ravel()
        occupied = np.flatnonzero((a != 0) | (b != 0))
        a, b = a[occupied], b[occupied]
    a, b = a.astype(np.float64), b.astype(np.float64)
    total_a, total_b = float(a.sum()), float(b.sum())
    if total_a <= 0 or total_b <= 0:
        return float((total_a > 0) != (total_b > 0))
    return float(np.abs(a / total_a - b / total_b).sum()) / 2


def tvd_of_cells(first: Cells, second: Cells, sizes: Sequence[int]) -> float:
    """Return the total variation distance of two tables of which the occupied cells are known.

    Args:
        first: Codes of its occupied cells, shape (cells, columns), and their counts.
        second: The same of the other table.
        sizes: Numbers of codes of the columns; their product is below 2**63.

    >>> first = np.array([[0, 0], [4, 2]], np.uint16), np.array([1, 1])
    >>> second = np.array([[4, 2], [4, 3]], np.uint16), np.array([2, 2])
    >>> tvd_of_cells(first, second, [5, 4])
    0.5
    """
    keys = [
        np.ravel_multi_index(tuple(codes.T.astype(np.int64)), sizes) for codes, _ in (first, second)
    ]
    every, place = np.unique(np.concatenate(keys), return_inverse=True)
    tables = np.zeros((2, every.size), dtype=np.int64)
    tables[0, place[: keys[0].size]] = first[1]
    tables[1, place[keys[0].size :]] = second[1]
    return tvd(*tables)


def tvd_by_row(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the total variation distance of two tables' rows, one after the other, as `tvd` does.

    >>> tvd_by_row(np.array([[1, 1], [0, 2]]), np.array([[2, 0], [0, 5]])).tolist()
    [0.5, 0.0]
    """
    totals = [table.sum(axis=1) for table in (first, second)]
    a, b = (
        table / np.maximum(total, 1)[:, None]
        for table, total in zip((first, second), totals, strict=True)
    )
    apart: NDArray[np.float64] = np.abs(a - b).sum(axis=1) / 2
    empty = [total == 0 for total in totals]
    apart[empty[0] | empty[1]] = 0.0
    apart[empty[0] != empty[1]] = 1.0
    return apart


class Tally:
    """Counts of chosen marginals of a dataset that may arrive in pieces.

    Args:
        domain: All columns.
        cliques: Marginals to count.

    Attributes:
        rows: Records seen so far.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique]) -> None:
        self.domain = domain
        self.rows = 0
        self._counts: dict[Clique, NDArray[np.int64]] = {
            clique: np.zeros(domain.size(clique), dtype=np.int64) for clique in cliques
        }
        self._axes = {clique: domain.axes(clique) for clique in self._counts}

    def add(self, piece: Dataset) -> Tally:
        """Count the records of a piece and return the tally itself.

        Raises:
            ValueError: if the piece has another domain.
        """
        if piece.domain != self.domain:
            raise ValueError("A piece of a dataset must have the domain of the dataset.")
        self.rows += piece.rows
        if piece.rows * len(self._counts) >= _COMPILED_VISITS:
            from dp_core.tables.table_plan import count_codes

            tables = count_codes(list(piece.codes), self.domain.sizes, list(self._axes.values()))
            for counts, table in zip(self._counts.values(), tables, strict=True):
                counts += table.ravel()
            return self
        # Chunks small enough for the cache: two or three times faster than whole columns.
        for start in range(0, piece.rows, _CHUNK_ROWS):
            codes = piece.codes[:, start : start + _CHUNK_ROWS].astype(np.int32)
            for clique, counts in self._counts.items():
                counts += _bincount(codes, self._axes[clique], self.domain.sizes, counts.size)
        return self

    def count(self, clique: Clique) -> NDArray[np.int64]:
        """Return the counts of a clique, shape of its sizes.

        Raises:
            KeyError: if the clique is not among those tallied.
        """
        return self._counts[clique].reshape(self.domain.project(clique).sizes)


def _bincount(
    codes: NDArray[np.int32], axes: tuple[int, ...], sizes: tuple[int, ...], cells: int
) -> NDArray[np.int64]:
    if not axes:
        return np.array([codes.shape[1]], dtype=np.int64)
    wide = np.int64 if cells > np.iinfo(np.int32).max else np.int32
    flat = codes[axes[0]].astype(wide, copy=False)
    for axis in axes[1:]:
        flat = flat * wide(sizes[axis]) + codes[axis]
    return np.bincount(flat, minlength=cells).astype(np.int64, copy=False)


def mostly_empty(domain: Domain, clique: Clique, records: int) -> bool:
    """Whether a table has so many more cells than records that `occupied_cells` is faster.

    >>> domain = Domain(("a", "b"), (1000, 1000))
    >>> mostly_empty(domain, ("a", "b"), 100_000), mostly_empty(domain, ("a",), 100_000)
    (True, False)
    """
    return domain.size(clique) > max(_CELLS_PER_RECORD * records, _EMPTY_CELLS)


def occupied_cells(clique: Clique, datasets: Sequence[Dataset]) -> list[NDArray[np.intp]]:
    """Return the cell of each record in each dataset, numbered among the cells that occur in any.

    Args:
        clique: Columns of the table.
        datasets: Datasets of one domain, at least one; their table has less than 2**63 cells.

    Returns:
        For each dataset an array of shape (rows,). Cells are numbered from 0 in the order of their
        codes, and each number occurs.

    >>> domain = Domain(("a", "b"), (9, 9))
    >>> data = Dataset(domain, np.array([[8, 0, 8], [1, 5, 1]], np.uint16))
    >>> [cells.tolist() for cells in occupied_cells(("a", "b"), [data])]
    [[1, 0, 1]]
    """
    keys = np.concatenate(record_keys(clique, datasets))
    numbers: NDArray[np.intp] = np.unique(keys, return_inverse=True)[1]
    return np.split(numbers, np.cumsum([data.rows for data in datasets])[:-1])


def record_keys(columns: Sequence[str], datasets: Sequence[Dataset]) -> list[NDArray[np.int64]]:
    """Return one number for each record, equal for records that agree in these columns.

    Args:
        columns: Columns that count.
        datasets: Datasets of one domain, at least one.

    Returns:
        For each dataset an array of shape (rows,), in the order of the codes.
    """
    domain, states = datasets[0].domain, 1
    keys = np.zeros(sum(data.rows for data in datasets), dtype=np.int64)
    for name, size in zip(columns, domain.project(columns).sizes, strict=True):
        if states * size > _MOST_KEYS:
            # Number the different keys anew; there are at most as many as records.
            _, keys = np.unique(keys, return_inverse=True)
            states = keys.size
        keys = keys * size + np.concatenate([data.column(name) for data in datasets])
        states *= size
    return np.split(keys, np.cumsum([data.rows for data in datasets])[:-1])


def counted_tables(
    cliques: Sequence[Clique], datasets: Sequence[Dataset]
) -> Iterator[tuple[Clique, list[NDArray[np.int64]]]]:
    """Yield each clique with its table in every dataset.

    Mostly empty tables come first, as the list of their cells that are occupied in any dataset.

    Args:
        cliques: Distinct cliques, small enough to be counted.
        datasets: Datasets of one domain, at least one.
    """
    domain, records = datasets[0].domain, sum(data.rows for data in datasets)
    dense = []
    for clique in cliques:
        if not mostly_empty(domain, clique, records):
            dense.append(clique)
            continue
        numbers = occupied_cells(clique, datasets)
        cells = 1 + max(int(each.max(initial=-1)) for each in numbers)
        yield clique, [np.bincount(each, minlength=cells) for each in numbers]
    for group in batches(domain, dense):
        tallies = [Tally(domain, group).add(data) for data in datasets]
        for clique in group:
            yield clique, [tally.count(clique) for tally in tallies]


def small_cliques(domain: Domain, ways: int, *, most: int | None = None) -> tuple[Clique, ...]:
    """Return all cliques of `ways` columns, or a fixed sample of `most` of them.

    The sample depends on the number of columns only, so that results of several methods on the same
    file can be compared.

    >>> small_cliques(Domain(("a", "b", "c"), (2, 2, 2)), 2)
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    number = math.comb(len(domain), ways)
    if most is None or number <= most:
        return tuple(itertools.combinations(domain.columns, ways))
    rng = np.random.default_rng(_SAMPLE_SEED)
    chosen: set[Clique] = set()
    # Columns are drawn, not indices of a list: 100 columns have 161,700 triples.
    while len(chosen) < most:
        axes = np.sort(rng.choice(len(domain), size=ways, replace=False))
        chosen.add(tuple(domain.columns[axis] for axis in axes))
    position = {column: axis for axis, column in enumerate(domain.columns)}
    return tuple(sorted(chosen, key=lambda clique: [position[column] for column in clique]))


@dataclass(frozen=True, slots=True)
class MarginalError:
    """Average distance over the marginals of one number of columns.

    Attributes:
        ways: Columns per table.
        mean: Average TVD over the tables; NaN without tables.
        worst: Largest TVD; NaN without tables.
        worst_clique: Its columns.
        tables: Tables that were compared.
        skipped: Tables left out because they have too many cells.
    """

    ways: int
    mean: float
    worst: float
    worst_clique: Clique
    tables: int
    skipped: int


def summarise(ways: int, distances: Mapping[Clique, float], *, skipped: int) -> MarginalError:
    """Return the average and the worst of several tables' distances."""
    if not distances:
        return MarginalError(ways, math.nan, math.nan, (), 0, skipped)
    worst = max(distances, key=lambda clique: distances[clique])
    mean = math.fsum(distances.values()) / len(distances)
    return MarginalError(ways, mean, distances[worst], worst, len(distances), skipped)


def within_limit(
    domain: Domain, cliques: Iterable[Clique], *, cell_limit: int = CELL_LIMIT
) -> tuple[tuple[Clique, ...], int]:
    """Return the cliques of at most `cell_limit` cells, and the number of larger ones."""
    every = tuple(cliques)
    kept = tuple(clique for clique in every if domain.size(clique) <= cell_limit)
    return kept, len(every) - len(kept)


def batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[tuple[Clique, ...]]:
    """Yield the cliques in groups whose tables fit in memory together (about 4M cells)."""
    group: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = domain.size(clique)
        if group and cells + size > BATCH_CELLS:
            yield tuple(group)
            group, cells = [], 0
        group.append(clique)
        cells += size
    if group:
        yield tuple(group)


def average_tvd(
    first: Dataset,
    second: Dataset,
    ways: int,
    *,
    most: int | None = None,
) -> MarginalError:
    """Return the average TVD over all marginals of `ways` columns of two datasets.

    Args:
        first: A dataset.
        second: A dataset of the same domain; its number of rows may differ.
        ways: Columns per table.
        most: Tables to sample, with a fixed seed; None: all for one- and two-way tables and at
            most 300 for larger ones.

    Raises:
        ValueError: if the domains differ.
    """
    if first.domain != second.domain:
        raise ValueError("Datasets of different domains cannot be compared.")
    domain = first.domain
    if most is None and ways > 2:
        most = TRIPLES
    cliques, skipped = within_limit(domain, small_cliques(domain, ways, most=most))
    distances = dict.fromkeys(cliques, 0.0)
    for clique, pair in counted_tables(cliques, (first, second)):
        distances[clique] = tvd(*pair)
    return summarise(ways, distances, skipped=skipped)


class HouseholdTally(Tally):
    """Counts of chosen marginals of pair rows, in households.

    Every household adds 1 to each table, divided equally among its pair rows.

    Attributes:
        rows: Whole households seen so far.
        persons: Members of these households.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique]) -> None:
        """Create a tally.

        Args:
            domain: All columns, those of pair rows.
            cliques: Marginals to count.
        """
        if domain.linked is None:
            raise ValueError("Only pair rows are counted in households.")
        self._wide = {clique: with_members(clique) for clique in cliques}
        super().__init__(domain, dict.fromkeys(self._wide.values()))
        self.persons = 0
        self._weights = domain.linked.weights
        self._shares = domain.linked.shares
        size = domain.size((MEMBERS,))
        # If households may be empty, the first code stands for no member.
        self._members = np.arange(size) + domain.linked.max_members + 1 - size
        self._pairs = np.zeros(size, dtype=np.int64)

    def add(self, piece: Dataset) -> HouseholdTally:
        """Count the pair rows of a piece, and return the tally itself.

        Raises:
            ValueError: if the piece has another domain.
        """
        super().add(piece)
        self._pairs += np.bincount(piece.column(MEMBERS), minlength=self._members.size)
        # A piece may end within a household, whose other pair rows are in the next one.
        households = self._pairs * self._weights // self._shares
        self.rows, self.persons = int(households.sum()), int(households @ self._members)
        return self

    def count(self, clique: Clique) -> NDArray[Any]:
        """Return the counts of a clique in households, shape of its sizes.

        They are floats, or integers if a household has one member at most.

        Raises:
            KeyError: if the clique is not among those tallied.
        """
        wide = self._wide[clique]
        pairs = np.moveaxis(super().count(wide), wide.index(MEMBERS), -1)
        shares = pairs * self._weights
        if MEMBERS in clique:
            table = np.moveaxis(shares, -1, clique.index(MEMBERS))
        else:
            table = shares.sum(axis=-1)
        return np.asarray(table if self._shares == 1 else table / self._shares)


def tally_of(domain: Domain, cliques: Iterable[Clique]) -> Tally:
    """Return an empty tally: of records or, if the domain is one of pair rows, of households."""
    return Tally(domain, cliques) if domain.linked is None else HouseholdTally(domain, cliques)
