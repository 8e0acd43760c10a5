"""Records that cannot be, and pairs of levels that the real file does not have.

SDNist lists records with a contradiction, such as a married child, by rules of the American
Community Survey (SDNist 2.4, `sdnist/metrics/inconsistency.py`). Here the rules are the schema's
structural zeros, which every synthetic record of a release obeys. What rules do not name shows as a
pair of levels that no real record has; these are not wrong, but each is a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_core.metrics.marginal_error import record_keys, small_cliques, within_limit
from dp_core.tables.dataset import Dataset
from dp_core.tables.structural_zeros import StructuralZeros

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
