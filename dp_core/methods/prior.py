"""Public records, and what they predict about the dependence of pairs of columns.

They are the synthetic sets of an earlier release, or the rows of a public file, in the codes of a
release's schema. `replicates.posterior.pair_prior` learns from this release's noisy tables how far
to follow the predictions. All of it is post-processing.

The public table of a pair is scaled to this release's one-way tables (iterative proportional
fitting), which keeps its odds ratios: the prediction has the dependence of the public records and
the levels' frequencies of this release. Its known error is the sampling error of the public
records and, if they are sets whose differences show it, the noise of the earlier release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.estimates.raking import rake
from dp_core.methods.reconstruction.estimates.table_parts import beyond

Floats = NDArray[np.float64]

_ROUNDS = 50  # of iterative proportional fitting
_UNIFORM = 0.5  # records added to each level, so that no level of the release is impossible


@dataclass(frozen=True, slots=True, eq=False)
class PairPrediction:
    """The prediction of public records for a pair.

    Attributes:
        deviation: Predicted deviation from independence, in records of this release, shape (p, q);
            sums over either axis are 0.
        records: Mean number, over the sets, of public records with known values in both columns.
        apart: Deviations of the shares in each set from their mean, shape (sets, p, q); None if
            differences between the sets show no noise.
    """

    deviation: Floats
    records: float
    apart: Floats | None


def predict_pair(
    prior: PublicPrior,
    clique: Clique,
    one: Floats,
    other: Floats,
    expected: Floats,
    possible: NDArray[np.bool_],
) -> PairPrediction | None:
    """Return the prediction of public records for a pair; None if they lack one of its columns.

    Args:
        prior: The public records.
        clique: The two columns.
        one: This release's table of the first, in records, shape (p,), nonnegative.
        other: That of the second, shape (q,), of the same total.
        expected: This release's counts without dependence, shape (p, q), in records.
        possible: Whether each cell can have records, shape (p, q).
    """
    if not prior.has(clique):
        return None
    tables = prior.counts(clique)
    records = float(np.mean([table.sum() for table in tables]))
    if records < 1:
        return None
    shares = np.array([table / max(float(table.sum()), 1.0) for table in tables])
    start = _without_zeros(shares.mean(axis=0), records)
    a, b = clique
    raked = rake(start * possible, clique, [((a,), one), ((b,), other)], rounds=_ROUNDS)
    apart = None
    if prior.apart and len(tables) > 1:
        apart = shares - shares.mean(axis=0)
    return PairPrediction(beyond(raked - expected), records, apart)


def _without_zeros(shares: Floats, records: float) -> Floats:
    """Return shares with a little of the product of their margins in every cell.

    A cell without public records is not impossible. The product has the weight of one record for
    each coordinate of the dependence.
    """
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    rows = (rows * records + _UNIFORM) / (records + _UNIFORM * rows.size)
    columns = (columns * records + _UNIFORM) / (records + _UNIFORM * columns.size)
    coordinates = (rows.size - 1) * (columns.size - 1)
    part = coordinates / (records + coordinates)
    return np.asarray((1 - part) * shares + part * np.multiply.outer(rows, columns))


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
        return tuple(counted(Dataset(wider, codes[axes]), clique)[known] for codes in self.sets)

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
