"""What a sum over records is: whole numbers, from codes alone, with a proven sensitivity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.privacy import Neighbours
from dp_core.tables.domain import Clique


class Sum(ABC):
    """A vector of whole numbers computed from the records of some columns. Public.

    What is asked is public; the answer is not until noise is added (`Curator.total`). It is
    computed from the cells that hold a record, so columns may have any number of codes. Every
    number is a whole one, in a unit that the class states: a statistic that is not a count is
    brought to a fixed grid first, and what is bounded here is the change of the rounded value. The
    bounds are of one row, for any number of rows; what a person of several rows can do follows from
    them (`dp_core.wall.accounting.sensitivity.of_unit`).

    Attributes:
        NAME: Word of `to_json`, by which the closed list knows it.
    """

    __slots__ = ()

    NAME: ClassVar[str]

    @property
    @abstractmethod
    def length(self) -> int:
        """Number of entries."""

    @property
    @abstractmethod
    def clique(self) -> Clique:
        """Columns that it is computed from."""

    @abstractmethod
    def total(self, cells: NDArray[np.uint16], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact vector, shape (length,). Confidential.

        Args:
            cells: Codes of the cells that hold a record, shape (cells, columns), in the clique's
                order of columns.
            counts: Records in each, shape (cells,), all positive.
        """

    @abstractmethod
    def l1(self, neighbours: Neighbours) -> int:
        """Return a bound on the sum of the changes one row makes to all entries, at least 1."""

    @abstractmethod
    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return a bound on the sum of the squares of these changes, at least 1."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return plain values that define it and its bounds, with its `NAME` as `name`."""

    @classmethod
    @abstractmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the sum that `to_json` described.

        Raises:
            ValueError: or another error of its kind, if it is not what `to_json` returns.
        """
