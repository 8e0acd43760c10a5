"""NIST's k-marginal score, and the size of a sample of the real file that would score as much.

For each table of k columns, SDNist adds up the absolute differences of densities d, at most 2. The
score is 1000 (2 - mean d) / 2: 1000 for equal files, 0 for files without a common cell. As d is
twice the total variation distance, it is 1000 (1 - mean TVD).

Source: SDNist 2.4, `sdnist/metrics/kmarginal.py` (all pairs of columns), which goes back to Sergey
Pogodin's score of the NIST temporal map challenge (three columns at a time). Both are computed:
all pairs, and at most 300 triples. SDNist first puts numbers into bins; here they are in those of
the schema.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.field_scores.code_values import records_at
from dp_core.metrics.marginal_error import counted_tables, small_cliques, tvd, within_limit

SAMPLES: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the real file with which a score is compared."""
MOST_PAIRS = 1000
"""Most pairs of columns for which samples and resamples of the real file are compared with it."""
_SEED = 20_261_123


def k_marginal_score(mean_tvd: float) -> float:
    """Return the score of files whose tables of k columns have this average TVD.

    >>> k_marginal_score(0.25)
    750.0
    """
    return 1000 * (1 - mean_tvd)


def sample_scores(real: Dataset) -> dict[float, float]:
    """Return the scores by pairs of simple random samples of the real file: sampling error alone.

    Args:
        real: The real file, not empty.

    Returns:
        The score of each share of `SAMPLES`, against the whole file, by at most `MOST_PAIRS` pairs.
        Each sample contains the smaller ones.
    """
    domain = real.domain
    order = np.random.default_rng(_SEED).permutation(real.rows)
    pairs, _ = within_limit(domain, small_cliques(domain, 2, most=MOST_PAIRS))
    samples = [
        records_at(real, np.sort(order[: max(1, round(share * real.rows))])) for share in SAMPLES
    ]
    distances = [
        [tvd(whole, part) for part in parts]
        for _, (whole, *parts) in counted_tables(pairs, (real, *samples))
    ]
    means = np.mean(distances, axis=0) if distances else np.full(len(SAMPLES), math.nan)
    return {share: k_marginal_score(float(x)) for share, x in zip(SAMPLES, means, strict=True)}


def equivalent_sample(score: float, samples: dict[float, float]) -> float | None:
    """Return the share of the real file whose random sample has about this score.

    Between two shares it is interpolated; the score of the whole file is 1000.

    Args:
        score: k-marginal score of a synthetic file.
        samples: Scores of samples, from `sample_scores`.

    Returns:
        The share, at most 1; None if the score is below that of the smallest sample, or NaN.

    >>> equivalent_sample(850.0, {0.1: 800.0, 0.2: 900.0})
    0.15
    """
    points = [*sorted(samples.items()), (1.0, 1000.0)]
    if math.isnan(score) or score < points[0][1]:
        return None
    for (low, below), (high, above) in itertools.pairwise(points):
        if below <= score <= above:
            share = low + (high - low) * (score - below) / (above - below or 1.0)
            return round(share, 12)
    return 1.0
