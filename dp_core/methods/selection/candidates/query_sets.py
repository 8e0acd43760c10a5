"""Sets of counting queries: parities of binary columns, or cells of small tables.

They depend on the domain alone, so they are public.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities

MOST_QUERIES = 200_000
"""Largest number of queries in a list; listing and comparing more takes too long."""


def is_binary(domain: Domain) -> bool:
    """Return whether every column has at most two codes, so that there are parities."""
    return all(size <= 2 for size in domain.sizes)


def parities(domain: Domain, orders: Sequence[int]) -> Parities:
    """Return the parities of the given numbers of columns, smaller ones first.

    Columns with one code are left out, because their parity is constant. If there are fewer columns
    than every order, the result is the parity of all columns.
    """
    columns = [name for name, size in zip(domain.columns, domain.sizes, strict=True) if size == 2]
    return Parities(
        tuple(
            clique
            for order in _within(orders, len(columns))
            for clique in itertools.combinations(columns, order)
        )
    )


def tables(domain: Domain, orders: Sequence[int]) -> tuple[Clique, ...]:
    """Return the tables of the given numbers of columns, smaller ones first."""
    return tuple(
        clique
        for order in _within(orders, len(domain))
        for clique in itertools.combinations(domain.columns, order)
    )


def cells(domain: Domain, orders: Sequence[int]) -> Cells:
    """Return all cells of the tables of the given numbers of columns."""
    of: list[Clique] = []
    codes: list[tuple[int, ...]] = []
    for clique in tables(domain, orders):
        for cell in itertools.product(*map(range, domain.project(clique).sizes)):
            of.append(clique)
            codes.append(cell)
    return Cells(tuple(of), tuple(codes))


def check_binary(domain: Domain, option: str, instead: str) -> None:
    """Check that all columns are binary, so that they have parities.

    Raises:
        BadInput: if one is not; the message names the column and another method.
    """
    for name, size in zip(domain.columns, domain.sizes, strict=True):
        if size > 2:
            raise BadInput(
                f"`{option}` asks for parities, which only columns of two levels have; the column"
                f" {name!r} has {size}. Use {instead}."
            )


def check_number(domain: Domain, orders: Sequence[int], *, of_cells: bool, option: str) -> None:
    """Check that a list of queries is not too long.

    Raises:
        BadInput: if it is; the message names the limit.
    """
    kept = _within(orders, len(domain))
    if of_cells:
        number = sum(_symmetric(domain.sizes, order) for order in kept)
    else:
        number = sum(math.comb(sum(size == 2 for size in domain.sizes), order) for order in kept)
    if number > MOST_QUERIES:
        raise BadInput(
            f"`{option}` would ask {number:,} queries, more than the {MOST_QUERIES:,} it can choose"
            " among; name smaller orders."
        )


def _symmetric(sizes: Sequence[int], order: int) -> int:
    """Return the total number of cells of all tables of one order."""
    sums = [1] + [0] * order
    for size in sizes:
        for index in range(order, 0, -1):
            sums[index] += sums[index - 1] * size
    return sums[order]


def _within(orders: Sequence[int], columns: int) -> tuple[int, ...]:
    """Return the orders that exist for this number of columns, or else the largest possible one."""
    kept = sorted({order for order in orders if order <= columns})
    return tuple(kept) if kept or not columns else (columns,)
