"""Records with the moments of given tables. Public side of the wall.

A model of many noisy tables matches each table only approximately: tables that were made
nonnegative separately are not exactly consistent, and the model's errors in the tails are
systematic. So the records drawn from it get weights, as close to 1 as possible, with which they
have the one-way tables and the moments of `dp_core.methods.replicates.kept_moments`. The set is
then drawn from the weighted records. This is survey calibration (raking: Deville and Särndal 1992),
of synthetic records to noisy tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dp_core.client.released import Measurement, Table
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.reconstructor import DrawnInSeries, Model
from dp_core.methods.reconstruction.sampling.drawing_progress import (
    Progress,
    WithListener,
    silent,
    step_of,
)
from dp_core.methods.replicates.dual_newton import Floats, with_sums
from dp_core.methods.replicates.kept_moments import (
    Points,
    has_few_cells,
    moments_of,
    moments_of_column,
)

MOST_ENTRIES = 1 << 24
"""Largest number of coefficients in the equations of a piece; pieces are calibrated separately."""
MOST_EQUATIONS = 600
"""Largest number of equations, half of them for columns; a round takes its cube in operations."""
_MISSES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Slack of the sums as parts of their noise variance; the first that leaves enough is used."""
_ENOUGH = 0.5
"""Smallest effective sample size (Kish) of weighted records, as a part of their number. To match
sums with much noise exactly, a few records would get extreme weights and be repeated many times."""
_LEAST_MISS = 1e-4  # smallest slack, in records squared, for sums with little noise
_DRAWN = 0.5  # part of the work after the records are drawn, for the progress
_LARGEST = 20.0  # largest logarithm of a weight; with larger ones sums would overflow


