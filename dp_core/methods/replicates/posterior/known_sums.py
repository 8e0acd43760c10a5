"""Noisy sums over a table that were measured separately, as for declared analyses.

The draws of the table are conditioned on these sums. A draw is first made without them; then the
difference between the measured sums and its own corrects it (Matheron's rule, as in Wilson et al.
2021, Section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.methods.replicates.centred_draws import centred_normals
from dp_core.methods.replicates.posterior.truncation import Floats


@dataclass(frozen=True, slots=True, eq=False)
class KnownSums:
    """Noisy sums of a column's counts, or of a pair's deviation from independence.

    Attributes:
        weights: Weight of each cell in each sum, shape (sums, p) or (sums, p, q).
        values: Noisy sums, in records times the unit of the weights, shape (sums,).
        covariance: Covariance of their errors, shape (sums, sums), positive definite.
    """

    weights: Floats
    values: Floats
    covariance: Floats

    def joined(self, other: KnownSums | None) -> KnownSums:
        """Return these sums followed by others whose errors are independent; None for no others."""
        if other is None:
            return self
        number, more = len(self.values), len(other.values)
        covariance = np.zeros((number + more, number + more))
        covariance[:number, :number], covariance[number:, number:] = (
            self.covariance,
            other.covariance,
        )
        return KnownSums(
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.values, other.values]),
            covariance,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Independent normal coordinates, given noisy sums of them.

    Attributes:
        mean: Mean of the coordinates given the sums, shape (coordinates,).
        variances: Their variances given the sums, same shape.
        log_likelihood: Log density of the sums, up to a constant.
    """

    mean: Floats
    variances: Floats
    log_likelihood: float
    _weights: Floats
    _before: Floats
    _gain: Floats
    _root: Floats

    @classmethod
    def of(cls, mean: Floats, variances: Floats, weights: Floats, sums: KnownSums) -> Condition:
        """Return the coordinates given the sums.

        Args:
            mean: Mean of the coordinates without the sums, shape (coordinates,).
            variances: Their variances without the sums, same shape.
            weights: Weights of the coordinates, shape (sums, coordinates).
            sums: The noisy sums.
        """
        spread = weights * variances
        total = spread @ weights.T + sums.covariance
        gain = np.asarray(np.linalg.solve(total, spread).T, dtype=np.float64)
        off = sums.values - weights @ mean
        _, size = np.linalg.slogdet(total)
        fit = -0.5 * float(off @ np.linalg.solve(total, off)) - 0.5 * float(size)
        left = np.maximum(variances - (gain * spread.T).sum(axis=1), 0.0)
        root = np.asarray(np.linalg.cholesky(sums.covariance), dtype=np.float64)
        return cls(mean + gain @ off, left, fit, weights, variances, gain, root)

    def deviations(self, scores: Floats, errors: Floats) -> Floats:
        """Return deviations of draws from the mean, shape (sets, coordinates).

        Args:
            scores: Standard normal draws, shape (sets, coordinates).
            errors: Standard normal draws of the errors of the sums, shape (sets, sums).
        """
        own = scores * np.sqrt(self._before)
        off = own @ self._weights.T + errors @ self._root.T
        return np.asarray(own - off @ self._gain.T)


def drawn_errors(sums: KnownSums, sets: int, rng: np.random.Generator) -> Floats:
    """Return centred standard normal draws for the errors of sums, shape (sets, sums)."""
    return centred_normals(sets, (len(sums.values),), rng)
