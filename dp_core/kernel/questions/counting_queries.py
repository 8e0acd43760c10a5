"""Counting queries: the number of records with some public property. Public.

What is asked is public; the answer is not until noise is added (`Curator.answer`). Each query is
0/1-valued on records, so one record adds 0 or 1 to its count. How many counts of a list one row can
move at once is proven here, for both neighbouring relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import comb
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import remembered
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.descriptions import of_type
from dp_core.kernel.questions.linear import Block, largest, units
from dp_core.kernel.questions.statistic import ClaimedCodes, claims
from dp_core.kernel.questions.whole_numbers import check_work, frozen

ENUMERATED_COLUMNS = 20
"""Largest number of columns for which the sensitivity of parities is found by enumeration."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Numbers of records in single cells of tables.

    Attributes:
        of: For each query the clique whose table the cell is of.
        codes: For each query the cell, one code for each column of its clique.
    """

    NAME: ClassVar[str] = "cells"

    of: tuple[Clique, ...]
    codes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if len(self.of) != len(self.codes):
            raise ValueError(f"{len(self.of)} tables but {len(self.codes)} cells.")
        for clique in self.cliques:
            if len(set(clique)) != len(clique):
                raise ValueError(f"A column of {clique} is repeated.")
        for clique, cell in zip(self.of, self.codes, strict=True):
            if len(clique) != len(cell):
                raise ValueError(f"{cell} is no cell of the columns {clique}.")
        if min(chain.from_iterable(self.codes), default=0) < 0:
            raise ValueError("Codes are not negative.")

    @property
    def length(self) -> int:
        """Number of queries."""
        return len(self.of)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Distinct cliques whose tables the counts are computed from."""
        return tuple(dict.fromkeys(self.of))

    def count(self, tables: Mapping[Clique, NDArray[Any]]) -> NDArray[Any]:
        """Return each query's count, shape (length,); whole numbers in, whole numbers out.

        Args:
            tables: Of every clique in `cliques`, with its axes in the clique's order: exact counts,
                or a model's.
        """
        used = {clique: np.asarray(tables[clique]) for clique in self.cliques}
        kind = np.result_type(*used.values()) if used else np.dtype(np.int64)
        found = (used[clique][cell] for clique, cell in zip(self.of, self.codes, strict=True))
        return np.fromiter(found, dtype=kind, count=self.length)

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return bounds on the L1 and squared L2 norm of what one row changes, at least 1.

        They are those of the linear family: a row is in one cell of each set of columns.
        """
        return _largest_of_cells(self.to_json(), neighbours)

    def claimed_codes(self) -> Iterable[ClaimedCodes]:
        """Return none: a row is in one cell of a table, however many there are."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values that define the queries; `from_json` reads them."""
        number = {clique: index for index, clique in enumerate(self.cliques)}
        return {
            "name": self.NAME,
            "cliques": [*map(list, number)],
            "cells": [
                [number[clique], *cell] for clique, cell in zip(self.of, self.codes, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cells:
        """Return the queries that `to_json` described.

        Raises:
            ValueError: or another error of `GARBAGE`, if it is not what `to_json` returns.
        """
        rows = document["cells"]
        if type(rows) is not list or not {*map(type, rows)} <= {list}:
            raise ValueError("Cells are lists of whole numbers.")
        # privacy: True is 1 to Python, and -1 the last table: other cells than those written.
        if (
            not {*map(type, chain.from_iterable(rows))} <= {int}
            or min(map(min, rows), default=0) < 0
        ):
            raise ValueError("Cells are given by whole numbers from 0.")
        cliques = of_type(tuple[Clique, ...], document["cliques"])
        return cls(tuple(cliques[row[0]] for row in rows), tuple(tuple(row[1:]) for row in rows))


@dataclass(frozen=True, slots=True)
class Parities:
    """Numbers of records with an even number of ones among some binary columns.

    With n rows, the Fourier coefficient of the sum of (-1)^(ones) is 2 count - n. Barak et al.
    (2007); the form in {0, 1} moves half as far under replace-one.

    Attributes:
        cliques: Columns of each query, no two with the same columns; `()` counts all rows.
    """

    NAME: ClassVar[str] = "parities"

    cliques: tuple[Clique, ...]

    def __post_init__(self) -> None:
        sets = {frozenset(clique) for clique in self.cliques}
        if len(sets) != len(self.cliques) or any(
            len(set(clique)) != len(clique) for clique in self.cliques
        ):
            raise ValueError("A parity is asked for once, of columns that are all different.")

    @property
    def length(self) -> int:
        """Number of queries."""
        return len(self.cliques)

    def count(self, tables: Mapping[Clique, NDArray[Any]]) -> NDArray[Any]:
        """Add up the cells with an even number of ones of columns of two codes at most."""
        used = [np.asarray(tables[clique]) for clique in self.cliques]
        kind = np.result_type(*used) if used else np.dtype(np.int64)
        found = (table[_even(table.shape)].sum() for table in used)
        return np.fromiter(found, dtype=kind, count=self.length)

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return how many parities one row can move, for both norms: each changes by 1.

        One row more adds 1 to every parity that is even in it; the row of zeros is even in all of
        them. A row replaced changes a parity, by 1, if and only if the two rows differ in an odd
        number of its columns. So with t the columns in which they differ, it moves as many as have
        an odd number of columns in t, and the largest such number over all t is exact. (For all
        parities of order 1 to k it depends on the size of t alone.) Parities that share no columns,
        not even through others, add up. Where more than `ENUMERATED_COLUMNS` columns hang together
        the bound is the largest sum, over the size of t, of what each order can have at most: as
        many as are asked for, and as many as there are.
        """
        moved = self.length if neighbours == "add-remove" else _most_odd(self.cliques)
        return max(1, moved), max(1, moved)

    def claimed_codes(self) -> Iterable[ClaimedCodes]:
        """Return one code, or two, for each column."""
        columns = dict.fromkeys(chain.from_iterable(self.cliques))
        return claims(columns, [1] * len(columns), or_missing=True)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that define the queries."""
        return {"name": self.NAME, "cliques": [*map(list, self.cliques)]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Parities:
        """Return the queries that `to_json` described."""
        return cls(of_type(tuple[Clique, ...], document["cliques"]))


Queries: TypeAlias = Cells | Parities
"""A list of 0/1-valued counting queries."""


@remembered(64)
def _largest_of_cells(document: Mapping[str, Any], neighbours: Neighbours) -> tuple[int, int]:
    """Return the L1 and the squared L2 sensitivity of queries about cells.

    Equal queries are in terms of their own, so that no cell occurs twice in a term. Codes that no
    query names are one further code.
    """
    queries = Cells.from_json(document)
    sizes: dict[str, int] = {}
    # The n-th of equal queries is in the n-th term of its columns.
    asked: dict[Clique, Counter[tuple[int, ...]]] = {}
    terms: dict[tuple[Clique, int], list[tuple[int, ...]]] = {}
    for clique, cell in zip(queries.of, queries.codes, strict=True):
        for name, code in zip(clique, cell, strict=True):
            sizes[name] = max(sizes.get(name, 0), int(code) + 2)
        # privacy: (a, b) and (b, a) are the same table, so a row is in one cell of both.
        names, codes = (
            zip(*sorted(zip(clique, cell, strict=True)), strict=True) if clique else ((), ())
        )
        counted = asked.setdefault(names, Counter())
        terms.setdefault((names, counted[codes]), []).append(codes)
        counted[codes] += 1
    blocks = [(_cells_block(names, cells),) if names else () for (names, _), cells in terms.items()]
    return largest(blocks, sizes, neighbours)


def _cells_block(names: Clique, cells: list[tuple[int, ...]]) -> Block:
    """Return a block that counts the records of each of some different cells."""
    number = {cell: index for index, cell in enumerate(cells)}

    def numbers(*codes: NDArray[np.int64]) -> NDArray[np.int64]:
        each = zip(*(axis.tolist() for axis in codes), strict=True)
        return np.array([number.get(cell, len(cells)) for cell in each], dtype=np.int64)

    return Block(names, units(len(cells), none=True), numbers)


@remembered(64)
def _even(shape: Sequence[int]) -> NDArray[np.bool_]:
    """Return which cells of a table have an even number of ones, shape `shape`."""
    ones = np.zeros(shape, dtype=np.int64)
    for axis, size in enumerate(shape):
        ones += np.arange(size).reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return frozen(ones % 2 == 0)


@remembered(64)
def _most_odd(cliques: Sequence[Clique]) -> int:
    """Return a bound on the number of cliques that meet one set of columns in an odd number."""
    # Columns that no clique joins, not even through others, may be in t or not independently.
    parts = _parts(cliques)
    columns = [len(set(chain.from_iterable(part))) for part in parts]
    check_work(
        sum(
            2**d if d <= ENUMERATED_COLUMNS else d * sum(k * k for k in {*map(len, part)})
            for d, part in zip(columns, parts, strict=True)
        )
    )
    return sum(map(_most_odd_together, parts))


def _parts(cliques: Sequence[Clique]) -> list[list[Clique]]:
    """Return the cliques in groups that have no column in common."""
    group_of: dict[str, list[Clique]] = {}
    for clique in cliques:
        groups = {id(group): group for group in map(group_of.get, clique) if group is not None}
        # The largest takes in the others, so that a clique rarely changes its group.
        joined = max(groups.values(), key=len, default=[])
        for group in groups.values():
            if group is not joined:
                joined += group
                group_of.update((column, joined) for other in group for column in other)
        joined.append(clique)
        group_of.update((column, joined) for column in clique)
    return list({id(group): group for group in group_of.values()}.values())


def _most_odd_together(cliques: Sequence[Clique]) -> int:
    columns = sorted(set(chain.from_iterable(cliques)))
    if len(columns) <= ENUMERATED_COLUMNS:
        return _most_odd_of_all(cliques, columns)
    d = len(columns)
    orders = Counter(map(len, cliques))
    # privacy: of the cliques of order k, no more than comb(size, i) comb(d - size, k - i), summed
    # over odd i, meet a set of that size in an odd number, for they are all different.
    return max(
        sum(
            min(
                asked,
                sum(comb(size, i) * comb(d - size, order - i) for i in range(1, order + 1, 2)),
            )
            for order, asked in orders.items()
        )
        for size in range(d + 1)
    )


def _most_odd_of_all(cliques: Sequence[Clique], columns: Sequence[str]) -> int:
    """Return exactly how many cliques meet one set of columns in an odd number.

    The sum of (-1)^|S meet t| over the cliques S, for all t at once, is the Walsh-Hadamard
    transform of their indicator; it is the number of cliques less twice the number that is odd.
    """
    bit = {column: 1 << index for index, column in enumerate(columns)}
    signs = np.zeros(1 << len(columns), dtype=np.int64)
    for clique in cliques:
        signs[sum(bit[column] for column in clique)] += 1
    for index in range(len(columns)):
        halves = signs.reshape(-1, 2, 1 << index)
        signs = np.stack([halves.sum(axis=1), halves[:, 0] - halves[:, 1]], axis=1).ravel()
    return (len(cliques) - int(signs.min())) // 2
