"""All scores of a synthetic file against the real one, at a bounded cost.

Tables are counted from at most 20,000 records of each file, drawn with a fixed seed, and the number
is in the result. A score that depends on the number of records, such as unique exact matches, is
that of the sample.

*NIST's k-marginal score.* For each table of k columns, SDNist adds up the absolute differences of
densities d, at most 2. The score is 1000 (2 - mean d) / 2: 1000 for equal files, 0 for files
without a common cell. As d is twice the total variation distance, it is 1000 (1 - mean TVD).

Source: SDNist 2.4, `sdnist/metrics/kmarginal.py` (all pairs of columns), which goes back to Sergey
Pogodin's score of the NIST temporal map challenge (three columns at a time). Both are computed:
all pairs, and at most 300 triples. SDNist first puts numbers into bins; here they are in those of
the schema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.lab.field_scores.code_values import CodeValues, random_records, records_at
from dp_core.lab.field_scores.correlations import (
    ComponentError,
    GroupLines,
    component_errors,
    correlation_errors,
    group_regression,
    pairwise_correlations,
    slope_errors,
)
from dp_core.lab.field_scores.propensity import propensity
from dp_core.lab.field_scores.record_matches import (
    ApparentMatches,
    apparent_matches,
    consistency,
    unique_exact_matches,
)
from dp_core.lab.field_scores.subgroup_equity import Equity, subgroup_equity
from dp_core.metrics.marginal_error import (
    average_tvd,
    counted_tables,
    small_cliques,
    tvd,
    within_limit,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.text.pages.answer import OMITTED, fields_of

MOST_RECORDS = 20_000
"""Records of each file from which scores are computed."""
MOST_GROUPS = 12
"""Most levels of a column whose subgroups are compared unasked, and most such columns."""
MOST_LEVELS = 100
"""Most levels of a column whose subgroups are compared on request."""
QUASI = 4
"""Columns that count as quasi-identifiers unless the caller names some: the first of the schema."""
_SEED = 20_261_125


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredColumns:
    """What the caller asks about columns.

    Attributes:
        quasi: Quasi-identifiers of the apparent matches.
        by: Columns whose subgroups are compared.
        outcome, predictor: Columns of the regression lines; empty for the two ordered columns with
            the strongest correlation in the real file.
        groups: Grouping columns of the lines.
    """

    quasi: Clique
    by: Clique
    outcome: str = ""
    predictor: str = ""
    groups: Clique = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Regression lines by group.

    Attributes:
        outcome, predictor: The two columns.
        by: Grouping columns.
        groups: The lines.
    """

    outcome: str
    predictor: str
    by: Clique
    groups: tuple[GroupLines, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScores:
    """Scores of one synthetic file.

    Attributes:
        records: Numbers of `real` and of `synthetic` records that were used.
        headline: The numbers that one table shows, by name; None for what does not apply.
        components: Principal components.
        regression: Regression lines; None without two ordered columns.
        apparent_matches: Apparent matches; None if no column is left to compare.
        equity: Errors by subgroup, one for each named column.
    """

    records: Mapping[str, int]
    headline: Mapping[str, float | None]
    components: tuple[ComponentError, ...]
    regression: Regression | None = field(metadata=OMITTED)
    apparent_matches: ApparentMatches | None = field(metadata=OMITTED)
    equity: tuple[Equity, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values without those by subgroup; NaN becomes None."""
        return {name: value for name, value in fields_of(self).items() if name != "equity"}


def default_columns(domain: Domain) -> ScoredColumns:
    """Return what is asked unless the caller names columns.

    Quasi-identifiers are the first four columns. Subgroups are the levels of each column of at most
    twelve, the first twelve such columns. Lines are grouped by the first column of at most twelve.
    """
    small = [
        name
        for name, size in zip(domain.columns, domain.sizes, strict=True)
        if 2 <= size <= MOST_GROUPS
    ]
    return ScoredColumns(
        quasi=domain.columns[:QUASI], by=tuple(small[:MOST_GROUPS]), groups=tuple(small[:1])
    )


def sample_records(data: Dataset, *, most: int = MOST_RECORDS) -> Dataset:
    """Return at most this many records, a simple random sample with a fixed seed."""
    return random_records(data, most, np.random.default_rng(_SEED))


def file_scores(
    real: Dataset,
    synthetic: Dataset,
    values: CodeValues,
    *,
    asked: ScoredColumns | None = None,
    zeros: StructuralZeros | None = None,
    noise: Mapping[frozenset[str], float] | None = None,
    mean_tvd: Mapping[int, float] | None = None,
) -> FileScores:
    """Return all scores of a synthetic file.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.
        values: The ordered columns and their numbers.
        asked: Columns of the scores that need some; by default those of `default_columns`.
        zeros: Structural zeros of the schema; none by default.
        noise: For each pair of columns the TVD that noise alone is expected to cause; None (the
            default) if it is not known.
        mean_tvd: Average TVD by number of columns, if it was computed from the whole files; by
            default it is computed from the records that are used here.

    Raises:
        ValueError: if a file is empty.
    """
    if not (real.rows and synthetic.rows):
        raise ValueError("Scores need records of both files.")
    domain = real.domain
    real, synthetic = sample_records(real), sample_records(synthetic)
    asked = asked or default_columns(domain)
    if mean_tvd is None:
        ways = [way for way in (2, 3) if way <= len(domain)]
        mean_tvd = {way: average_tvd(real, synthetic, way).mean for way in ways}
    mse, ratio = propensity(real, synthetic)
    densities = (
        2 * tvd(*(np.bincount(data.column(name), minlength=size) for data in (real, synthetic)))
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    )
    k_marginal = {
        way: k_marginal_score(mean) for way, mean in mean_tvd.items() if not math.isnan(mean)
    }
    correlations = correlation_errors(real, synthetic, values)
    components = component_errors(real, synthetic, values)
    regression = _regression(real, synthetic, values, asked)
    slopes = slope_errors(regression.groups) if regression else {}
    contradictions, new_pairs = consistency(real, synthetic, zeros or StructuralZeros())
    apparent = None
    if len(asked.quasi) < len(domain):
        apparent = apparent_matches(real, synthetic, asked.quasi)
    equity = tuple(subgroup_equity(real, synthetic, name, noise=noise) for name in asked.by)
    headline = {
        "k_marginal": k_marginal.get(2),
        "k_marginal_3": k_marginal.get(3),
        "worst_density": max(densities),
        "propensity": mse,
        "propensity_ratio": ratio,
        "pearson": correlations.get("pearson"),
        "kendall": correlations.get("kendall"),
        "components": max((one.distance for one in components), default=None),
        "slope": max((abs(gap) for gap in slopes.values()), default=None),
        "contradictions": contradictions,
        "new_pairs": new_pairs,
        "unique_matched": unique_exact_matches(real, synthetic),
        "apparent": apparent.share if apparent else None,
        "apparent_agreement": (
            apparent.mean_agreement / 100 if apparent and apparent.matches else None
        ),
        "subgroups": max((one.spread for one in equity if one.spread is not None), default=None),
        "subgroup_excess": max(
            (one.excess for one in equity if one.excess is not None), default=None
        ),
    }
    return FileScores(
        records={"real": real.rows, "synthetic": synthetic.rows},
        headline=headline,
        components=components,
        regression=regression,
        apparent_matches=apparent,
        equity=equity,
    )


def mean_headline(scores: Sequence[FileScores]) -> dict[str, float | None]:
    """Return the headline numbers, mean over several synthetic files."""
    every = [one.headline for one in scores]
    found: dict[str, float | None] = {}
    for name in every[0] if every else ():
        known = [value for one in every if (value := one[name]) is not None]
        found[name] = math.fsum(known) / len(known) if known else None
    return found


def _regression(
    real: Dataset, synthetic: Dataset, values: CodeValues, asked: ScoredColumns
) -> Regression | None:
    outcome, predictor = asked.outcome, asked.predictor
    if not (outcome and predictor):
        every = pairwise_correlations(real, values)["pearson"]
        known = {pair: abs(value) for pair, value in every.items() if not math.isnan(value)}
        if not known:
            return None
        predictor, outcome = max(known, key=lambda pair: known[pair])
    by = tuple(name for name in asked.groups if name not in (outcome, predictor))
    groups = group_regression(real, synthetic, values, outcome=outcome, predictor=predictor, by=by)
    return Regression(outcome=outcome, predictor=predictor, by=by, groups=groups)


SAMPLES: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the real file with which a score is compared."""
MOST_PAIRS = 1000
"""Most pairs of columns for which samples and resamples of the real file are compared with it."""
_TRIPLE_SEED = 20_261_123


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
    order = np.random.default_rng(_TRIPLE_SEED).permutation(real.rows)
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
    shares = [*sorted(samples), 1.0]
    # A larger sample can be worse by chance.
    scores = np.maximum.accumulate([*(samples[share] for share in shares[:-1]), 1000.0])
    if math.isnan(score) or score < scores[0]:
        return None
    return round(float(np.interp(score, scores, shares)), 12)
