"""Draws of a release's tables given what it measured, and the sums of declared analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import numpy as np

from dp_core.client.curator import Curator
from dp_core.client.released import Released, Table, Totals
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.questions.regressions.shortened import SecondMoments
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.code_values import scores_of
from dp_core.methods.declared.declared_answers import coefficients_near
from dp_core.methods.declared.declared_moments import estimated_moments
from dp_core.methods.declared.declared_questions import (
    MODEL_RECORDS,
    PARTS,
    SCORES,
    coefficients_of,
    moments_question,
    scores_question,
)
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.declared.told_sums import told_sums
from dp_core.methods.replicates.posterior.known_sums import KnownSums
from dp_core.methods.replicates.posterior.posterior_tables import PosteriorTables
from dp_core.methods.replicates.posterior.public_size import factor_to, in_proportion
from dp_core.methods.selection.selector import Selection
from dp_core.plan.chosen_domain import with_fitted_densities
from dp_core.plan.plan import Plan
from dp_core.plan.steps.statistics_measurement import declared_pieces, measure_statistics
from dp_core.schema.decoding import stored_codes
from dp_core.schema.structure.public_totals import known_counts, records_of
from dp_core.schema.structure.structural_zeros import StructuralZeros


class PosteriorDraws:
    """Draws of a release's tables given what it measured, and model records made from them."""

    def __init__(
        self,
        plan: Plan,
        released: Sequence[Released],
        selections: Sequence[Selection],
        *,
        rows: int | None,
    ) -> None:
        """Learn the posterior distribution; see `fits` for the arguments."""
        spec = plan.spec
        sums = _told_sums(plan, released, selections, rows)
        asked = selections[0].dependences if selections else None
        dependences, stddev = asked.by_pair() if asked else ({}, 0.0)
        self._plan, self._drawn = plan, dict[int, tuple[Table, ...]]()
        domain, seen, counts = spec.schema.domain, in_codes(released), None
        if spec.schema.totals:
            # The sets have as many records as the public totals say.
            public = records_of(spec.schema.totals)
            assert public is not None
            factor = factor_to(public, domain, seen, rows=rows)
            seen, rows = in_proportion(seen, factor), public
            dependences = {pair: value * factor for pair, value in dependences.items()}
            stddev *= factor
            counts = known_counts(spec.schema.totals, domain)
        self.tables = PosteriorTables.of(
            domain,
            seen,
            sets=max(spec.sets, 2),  # with one set, only the median tables are used
            rows=rows,
            zeros=spec.schema.zeros,
            dependences=dependences,
            dependence_stddev=stddev,
            scores=scores_of(spec.schema),
            sums=sums,
            counts=counts,
            public=spec.prior,
            rng=spec.rng("posterior", 0),
        )

    def size(self, number: int) -> int:
        """Return the number of records of a set, from 1."""
        return max(1, round(float(self.tables.totals[number - 1])))

    def model_records(
        self, regression: DeclaredRegression, rng: np.random.Generator
    ) -> tuple[Codes, float]:
        """Return records of a regression's columns, drawn as for the first two sets.

        Args:
            regression: The declared regression.
            rng: Generator for post-processing.

        Returns:
            Stored codes of records without missing values, shape (records, columns), in the order
            of the analysis; and the estimated number of such records in the file. If every drawn
            record lacks a value, missing values are drawn uniformly.
        """
        spec, names = self._plan.spec, regression.analysis.columns
        # A model's one-way tables are in the domain's order.
        in_order = [name for name in spec.schema.domain.columns if name in names]
        domain = spec.schema.domain.project(in_order)
        zeros = StructuralZeros(
            tuple(rule for rule in spec.schema.zeros.rules if {*rule.columns} <= {*names})
        )
        columns = [spec.schema.column(name) for name in names]
        found, parts = [], []
        for number in range(1, 3):
            if number not in self._drawn:
                self._drawn[number] = self.tables.draw(number)
            tables = [each for each in self._drawn[number] if {*each.clique} <= {*names}]
            model = spec.drawing(number).restore(
                domain, tables, rows=self.size(number), zeros=zeros, released=()
            )
            drawn = model.sample(min(self.size(number), MODEL_RECORDS // 2), rng=rng)
            codes = np.column_stack(
                [stored_codes(each, drawn.column(each.name), rng=rng) for each in columns]
            )
            complete = regression.complete(codes)
            parts.append(self.size(number) * float(complete.mean()))
            # If a column is almost always missing, it may be missing in every draw.
            found.append(codes[complete] if complete.any() else regression.filled(codes, rng))
        return np.concatenate(found), float(np.mean(parts))


def in_codes(released: Sequence[Released]) -> list[Released]:
    """Return the results that refer to the codes of the schema, to which models are fitted.

    The counts that chose bins and levels, and the sums of declared analyses, are left out. They
    refer to the codes in which the file is stored.
    """
    return [
        item
        for item in released
        if not (isinstance(item, Totals) and item.stage in ("domain", "analyses"))
    ]


def _told_sums(
    plan: Plan,
    released: Sequence[Released],
    selections: Sequence[Selection],
    rows: int | None,
) -> dict[Clique, KnownSums]:
    """Return the noisy sums that declared analyses give of columns and pairs, by clique."""
    spec = plan.spec
    declared = [
        item for item in released if isinstance(item, Totals) and isinstance(item.of, SecondMoments)
    ]
    if not declared:
        return {}
    others = [item for item in released if item not in declared]
    before = PosteriorDraws(plan, others, selections, rows=rows)
    found: dict[Clique, KnownSums] = {}
    # They were paid for in the order of the analyses, whatever their order here.
    declared.sort(key=lambda item: item.grant)
    for number, (analysis, item) in enumerate(zip(spec.analyses, declared, strict=True), start=1):
        regression = DeclaredRegression.of(analysis, spec.schema)
        rng = spec.rng("analyses", number)
        codes, records = before.model_records(regression, rng)
        told = told_sums(regression, item, codes, records, spec.schema, scores_of(spec.schema))
        # Analyses may share columns; the sums of the first one are used.
        found = {**told, **found}
    return found


Settle: TypeAlias = Callable[[str, Sum], Sum]
"""Returns the question to ask, given a name and a question; always the same for one name."""


def measure_analyses(
    plan: Plan,
    curator: Curator,
    released: Sequence[Released],
    selections: Sequence[Selection],
    *,
    rows: int | None,
    settle: Settle = lambda _name, question: question,
) -> tuple[Totals, ...]:
    """Return the noisy sums of the declared analyses, in the order in which they were asked.

    For each regression these are the moments and then two scores. The answers for the declared
    statistics follow.

    Args:
        plan: Plan of the release.
        curator: Curator for the codes of `Schema.stored`.
        released: Everything that was measured before.
        selections: Result of `select`.
        rows: Number of records if it is public, otherwise None.
        settle: Called with the name of each question and the question, before it is asked. It
            returns the question to ask, so that a run that resumes after a crash asks the same. By
            default it returns the question that it was given.
    """

    def ask_as_settled(step: str, question: Sum, cost: Fraction) -> Totals:
        return curator.total("analyses", step, settle(step, question), cost)

    if not plan.spec.declared:
        return ()
    statistics = partial(measure_statistics, plan, ask_as_settled, partial(_noise, curator))
    if not plan.spec.analyses:
        return statistics()
    # The questions follow from `released`, so the densities must not come from anywhere else.
    plan = with_fitted_densities(plan, released)
    spec = plan.spec
    draws = PosteriorDraws(plan, released, selections, rows=rows)
    each = plan.costs["analyses"] / declared_pieces(spec)
    costs = {part: each * share for part, share in PARTS.items()}
    found: list[Totals] = []
    for number, analysis in enumerate(spec.analyses, start=1):
        regression = DeclaredRegression.of(analysis, spec.schema)
        rng = spec.rng("analyses", number)
        codes, records = draws.model_records(regression, rng)

        def noise(part: str) -> Callable[[Sum], float]:
            return partial(_noise, curator, cost=costs[part])

        def ask(part: str, question: Sum, number: int = number) -> Totals:
            step = f"analysis-{number}-{part}"
            return curator.total("analyses", step, settle(step, question), costs[part])

        moments = ask("moments", moments_question(regression, codes, records, noise("moments")))
        known = estimated_moments(regression, moments, codes, records)
        at = coefficients_of(regression, regression.x(codes), known, records)
        found.append(moments)
        for part in SCORES:
            question = scores_question(regression, codes, records, known, at, noise(part), rng)
            found.append(ask(part, question))
            at = coefficients_near(regression, known, found[-1], codes, records)
    return (*found, *statistics())


def _noise(curator: Curator, question: Sum, cost: Fraction) -> float:
    return curator.statistic_noise(question, cost).stddev
