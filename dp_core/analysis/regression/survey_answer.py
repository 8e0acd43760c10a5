"""What an analysis by the sample design used, and whether the sets reproduce the clusters.

Records of one cluster are alike, which increases the variance of an estimate from the file. The
sets show this only if the noisy tables contain the clusters together with the outcome and the
predictors. If they do not, a design effect that the schema states takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_core.analysis.regression.fitting import Fit
from dp_core.analysis.regression.interval_warnings import Concern, listed, source_columns
from dp_core.analysis.regression.survey_sample import Sample
from dp_core.bundle.quality.relations import measured_cliques
from dp_core.bundle.reading import Bundle
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.schema.definition import Schema
from dp_core.schema.survey.primary_units import primary_units

NOISY = 1.0
"""Variance of a cluster's mean by the noise of its table, relative to that of independent rows,
from which to warn: the noise then hides a design effect of 2.

In `benchmarks/survey_design.py`, W was 1.1 times the variance by the design at a ratio of 0.3, and
0.7 times at a ratio of 5."""


@dataclass(frozen=True, slots=True)
class DesignUsed:
    """The sample design by which standard errors within the sets were computed.

    Attributes:
        method: `linearization`, or the rule for replicate weights.
        replicates: Number of replicates; None for linearization.
        strata: Number of strata; None if nothing states them.
        clusters: Number of clusters; None if nothing states them.
        degrees_of_freedom: Degrees of freedom of the design: of the set with the fewest.
        calibrated: Whether the weights of each replicate were raked to the public totals.
        design_effect: Design effect that the schema states; None if it states none.
        widened: Coefficients whose variances within the sets were increased to the design effect.
    """

    method: str
    replicates: int | None
    strata: int | None
    clusters: int | None
    degrees_of_freedom: float
    calibrated: bool
    design_effect: float | None
    widened: tuple[str, ...]

    def in_words(self) -> str:
        """Return the design as a sentence."""
        what = [
            f"{number:,} {one if number == 1 else many}"
            for number, one, many in (
                (self.strata, "stratum", "strata"),
                (self.clusters, "cluster", "clusters"),
            )
            if number is not None
        ]
        by = "linearization (Binder 1983)"
        if self.replicates is not None:
            by = f"{self.replicates} {self.method} replicates"
            by += ", each raked to the public totals" if self.calibrated else ""
        words = (
            f"Within-set variances: {by}{' with ' if what else ''}{' and '.join(what)},"
            f" {self.degrees_of_freedom:,.0f}"
            f" degree{'s' * (round(self.degrees_of_freedom) != 1)} of freedom."
        )
        if self.widened:
            words += (
                f" The variances of {listed(self.widened)} were increased to the stated design"
                f" effect of {self.design_effect:.4g}, because the sets do not reproduce the"
                " correlation within clusters."
            )
        return words


def design_used(schema: Schema, samples: Sequence[Sample], widened: Sequence[str]) -> DesignUsed:
    """Return what was used.

    Args:
        schema: Schema of the release.
        samples: Sample design of each set.
        widened: Coefficients whose variances were increased.
    """
    survey, rule, units = schema.survey, schema.survey.replicates, primary_units(schema)
    strata = survey.strata if schema.stratum is None else len(schema.stratum.levels)
    if units is not None and schema.stratum is not None:
        strata = int(units.strata.max()) + 1
    return DesignUsed(
        method="linearization" if rule is None else rule.method,
        replicates=None if rule is None else rule.number,
        strata=strata,
        clusters=survey.clusters if units is None else len(units.pairs),
        degrees_of_freedom=min(sample.degrees for sample in samples),
        calibrated=samples[0].raking is not None,
        design_effect=None if survey.design_effect is None else float(survey.design_effect),
        widened=tuple(widened),
    )


def households_used(samples: Sequence[Sample]) -> DesignUsed:
    """Return the design of an analysis of the persons of linked tables, by households.

    Args:
        samples: The households of each set as clusters.
    """
    return DesignUsed(
        method="linearization",
        replicates=None,
        strata=None,
        clusters=min(sample.used_units.size for sample in samples),
        degrees_of_freedom=min(sample.degrees for sample in samples),
        calibrated=False,
        design_effect=None,
        widened=(),
    )


def cluster_concerns(
    bundle: Bundle, formula: Formula, columns: Mapping[str, Sequence[str]]
) -> tuple[Concern, ...]:
    """Return the concerns about coefficients for which the sets do not reproduce the clusters.

    Args:
        bundle: The release.
        formula: Formula of the regression.
        columns: Columns of each coefficient's term.
    """
    schema = bundle.claims.schema
    units = primary_units(schema)
    if units is None:
        if schema.survey.clusters is None and schema.survey.design_effect is None:
            return ()
        names = tuple(columns)
        return (
            Concern(
                "clusters",
                names,
                "The clusters of the survey are not in the sets. These intervals ignore the"
                " similarity of records within a cluster, so they are too narrow for the"
                " population. A `design_effect` in the schema would widen them.",
            ),
        )
    if bundle.origin in ("drawn", "chosen"):
        return ()
    needed = {name: _groups(bundle, formula, own, units.columns) for name, own in columns.items()}
    tables, _ = measured_cliques(bundle.measured)
    lost: list[str] = []
    faint: list[str] = []
    groups: dict[Clique, None] = {}
    ratios = _noise_ratios(bundle, len(units.pairs), [g for own in needed.values() for g in own])
    for name, own in needed.items():
        if missing := unmeasured_groups(own, tables):
            lost.append(name)
            groups |= dict.fromkeys(missing)
        elif any(ratios[group] > NOISY for group in own):
            faint.append(name)
    found = []
    if lost:
        what = listed([" with ".join(group) for group in groups])
        found.append(
            Concern(
                "clusters",
                tuple(lost),
                f"No measured table contains {what}, so the sets do not reproduce the correlation"
                " within clusters. These intervals are not valid for the population; most are too"
                " narrow. To correct them, measure these tables (`tables:` in the spec) or state a"
                " `design_effect` in the schema.",
            )
        )
    if faint:
        found.append(
            Concern(
                "cluster-noise",
                tuple(faint),
                f"For {listed(faint)}, the noise of the tables by cluster exceeds the variation"
                " between clusters that independent records would have. The cluster part of these"
                " standard errors reflects the noise or the prior, not the file.",
            )
        )
    return tuple(found)


def _groups(
    bundle: Bundle, formula: Formula, own: Sequence[str], units: Sequence[str]
) -> tuple[Clique, ...]:
    """Return the tables that carry the clusters of a coefficient's scores.

    A score is a predictor times a residual, so clusters act on it through the outcome and through
    the predictor.
    """
    design = source_columns(bundle, units)
    wanted = [source_columns(bundle, formula.outcome_columns)]
    wanted += [[name] for name in source_columns(bundle, own)]
    found = [tuple(dict.fromkeys([*design, *names])) for names in wanted]
    return tuple(dict.fromkeys(group for group in found if set(group) != set(design)))


def _noise_ratios(bundle: Bundle, clusters: int, groups: Sequence[Clique]) -> dict[Clique, float]:
    """Return how much of a cluster's mean is noise of its table, by group of columns.

    A cluster of n records has a mean whose variance is S^2 / n for independent records, and about
    K S^2 s^2 / n^2 by noise of variance s^2 in each of the K cells of the cluster. The ratio is
    K s^2 / n.
    """
    schema = bundle.claims.schema
    pooled, found = pool(schema.domain, bundle.measured), {}
    each = max(bundle.records / clusters, 1.0)
    for group in dict.fromkeys(groups):
        variance = pooled.variance(group)
        cells = schema.domain.project(group).size() / clusters
        found[group] = 0.0 if variance is None else cells * float(variance) / each
    return found


def widened(fits: Sequence[Fit], places: Sequence[int], design_effect: float) -> tuple[Fit, ...]:
    """Return fits whose variances are at least the design effect times that of a simple sample.

    A coefficient's row and column of the covariance are multiplied by the same factor, so that
    correlations stay as they are.

    Args:
        fits: Fits by the sample design, one for each set.
        places: Positions of the coefficients.
        design_effect: Ratio of a variance by the design to that of a simple random sample.
    """
    found = []
    for fit in fits:
        assert fit.simple is not None
        now, least = np.diag(fit.covariance), design_effect * np.diag(fit.simple)
        factors = np.ones(now.size)
        own = np.array(places, dtype=np.intp)
        factors[own] = np.sqrt(np.maximum(least[own] / np.maximum(now[own], 1e-300), 1.0))
        found.append(replace(fit, covariance=fit.covariance * np.outer(factors, factors)))
    return tuple(found)
