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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.metrics.marginal_error import record_keys, small_cliques, within_limit
from dp_core.schema.structure.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """Unique real records and those of them that are in the synthetic file.

    Attributes:
        unique: Real records that occur once.
        matched: Those of them that occur in the synthetic file.
        records: Real records.
    """

    unique: int
    matched: int
    records: int

    @property
    def unique_share(self) -> float:
        """Share of the real records that occur once."""
        return self.unique / self.records if self.records else 0.0

    @property
    def matched_share(self) -> float:
        """Share of them that occur in the synthetic file; 0 if there are none."""
        return self.matched / self.unique if self.unique else 0.0


@dataclass(frozen=True, slots=True)
class ApparentMatches:
    """Pairs of records that are unique by the quasi-identifiers and agree in them.

    Attributes:
        quasi: The quasi-identifiers.
        matches: Number of pairs.
        records: Real records.
        agreement: Number of pairs by the percentage of the other columns in which they agree, in
            ten classes: [0, 10), ..., [90, 100], percent.
        mean_agreement: Mean percentage of these columns, 0 to 100; 0 without pairs.
    """

    quasi: tuple[str, ...]
    matches: int
    records: int
    agreement: tuple[int, ...]
    mean_agreement: float

    @property
    def share(self) -> float:
        """Share of the real records with an apparent match."""
        return self.matches / self.records if self.records else 0.0


def unique_exact_matches(real: Dataset, synthetic: Dataset) -> ExactMatches:
    """Return how many records that occur once in the real file are in the synthetic one.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain.
    """
    true, drawn = record_keys(real.domain.columns, (real, synthetic))
    once = _unique(true)[0]
    return ExactMatches(once.size, int(np.isin(once, drawn).sum()), real.rows)


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
    return ApparentMatches(
        tuple(quasi), int(first.size), real.rows, tuple(int(one) for one in classes), mean
    )


def _unique(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the keys that occur once, ascending, and the record of each."""
    found, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return found[counts == 1], first[counts == 1]


MOST_PAIRS = 500
"""Largest number of pairs; of more, a sample with a fixed seed is used."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Contradictions and new pairs of levels.

    Attributes:
        broken: For each structural zero, by its text, the share of synthetic records that break it.
        new_pair_mean: Share of the synthetic records in a cell that the real file does not have,
            mean over the pairs of columns; NaN without pairs.
        new_pair_records: Share of the synthetic records with at least one such pair.
        pairs: Pairs of columns that were compared.
    """

    broken: dict[str, float]
    new_pair_mean: float
    new_pair_records: float
    pairs: int


def consistency(real: Dataset, synthetic: Dataset, zeros: StructuralZeros) -> Consistency:
    """Return the contradictions of a synthetic file.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain, not empty.
        zeros: Structural zeros of the schema.
    """
    domain, rows = real.domain, synthetic.rows
    broken = {}
    for rule in zeros.rules:
        inside = np.ones(rows, dtype=bool)
        for name, codes in zip(rule.columns, rule.codes, strict=True):
            inside &= np.isin(synthetic.column(name), codes)
        broken[rule.text] = float(inside.mean())
    pairs = small_cliques(domain, 2, most=MOST_PAIRS) if len(domain) > 1 else ()
    wanted, _ = within_limit(domain, pairs)
    anywhere, shares = np.zeros(rows, dtype=bool), []
    for pair in wanted:
        true, drawn = record_keys(pair, (real, synthetic))
        new = ~np.isin(drawn, true)
        anywhere |= new
        shares.append(float(new.mean()))
    mean = math.fsum(shares) / len(shares) if shares else math.nan
    return Consistency(broken, mean, float(anywhere.mean()), len(wanted))
