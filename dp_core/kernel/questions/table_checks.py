"""Distance between tables of the file and of the finished sets, as a measure of accuracy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.cost.sensitivity import Bounds
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.statistic import TableStatistic, alike
from dp_core.kernel.questions.whole_numbers import saturated


@dataclass(frozen=True, slots=True, eq=False)
class TableChecks(TableStatistic):
    """L1 distance between each table of counts and public reference counts, in records.

    Entry r is the sum over cells of |count - references[r]|. If both tables have equally many
    records, it is twice the number of records that must change their cell to make them equal.

    Attributes:
        cliques: Columns of each table.
        references: Public reference counts, each with its clique's shape; whole, not negative.
        shares: Shares of a unit in which the references are counted; 1 (the default) for records.
            Tables of one member or of pairs have fractions of households, so that of linked tables
            the sets are counted in shares, too.
    """

    NAME: ClassVar[str] = "table-checks"
    IN_SHARES: ClassVar[bool] = True

    cliques: tuple[Clique, ...]
    references: tuple[NDArray[np.int64], ...]
    shares: int = 1

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.references) or not self.cliques:
            raise ValueError("Every checked table needs reference counts, and at least one table.")
        if any((each < 0).any() for each in self.references):
            raise ValueError("Reference counts are at least 0.")

    @property
    def length(self) -> int:
        return len(self.cliques)

    def largest_change(self, neighbours: Neighbours) -> int:
        """1, and 2 under replace-one, for any reference counts and any number of rows.

        A row that is added or removed changes one cell of a table by 1 and no other. So one term
        |n - r| of the sum changes by exactly 1, since n and r are whole. A replaced row changes two
        cells by 1, or none, and so the sum by at most 2. The reference counts are public, fixed
        before the file is read, and equal for both files. So with k tables the vector changes by at
        most k (replace-one: 2 k) in the L1 norm and k (4 k) in the squared L2 norm.
        """
        return _change(neighbours)

    def in_shares(self, shares: int) -> Self:
        """Return the distances in shares: the references must be in shares already.

        Raises:
            ValueError: if they are in other units.
        """
        if self.shares != shares:
            raise ValueError(
                f"Reference counts must be in units of 1/{shares} of a record, not 1/{self.shares}."
            )
        return self

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        # privacy: Python's whole numbers add up without overflow, whatever the counts are.
        return saturated(
            int(np.abs(counts[clique].counts.astype(object) - reference).sum())
            for clique, reference in zip(self.cliques, self.references, strict=True)
        )

    def to_json(self) -> dict[str, object]:
        return checks_asked(self.cliques, self.references)

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        tables = document["tables"]
        # privacy: the sensitivity grows with the number of tables, and an empty list has none.
        if type(tables) is not list or not tables or not all(type(t) is list for t in tables):
            raise ValueError("Checked tables must be a non-empty list of lists of columns.")
        return alike(_change(neighbours), {"length": len(tables)})


def checks_asked(
    cliques: Sequence[Clique], references: Sequence[NDArray[np.int64]]
) -> dict[str, object]:
    """Return `Step.asks` of checked tables: their columns and a hash of the references."""
    found = hashlib.sha256()
    for clique, reference in zip(cliques, references, strict=True):
        found.update(canonical_json([list(clique), list(reference.shape)]))
        found.update(np.ascontiguousarray(reference, dtype="<i8").tobytes())
    return {
        "name": "table-checks",
        "tables": [list(clique) for clique in cliques],
        "references": found.hexdigest(),
    }


def _change(neighbours: Neighbours) -> int:
    return 1 if neighbours == "add-remove" else 2
