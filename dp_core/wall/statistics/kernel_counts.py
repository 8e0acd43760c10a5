"""Kernel-weighted counts: for each bin of a grid, the sum of weights of the records near it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique
from dp_core.wall.statistics.descriptions import names, wholes
from dp_core.wall.statistics.statistic import ClaimedCodes, Sum, claims
from dp_core.wall.statistics.whole_numbers import MOST, MOST_POSITIONS, cut

MOST_WEIGHT = 2**16
"""Largest weight, so that sums of squares fit in 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts(Sum):
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
        edges: First position of every bin, from 0, and then the number of positions.
        weights: Weight at each distance in bins, from distance 0; nonnegative integers, the first
            at least 1, and at most as many as bins.
    """

    NAME: ClassVar[str] = "kernel-counts"
    IN_SHARES: ClassVar[bool] = True

    column: str
    positions: int
    edges: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.positions <= MOST_POSITIONS:
            raise ValueError(f"A number has 1 to {MOST_POSITIONS:,} positions.")
        # privacy: every position is in exactly one bin.
        if (
            len(self.edges) < 2
            or self.edges[0] != 0
            or self.edges[-1] != self.positions
            or any(low >= high for low, high in pairwise(self.edges))
        ):
            raise ValueError("Edges must ascend from 0 to the number of positions.")
        if not 1 <= len(self.weights) <= self.bins:
            raise ValueError("There are weights for distances from 0, at most one for each bin.")
        if self.weights[0] < 1 or any(not 0 <= each <= MOST_WEIGHT for each in self.weights):
            raise ValueError(f"Weights are from 0 to {MOST_WEIGHT:,}, the first from 1.")

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def length(self) -> int:
        return self.bins + 1

    @property
    def clique(self) -> Clique:
        return (self.column,)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = cells[:, 0].astype(np.int64)
        there = codes < self.positions
        bins = np.searchsorted(self.edges, codes[there], side="right") - 1
        held = np.zeros(self.bins, dtype=np.int64)
        np.add.at(held, bins, counts[there])
        missing = int(counts[~there].sum())
        # The check makes an overflow impossible: an entry adds a weight for each record at most.
        fits = max(self.weights) * int(counts.sum()) < MOST
        held = held if fits else held.astype(object)
        found = self.weights[0] * held
        for distance, weight in enumerate(self.weights[1:], start=1):
            found[distance:] += weight * held[:-distance]
            found[:-distance] += weight * held[distance:]
        return np.append(cut(found), cut(np.array([self.weights[0] * missing], dtype=object)))

    def l1(self, neighbours: Neighbours) -> int:
        """Return the largest sum of a record's weights under add-remove, twice that if replaced.

        A record in bin b adds w[|g - b|] to entry g, so its sum is that of the weights within the
        grid. The bound is the largest sum over all b. A record with a missing value adds w[0],
        which is not more. Replacing a record removes one such vector and adds another.
        """
        return self._largest(1) * (1 if neighbours == "add-remove" else 2)

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return the largest sum of squares of a record's weights, twice that if replaced.

        Weights are not negative, so neither is the inner product of two records' vectors, and the
        squared length of their difference is at most the sum of both squared lengths.
        """
        return self._largest(2) * (1 if neighbours == "add-remove" else 2)

    def _largest(self, power: int) -> int:
        """Return the largest sum of powers of the weights of a record, over all bins; exact."""
        # Entry d is the sum up to distance d; whole numbers of any size.
        sums = [0]
        for weight in self.weights:
            sums.append(sums[-1] + weight**power)
        last = len(self.weights) - 1
        return max(
            sums[min(bin, last) + 1] + sums[min(self.bins - 1 - bin, last) + 1] - sums[1]
            for bin in range(self.bins)
        )

    def claimed_codes(self) -> list[ClaimedCodes]:
        return claims((self.column,), (self.positions,), or_missing=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "column": self.column,
            "positions": self.positions,
            "edges": list(self.edges),
            "weights": list(self.weights),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            column=names([document["column"]])[0],
            positions=wholes([document["positions"]])[0],
            edges=wholes(document["edges"]),
            weights=wholes(document["weights"]),
        )
