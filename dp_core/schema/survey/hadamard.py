"""Hadamard matrices, which balance half samples (McCarthy 1969).

Paley, R. E. A. C. (1933). On orthogonal matrices. Journal of Mathematics and Physics 12, 311-320.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray


def has_hadamard(order: int) -> bool:
    """Whether `hadamard` makes a matrix of that order.

    >>> [order for order in range(4, 101, 4) if not has_hadamard(order)]
    [52, 92, 100]
    """
    if order in (1, 2):
        return True
    if order < 4 or order % 4:
        return False
    first = order - 1
    second = order // 2 - 1
    by_prime = _is_prime(first) or (_is_prime(second) and second % 4 == 1)
    return by_prime or has_hadamard(order // 2)


@cache
def hadamard(order: int) -> NDArray[np.int8]:
    """Return a matrix of 1 and -1 with orthogonal columns, the first of them all 1.

    It is made by one of Paley's two constructions for prime numbers, or by doubling.

    Args:
        order: Number of rows and of columns; `has_hadamard` says which there are.

    Raises:
        ValueError: if this order cannot be made.
    """
    if not has_hadamard(order):
        raise ValueError(f"No Hadamard matrix of order {order} is made here.")
    if order == 1:
        found = np.ones((1, 1), dtype=np.int8)
    elif order > 2 and _is_prime(order - 1):
        found = _skew(_residues(order - 1)) + np.eye(order, dtype=np.int8)
    elif order > 2 and _is_prime(order // 2 - 1) and (order // 2 - 1) % 4 == 1:
        core = _with_border(_residues(order // 2 - 1))
        one, other = np.array([[1, 1], [1, -1]]), np.array([[1, -1], [-1, -1]])
        found = np.kron(core, one) + np.kron(np.eye(order // 2, dtype=np.int8), other)
    else:
        found = np.kron(np.array([[1, 1], [1, -1]]), hadamard(order // 2))
    # A row that changes its sign keeps the columns orthogonal.
    found = found * found[:, :1]
    found = found.astype(np.int8)
    found.setflags(write=False)
    return found


def _residues(prime: int) -> NDArray[np.int8]:
    """Return Jacobsthal's matrix: the quadratic character of i - j, modulo a prime."""
    character = np.full(prime, -1, dtype=np.int8)
    character[np.arange(1, prime) ** 2 % prime] = 1
    character[0] = 0
    places = (np.arange(prime)[:, None] - np.arange(prime)[None, :]) % prime
    found: NDArray[np.int8] = character[places]
    return found


def _skew(core: NDArray[np.int8]) -> NDArray[np.int8]:
    found = _with_border(core)
    found[1:, 0] = -1
    return found


def _with_border(core: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return a matrix with a border of ones, and 0 in its corner."""
    found = np.ones((len(core) + 1, len(core) + 1), dtype=np.int8)
    found[0, 0] = 0
    found[1:, 1:] = core
    return found


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % one for one in range(2, int(number**0.5) + 1))
