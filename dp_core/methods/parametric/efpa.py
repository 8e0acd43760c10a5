"""EFPA: the first cosine coefficients of a histogram, with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, Totals
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.questions.linear_questions import GRID, CosineSums, first_cosines
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.parametric.column_histograms import (
    ColumnHistograms,
    Estimated,
    Floats,
    bin_question,
)
from dp_core.schema.variables import Variable

CHOOSING = Fraction(1, 8)
"""Part of a column's budget for the number of coefficients. It is 1/2 in the paper, but a number
that is a little off costs less than noise on all coefficients."""
_MOST_KEPT = 1024
"""Largest number of coefficients to choose; with more, noisy counts of the bins have less noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efpa(ColumnHistograms):
    """Release the first Fourier coefficients of a histogram (Acs, Castelluccia & Chen 2012).

    The enhanced Fourier perturbation algorithm chooses the number k of coefficients by the
    exponential mechanism. The score is minus the sum of two norms: that of the coefficients that
    are left out, and the expected norm of the noise on those that are kept. The histogram is the
    inverse transform of the noisy coefficients. Here the transform is the cosine transform, which
    has no jump between the two ends of the column.

    Privacy:
        One choice by `CosineTails`, then one noisy sum: `CosineSums`, or the counts of the bins if
        k is so large that coefficients of the noisy counts have less noise; then the number of
        coefficients is chosen again, from the noisy counts. One record changes a coefficient by at
        most sqrt(2/n) for n bins, so the L1 sensitivity is k sqrt(2/n) and not the paper's sqrt(k).
    """

    chooses: ClassVar[bool] = True
    extensions: ClassVar[tuple[str, ...]] = ("cosine-tails",)

    def measure_column(
        self, inputs: MethodInputs, variable: Variable, step: str, cost: Fraction
    ) -> list[Released]:
        curator, edges = inputs.curator, self.edges(variable)
        bins = len(edges) - 1
        sums = [
            CosineSums(column=variable.name, size=variable.size, edges=edges, kept=kept)
            for kept in range(1, min(_MOST_KEPT, bins) + 1)
        ]
        left = cost if len(sums) == 1 else cost * (1 - CHOOSING)
        # Noise on an orthonormal coefficient, in units of the sums: from the sums, or from counts.
        counts = bin_question(variable, edges)
        alone = curator.statistic_noise(counts, left).stddev * GRID
        spread = [curator.statistic_noise(each, left).stddev * math.sqrt(2 / bins) for each in sums]
        kept = 1
        if len(sums) > 1:
            prices = tuple(
                math.ceil(min(noise, alone) * math.sqrt(number))
                for number, noise in enumerate(spread, start=1)
            )
            tails = CosineTails(column=variable.name, edges=edges, prices=prices)
            kept += curator.choose(
                "measure", f"{step}-number", tails, cost * CHOOSING, replicate=inputs.replicate
            )
        asked = sums[kept - 1] if spread[kept - 1] < alone else counts
        return [curator.total("measure", f"{step}-values", asked, left, replicate=inputs.replicate)]

    def estimate(
        self, variable: Variable, released: Sequence[Totals], rows: float | None
    ) -> Estimated:
        (totals,) = released
        if not isinstance(totals.of, CosineSums):
            return ColumnHistograms.estimate(self, variable, released, rows)
        values = totals.values.astype(float)
        missing = float(values[-1]) / GRID if variable.missing else 0.0
        variance = totals.variance / GRID**2 * (1 + variable.missing)
        return Estimated(totals.of.edges, kept_histogram(totals.of, values), missing, variance)

    def smooth(self, variable: Variable, counts: Floats, variance: float) -> Floats:  # noqa: ARG002
        return without_noisy_coefficients(counts, variance)


def without_noisy_coefficients(counts: Floats, variance: float) -> Floats:
    """Return noisy counts without the last cosine coefficients, which are mostly noise.

    The number that is kept minimises the unbiased estimate of the squared error: the squares of the
    coefficients that are left out, less their noise, plus the noise of those that are kept.

    Args:
        counts: Noisy counts, shape (bins,).
        variance: Variance of the noise on each.
    """
    from scipy.fft import dct, idct

    coefficients = dct(counts, norm="ortho")
    lost = np.append(np.cumsum((coefficients**2)[::-1])[::-1], 0.0)
    kept = np.arange(counts.size + 1)
    best = 1 + int(np.argmin((lost + 2 * variance * kept)[1:]))
    coefficients[best:] = 0.0
    return np.asarray(idct(coefficients, norm="ortho"), dtype=np.float64)


def kept_histogram(asked: CosineSums, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the histogram whose further coefficients are 0, from (noisy) entries. Public.

    Args:
        asked: The question.
        values: Entries as released, in units of 1/GRID record.
    """
    factors = np.full(asked.kept, 2.0 / (asked.bins * GRID))
    factors[0] /= 2
    table = first_cosines(asked.bins, asked.kept)
    return np.asarray((values[: asked.kept] * factors) @ table / GRID)


METHOD = Efpa
