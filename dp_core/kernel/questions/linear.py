"""The linear family: questions whose answer is a sum of public integer vectors over the records.

A question is a list of terms, a term a product over disjoint blocks of columns. A block gives each
combination of its columns' codes a number, and each number a public row of integers. A record adds,
for each term, the outer product of its blocks' rows; the terms' vectors are stacked.

Two neighbouring files differ in one record, so the answers differ by one record's vector
(add-remove), or by the difference of two records' vectors (replace-one). Both are functions of the
rows alone. They do not depend on the other records, on how many there are, or on how a block
numbers the codes: whatever number a record gets, it adds one of the public rows. So sensitivities
are computed here, and no question needs a proof of its own.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import remembered
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.whole_numbers import MOST, MOST_CELLS, cell_numbers, cut

MOST_JOINT_CELLS = 65_536
"""Largest number of joint cells whose vectors are enumerated."""
MOST_COMPARED = 2**20
"""Largest number of entries that are compared pair by pair; intervals bound what has more."""
_MOST_IN_MEMORY = 2**22
_MOST_IN_FLOATS = 2**53


class Norms(NamedTuple):
    """What the rows of a block, or the vectors of a term, contribute to a sensitivity.

    Attributes:
        l1: Largest L1 norm of a row.
        l2_squared: Largest squared L2 norm of a row.
        least: Lower bound on the inner product of two rows, which may be the same.
        l1_apart: Bound on the L1 distance of two rows.
        l2_squared_apart: Bound on the squared L2 distance of two rows.
    """

    l1: int
    l2_squared: int
    least: int
    l1_apart: int
    l2_squared_apart: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rows:
    """The public rows of a block, in a form that fits their pattern.

    Attributes:
        count: Number of rows.
        width: Number of entries of each row.
        reach: Largest absolute value of an entry, at least 1.
        norms: Returns what they contribute to a sensitivity.
        of: Returns rows by their numbers, shape (numbers, width).
        times: Returns the sum of rows times whole numbers, shape (width, ...). These have the shape
            (count, ...); the sum of their absolute values, times `reach`, is below 2^62, or they
            are Python's integers.
        unit: Whether the rows are unit vectors; by default not.
    """

    count: int
    width: int
    reach: int
    norms: Callable[[], Norms]
    of: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    times: Callable[[NDArray[Any]], NDArray[Any]]
    unit: bool = False


def units(width: int, *, none: bool = False) -> Rows:
    """Return unit vectors: a record is counted in one entry, or in none.

    Args:
        width: Number of entries.
        none: Whether a further row, the last, is 0; by default not.
    """
    count = width + none
    apart = 2 if width > 1 else int(none)
    return Rows(
        count=count,
        width=width,
        reach=1,
        norms=lambda: Norms(1, 1, 0 if count > 1 else 1, apart, apart),
        of=lambda numbers: (numbers[:, None] == np.arange(width)).astype(np.int64),
        times=lambda table: table[:width],
        unit=True,
    )


def matrix(rows: NDArray[np.int64]) -> Rows:
    """Return rows of any integers, from an array of shape (count, width)."""
    reach = max(1, _largest_size(rows))

    def times(table: NDArray[Any]) -> NDArray[Any]:
        flat = table.reshape(len(table), -1)
        # privacy: floats are exact if no partial sum is beyond their whole numbers. The sum of
        # sizes may not fit 64 bits itself, so it is a float, and half as large as allowed.
        sizes = np.abs(flat.astype(np.float64)).sum() if flat.dtype != object else np.inf
        exact = sizes * reach < _MOST_IN_FLOATS / 2
        kind = np.float64 if exact else flat.dtype
        found = rows.T.astype(kind) @ flat.astype(kind)
        return np.asarray(found.astype(flat.dtype).reshape(-1, *table.shape[1:]))

    return Rows(
        count=rows.shape[0],
        width=rows.shape[1],
        reach=reach,
        norms=lambda: norms_of(rows),
        of=lambda numbers: rows[numbers],
        times=times,
    )


def contrasts(weights: NDArray[np.int64]) -> Rows:
    """Return Helmert's contrasts of a column's codes, each times a positive weight w_j.

    Row x has the entry -x w_x in contrast x, w_j in every contrast j > x, and 0 before, for
    contrasts j = 1, 2, ... (row 0 has no entry of its own).
    """
    w, steps = weights, np.arange(1, len(weights) + 1)

    def of(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        own = numbers[:, None]
        return np.asarray(w * np.where(own < steps, 1, -steps * (own == steps)))

    def times(table: NDArray[Any]) -> NDArray[Any]:
        along = (-1, *[1] * (table.ndim - 1))
        before = np.cumsum(table, axis=0)[:-1]
        return np.asarray(w.reshape(along) * (before - steps.reshape(along) * table[1:]))

    return Rows(
        count=len(w) + 1,
        width=len(w),
        reach=int((w * steps).max()),
        norms=lambda: _norms_of_contrasts(w),
        of=of,
        times=times,
    )


def _norms_of_contrasts(weights: NDArray[np.int64]) -> Norms:
    """Return the norms of contrasts, exactly, in time proportional to their number.

    For rows x < y, with S(y) the sum of w_j^2 over j > y:

        u(x)u(x) = x^2 w_x^2 + S(x)
        u(x)u(y) = S(y) - y w_y^2
        |u(x) - u(y)|_1 = x w_x + (the sum of w_j over x < j < y) + (y + 1) w_y
    """
    x = np.arange(len(weights) + 1)
    w: NDArray[Any] = np.concatenate([[0], weights])
    # No sum is larger: w_j is at most the largest j w_j, divided by j.
    if 8 * int((x * w).max()) ** 2 >= MOST:
        w = w.astype(object)
    own_l1, squares, passed = x * w, w**2, np.cumsum(w)
    after = squares.sum() - np.cumsum(squares)
    own, with_lower = own_l1**2 + after, after - x * squares
    below_l1 = np.maximum.accumulate(own_l1 - passed)[:-1]
    below = np.maximum.accumulate(own)[:-1]
    return Norms(
        int((own_l1 + passed[-1] - passed).max()),
        int(own.max()),
        int(with_lower[1:].min()),
        int((below_l1 + passed[:-1] + (own_l1 + w)[1:]).max()),
        int((below + own[1:] - 2 * with_lower[1:]).max()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some columns, and the row of each combination of their codes.

    Attributes:
        columns: The columns.
        rows: The rows.
        number: Returns the number of each record's row, from the codes of each column, all of
            shape (records,).
    """

    columns: Clique
    rows: Rows
    number: Callable[..., NDArray[np.int64]]

    def numbers(self, cells: Codes | NDArray[np.int64], columns: Clique) -> NDArray[np.int64]:
        """Return the number of each record's row.

        Args:
            cells: Codes, shape (records, columns).
            columns: Names of these columns.

        Raises:
            ValueError: if there is no row of that number.
        """
        places = map(columns.index, self.columns)
        found = self.number(*(cells[:, place].astype(np.int64) for place in places))
        # privacy: a record adds one of the rows that the sensitivity is computed from. (As
        # unsigned numbers, negative ones are too large.)
        if found.view(np.uint64).max(initial=0) >= self.rows.count:
            raise ValueError("A record has a code that its block gives no row.")
        return found


