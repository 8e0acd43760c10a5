"""The stage `analyses` as a function of the plan: the noisy sums of the declared analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dp_core.methods.declared.declared_moments import estimated_moments
from dp_core.methods.declared.declared_questions import (
    MOMENTS_PART,
    moments_question,
    scores_question,
)
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.selection.selector import Selection
from dp_core.spec.plan import Plan
from dp_core.spec.posterior_draws import PosteriorDraws
from dp_core.spec.seeded import generator
from dp_core.wall.curator import Curator
from dp_core.wall.released import Released, Totals
from dp_core.wall.statistics import Sum

Settle: TypeAlias = Callable[[str, Sum], Sum]
"""Returns the question to ask for a name and a question, the same at every call for a name."""


def measure_analyses(
    plan: Plan,
    curator: Curator,
    released: Sequence[Released],
    selections: Sequence[Selection],
    *,
    rows: int | None,
    settle: Settle = lambda _name, question: question,
) -> tuple[Totals, ...]:
    """Return the noisy sums of the declared analyses: for each its second moments and its scores.

    Args:
        plan: Plan of the release.
        curator: Curator for the codes of `Schema.stored`.
        released: Everything that was measured before.
        selections: Result of `select`.
        rows: Number of records if it is public, otherwise None.
        settle: Called with the name and the value of each question before it is asked; it returns
            the question to ask, so that a repeated call after a crash asks the same. By default
            that is the question itself.
    """
    spec = plan.spec
    if not spec.analyses:
        return ()
    draws = PosteriorDraws(plan, released, selections, rows=rows)
    cost = plan.costs["analyses"] / len(spec.analyses)
    costs = {"moments": cost * MOMENTS_PART, "scores": cost * (1 - MOMENTS_PART)}
    found: list[Totals] = []
    for number, analysis in enumerate(spec.analyses, start=1):
        regression = DeclaredRegression.of(analysis, spec.schema)
        rng = generator(spec.seed, "analyses", number)
        codes, records = draws.model_records(regression, rng)

        def noise(part: str) -> Callable[[Sum], float]:
            return lambda question: curator.statistic_noise(question, costs[part]).stddev

        def ask(part: str, question: Sum, number: int = number) -> Totals:
            step = f"analysis-{number}-{part}"
            return curator.total("analyses", step, settle(step, question), costs[part])

        moments = ask("moments", moments_question(regression, codes, records, noise("moments")))
        known = estimated_moments(regression, moments, codes, records)
        scores = scores_question(regression, codes, records, known, noise("scores"), rng)
        found += [moments, ask("scores", scores)]
    return tuple(found)
