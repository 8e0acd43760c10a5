"""The stage `analyses` as a function of the plan: the noisy sums of the declared analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from dp_core.kernel.curator import Curator
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.released import Released, Totals
from dp_core.methods.declared.declared_answers import coefficients_near
from dp_core.methods.declared.declared_moments import estimated_moments
from dp_core.methods.declared.declared_questions import (
    PARTS,
    SCORES,
    coefficients_of,
    moments_question,
    scores_question,
)
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.selection.selector import Selection
from dp_core.plan.chosen_domain import with_fitted_densities
from dp_core.plan.plan import Plan
from dp_core.plan.steps.posterior_draws import PosteriorDraws
from dp_core.plan.steps.statistics_measurement import declared_pieces, measure_statistics

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
