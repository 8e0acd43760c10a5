"""What a statistic of the curator's list has to say about itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique
from dp_core.tables.marginal import Marginal
from dp_core.wall.accounting.sensitivity import Bounds

MOST = 2**62
"""Scores have at most this size, which leaves room for noise in 64 bits."""


class Statistic(Protocol):
    """A vector of whole numbers computed from exact marginals.

    What it proves of itself is what one row can do, for any number of rows; what a person of
    several rows can do follows from that (`dp_core.wall.accounting.sensitivity.of_unit`). Where a
    bound holds for the file's own number of rows only, it is refused under add-remove.

    It may also have methods `l1` and `l2_squared` like those of `Queries`, where one row cannot
    move every entry by the largest change at once.
    """

    @property
    def length(self) -> int:
        """Number of entries."""

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Marginals it is computed from."""

    def largest_change(self, neighbours: Neighbours) -> int:
        """How far one row can move any one entry, with the proof."""

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        """Return the exact values, shape (length,). Confidential."""

    def to_json(self) -> dict[str, object]:
        """Return `name` and the public parameters that decide the sensitivity."""

    @staticmethod
    def required(document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        """Return the sensitivities of the statistic that `to_json` described.

        Args:
            document: What `to_json` returned, or what somebody says it did.
            neighbours: The relation.

        Raises:
            ValueError: or another error of its kind, if `to_json` returns no such thing.
        """


def alike(change: int, document: Mapping[str, Any]) -> Bounds:
    """Return the sensitivities where every entry of the `length` may move by `change` at once."""
    length = whole(document, "length")
    return change, change * length, change**2 * length


def whole(document: Mapping[str, Any], key: str, *, least: int = 0) -> int:
    """Return a whole number of a document.

    Raises:
        ValueError: if it is something else, or below `least`.
    """
    value = document[key]
    # privacy: a grid or weight below its least would be a sensitivity that is too small.
    if type(value) is not int or value < least:
        raise ValueError(f"A statistic's {key!r} is a whole number of at least {least}.")
    return value


def saturated(values: Iterable[int]) -> NDArray[np.int64]:
    """Return whole numbers as 64-bit ones; what does not fit becomes the largest that may be."""
    # privacy: a minimum and a maximum bring no two values further apart, and an overflow or an
    # error would tell of the data.
    return np.array([min(max(int(value), -MOST), MOST) for value in values], dtype=np.int64)
