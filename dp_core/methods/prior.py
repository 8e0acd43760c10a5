"""Public records in the codes of a release's schema.

They are the synthetic sets of an earlier release, or the rows of a public file.
`replicates.posterior.public_predictions` says what they predict about the dependence of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.implied_pairs import counted

Codes = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublicPrior:
    """Public records in the codes of a release's schema.

    Attributes:
        domain: The columns of the schema for which the records are used.
        sets: Codes of each set of records, shape (columns, records); a value that the schema does
            not have has the code `size` of its column. A public file is one set.
        apart: Whether the differences between the sets show the noise of the earlier release, as
            with posterior sets.
        document: What the plan says about the source; its hash covers the source's content.
        notes: What could not be used, one sentence each.
    """

    domain: Domain
    sets: tuple[Codes, ...]
    apart: bool
    document: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sets or any(len(codes) != len(self.domain) for codes in self.sets):
            raise ValueError("A prior needs at least one set, with codes of all its columns.")

    def has(self, clique: Clique) -> bool:
        """Return whether the records have all columns of a clique."""
        return all(name in self.domain for name in clique)

    def counts(self, clique: Clique) -> tuple[NDArray[np.float64], ...]:
        """Return the table of a clique in each set, without records that have unknown values.

        Args:
            clique: Columns that the records have.
        """
        sizes = self.domain.project(clique).sizes
        known = tuple(slice(0, size) for size in sizes)
        # A value that the schema does not have is one level more.
        wider = Domain(clique, tuple(size + 1 for size in sizes))
        axes = list(self.domain.axes(clique))
        return tuple(
            counted(Dataset(wider, codes[axes].astype(wider.code_type, copy=False)), clique)[known]
            for codes in self.sets
        )

    def __repr__(self) -> str:
        return f"PublicPrior({len(self.domain)} columns, {len(self.sets)} sets)"


def as_codes(columns: Sequence[NDArray[np.integer]]) -> Codes:
    """Return the codes of columns as one array of the smallest type that `PublicPrior` takes.

    Args:
        columns: Nonnegative codes of each column, all of the same length; at least one column.
    """
    wide = any(values.size and int(values.max()) > np.iinfo(np.uint16).max for values in columns)
    codes = np.stack(columns)
    return codes.astype(np.uint32) if wide else codes.astype(np.uint16)
