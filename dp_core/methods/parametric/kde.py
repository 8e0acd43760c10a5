"""Kernel density estimates of the columns, released as functions on a public grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Totals
from dp_core.kernel.questions.linear_questions import KernelCounts
from dp_core.methods.parametric.column_histograms import ColumnHistograms, Estimated
from dp_core.methods.parametric.synthesizer import Ask
from dp_core.schema.variables import Variable

_SCALE = 1 << 12
"""Weight at distance 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KDE(ColumnHistograms):
    """Draw each numeric column from its noisy kernel density estimate (Hall et al. 2013).

    Hall, Rinaldo & Wasserman add a Gaussian process with the covariance of the kernel to a kernel
    density estimate. On a grid this is the following: the estimate with a kernel that is narrower
    by the square root of 2, with independent noise on every point, to which the narrow kernel is
    applied again. The first step is a sum of whole weights over the records and the only one that
    sees them; its sensitivity in L2 does not grow with the number of points. That is the advantage
    over noisy bins, and it needs Gaussian noise: a release without a delta pays for the sum of the
    weights instead (`KernelCounts`), and its noise is no smaller than that of smoothed noisy bins.

    The bandwidth is public. (The best one depends on the file's standard deviation and would have
    to be paid for.) Near the ends of the range the estimate is divided by the part of the kernel
    that lies within. Columns of levels have a noisy table. The columns are independent in the sets;
    the survey names the "curse of dimensionality" of joint estimates.
    """

    # Standard deviation of the kernel, as a part of the column's range: five bins.
    bandwidth: ClassVar[float] = 0.02
    bins: ClassVar[int] = 256

    def ask_column(self, variable: Variable) -> tuple[Ask, ...]:
        edges = self.edges(variable)
        bins = len(edges) - 1
        what = KernelCounts(
            column=variable.name,
            positions=variable.positions,
            edges=edges,
            weights=narrow_kernel(self.bandwidth * bins, bins),
        )
        return (Ask("curve", what, Fraction(1)),)

    def estimate(
        self,
        variable: Variable,
        released: Sequence[Totals],
        rows: float | None,  # noqa: ARG002
    ) -> Estimated:
        (noisy,) = released
        assert isinstance(noisy.of, KernelCounts)
        weights = np.array(noisy.of.weights, dtype=np.float64)
        kernel = np.concatenate([weights[:0:-1], weights])
        applied = _within(np.asarray(noisy.values[:-1], dtype=np.float64), kernel)
        whole = _within(_within(np.ones(noisy.of.bins), kernel), kernel)
        # What each noisy value adds to the sum of the curve, and the last one to all records.
        added = _within(1 / whole, kernel)
        missing = float(noisy.values[-1] / weights[0]) if variable.missing else 0.0
        spread = float(added @ added) + variable.missing / weights[0] ** 2
        return Estimated(noisy.of.edges, applied / whole, missing, noisy.variance * spread)


def narrow_kernel(bandwidth: float, bins: int) -> tuple[int, ...]:
    """Return whole weights of a normal kernel that is narrower by the square root of 2.

    Applied twice they give the kernel with the stated standard deviation, in bins.

    >>> narrow_kernel(1.0, 100)[:3]
    (4096, 1507, 75)
    """
    weights = np.rint(_SCALE * np.exp(-((np.arange(bins) / bandwidth) ** 2))).astype(np.int64)
    return tuple(weights[weights > 0].tolist())


def _within(values: NDArray[np.float64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with a symmetric kernel applied, of which nothing comes from outside."""
    reach = len(kernel) // 2
    return np.convolve(values, kernel)[reach : reach + len(values)]


METHOD = KDE