Term = tuple[Block, ...]


class Linear(Sum):
    """A question of the linear family. A subclass names its terms and the columns' codes.

    Unit: that of the rows. S times the counts give S times the answer.
    """

    __slots__ = ()

    IN_SHARES: ClassVar[bool] = True

    @abstractmethod
    def terms(self) -> Sequence[Term]:
        """Return the terms."""

    @property
    def length(self) -> int:
        return sum(width_of(term) for term in self.terms())

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        found = [sum_of_term(term, self.clique, cells, counts) for term in self.terms()]
        return cut(found[0] if len(found) == 1 else np.concatenate(found))

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return the largest norms, of one record's vector or of two records' difference."""
        return _largest_of(self.to_json(), neighbours)


@remembered(4096)
def _largest_of(document: Mapping[str, Any], neighbours: Neighbours) -> tuple[int, int]:
    # The closed list is looked up by name, as it lists what is defined from here.
    listed = importlib.import_module("dp_core.kernel.questions.vetted")
    # privacy: of the question that the text describes, whoever asked about it.
    question = listed.sum_from_json(document)
    assert isinstance(question, Linear)
    sizes = {name: codes + or_missing for name, codes, or_missing in question.claimed_codes()}
    return largest(question.terms(), sizes, neighbours)


def largest(
    terms: Sequence[Term], sizes: dict[str, int], neighbours: Neighbours
) -> tuple[int, int]:
    """Return the L1 and the squared L2 sensitivity of a list of terms, at least 1.

    *One term.* The norms of an outer product are the products of its blocks' norms, so under
    add-remove the largest is the product of the largest: exact. Under replace-one one block has
    its own distances. For several, |u - v|_1 <= |u|_1 + |v|_1, and |u - v|^2 = |u|^2 + |v|^2 - 2
    u.v, where u.v is the product of the blocks' inner products. Each of these is between its
    block's least and largest; a product of intervals has its least value at their ends.

    *Several terms.* Norms of stacked vectors add up.

    *Few joint cells.* The vectors of all combinations of codes are listed, and their norms and
    distances are compared (`norms_of`). The smaller of both bounds counts.

    Args:
        terms: The terms.
        sizes: Number of codes of each column, with that for missing.
        neighbours: Neighbouring relation between single rows.
    """
    replaced = neighbours == "replace-one"
    found = [_norms_of_term(term) for term in terms]
    l1 = sum(each.l1_apart if replaced else each.l1 for each in found)
    l2_squared = sum(each.l2_squared_apart if replaced else each.l2_squared for each in found)
    exact = len(terms) == 1 and (not replaced or len(terms[0]) == 1)
    if not exact and (vectors := _joint_vectors(terms, sizes)) is not None:
        joint = norms_of(vectors)
        l1 = min(l1, joint.l1_apart if replaced else joint.l1)
        l2_squared = min(l2_squared, joint.l2_squared_apart if replaced else joint.l2_squared)
    return max(1, l1), max(1, l2_squared)


def norms_of(rows: NDArray[np.int64]) -> Norms:
    """Return the norms of rows, shape (rows, entries). Exact but for `least` and distances.

    Distances are compared pair by pair, exactly, up to `MOST_COMPARED` entries. Beyond, every entry
    of a row is in the interval of its column, and two rows are no further apart than the ends of
    these; a last row that shares no column with the others is not in their intervals, for its
    distance from any of them is the sum of both norms. With one column, intervals are exact.

    Args:
        rows: At least one row of 64-bit integers.
    """
    if len(rows) == 1 or rows[:-1, rows[-1] != 0].any():
        return _norms_of_all(rows)
    others, last = _norms_of_all(rows[:-1]), _norms_of_all(rows[-1:])
    return Norms(
        max(others.l1, last.l1),
        max(others.l2_squared, last.l2_squared),
        min(others.least, 0),
        max(others.l1_apart, others.l1 + last.l1),
        max(others.l2_squared_apart, others.l2_squared + last.l2_squared),
    )


def _norms_of_all(rows: NDArray[np.int64]) -> Norms:
    l1 = l2_squared = 0
    step = max(1, MOST_COMPARED // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        sizes = _exactly(np.abs(rows[start : start + step]))
        l1 = max(l1, int(sizes.sum(axis=1).max()))
        l2_squared = max(l2_squared, int((sizes**2).sum(axis=1).max()))
    if rows.size * len(rows) <= MOST_COMPARED:
        each = _exactly(rows)
        apart = np.abs(each[:, None] - each)
        return Norms(
            l1,
            l2_squared,
            int((each @ each.T).min()),
            int(apart.sum(axis=2).max()),
            int((apart**2).sum(axis=2).max()),
        )
    low, high = _exactly(np.stack([rows.min(axis=0), rows.max(axis=0)]))
    products = np.where((low <= 0) & (high >= 0), low * high, np.minimum(low**2, high**2))
    # Each bound holds, so the smallest does.
    least = max(int(products.sum()), -l2_squared)
    return Norms(
        l1,
        l2_squared,
        least,
        min(int((high - low).sum()), 2 * l1),
        min(int(((high - low) ** 2).sum()), 2 * l2_squared - 2 * least),
    )


def width_of(term: Term) -> int:
    """Return the number of entries of a term."""
    return prod(block.rows.width for block in term)


def reach_of(term: Term) -> int:
    """Return the largest absolute value of an entry of a term, or a larger number."""
    return prod(block.rows.reach for block in term)


def sum_of_term(
    term: Term, columns: Clique, cells: Codes, counts: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the sum over records of a term's vectors, exactly, shape (entries,). Confidential.

    Args:
        term: The term.
        columns: Names of the columns of the cells.
        cells: Codes of the cells that hold a record, shape (cells, columns).
        counts: Records of each cell, shape (cells,).
    """
    numbers = [block.numbers(cells, columns) for block in term]
    counted = [block.rows.count for block in term]
    dense = [place for place, block in enumerate(term) if not block.rows.unit]
    width = prod(term[place].rows.width for place in dense)
    if not dense or prod(counted) <= min(2 * len(cells) * width, MOST_CELLS):
        table = np.zeros(prod(counted), dtype=np.int64)
        np.add.at(table, cell_numbers(numbers, counted, len(cells)), counts)
        return sum_of_table(term, table.reshape(counted))
    return _sum_by_cell(term, numbers, dense, counts)


