"""Questions of the linear family by the names that receipts give them.

Each class says which rows its columns have and how it is written in a receipt. Sums and
sensitivities are those of the family (`dp_core.kernel.questions.linear`); nothing here is part of
their proof, except that a question is what its description says.

A number in a column with P grid positions is measured from the middle of its range, in half steps
of the grid: c = 2 position - (P - 1). The width of the range is 2 (P - 1) half steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt, prod
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import remembered
from dp_core.kernel.errors import BadInput
from dp_core.kernel.questions.linear import (
    Block,
    Linear,
    Term,
    contrasts,
    matrix,
    reach_of,
    sum_of_table,
    units,
)
from dp_core.kernel.questions.statistic import ClaimedCodes, Sum, claims
from dp_core.kernel.questions.whole_numbers import (
    MOST_CELLS,
    MOST_CODES,
    MOST_POSITIONS,
    check_work,
    cut,
    frozen,
)

_PART = 256  # boxes that are compared with all others at a time
MOST_WEIGHT = 2**16
"""Largest weight of a kernel."""
GRID = 2**20
"""Units in 1 of a cosine."""
LARGEST = 2**33
"""Largest absolute value of an interaction's coefficient: a product over all columns."""
LARGEST_IN_SHARES = 2**31
"""Largest coefficient times the shares of a unit. So the entries of 2^20 units are at most 2^51:
numbers of shares that are found again from values in units
(`dp_core.client.household_values`)."""
MOST_ENTRIES = 2**20
"""Largest number of entries of one interaction, and of all measured together for a set.

A record can change every entry, and the accounting of a release allows 2^31 changed numbers
(`dp_core.kernel.cost.curves`); a thousand sets use half of that.
"""

Edges = tuple[tuple[int, ...] | None, ...]
"""For each column, the first code of every bin, from 0, and then the number of codes; None for a
column without bins, whose codes are separate levels."""


# -- blocks


def levels(column: str, size: int) -> Block:
    """Return a block that counts each code of a column."""
    return Block((column,), units(size), _own)


