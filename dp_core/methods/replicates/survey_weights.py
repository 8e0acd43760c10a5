"""Survey weights raked to public totals: post-processing of synthetic sets.

Deming, W. E. & Stephan, F. F. (1940). On a least squares adjustment of a sampled frequency table
when the expected marginal totals are known. Annals of Mathematical Statistics 11(4), 427-444.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.schema.definition import Column, Margin, Schema

ROUNDS = 2_000
"""Largest number of rounds of raking; a round scales the weights to every margin once."""
EXACT = 1e-12
"""Raking ends if the relative deviation from every total is at most this."""
_PATIENCE = 50


class Calibrator:
    """Rakes the survey weights of a synthetic set in pieces: `add` all, `settle`, then `apply`."""

    def __init__(self, schema: Schema) -> None:
        """Start a set; the schema must have a weight column and state totals."""
        weight = schema.weight
        assert weight is not None
        self._weight = weight.name
        names = dict.fromkeys(name for margin in schema.calibration for name in margin.columns)
        self._columns = [schema.column(name) for name in names]
        self._margins = schema.calibration
        self._sums: dict[int, float] = {}
        self._keys = np.empty(0, dtype=np.int64)
        self._factors = np.empty(0)

    def add(self, records: pa.Table) -> None:
        """Add the weights of a piece of the set."""
        cells, place = np.unique(self._cells(records), return_inverse=True)
        sums = np.bincount(place, weights=self._weights(records), minlength=cells.size)
        for cell, total in zip(cells.tolist(), sums.tolist(), strict=True):
            self._sums[cell] = self._sums.get(cell, 0.0) + total

    def settle(self) -> float:
        """Rake, and return the largest remaining relative deviation from a stated total."""
        sums, members, targets = self._cells_and_margins()
        raked = rake(sums, members, targets)
        self._factors = np.divide(raked, sums, out=np.ones_like(sums), where=sums > 0)
        return deviation(raked, members, targets)

    def apply(self, records: pa.Table) -> pa.Table:
        """Return a piece of the set with calibrated weights."""
        place = np.searchsorted(self._keys, self._cells(records))
        weights = self._weights(records) * self._factors[place]
        axis = records.schema.get_field_index(self._weight)
        return records.set_column(axis, self._weight, pa.array(weights, pa.float64()))

    def deviation(self) -> float:
        """Return the largest relative deviation from a total before raking."""
        return deviation(*self._cells_and_margins())

    def _weights(self, records: pa.Table) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = records.column(self._weight).to_numpy()
        return weights

    def _cells(self, records: pa.Table) -> NDArray[np.int64]:
        return _cells_of(self._columns, records)

    def _cells_and_margins(
        self,
    ) -> tuple[NDArray[np.float64], list[NDArray[np.int64]], list[NDArray[np.float64]]]:
        self._keys = np.array(sorted(self._sums), dtype=np.int64)
        sums = np.array([self._sums[key] for key in self._keys.tolist()])
        return sums, *_members_of(self._keys, self._columns, self._margins)


class Raking:
    """Rakes weights of one set again and again, as replicate weights need it."""

    def __init__(self, schema: Schema, records: pa.Table) -> None:
        """Take a set's columns of the margins; the schema must state totals."""
        names = dict.fromkeys(name for margin in schema.calibration for name in margin.columns)
        columns = [schema.column(name) for name in names]
        keys, self._place = np.unique(_cells_of(columns, records), return_inverse=True)
        self._size = keys.size
        self._members, self._targets = _members_of(keys, columns, schema.calibration)

    def rake(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return weights that meet the totals, shape (rows,).

        Args:
            weights: Weights of the set's rows, at least 0, shape (rows,).
        """
        sums = np.bincount(self._place, weights=weights, minlength=self._size).astype(np.float64)
        raked = rake(sums, self._members, self._targets)
        factors = np.divide(raked, sums, out=np.ones_like(sums), where=sums > 0)
        found: NDArray[np.float64] = weights * factors[self._place]
        return found


def _cells_of(columns: Sequence[Column], records: pa.Table) -> NDArray[np.int64]:
    """Return for each row its cell in the table of these columns."""
    cells = np.zeros(records.num_rows, dtype=np.int64)
    for column in columns:
        values = records.column(column.name).combine_chunks()
        cells = cells * column.size + codes_of(column, values)
    return cells


def _members_of(
    keys: NDArray[np.int64], columns: Sequence[Column], margins: Sequence[Margin]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.float64]]]:
    """Return for each margin the index of every cell's total (-1 for none), and the totals."""
    codes: dict[str, NDArray[np.int64]] = {}
    left = keys
    for column in reversed(columns):
        left, codes[column.name] = np.divmod(left, column.size)
    members, targets = [], []
    for margin in margins:
        places = {cell: place for place, (cell, _) in enumerate(margin.totals)}
        own = zip(*(codes[name].tolist() for name in margin.columns), strict=True)
        rows = own if margin.columns else [()] * keys.size
        members.append(np.array([places.get(cell, -1) for cell in rows], dtype=np.int64))
        targets.append(np.array([float(total) for _, total in margin.totals]))
    return members, targets


def rake(
    weights: NDArray[np.float64],
    members: Sequence[NDArray[np.int64]],
    targets: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return weights of cells whose sums meet the targets, by iterative proportional fitting.

    A total of cells without weight cannot be met; the other totals of its margin are increased in
    proportion, as far as the margins without such a total allow, which are scaled last. Margins
    that contradict each other leave a deviation; raking ends when a round does not reduce it.

    Args:
        weights: Weight of each cell, at least 0, shape (cells,).
        members: For each margin the index of the total that each cell counts towards, -1 for none,
            shape (cells,).
        targets: For each margin its totals, shape (totals,).
    """
    weights = weights.astype(np.float64, copy=True)
    margins, whole = [], []
    for place, wanted in zip(members, targets, strict=True):
        held = _sums(weights, place, wanted.size) > 0
        if held.all():
            whole.append((place, wanted))
            margins.append((place, wanted))
        elif held.any():
            margins.append((place, wanted * (wanted.sum() / wanted[held].sum())))
    _rounds(weights, margins)
    if len(whole) < len(margins):
        _rounds(weights, whole)
    return weights


def _rounds(
    weights: NDArray[np.float64],
    margins: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> None:
    """Scale the weights to one margin after the other, repeatedly, in place."""
    best, waited = math.inf, 0
    for _ in range(ROUNDS):
        for place, wanted in margins:
            found = _sums(weights, place, wanted.size)
            factors = np.divide(wanted, found, out=np.ones_like(wanted), where=found > 0)
            weights *= np.append(factors, 1.0)[place]
        left = max((_deviation(weights, *margin, empty=False) for margin in margins), default=0.0)
        if left <= EXACT:
            break
        best, waited = (left, 0) if left < 0.99 * best else (best, waited + 1)
        if waited == _PATIENCE:
            break


def deviation(
    weights: NDArray[np.float64],
    members: Sequence[NDArray[np.int64]],
    targets: Sequence[NDArray[np.float64]],
) -> float:
    """Return the largest relative deviation from a target; 1 for a target without any weight."""
    pairs = zip(members, targets, strict=True)
    return max((_deviation(weights, *pair, empty=True) for pair in pairs), default=0.0)


def _deviation(
    weights: NDArray[np.float64],
    place: NDArray[np.int64],
    wanted: NDArray[np.float64],
    *,
    empty: bool,
) -> float:
    found = _sums(weights, place, wanted.size)
    counted = np.ones(wanted.size, dtype=bool) if empty else found > 0
    off = np.abs(found - wanted)[counted] / wanted[counted]
    return float(off.max(initial=0.0))


def _sums(weights: NDArray[np.float64], place: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    # Cells that count towards no total get an extra last index, which is dropped.
    where = np.where(place < 0, size, place)
    return np.bincount(where, weights=weights, minlength=size + 1)[:size].astype(np.float64)


def in_words(margin: Margin) -> str:
    """Return a description of a margin's totals in words."""
    total = math.fsum(float(value) for _, value in margin.totals)
    if not margin.columns:
        return f"the total of all weights, {total:.12g}"
    cells = len(margin.totals)
    return f"{cells} totals by {' and '.join(margin.columns)}, together {total:.12g}"


def codes_of(column: Column, values: pa.Array) -> NDArray[np.int64]:
    """Return the codes of the labels of a categorical column of a synthetic set."""
    labels = pa.array([level.label for level in column.levels], pa.string())
    missing = column.bins if column.missing_code is not None else 0
    if pa.types.is_dictionary(values.type):
        known = pc.index_in(values.dictionary.cast(pa.string()), value_set=labels)
        found = known.take(values.indices)
    else:
        found = pc.index_in(values.cast(pa.string()), value_set=labels)
    codes: NDArray[np.int64] = found.fill_null(missing).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)