def sum_of_table(term: Term, table: NDArray[np.int64]) -> NDArray[Any]:
    """Return the sum over records of a term's vectors, exactly, shape (entries,).

    Args:
        term: The term.
        table: Records by the blocks' numbers, an axis for each block.
    """
    found = _exact_counts(term, table)
    for axis, block in enumerate(term):
        found = np.moveaxis(block.rows.times(np.moveaxis(found, axis, 0)), 0, axis)
    return np.ascontiguousarray(found).reshape(-1)


def _sum_by_cell(
    term: Term,
    numbers: Sequence[NDArray[np.int64]],
    dense: Sequence[int],
    counts: NDArray[np.int64],
) -> NDArray[Any]:
    """Return the same sum, cell by cell: less work where a table would be nearly empty."""
    unit = [place for place in range(len(term)) if place not in dense]
    shape = [term[place].rows.count for place in unit]
    where = cell_numbers([numbers[place] for place in unit], shape, len(counts))
    weights = _exact_counts(term, counts)
    widths = [term[place].rows.width for place in dense]
    found = np.zeros((prod(widths), prod(shape)), dtype=weights.dtype)
    step = max(1, _MOST_IN_MEMORY // len(found))
    for start in range(0, len(counts), step):
        some = slice(start, start + step)
        each = weights[None, some]
        for place in dense:
            each = _outer(each, term[place].rows.of(numbers[place][some]))
        for entry, values in zip(found, each, strict=True):
            np.add.at(entry, where[some], values)
    order = [*dense, *unit]
    table = found.reshape([*widths, *shape])[tuple(slice(term[p].rows.width) for p in order)]
    return np.ascontiguousarray(table.transpose(np.argsort(order))).reshape(-1)


def _exact_counts(term: Term, counts: NDArray[np.int64]) -> NDArray[Any]:
    """Return counts as 64-bit integers if no sum of the term can overflow, or as Python's."""
    records = 1 + int(np.abs(counts.astype(np.float64)).sum() * (1 + 2**-20))  # or more
    # privacy: no partial sum is larger than all records times the largest entry.
    return counts if records * reach_of(term) < MOST else counts.astype(object)


def _norms_of_term(term: Term) -> Norms:
    each = [block.rows.norms() for block in term]
    if len(each) == 1:
        return each[0]
    l1 = prod(norms.l1 for norms in each)
    l2_squared = prod(norms.l2_squared for norms in each)
    # privacy: both records may have the same row in one block, and different ones in another.
    least = most = 1
    for norms in each:
        ends = [end * own for end in (least, most) for own in (norms.least, norms.l2_squared)]
        least, most = min(ends), max(ends)
    # Terms whose blocks are all of one row are the same for every record.
    differ = any(block.rows.count > 1 for block in term)
    apart = (2 * l1, 2 * l2_squared - 2 * least) if differ else (0, 0)
    return Norms(l1, l2_squared, least, *apart)


def _joint_vectors(terms: Sequence[Term], sizes: dict[str, int]) -> NDArray[np.int64] | None:
    """Return the distinct vectors of all joint cells, or None if they are too many to compare."""
    names = tuple({name: None for term in terms for block in term for name in block.columns})
    cells = prod(sizes[name] for name in names)
    least = cells if len(terms) > 1 else prod(block.rows.count for block in terms[0]) ** 2
    if cells > MOST_JOINT_CELLS or least * sum(map(width_of, terms)) > MOST_COMPARED:
        return None
    if max(map(reach_of, terms)) >= MOST:
        return None
    joint = np.indices([sizes[name] for name in names], dtype=np.int64).reshape(len(names), cells).T
    parts = []
    for term in terms:
        found = np.ones((1, cells), dtype=np.int64)
        for block in term:
            found = _outer(found, block.rows.of(block.numbers(joint, names)))
        parts.append(found)
    distinct = np.unique(np.concatenate(parts).T, axis=0)
    return distinct if distinct.size * len(distinct) <= MOST_COMPARED else None


def _outer(entries: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return the outer product of each record's entries and row, shape (entries, records)."""
    return np.asarray((entries[:, None] * rows.T).reshape(-1, len(rows)))


def _exactly(values: NDArray[np.int64]) -> NDArray[Any]:
    """Return rows of which sums of squares of differences do not overflow."""
    fits = 4 * _largest_size(values) ** 2 * values.shape[1] < MOST
    return values if fits else values.astype(object)


def _largest_size(values: NDArray[np.int64]) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))
