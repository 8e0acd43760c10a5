"""The sample design on the rows of one synthetic set: clusters, strata and replicate weights.

The design is public: clusters and strata are the levels of the schema. Rows that an analysis leaves
out stay in the design with a score of 0, as in an analysis of a subpopulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.inference.design_variance import (
    design_degrees,
    random_groups,
    replicate_factors,
    sums_by_group,
    variance_of_totals,
)
from dp_core.methods.replicates.survey_weights import Raking, codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.survey.primary_units import primary_units
from dp_core.schema.survey.survey_design import NO_SURVEY, Replicates, Survey

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The design of one set.

    Attributes:
        weights: Weight of every row of the set, 1 without weights, shape (all rows,).
        kept: Which rows the analysis uses, shape (all rows,).
        units: Cluster of every row; without clusters each row, or its random group, is one. Shape
            (all rows,).
        strata: Index of the stratum of each cluster, shape (clusters,).
        clustered: Whether the clusters are those of the survey.
        survey: What the schema states about the design.
        raking: Public totals to which replicate weights are raked; None without any.
    """

    weights: Floats
    kept: NDArray[np.bool_]
    units: Integers
    strata: Integers
    clustered: bool
    survey: Survey
    raking: Raking | None

    @property
    def rule(self) -> Replicates | None:
        """Rule for replicate weights; None for linearization."""
        return self.survey.replicates

    @property
    def fixed(self) -> bool:
        """Whether the degrees of freedom do not depend on the number of rows of the set."""
        return self.survey.clusters is not None or self.strata.size != self.weights.size

    @property
    def used_units(self) -> Integers:
        """Clusters in which the analysis has rows, ascending."""
        found: Integers = np.unique(self.units[self.kept & (self.weights > 0)])
        return found

    @property
    def degrees(self) -> float:
        """Degrees of freedom: clusters minus strata, by what the schema states or the set has.

        Only clusters and strata with rows of the analysis count. A bootstrap has less than its
        number of replicates.
        """
        used = self.strata[self.used_units]
        found = design_degrees(used)
        clusters, strata = self.survey.clusters, self.survey.strata
        if clusters is not None:
            found = min(found, clusters - (strata or np.unique(used).size))
        elif strata is not None:
            found = used.size - strata
        if self.rule is not None and self.rule.method == "bootstrap":
            found = min(found, self.rule.number - 1)
        return max(float(found), 1.0)

    def variance(self, scores: Floats, used: NDArray[np.bool_]) -> Floats:
        """Return the covariance of the sum of weighted scores by linearization, shape (p, p).

        Args:
            scores: Weighted score of each row that was fitted, shape (fitted rows, p).
            used: Which of the kept rows were fitted, shape (kept rows,).
        """
        units = self.units[self.kept][used]
        return variance_of_totals(sums_by_group(scores, units, self.strata.size), self.strata)

    def replicates(self) -> Iterator[tuple[float, Floats]]:
        """Yield for each replicate its coefficient and the weights of the kept rows."""
        assert self.rule is not None
        for part, factors in replicate_factors(self.rule, self.strata):
            weights = self.weights * factors[self.units]
            if self.raking is not None:
                weights = self.raking.rake(weights)
            yield part, weights[self.kept]


def design_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that the design of a set needs, besides those of an analysis."""
    named = [column.name for column in (schema.weight, schema.stratum, schema.cluster) if column]
    if _rakes(schema):
        named += [name for margin in schema.calibration for name in margin.columns]
    return tuple(dict.fromkeys(named))


def _rakes(schema: Schema) -> bool:
    return bool(schema.calibration) and schema.survey.replicates is not None


def sample_of(number: int, table: Any, schema: Schema, kept: NDArray[np.bool_]) -> Sample:
    """Return the design of a set.

    Args:
        number: Number of the set, for messages.
        table: Arrow table of the set, with `design_columns`.
        schema: Schema of the release, which states a design.
        kept: Which rows the analysis uses, shape (rows,).

    Raises:
        BadInput: if a row is in no cluster of the schema.
    """

    def codes(name: str) -> Integers:
        values = table.column(name).combine_chunks()
        return codes_of(schema.column(name), values).astype(np.intp)

    weight, rule = schema.weight, schema.survey.replicates
    rows = table.num_rows
    weights = np.ones(rows) if weight is None else table.column(weight.name).to_numpy()
    clusters = primary_units(schema)
    if clusters is not None:
        try:
            units = clusters.index(tuple(codes(name) for name in clusters.columns))
        except ValueError:
            raise BadInput(
                f"Set {number} has rows in a cluster that its schema does not have; download the"
                " release again."
            ) from None
        strata = clusters.strata
    else:
        own = (
            np.zeros(rows, dtype=np.intp) if schema.stratum is None else codes(schema.stratum.name)
        )
        strata = np.unique(own, return_inverse=True)[1].ravel().astype(np.intp)
        units = np.arange(rows)
    if rule is not None and rule.method == "jk1":
        strata = np.zeros_like(strata)
    if rule is not None and rule.method in ("jk1", "jkn") and clusters is None:
        stated = len(schema.stratum.levels) if rule.method == "jkn" and schema.stratum else 1
        units, strata = random_groups(strata, rule.number // stated)
    return Sample(
        weights=np.asarray(weights, dtype=np.float64),
        kept=kept,
        units=units,
        strata=strata,
        clustered=clusters is not None,
        survey=schema.survey,
        raking=Raking(schema, table) if _rakes(schema) else None,
    )


def households_of(household_of: Integers, kept: NDArray[np.bool_]) -> Sample:
    """Return a set of persons as a sample of clusters: its households, without weights.

    Args:
        household_of: Position of each person's household, from 0, shape (persons,).
        kept: Which persons the analysis uses, shape (persons,).
    """
    households = int(household_of.max(initial=-1)) + 1
    return Sample(
        weights=np.ones(kept.size),
        kept=kept,
        units=household_of.astype(np.intp),
        strata=np.zeros(households, dtype=np.intp),
        # Unlike in a survey, a larger set has more of these clusters.
        clustered=False,
        survey=NO_SURVEY,
        raking=None,
    )
