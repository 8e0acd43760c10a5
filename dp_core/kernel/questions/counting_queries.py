"""Counting queries: the number of records with some public property. Public.

What is asked is public; the answer is not until noise is added (`Curator.answer`). Each query is
0/1-valued on records, so one record adds 0 or 1 to its count. How many counts of a list one row can
move at once is proven here, for both neighbouring relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from math import comb
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear import Block, largest, units

ENUMERATED_COLUMNS = 20
"""Largest number of columns for which the sensitivity of parities is found by enumeration."""


class Queries(Protocol):
    """A list of 0/1-valued counting queries."""

    @property
    def length(self) -> int:
        """Number of queries."""

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Distinct cliques whose tables the counts are computed from."""

    def count(self, tables: Mapping[Clique, NDArray[Any]]) -> NDArray[Any]:
        """Return each query's count, shape (length,); whole numbers in, whole numbers out.

        Args:
            tables: Of every clique in `cliques`, with its axes in the clique's order: exact counts,
                or a model's.
        """

    def l1(self, neighbours: Neighbours) -> int:
        """Return a bound on the sum of the changes that one row makes to all counts, at least 1."""

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return a bound on the sum of the squares of these changes, at least 1."""

    def to_json(self) -> dict[str, object]:
        """Return plain values that define the queries; `queries_from_json` reads them."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Numbers of records in single cells of tables.

    Attributes:
        of: For each query the clique whose table the cell is of.
        codes: For each query the cell, one code for each column of its clique.
    """

    of: tuple[Clique, ...]
    codes: tuple[tuple[int, ...], ...]
    _by_clique: dict[Clique, tuple[NDArray[np.int64], tuple[NDArray[np.int64], ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if len(self.of) != len(self.codes):
            raise ValueError(f"{len(self.of)} tables but {len(self.codes)} cells.")
        for clique, cell in zip(self.of, self.codes, strict=True):
            if len(clique) != len(cell) or len(set(clique)) != len(clique):
                raise ValueError(f"{cell} is no cell of the columns {clique}.")
            if any(code < 0 for code in cell):
                raise ValueError(f"Codes are not negative, got {cell}.")
        groups: dict[Clique, list[int]] = {}
        for index, clique in enumerate(self.of):
            groups.setdefault(clique, []).append(index)
        for clique, queries in groups.items():
            cells = np.array([self.codes[index] for index in queries], dtype=np.int64)
            self._by_clique[clique] = np.array(queries), tuple(cells.T)

    @property
    def length(self) -> int:
        return len(self.of)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(self._by_clique)

    def count(self, tables: Mapping[Clique, NDArray[Any]]) -> NDArray[Any]:
        used = {clique: np.asarray(tables[clique]) for clique in self.cliques}
        kind = np.result_type(*used.values()) if used else np.dtype(np.int64)
        counts = np.empty(self.length, dtype=kind)
        for clique, (queries, cells) in self._by_clique.items():
            counts[queries] = used[clique][cells]
        return counts

    def l1(self, neighbours: Neighbours) -> int:
        """Return the bound of the linear family: a row is in one cell of each set of columns."""
        return _largest_of_cells(self, neighbours)[0]

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return the bound of the linear family."""
        return _largest_of_cells(self, neighbours)[1]

    def to_json(self) -> dict[str, object]:
        number = {clique: index for index, clique in enumerate(self.cliques)}
        return {
            "name": "cells",
            "cliques": [list(clique) for clique in number],
            "cells": [
                [number[clique], *map(int, cell)]
                for clique, cell in zip(self.of, self.codes, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class Parities:
    """Numbers of records with an even number of ones among some binary columns.

    With n rows, the Fourier coefficient of the sum of (-1)^(ones) is 2 count - n. Barak et al.
    (2007); the form in {0, 1} moves half as far under replace-one.

    Attributes:
        cliques: Columns of each query, no two with the same columns; `()` counts all rows.
    """

    cliques: tuple[Clique, ...]

    def __post_init__(self) -> None:
        sets = {frozenset(clique) for clique in self.cliques}
        if len(sets) != len(self.cliques) or any(
            len(set(clique)) != len(clique) for clique in self.cliques
        ):
            raise ValueError("A parity is asked for once, of columns that are all different.")

    @property
    def length(self) -> int:
        return len(self.cliques)

    def count(self, tables: Mapping[Clique, NDArray[Any]]) -> NDArray[Any]:
        """Add up the cells with an even number of ones.

        Raises:
            ValueError: if a column has more than two codes.
        """
        used = [np.asarray(tables[clique]) for clique in self.cliques]
        kind = np.result_type(*used) if used else np.dtype(np.int64)
        counts = np.empty(self.length, dtype=kind)
        for index, table in enumerate(used):
            if any(size > 2 for size in table.shape):
                raise ValueError(
                    f"A parity is of binary columns; one of {self.cliques[index]} has more codes."
                )
            counts[index] = table[_even(table.shape)].sum()
        return counts

    def l1(self, neighbours: Neighbours) -> int:
        """Count how many parities one row can move.

        One row more adds 1 to every parity that is even in it; the row of zeros is even in all of
        them. A row replaced changes a parity, by 1, if and only if the two rows differ in an odd
        number of its columns. So with t the columns in which they differ, it moves as many as have
        an odd number of columns in t, and the largest such number over all t is exact. (For all
        parities of order 1 to k it depends on the size of t alone.) Parities that share no columns,
        not even through others, add up. Where more than `ENUMERATED_COLUMNS` columns hang together
        the bound is the largest sum, over the size of t, of what each order can have at most: as
        many as are asked for, and as many as there are.
        """
        if neighbours == "add-remove":
            return max(1, self.length)
        return max(1, _most_odd(self.cliques))

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return `l1`: every changed count changes by 1, and 1 squared is 1."""
        return self.l1(neighbours)

    def to_json(self) -> dict[str, object]:
        return {"name": "parities", "cliques": [list(clique) for clique in self.cliques]}


def queries_from_json(document: Mapping[str, Any]) -> Queries:
    """Return the queries that `to_json` described.

    Raises:
        ValueError: or another error of its kind, if it is not what `to_json` returns.
    """
    cliques = tuple(_clique(columns) for columns in document["cliques"])
    if document["name"] == "parities":
        return Parities(cliques)
    if document["name"] != "cells":
        raise ValueError("No queries of that name are known.")
    rows = [tuple(_whole(number) for number in row) for row in document["cells"]]
    return Cells(tuple(cliques[row[0]] for row in rows), tuple(row[1:] for row in rows))


def _clique(columns: object) -> Clique:
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("A clique is a list of names.")
    return tuple(columns)


def _whole(number: object) -> int:
    # True is an int to Python, and would be another column or cell than the one written.
    if type(number) is not int or number < 0:
        raise ValueError("Cells are given by whole numbers.")
    return number


@lru_cache(maxsize=64)
def _largest_of_cells(queries: Cells, neighbours: Neighbours) -> tuple[int, int]:
    """Return the L1 and the squared L2 sensitivity of queries about cells.

    Equal queries are in terms of their own, so that no cell occurs twice in a term. Codes that no
    query names are one further code.
    """
    sizes: dict[str, int] = {}
    asked: dict[Clique, Counter[tuple[int, ...]]] = {}
    for clique, cell in zip(queries.of, queries.codes, strict=True):
        for name, code in zip(clique, cell, strict=True):
            sizes[name] = max(sizes.get(name, 0), int(code) + 2)
        # privacy: (a, b) and (b, a) are the same table, so a row is in one cell of both.
        names, codes = (
            zip(*sorted(zip(clique, cell, strict=True)), strict=True) if clique else ((), ())
        )
        asked.setdefault(names, Counter())[codes] += 1
    terms = []
    for names, cells in asked.items():
        for equal in range(max(cells.values())):
            several = [cell for cell, times in cells.items() if times > equal]
            terms.append((_cells_block(names, several),) if names else ())
    return largest(terms, sizes, neighbours)


def _cells_block(names: Clique, cells: list[tuple[int, ...]]) -> Block:
    """Return a block that counts the records of each of some different cells."""
    number = {cell: index for index, cell in enumerate(cells)}

    def numbers(*codes: NDArray[np.int64]) -> NDArray[np.int64]:
        each = zip(*(axis.tolist() for axis in codes), strict=True)
        return np.array([number.get(cell, len(cells)) for cell in each], dtype=np.int64)

    return Block(names, units(len(cells), none=True), numbers)


@lru_cache(maxsize=64)
def _even(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which cells of a table have an even number of ones, shape `shape`."""
    ones = np.zeros(shape, dtype=np.int64)
    for axis, size in enumerate(shape):
        ones += np.arange(size).reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return np.asarray(ones % 2 == 0)


@lru_cache(maxsize=64)
def _most_odd(cliques: Sequence[Clique]) -> int:
    """Return a bound on the number of cliques that meet one set of columns in an odd number."""
    # Columns that no clique joins, not even through others, may be in t or not independently.
    return sum(_most_odd_together(part) for part in _parts(cliques))


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
