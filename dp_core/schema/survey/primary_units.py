"""The clusters of a survey, the stratum of each, and Hadamard matrices.

The columns of strata and clusters have public levels, so the design is fixed: a set that has no row
of a cluster still has that cluster, with a total of 0.

Hadamard matrices balance half samples (McCarthy 1969).
Paley, R. E. A. C. (1933). On orthogonal matrices. Journal of Mathematics and Physics 12, 311-320.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin


@dataclass(frozen=True, slots=True, eq=False)
class PrimaryUnits:
    """The clusters of the design.

    Attributes:
        columns: Released columns whose codes together identify a cluster.
        pairs: Codes of stratum (0 without strata) and cluster, one row for each cluster, ascending,
            shape (clusters, 2).
    """

    columns: tuple[str, ...]
    pairs: NDArray[np.intp]

    @property
    def strata(self) -> NDArray[np.intp]:
        """Index of the stratum of each cluster, shape (clusters,)."""
        return np.unique(self.pairs[:, 0], return_inverse=True)[1].ravel()

    def index(self, codes: tuple[NDArray[np.integer], ...]) -> NDArray[np.intp]:
        """Return the cluster of each row.

        Args:
            codes: Codes of `columns`, each of shape (rows,).

        Raises:
            ValueError: if a row is in no cluster of the design.
        """
        known = self.pairs[:, 2 - len(codes) :]
        sizes = tuple(
            max(int(one.max()), int(own.max(initial=0))) + 1
            for one, own in zip(known.T, codes, strict=True)
        )
        place = np.full(sizes, -1, dtype=np.intp)
        place[tuple(known.T)] = np.arange(len(known))
        found: NDArray[np.intp] = place[tuple(codes)]
        if (found < 0).any():
            raise ValueError("A row is in no cluster of the schema.")
        return found


def primary_units(schema: Schema) -> PrimaryUnits | None:
    """Return the clusters of a schema's design; None if no column has the role `cluster`.

    Without `survey.nested`, a cluster is identified by its own code, and its strata follow from it;
    `dp_core.schema.reading.survey_reader` refuses schemas in which they do not.
    """
    written = schema.coarse or schema
    stratum, cluster = written.stratum, written.cluster
    if cluster is None:
        return None
    name, codes = origin(written, cluster.name)
    if stratum is None:
        own = np.unique(codes)
        pairs = np.column_stack([np.zeros_like(own), own])
        return PrimaryUnits((cluster.name,), pairs)
    above, groups = origin(written, stratum.name)
    if name == above:
        pairs = np.column_stack([groups, codes])
    else:
        domain = written.domain.project((above, name))
        possible = np.argwhere(~written.zeros.mask(domain))
        pairs = np.column_stack([groups[possible[:, 0]], codes[possible[:, 1]]])
    columns = (stratum.name, cluster.name) if written.survey.nested else (cluster.name,)
    return PrimaryUnits(columns, np.unique(pairs, axis=0))


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
        found = _with_border(_residues(order - 1))
        found[1:, 0] = -1
        found += np.eye(order, dtype=np.int8)
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


def _with_border(core: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return a matrix with a border of ones, and 0 in its corner."""
    found = np.ones((len(core) + 1, len(core) + 1), dtype=np.int8)
    found[0, 0] = 0
    found[1:, 1:] = core
    return found


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % one for one in range(2, int(number**0.5) + 1))
