"""Kernel density estimates of the columns, released as functions on a public grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.parametric.binned_tables import (
    SeparateColumns,
    as_measurement,
    binned_domain,
    zeros_by_bins,
)
from dp_core.methods.parametric.drawn_records import edges_of
from dp_core.methods.parametric.synthesizer import Ask, Synthesizer
from dp_core.methods.reconstruction.estimates.consistency import column_tables, norm_sub
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, Table, Totals, tables_of
from dp_core.wall.statistics.binned_counts import BinnedCounts
from dp_core.wall.statistics.kernel_counts import KernelCounts

_SCALE = 1 << 12
"""Weight at distance 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KDE(Synthesizer):
    """Draw each numeric column from its noisy kernel density estimate (Hall et al. 2013).

    Hall, Rinaldo & Wasserman add a Gaussian process with the covariance of the kernel to a kernel
    density estimate. On a grid, an equivalent release has two steps. First, an estimate is made
    with a kernel that is narrower by a factor of the square root of 2, and independent noise is
    added to every point. Then the narrow kernel is applied once more. Only the first step uses the
    records. It is a sum of integer weights, and its L2 sensitivity does not grow with the number of
    points. That is the advantage over noisy bins, and it needs Gaussian noise. A release without a
    delta pays for the sum of the weights instead (`KernelCounts`), and its noise is no smaller than
    that of smoothed noisy bins.

    The bandwidth is public. (The best one depends on the file's standard deviation and would have
    to be paid for.) Near the ends of the range the estimate is divided by the part of the kernel
    that lies within the range. Columns of levels have a noisy table. The columns are independent in
    the sets, because of what the survey calls the "curse of dimensionality" of joint estimates.

    Attributes:
        bandwidth: Standard deviation of the kernel, as a part of the column's range.
        bins: Number of equal bins of the grid; fewer if a column has fewer positions.
    """

    bandwidth: float = 0.02
    bins: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth <= 1:
            raise ValueError(f"bandwidth is a part of the range, not {self.bandwidth:g}.")
        if self.bins < 1:
            raise ValueError(f"bins is a number from 1, not {self.bins}.")

    @property
    def by_bins(self) -> bool:
        return True

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        return tuple(
            Ask(f"column-{number}", self._question(variable), Fraction(1, len(variables)))
            for number, variable in enumerate(variables, start=1)
        )

    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> SeparateColumns:
        edges = edges_of(variables, self.bins)
        domain = binned_domain(variables, edges)
        totals = {item.of: item for item in released if isinstance(item, Totals)}
        known = zeros_by_bins(zeros, domain.columns, edges)
        measured = [as_measurement(totals[of]) for of in totals if isinstance(of, BinnedCounts)]
        measured += [each for each in tables_of(released) if not each.clique]
        curves = {
            variable.name: _estimate(totals[self._question(variable)], variable)
            for variable in variables.numeric
        }
        if measured or rows is not None:
            total = rows
            if measured:
                tables, total = column_tables(domain, measured, rows=rows, zeros=known)
        else:
            total = round(float(np.mean([curve.sum() for curve in curves.values()])))
        total = max(1, total or 1)
        columns = []
        for axis, variable in enumerate(variables):
            one = domain.project((variable.name,))
            if not variable.numeric:
                columns.append(tables[axis])
                continue
            possible = ~known.mask(one)
            values = norm_sub(curves[variable.name], total=float(total), possible=possible)
            columns.append(Table(one, values))
        return SeparateColumns(variables, total, zeros, edges, tuple(columns))

    def _question(self, variable: Variable) -> BinnedCounts | KernelCounts:
        """Return the question for a column: kernel weights, or a table of its levels."""
        (edges,) = edges_of(Variables((variable,)), self.bins)
        if edges is None:
            return BinnedCounts(columns=(variable.name,), sizes=(variable.size,), edges=(None,))
        grid = edges[:-1] if variable.missing else edges
        return KernelCounts(
            column=variable.name,
            positions=variable.positions,
            edges=grid,
            weights=narrow_kernel(self.bandwidth * (len(grid) - 1), len(grid) - 1),
        )


def narrow_kernel(bandwidth: float, bins: int) -> tuple[int, ...]:
    """Return the integer weights of a normal kernel narrower by a factor of the square root of 2.

    Applied twice, they give the kernel with the stated standard deviation, in bins.

    >>> narrow_kernel(1.0, 100)[:3]
    (4096, 1507, 75)
    """
    weights = np.rint(_SCALE * np.exp(-((np.arange(bins) / bandwidth) ** 2))).astype(np.int64)
    return tuple(weights[weights > 0].tolist())


def _estimate(noisy: Totals, variable: Variable) -> NDArray[np.float64]:
    """Return the estimated records of each bin, and of missing if the column may miss values."""
    assert isinstance(noisy.of, KernelCounts)
    weights = np.array(noisy.of.weights, dtype=np.float64)
    kernel = np.concatenate([weights[:0:-1], weights])
    applied = _within(np.asarray(noisy.values[:-1], dtype=np.float64), kernel)
    whole = _within(_within(np.ones(noisy.of.bins), kernel), kernel)
    curve = applied / whole
    if not variable.missing:
        return np.asarray(curve)
    return np.append(curve, noisy.values[-1] / weights[0])


def _within(values: NDArray[np.float64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with a symmetric kernel applied, of which nothing comes from outside."""
    reach = len(kernel) // 2
    return np.convolve(values, kernel)[reach : reach + len(values)]


METHOD = KDE
