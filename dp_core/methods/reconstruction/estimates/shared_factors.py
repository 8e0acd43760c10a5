"""A few factors common to all pairs of columns, which predict each pair. Public side of the wall.

If many pairs are measured, they carry information about each other: columns that depend on the same
third column usually depend on each other. The counts of a pair are written as deviations from
independence divided by `n sqrt(p_a p_b)` (correspondence analysis). Then all pairs are blocks of
one symmetric matrix of all codes of all columns, and common dependence is its low-rank part. The
low-rank part is fitted to the measured blocks, with entries weighted by their noise and by the
variance of a pair's own deviation; diagonal blocks are not used.

The factors have a normal prior, so that a factor that explains only noise shrinks to zero. The
scales of the factors and of the pairs' own deviations are estimated from the entries (empirical
Bayes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain

_FACTORS = 5
_ROUNDS = 20
_MOST_CODES = 1500  # of all columns together; the matrix has their square
_LEAST_EXPECTED = 0.02  # records; cells with a smaller expectation contain only noise
_WHOLE_VOTE = 0.02  # codes with a smaller part of the records have less weight for the scale


@dataclass(frozen=True, slots=True, eq=False)
class Deviation:
    """The deviation of a noisy table of two columns from its expected counts.

    Attributes:
        residual: Deviation from `expected`, in records, shape of the table; sums over both axes are
            0.
        expected: Counts expected under independence, in records, same shape.
        variance: Noise variance of the cells of `residual`, in records squared; one number, or
            one per cell.
    """

    residual: NDArray[np.float64]
    expected: NDArray[np.float64]
    variance: float | NDArray[np.float64]


def enough(domain: Domain, pairs: int) -> bool:
    """Return whether there are enough pairs, and few enough codes, for common factors."""
    return pairs > len(domain) and few_codes(domain)


def few_codes(domain: Domain) -> bool:
    """Return whether matrices of the codes of all columns are small enough."""
    return sum(domain.sizes) <= _MOST_CODES


def common_part(
    domain: Domain, pairs: Mapping[Clique, Deviation], total: float
) -> dict[Clique, NDArray[np.float64]]:
    """Return the prediction of each pair's deviation by the common factors, in records.

    Args:
        domain: All columns.
        pairs: Tables by clique of two columns, in the order of the domain.
        total: Number of records.

    Returns:
        Tables of the shapes of the residuals, whose sums over both axes are 0.
    """
    ends = np.concatenate([[0], np.cumsum(domain.sizes)])
    codes = {
        name: slice(int(ends[at]), int(ends[at + 1])) for at, name in enumerate(domain.columns)
    }
    share = _shares(domain, pairs, total)
    scale = np.sqrt(np.multiply.outer(share, share))
    entry = np.zeros_like(scale)
    noise = np.full_like(scale, np.inf)
    for (one, two), deviation in pairs.items():
        block = (codes[one], codes[two])
        size = total * scale[block]
        seen = deviation.expected > _LEAST_EXPECTED
        entry[block] = np.where(seen, deviation.residual / size, 0.0)
        noise[block] = np.where(seen, deviation.variance / np.square(size), np.inf)
        entry[block[::-1]], noise[block[::-1]] = entry[block].T, noise[block].T
    factors = _factors([*codes.values()], share, entry, noise)
    found: dict[Clique, NDArray[np.float64]] = {}
    for one, two in pairs:
        block = (codes[one], codes[two])
        part = factors[block[0]] @ factors[block[1]].T * (total * scale[block])
        part -= part.mean(axis=0)
        found[one, two] = part - part.mean(axis=1, keepdims=True)
    return found


def _shares(domain: Domain, pairs: Mapping[Clique, Deviation], total: float) -> NDArray[np.float64]:
    """Return the proportion of records with each code of each column, positive, shape (codes,)."""
    found = [np.zeros(size) for size in domain.sizes]
    for clique, deviation in pairs.items():
        for axis, at in enumerate(domain.axes(clique)):
            found[at] = deviation.expected.sum(axis=1 - axis)
    return np.maximum(np.concatenate(found) / total, 1e-9)


def _factors(
    blocks: list[slice],
    share: NDArray[np.float64],
    entry: NDArray[np.float64],
    noise: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the factors, shape (codes, factors); entry ~ factors @ factors.T off the diagonal.

    Alternating ridge regressions of the codes of one column at a time on those of all others.
    """
    from scipy.linalg import eigh

    seen = np.isfinite(noise)
    variance = np.where(seen, noise, 1.0)
    alone = np.multiply.outer(share, share)  # variance of a pair's own deviation, up to a factor
    start = np.where(seen, entry / (1 + variance / alone), 0.0)
    count = min(_FACTORS, len(share))
    values, vectors = eigh(start, subset_by_index=(len(share) - count, len(share) - 1))
    factors = np.asarray(vectors * np.sqrt(np.maximum(values, 1e-6)))
    # Mean square of a factor at the codes of a column, over the code's share. For a column that is
    # unrelated to a factor this scale goes to zero.
    scale = np.ones((len(blocks), count))
    own = np.ones((len(blocks), count))
    rest = 0.5  # the same scale for the pairs' own deviations
    vote = np.minimum(share / _WHOLE_VOTE, 1.0)
    for _ in range(_ROUNDS):
        weight = np.where(seen, 1 / (variance + rest * alone), 0.0)
        for at, block in enumerate(blocks):
            squares = (factors[:, :, None] * factors[:, None, :]).reshape(len(share), -1)
            normal = (weight[block] @ squares).reshape(-1, count, count)
            normal += np.eye(count) / (scale[at] * share[block][:, None])[:, None, :]
            towards = (weight[block] * entry[block]) @ factors
            spread = np.linalg.inv(normal)
            factors[block] = (spread @ towards[:, :, None])[:, :, 0]
            own[at] = _scale(factors[block], spread, share[block], vote[block])
        squared = np.square(factors) / share[:, None]
        whole = np.maximum((squared * vote[:, None]).sum(axis=0) / vote.sum(), 1e-6)
        scale = np.minimum(own, whole)
        left = np.square(entry - factors @ factors.T) - variance
        trust = alone * np.square(weight)
        rest = max(float((trust * left).sum()) / max(float((trust * alone).sum()), 1e-12), 1e-4)
    return factors


def _scale(
    factors: NDArray[np.float64],
    spread: NDArray[np.float64],
    share: NDArray[np.float64],
    vote: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the updated scale of each factor in one column.

    A step of expectation maximisation: the expected mean square given the entries.

    Args:
        factors: Factors of the column's codes, shape (codes, factors).
        spread: Their posterior covariance, shape (codes, factors, factors).
        share: Part of the records of each code.
        vote: Weight of each code.
    """
    own = np.diagonal(spread, axis1=1, axis2=2)
    squared = vote @ ((np.square(factors) + own) / share[:, None])
    scale: NDArray[np.float64] = squared / vote.sum()
    return np.clip(scale, 1e-8, 1e3)
