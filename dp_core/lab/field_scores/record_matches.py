"""Records that repeat real ones, records that cannot be, and pairs of levels no real record has.

A **unique exact match** is a record that occurs once in the real file and also in the synthetic
one. An **apparent match** is a pair of a real and a synthetic record that agree in some quasi-
identifiers and are both unique by them: it looks like a re-identification. The share of the other
columns in which the two agree says whether it is one. Neither measures privacy: a file that was
drawn from the population again has such matches too. So compare them with those of a resample.

SDNist lists records with a contradiction, such as a married child, by rules of the American
Community Survey. Here the rules are the schema's structural zeros, which every synthetic record of
a release obeys. What rules do not name shows as a pair of levels that no real record has; these are
not wrong, but each is a guess.

Source: SDNist 2.4, `sdnist/metrics/unique_exact_matches.py`, `apparent_match_dist.py` and
`inconsistency.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.metrics.marginal_error import record_keys, small_cliques, within_limit
from dp_core.schema.structure.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True)
class ApparentMatches:
    """Pairs of records that are unique by the quasi-identifiers and agree in them.

    Attributes:
        matches: Number of pairs.
        share: Share of the real records with an apparent match.
        agreement: Number of pairs by the percentage of the other columns in which they agree, in
            ten classes: [0, 10), ..., [90, 100], percent.
        mean_agreement: Mean percentage of these columns, 0 to 100; 0 without pairs.
    """

    matches: int
    share: float
    agreement: tuple[int, ...]
    mean_agreement: float


def unique_exact_matches(real: Dataset, synthetic: Dataset) -> float:
    """Return which share of the records that occur once in the real file the synthetic one has.

    It is 0 if there are no such records.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain.
    """
    true, drawn = record_keys(real.domain.columns, (real, synthetic))
    once = _unique(true)[0]
    return float(np.isin(once, drawn).mean()) if once.size else 0.0


def apparent_matches(real: Dataset, synthetic: Dataset, quasi: Sequence[str]) -> ApparentMatches:
    """Return the apparent matches by some quasi-identifiers, and how far they agree.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain.
        quasi: The quasi-identifiers, columns of the domain, at least one.

    Raises:
        ValueError: if there is none.
    """
    if not quasi:
        raise ValueError("Apparent matches need at least one quasi-identifier.")
    true, drawn = record_keys(quasi, (real, synthetic))
    (keys, places), (others, drawn_places) = _unique(true), _unique(drawn)
    _, first, second = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    left = [name for name in real.domain.columns if name not in quasi]
    agreed = np.zeros(first.size)
    for name in left:
        agreed += real.column(name)[places[first]] == synthetic.column(name)[drawn_places[second]]
    percent = 100 * agreed / len(left) if left else np.full(first.size, 100.0)
    classes = np.bincount(np.minimum(percent // 10, 9).astype(np.int64), minlength=10)
    mean = float(percent.mean()) if first.size else 0.0
    share = first.size / real.rows if real.rows else 0.0
    return ApparentMatches(int(first.size), share, tuple(int(one) for one in classes), mean)


def _unique(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the keys that occur once, ascending, and the record of each."""
    found, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return found[counts == 1], first[counts == 1]


MOST_PAIRS = 500
"""Largest number of pairs; of more, a sample with a fixed seed is used."""


def consistency(real: Dataset, synthetic: Dataset, zeros: StructuralZeros) -> tuple[float, float]:
    """Return two shares of synthetic records: contradictions, and new pairs of levels.

    The first is of the structural zero that most records break, 0 without any. The second is of
    records with at least one pair of levels that no real record has.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain, not empty.
        zeros: Structural zeros of the schema.
    """
    domain, rows = real.domain, synthetic.rows
    broken = 0.0
    for rule in zeros.rules:
        inside = np.ones(rows, dtype=bool)
        for name, codes in zip(rule.columns, rule.codes, strict=True):
            inside &= np.isin(synthetic.column(name), codes)
        broken = max(broken, float(inside.mean()))
    pairs = small_cliques(domain, 2, most=MOST_PAIRS) if len(domain) > 1 else ()
    wanted, _ = within_limit(domain, pairs)
    anywhere = np.zeros(rows, dtype=bool)
    for pair in wanted:
        true, drawn = record_keys(pair, (real, synthetic))
        anywhere |= ~np.isin(drawn, true)
    return broken, float(anywhere.mean())