def _own(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return codes


def bins(column: str, edges: tuple[int, ...], rows: NDArray[np.int64] | None = None) -> Block:
    """Return a block with a row for each bin, by default a count of its records.

    Args:
        column: The column.
        edges: First code of each bin, then the number of codes.
        rows: Shape (bins, width), or (bins + 1, width): the last row is then for all codes from
            the last edge on.
    """
    own = units(len(edges) - 1) if rows is None else matrix(rows)
    return Block((column,), own, lambda codes: bin_of(codes, edges))


def bin_of(codes: NDArray[np.int64], edges: Sequence[int]) -> NDArray[np.int64]:
    """Return the bin of each code; the number of bins for a code from the last edge on."""
    return np.searchsorted(edges, codes, side="right") - 1


def missing(column: str, positions: int) -> Block:
    """Return a block that counts the records with a number, and those without."""
    return Block((column,), units(2), lambda codes: (codes >= positions).astype(np.int64))


def numbers(column: str, rows: NDArray[np.int64]) -> Block:
    """Return a block with a row for each position of a number; a missing number adds 0."""
    zero = np.zeros((1, rows.shape[1]), dtype=np.int64)
    return Block(
        (column,),
        matrix(np.concatenate([rows, zero])),
        lambda codes: np.minimum(codes, len(rows)),
    )


def centred(positions: int) -> NDArray[np.int64]:
    """Return numbers about the middle of their range, shape (positions, 1), in half steps."""
    return 2 * np.arange(positions, dtype=np.int64)[:, None] - (positions - 1)


# -- counts


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCounts(Linear):
    """Records by levels of some columns and by which of some numbers are missing. Unit: records.

    The entries are a table with an axis for each column of `by`, then one of two codes (0 there,
    1 missing) for each of `numbers`, flattened row by row.

    Attributes:
        by: Columns of levels.
        sizes: Number of levels of each of these.
        numbers: Columns of numbers.
        positions: Number of grid positions of each of these; a larger code means missing.
    """

    NAME: ClassVar[str] = "cell-counts"

    by: tuple[str, ...]
    sizes: tuple[int, ...]
    numbers: tuple[str, ...]
    positions: tuple[int, ...]

    def __post_init__(self) -> None:
        check_columns(self.claimed_codes())

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of the table whose entries these are."""
        return (*self.sizes, *[2] * len(self.numbers))

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims(self.by, self.sizes) + claims(self.numbers, self.positions, or_missing=True)

    def terms(self) -> tuple[Term]:
        by = map(levels, self.by, self.sizes)
        return ((*by, *map(missing, self.numbers, self.positions)),)


@dataclass(frozen=True, slots=True)
class _OfColumns(Linear):
    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims(self.columns, self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedCounts(_OfColumns):
    """Numbers of records by levels of some columns and bins of others. Unit: records.

    The entries are a table with an axis for each column, flattened row by row.

    Attributes:
        columns: Columns of the table.
        sizes: Number of codes of each column.
        edges: Bins of each column.
    """

    NAME: ClassVar[str] = "binned-counts"

    edges: Edges

    def __post_init__(self) -> None:
        check_columns(self.claimed_codes())
        check_bins(self.sizes, self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels or bins of each column."""
        return binned_shape(self.sizes, self.edges)

    def terms(self) -> tuple[Term]:
        each = zip(self.columns, self.sizes, self.edges, strict=True)
        return (
            tuple(
                levels(column, size) if edges is None else bins(column, edges)
                for column, size, edges in each
            ),
        )


def check_bins(sizes: Sequence[int], edges: Edges) -> None:
    """Raise ValueError unless the bins of every column partition its codes.

    Args:
        sizes: Number of codes of each column.
        edges: Bins of each column.
    """
    if len(sizes) != len(edges):
        raise ValueError("Every column needs a size, and edges or None.")
    for size, each in zip(sizes, edges, strict=True):
        if each is not None:
            check_edges(each, size)


def check_edges(edges: Sequence[int], *ends: int) -> None:
    """Raise ValueError unless edges ascend from 0 to one of some ends."""
    ascending = all(one < other for one, other in pairwise(edges))
    if len(edges) < 2 or edges[0] != 0 or edges[-1] not in ends or not ascending:
        raise ValueError("Edges must ascend from 0 to the number of codes.")


def binned_shape(sizes: Sequence[int], edges: Edges) -> tuple[int, ...]:
    """Return the number of levels or bins of each column."""
    return tuple(
        size if each is None else len(each) - 1 for size, each in zip(sizes, edges, strict=True)
    )


def binned(codes: NDArray[np.int64], edges: Edges) -> NDArray[np.int64]:
    """Return the level or bin of each code, same shape.

    Args:
        codes: Codes of records, shape (records, columns).
        edges: Bins of each column.
    """
    found = codes.copy()
    for axis, each in enumerate(edges):
        if each is not None:
            found[:, axis] = bin_of(codes[:, axis], each)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCounts(_OfColumns):
    """Numbers of records in boxes of codes, no two of which overlap. Unit: records.

    A record is in a box if each of its codes is in the box's range of that column. A record in no
    box is not counted.

    Attributes:
        columns: Columns of the boxes.
        sizes: Number of codes of each column.
        boxes: For each box the first code and the end (one more than the last code) of its range in
            each column, in the order of the columns: two numbers for each column.
    """

    NAME: ClassVar[str] = "box-counts"

    boxes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("Boxes need columns.")
        check_columns(self.claimed_codes())
        check_work(len(self.boxes) ** 2)
        if not self.boxes:
            raise ValueError("There is at least one box.")
        if any(len(box) != 2 * len(self.columns) for box in self.boxes):
            raise ValueError("A box has two numbers for each column.")
        for box in self.boxes:
            ranges = zip(box[::2], box[1::2], self.sizes, strict=True)
            if any(not 0 <= low < high <= size for low, high, size in ranges):
                raise ValueError("A box's ranges are not empty, and within the column's codes.")
        if _overlap(np.array(self.boxes, dtype=np.int64)):
            raise ValueError("Two boxes overlap.")

    def terms(self) -> tuple[Term]:
        return ((Block(self.columns, units(len(self.boxes), none=True), self._box_of),),)

    def _box_of(self, *codes: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.full(len(codes[0]), len(self.boxes), dtype=np.int64)
        for number, box in enumerate(self.boxes):
            inside = np.arange(len(found))
            for column, low, high in zip(codes, box[::2], box[1::2], strict=True):
                there = column[inside]
                inside = inside[(there >= low) & (there < high)]
            found[inside] = number
        return found


def _overlap(boxes: NDArray[np.int64]) -> bool:
    """Return whether two boxes have a combination of codes in common, exactly."""
    lows, highs = boxes[:, ::2], boxes[:, 1::2]
    for first in range(0, len(boxes), _PART):
        some = slice(first, first + _PART)
        both = np.ones((len(boxes[some]), len(boxes)), dtype=bool)
        for low, high in zip(lows.T, highs.T, strict=True):
            both &= (low[some, None] < high) & (low < high[some, None])
        # Every box overlaps with itself, and with no other.
        if both.sum() != len(both):
            return True
    return False


# -- sums and products of numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSums(Linear):
    """Sums of one number about the middle of its range, by levels of some columns.

    Unit: half steps of its grid. The entries are the cells of `by`, flattened row by row.

    Attributes:
        column: Column of numbers.
        positions: Number of its grid positions; a larger code means missing and adds 0.
        by: Columns of levels; none by default.
        sizes: Number of levels of each of these.
    """

    NAME: ClassVar[str] = "cell-sums"

    column: str
    positions: int
    by: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_columns(self.claimed_codes())

    def claimed_codes(self) -> list[ClaimedCodes]:
        own = ClaimedCodes(self.column, self.positions, or_missing=True)
        return [*claims(self.by, self.sizes), own]

    def terms(self) -> tuple[Term]:
        own = numbers(self.column, centred(self.positions))
        return ((*map(levels, self.by, self.sizes), own),)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTwoNumbers(Sum):
    """Sums of products of two numbers, or of the squares of one."""

    columns: tuple[str, str]
    positions: tuple[int, int]
    about: str
    by: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) != 2 or len(self.positions) != 2:
            raise ValueError("A product needs two columns and their numbers of positions.")
        if self.squares and self.positions[0] != self.positions[1]:
            raise ValueError("A column must have the same number of positions in both places.")
        check_columns(self.claimed_codes())

    @property
    def squares(self) -> bool:
        """Whether both numbers are the same."""
        return self.columns[0] == self.columns[1]

    def claimed_codes(self) -> list[ClaimedCodes]:
        found = claims(self.columns, self.positions, or_missing=True)
        return claims(self.by, self.sizes) + (found[:1] if self.squares else found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiddleProducts(OfTwoNumbers, Linear):
    """The sum of the squares of one number, or of the products of two, about the middle: one entry.

    Unit: half steps of the one grid times half steps of the other. The products are c d. The
    squares are 2 c^2 - r^2, with r the largest c, which lie as evenly about 0: the sum of c^2 is
    half of (total + r^2 times the number of records that have the number). Records in which a
    number is missing add 0.

    Attributes:
        columns: Two different columns of numbers, or one twice for its squares.
        positions: Grid positions of each; a larger code means missing.
        about: What the products are taken about. `Products` are about the means of cells.
        by, sizes: None, because there are no cells.
    """

    NAME: ClassVar[str] = "products"

    about: Literal["middle"] = "middle"

    def __post_init__(self) -> None:
        OfTwoNumbers.__post_init__(self)
        if self.about != "middle" or self.by or self.sizes:
            raise ValueError("Products about the middle cannot have cells (`by`).")

    def terms(self) -> tuple[Term]:
        one, other = map(centred, self.positions)
        if self.squares:
            return ((numbers(self.columns[0], 2 * one**2 - (self.positions[0] - 1) ** 2),),)
        return ((numbers(self.columns[0], one), numbers(self.columns[1], other)),)


# -- smooth sums over the bins of a number


class OfBins:
    """A question about the bins of one column."""

    __slots__ = ()

    column: str
    edges: tuple[int, ...]

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts(OfBins, Linear):
    """Sums of public weights by the distance of records from each bin. Unit: that of the weights.

    Entry g is the sum over the records of the weight w[|g - b|], where b is the bin of the record;
    a distance beyond the last weight adds 0. A further entry, the last, adds w[0] for each record
    whose number is missing. With Gaussian weights and Gaussian noise this is the finite form of the
    release of a kernel density estimate by a Gaussian process (Hall, Rinaldo & Wasserman 2013):
    applying the same weights once more gives an estimate whose noise has the covariance of the
    kernel.

    Attributes:
        column: Column of numbers.
        positions: Number of its grid positions; a larger code means missing.
        edges: First position of every bin, from 0, and then the number of positions; at most
            4,096 bins (`MOST_WORK`).
        weights: Weight at each distance in bins, from distance 0; nonnegative integers, the first
            at least 1, and at most as many as bins.
    """

    NAME: ClassVar[str] = "kernel-counts"

    column: str
    positions: int
    edges: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        check_columns(self.claimed_codes())
        check_edges(self.edges, self.positions)
        check_work(self.bins**2)
        if not 1 <= len(self.weights) <= self.bins:
            raise ValueError("There are weights for distances from 0, at most one for each bin.")
        if self.weights[0] < 1 or any(not 0 <= each <= MOST_WEIGHT for each in self.weights):
            raise ValueError(f"Weights are from 0 to {MOST_WEIGHT:,}, the first from 1.")

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims((self.column,), (self.positions,), or_missing=True)

    def terms(self) -> tuple[Term]:
        return ((bins(self.column, self.edges, _kernel(self.bins, self.weights)),),)


@remembered(1)
def _kernel(bins: int, weights: Sequence[int]) -> NDArray[np.int64]:
    """Return the weights of records by bin, those without a number last, shape (bins + 1,) * 2."""
    by_distance = np.zeros(bins, dtype=np.int64)
    by_distance[: len(weights)] = weights
    places = np.arange(bins)
    rows = np.zeros((bins + 1, bins + 1), dtype=np.int64)
    rows[:-1, :-1] = by_distance[np.abs(places[:, None] - places)]
    rows[-1, -1] = weights[0]
    return frozen(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineSums(OfBins, Linear):
    """The first coefficients of the cosine transform of a histogram. Unit: 1/GRID record.

    A histogram x of n bins has the coefficients C_j = sum over bins b of
    x_b cos(pi j (2 b + 1)/(2 n)), j = 0 to n - 1 (DCT-II). Every cosine is first rounded to a
    multiple of 1/GRID. The entries are C_0 to C_(k - 1). If the last code means missing, a record
    with it adds nothing to these, and a further entry counts these records, in the same unit.

    Attributes:
        column: Name of the numeric column.
        size: Its number of codes.
        edges: First code of each bin, from 0, and then the number of codes that are not missing:
            `size`, or `size` - 1 if the last code means missing.
        kept: Number k of coefficients, from 1 to the number of bins.
    """

    NAME: ClassVar[str] = "cosine-sums"
    IN_SHARES: ClassVar[bool] = False
    NOT_IN_SHARES: ClassVar[str] = (
        "Its bounds are for one table of records; measure tables of linked files."
    )

    column: str
    size: int
    edges: tuple[int, ...]
    kept: int

    def __post_init__(self) -> None:
        check_columns(self.claimed_codes())
        check_edges(self.edges, self.size, self.size - 1)
        check_work(self.bins**2)
        if not 1 <= self.kept <= self.bins:
            raise ValueError(f"A histogram of {self.bins} bins has 1 to {self.bins} coefficients.")

    @property
    def missing(self) -> bool:
        """Whether the last code means missing."""
        return self.edges[-1] < self.size

    @property
    def length(self) -> int:
        return self.kept + self.missing

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims((self.column,), (self.size,))

    def terms(self) -> tuple[Term]:
        rows = np.zeros((self.bins + self.missing, self.length), dtype=np.int64)
        rows[: self.bins, : self.kept] = first_cosines(self.bins, self.kept).T
        if self.missing:
            rows[-1, -1] = GRID
        return ((bins(self.column, self.edges if self.missing else self.edges[:-1], rows),),)


def first_cosines(bins: int, kept: int) -> NDArray[np.int64]:
    """Return what a record of each bin adds to the first coefficients; see `cosines`."""
    return _cosine_table(bins, -(-kept // 256) * 256)[:kept]


@remembered(1)
def _cosine_table(bins: int, kept: int) -> NDArray[np.int64]:
    # Methods ask for the sensitivities of every number of coefficients.
    return frozen(cosines(bins, np.arange(kept)))


def cosines(bins: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a record of each bin adds to coefficients, shape (coefficients, bins). Public.

    Args:
        bins: Number of bins.
        numbers: The coefficients.
    """
    angles = np.outer(numbers, 2 * np.arange(bins) + 1) % (4 * bins)
    return _of_angles(bins)[angles]


@remembered(4)
def _of_angles(bins: int) -> NDArray[np.int64]:
    """Return cos(pi a/(2 bins)) for a = 0 to 4 bins - 1 as the nearest whole numbers of 1/GRID.

    Every machine finds the same, because the series is summed in whole numbers of 2^-100; so
    whoever verifies a receipt computes the sensitivity that was charged.
    """
    one = 1 << 100
    pi = (314159265358979323846264338327950288419716939937511 << 100) // 10**50
    quarter = []
    for a in range(bins + 1):
        square = (pi * a // (2 * bins)) ** 2 >> 100
        found, size, step = 0, one, 0  # size of the term, whose signs alternate
        while size:
            found += size if step % 4 == 0 else -size
            step += 2
            size = (size * square >> 100) // (step * (step - 1))
        quarter.append((2 * GRID * found + one) // (2 * one))
    half = [*quarter, *(-value for value in quarter[-2::-1])]
    return frozen(np.array([*half, *half[-2:0:-1]], dtype=np.int64))


# -- interactions


@dataclass(frozen=True, slots=True)
class Interaction(_OfColumns):
    """The part of a table that is orthogonal to all of its margins. Unit: `unit` steps a record.

    A table of p x q cells spends most of its budget on repeating its margins. Its interaction has
    only (p - 1)(q - 1) entries. In the squared L2 norm a record moves it by (1 - 1/p)(1 - 1/q)
    instead of 1 (Xiao, He, Zhang & Kifer, NeurIPS 2023: the residual mechanism of ResidualPlanner).

    A column of p codes has p - 1 contrasts (Helmert's): contrast j = 1..p-1 is 1 for the first j
    codes, -j for code j, and 0 from there on. They are orthogonal to one another and to the
    constant, and of squared norm j (j + 1). Each is multiplied by the whole number next to
    K/sqrt(j (j + 1)), so that all have nearly the norm K, and one scale of discrete noise serves
    all entries. The entries are the table's products with the products of its columns' contrasts,
    those of the first column outermost. The interaction of one column is its deviation from a
    uniform distribution.

    Attributes:
        columns: Columns of the table, one or more.
        sizes: Number of codes of each column, 2 or more.
    """

    NAME: ClassVar[str] = "interaction"

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("An interaction is of one column or more.")
        check_columns(self.claimed_codes())
        for name, size in zip(self.columns, self.sizes, strict=True):
            if size < 2:
                raise ValueError(
                    f"A column of an interaction has 2 codes or more, and {name!r} has {size}:"
                    " leave it out."
                )
        if (
            prod(self.sizes) > MOST_CELLS
            # privacy: a record moves all entries; the accounting allows for this many.
            or self.length > MOST_ENTRIES
            # privacy: with larger coefficients the entries might not fit in 64 bits.
            or reach_of(self._blocks()) > LARGEST
        ):
            raise ValueError(
                f"The interaction of {' x '.join(self.columns)} has too many cells to be measured:"
                " leave out a column, or give its columns wider bins."
            )

    @property
    def length(self) -> int:
        return prod(size - 1 for size in self.sizes)

    def terms(self) -> tuple[Term]:
        return (self._blocks(),)

    def _blocks(self) -> Term:
        return tuple(
            Block((column,), contrasts(contrast_weights(size, len(self.sizes))), _own)
            for column, size in zip(self.columns, self.sizes, strict=True)
        )

    def in_shares(self, shares: int) -> Self:
        """Return the same interaction: its entries are sums over shares instead of records.

        Raises:
            BadInput: if the entries of a million units could be too large to be found again from
                values in units.
        """
        if shares > 1 and shares * reach_of(self._blocks()) > LARGEST_IN_SHARES:
            raise BadInput(
                f"The interaction of {' x '.join(self.columns)} has numbers that are too large in"
                f" units of 1/{shares} of a household: measure the whole table."
            )
        return self

    def of_table(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact entries, shape (length,), of a table's counts.

        Args:
            counts: Records, shape `sizes`, axes in the order of the columns. Confidential, unless
                the counts are public.
        """
        if counts.shape != self.sizes or counts.dtype != np.int64:
            raise ValueError(f"Counts of shape {counts.shape} for sizes {self.sizes}.")
        return cut(sum_of_table(self._blocks(), counts))


def squared_norm(size: int, columns: int) -> int:
    """Return the square of the common norm K of a column's contrasts.

    K is 32 times the size or more, so that no weight is rounded by more than 1 in 64; of few
    columns, which leave room for it, it is larger, so that the weights of most are rounded by less.
    """
    # Two codes have one contrast, which needs no rounding: small coefficients leave room for more
    # columns.
    return 32 if size == 2 else max(32 * size, 2 ** min(12, 32 // columns)) ** 2


@remembered(64)
def contrast_weights(size: int, columns: int) -> NDArray[np.int64]:
    """Return the weights of a column of `size` codes, one of so many columns."""
    square = squared_norm(size, columns)
    weights = ((isqrt(4 * square // (j * (j + 1))) + 1) // 2 for j in range(1, size))
    return frozen(np.fromiter(weights, dtype=np.int64, count=size - 1))


def check_columns(codes: Sequence[ClaimedCodes]) -> None:
    """Raise ValueError unless columns differ, and have a possible number of codes or positions."""
    # The codes of all cells of so many columns are an array with one axis more, of at most 64.
    if len(codes) > 63:
        raise ValueError("A question has at most 63 columns.")
    if len({each.column for each in codes}) != len(codes):
        raise ValueError("The columns of a question must be different.")
    for _, size, or_missing in codes:
        most = MOST_POSITIONS if or_missing else MOST_CODES
        if not 1 <= size <= most:
            raise ValueError(f"A column has 1 to {most:,} codes or positions.")