@dataclass(frozen=True, slots=True, eq=False)
class ModelWithMoments:
    """A model whose drawn records are calibrated to the moments of given tables.

    Attributes:
        model: Model that draws the records.
        settled: Nonnegative tables that agree, from
            `dp_core.methods.replicates.kept_moments.keep_moments`.
        points: Values of the codes of every column.
    """

    model: Model
    settled: tuple[Measurement, ...]
    points: Mapping[str, Points]

    @property
    def domain(self) -> Domain:
        """All columns."""
        return self.model.domain

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables of the model."""
        return self.model.tables

    @property
    def rows(self) -> int:
        """Estimated number of records."""
        return self.model.rows

    @property
    def streams(self) -> bool:
        """Whether a large set may be drawn in pieces."""
        # Records are resampled with weights, so the counts kept by a series would be wrong; and the
        # rounding errors of pieces would add up.
        return self.model.streams and not isinstance(self.model, DrawnInSeries)

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """Return the model's expected counts over a clique; see `Model`."""
        return self.model.project(clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` calibrated records; none is impossible, as for the model."""
        return self.sample_reporting(rows, rng=rng, progress=silent)

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        """Return the records that `sample` returns, and report the progress."""
        drawn = WithListener(self.model, step_of(progress, 0.0, _DRAWN)).sample(rows, rng=rng)
        return with_moments(drawn, self.settled, self.points, rng=rng)


def with_moments(
    data: Dataset,
    tables: Sequence[Measurement],
    points: Mapping[str, Points],
    *,
    rng: np.random.Generator,
) -> Dataset:
    """Return equally many records, drawn from `data` with weights that calibrate it to the tables.

    Args:
        data: Records of a model, in random order.
        tables: Nonnegative tables that agree, from `keep_moments`.
        points: Values of the codes of every column.
        rng: Generator; same state, same records.
    """
    tables = [table for table in tables if table.clique]
    equations = _equations(tables, points)
    total = sum(float(table.values.sum()) for table in tables) / max(len(tables), 1)
    if not equations or total <= 0 or data.rows == 0:
        return data
    sums = np.concatenate([each.sums for each in equations])
    variances = np.concatenate([each.variances for each in equations])
    pieces, size = [], MOST_ENTRIES // sums.size
    for start in range(0, data.rows, size):
        piece = Dataset(data.domain, data.codes[:, start : start + size])
        part = piece.rows / total
        values = np.concatenate([each.rows[:, _cells(piece, each.clique)] for each in equations])
        # Several sets are drawn in parallel, and linear-algebra threads would compete for the
        # cores.
        with threadpool_limits(limits=1, user_api="blas"):
            weights = _weights(values, sums * part, variances * part**2)
        pieces.append(_drawn(piece, weights, rng=rng))
    codes = np.concatenate(pieces, axis=1)
    return Dataset(data.domain, np.ascontiguousarray(codes[:, rng.permutation(data.rows)]))


@dataclass(frozen=True, slots=True, eq=False)
class _Equations:
    """Equations for the weighted records, in terms of their cells in a table.

    Attributes:
        clique: Columns of the table.
        rows: Value of a record in each cell, shape (equations, cells).
        sums: Required sums of the records' values, shape (equations,).
        variances: Noise variances of the sums, shape (equations,).
    """

    clique: Clique
    rows: Floats
    sums: Floats
    variances: Floats


def _equations(
    tables: Sequence[Measurement], points: Mapping[str, Points]
) -> tuple[_Equations, ...]:
    """Return the equations, up to the limit: those of columns first, small groups before large."""
    columns: dict[str, tuple[Floats, float]] = {}
    for table in tables:
        for axis, name in enumerate(table.clique):
            if name not in columns:
                rest = tuple(other for other in range(len(table.clique)) if other != axis)
                own = table.values.sum(axis=rest).astype(float)
                columns[name] = own, table.variance * table.values.size / own.size
    found: list[_Equations] = []
    for each in _of_columns(columns, points):
        if len(each.sums) <= MOST_EQUATIONS // 2 - sum(len(one.sums) for one in found):
            found.append(each)
    counts = {name: own for name, (own, _) in columns.items()}
    for table in tables:
        if not has_few_cells(table.domain):
            continue
        values = Table(table.domain, table.values.astype(float))
        kept = moments_of(values, counts, points, variance=table.variance)
        if kept and len(kept) <= MOST_EQUATIONS - sum(len(one.sums) for one in found):
            rows = np.array([row for row, _ in kept])
            sums = np.array([wanted for _, wanted in kept])
            variances = table.variance * np.einsum("ij,ij->i", rows, rows)
            found.append(_Equations(table.clique, rows, sums, variances))
    return tuple(found)


def _of_columns(
    columns: Mapping[str, tuple[Floats, float]], points: Mapping[str, Points]
) -> Iterator[_Equations]:
    """Yield each column's equations: the count of every level, or the moments of a number."""
    for name in sorted(columns, key=lambda name: columns[name][0].size):
        own, variance = columns[name]
        if points[name].numbers is not None:
            rows = moments_of_column(points[name], own)
        elif own.size <= MOST_EQUATIONS // 2:
            rows = np.eye(own.size)
        else:
            continue
        yield _Equations((name,), rows, rows @ own, variance * np.einsum("ij,ij->i", rows, rows))


def _cells(data: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Return the cell of each record, shape (rows,)."""
    flat = np.zeros(data.rows, dtype=np.int64)
    for name, size in zip(clique, data.domain.project(clique).sizes, strict=True):
        flat = flat * size + data.column(name)
    return flat


def _weights(values: Floats, sums: Floats, variances: Floats) -> Floats:
    """Return positive weights, nearest to 1 in entropy, with which the values have given sums.

    Args:
        values: Values of the records in each equation, shape (equations, rows).
        sums: Required sums, shape (equations,).
        variances: Noise variances of the sums, shape (equations,).
    """

    def primal(shift: Floats) -> tuple[Floats, float, Floats]:
        weights = np.exp(np.clip(shift, -_LARGEST, _LARGEST))
        return weights, float(weights.sum()), weights

    records = values.shape[1]
    tolerance = 1e-6 * math.sqrt(records)
    for part in _MISSES:
        slack = np.maximum(part * variances, _LEAST_MISS)
        weights = with_sums(values, sums, slack, primal, tolerance=tolerance)
        if weights.sum() ** 2 >= _ENOUGH * records * float(weights @ weights):
            break
    return weights


def _drawn(data: Dataset, weights: Floats, *, rng: np.random.Generator) -> Codes:
    """Return equally many records, each in proportion to its weight, rounded up or down.

    Systematic sampling along the records in the order of their values, so that every group of equal
    records gets its weight to within one record.
    """
    order = np.lexsort(data.codes[::-1])
    reached = np.cumsum(weights[order])
    reached *= data.rows / reached[-1]
    at = np.arange(data.rows) + rng.random()
    chosen = order[np.minimum(np.searchsorted(reached, at, side="right"), data.rows - 1)]
    return data.codes[:, chosen]
