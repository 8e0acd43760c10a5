"""Records that have the moments of given tables. Public side of the wall.

A model of many noisy tables has each of them nearly: tables that were made nonnegative one by one
belong to no one file, and what a model misses of a tail it misses in one direction. So the records
drawn from it are weighted, as little as possible, until they have the columns' tables and the
moments that `dp_core.kept_moments` speaks of, and drawn anew by these weights. That is calibration
as survey statisticians know it (raking: Deville and Särndal 1992), of synthetic records to noisy
tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.kept_moments import Points, moments_of
from dp_core.marginals import Measurement, Table
from dp_core.reconstruction.base import Model

MOST_ENTRIES = 1 << 24
"""Numbers in the equations of one piece of the records; each piece has the tables by itself."""
MOST_EQUATIONS = 2000
"""Of more, those of the later tables are left out: one round takes as many cubed operations."""
_SLACK = 1e-4  # how little it costs to miss equations that contradict each other
_ROUNDS = 30
_LARGEST = 20.0  # logarithm of a weight; beyond it sums would overflow

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ModelWithMoments:
    """A model whose records have the moments of given tables.

    Attributes:
        model: Draws the records.
        settled: Nonnegative tables that agree (`dp_core.kept_moments.keep_moments`).
        points: Of every column.
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
        return self.model.streams

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """Return the model's expected counts over a clique; see `Model`."""
        return self.model.project(clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return records; every impossible one is left out, as by the model."""
        drawn = self.model.sample(rows, rng=rng)
        return with_moments(drawn, self.settled, self.points, rng=rng)


def with_moments(
    data: Dataset,
    tables: Sequence[Measurement],
    points: Mapping[str, Points],
    *,
    rng: np.random.Generator,
) -> Dataset:
    """Return as many records, drawn from those given by weights that bring them to the tables.

    Args:
        data: Records of a model, in random order.
        tables: Nonnegative and in agreement, as `keep_moments` returns them.
        points: Of every column.
        rng: Its state decides which records are drawn.
    """
    tables = [table for table in tables if table.clique]
    cells, rows, sums = _equations(tables, points)
    total = sum(float(table.values.sum()) for table in tables) / max(len(tables), 1)
    if not rows or total <= 0 or data.rows == 0:
        return data
    pieces, size = [], MOST_ENTRIES // len(sums)
    for start in range(0, data.rows, size):
        piece = Dataset(data.domain, data.codes[:, start : start + size])
        values = np.concatenate(
            [each[:, _cells(piece, clique)] for clique, each in zip(cells, rows, strict=True)]
        )
        # Sets are drawn side by side: threads of the linear algebra would wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            weights = _weights(values, np.array(sums) * (piece.rows / total))
        pieces.append(_drawn(piece, weights, rng=rng))
    codes = np.concatenate(pieces, axis=1)
    return Dataset(data.domain, np.ascontiguousarray(codes[:, rng.permutation(data.rows)]))


def _equations(
    tables: Sequence[Measurement], points: Mapping[str, Points]
) -> tuple[list[Clique], list[Floats], list[float]]:
    """Return cliques, for each its equations over its cells, and the sums of all equations."""
    cells: list[Clique] = []
    rows: list[Floats] = []
    sums: list[float] = []
    columns: dict[str, Floats] = {}
    for table in tables:
        for axis, name in enumerate(table.clique):
            if name not in columns:
                rest = tuple(other for other in range(len(table.clique)) if other != axis)
                columns[name] = table.values.sum(axis=rest).astype(float)
                cells.append((name,))
                rows.append(np.eye(columns[name].size))
                sums += columns[name].tolist()
    for table in tables:
        counts = Table(table.domain, table.values.astype(float))
        found = moments_of(counts, columns, points, variance=table.variance)
        if found and len(sums) + len(found) <= MOST_EQUATIONS:
            cells.append(table.clique)
            rows.append(np.array([row for row, _ in found]))
            sums += [wanted for _, wanted in found]
    return cells, rows, sums


def _cells(data: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Return the cell of each record, shape (rows,)."""
    flat = np.zeros(data.rows, dtype=np.int64)
    for name, size in zip(clique, data.domain.project(clique).sizes, strict=True):
        flat = flat * size + data.column(name)
    return flat


def _weights(values: Floats, sums: Floats) -> Floats:
    """Return positive weights with which the values have given sums, nearest to 1 in entropy.

    Newton's method on the dual, as of `kept_moments.nearest`.

    Args:
        values: Shape (equations, rows).
        sums: Shape (equations,).
    """
    length = np.sqrt(np.einsum("ij,ij->i", values, values))
    kept = length > 0
    a, b = values[kept] / length[kept, None], sums[kept] / length[kept]
    u = np.zeros(b.size)

    def value(u: Floats) -> tuple[float, Floats]:
        found = np.exp(np.clip(u @ a, -_LARGEST, _LARGEST))
        return float(found.sum() - b @ u + 0.5 * _SLACK * u @ u), found

    height, weights = value(u)
    for _ in range(_ROUNDS):
        slope = a @ weights - b + _SLACK * u
        if float(np.abs(slope).max(initial=0.0)) < 1e-6 * np.sqrt(weights.size):
            break
        curve = (a * weights) @ a.T + 2 * _SLACK * np.eye(b.size)
        step = -np.linalg.solve(curve, slope)
        size, gain = 1.0, float(slope @ step)
        while True:
            lower, candidate = value(u + size * step)
            if lower <= height + 1e-4 * size * gain or size < 1e-8:
                break
            size /= 2
        u, height, weights = u + size * step, lower, candidate
    return weights


def _drawn(data: Dataset, weights: Floats, *, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Return as many records, each so often as its weight says but for a fraction.

    Drawn at equal distances along the records in the order of their values, so that every group of
    like records gets its weight to within one record.
    """
    order = np.lexsort(data.codes[::-1])
    reached = np.cumsum(weights[order])
    reached *= data.rows / reached[-1]
    at = np.arange(data.rows) + rng.random()
    chosen = order[np.minimum(np.searchsorted(reached, at, side="right"), data.rows - 1)]
    return data.codes[:, chosen]
