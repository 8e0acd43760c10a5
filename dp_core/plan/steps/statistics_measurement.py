"""The questions of declared means, totals and quantiles, as part of the stage `analyses`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dp_core.client.noise_scale import noise_for, sensitivities
from dp_core.client.released import Totals
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.declared_statistics.limits import probe
from dp_core.methods.declared_statistics.quantile_tree import rank_noise, tree_parts, tree_questions
from dp_core.methods.declared_statistics.sum_answers import (
    PARTS,
    counts_question,
    layers_question,
    limited_question,
    shape_question,
)
from dp_core.methods.declared_statistics.value_table import ValueTable, tables_of, trees_of
from dp_core.plan.plan import Plan
from dp_core.plan.release_spec import ReleaseSpec

_NORMAL = 1.959963984540054
Ask = Callable[[str, Sum, Fraction], Totals]
"""Asks a question, given the name of its step, the question and its cost."""


def declared_pieces(spec: ReleaseSpec) -> int:
    """Return how many declared analyses divide the budget of the stage.

    A mean and a total of the same number by the same groups are measured once, so they count as
    one. So do several quantiles.
    """
    sums = tables_of(spec.statistics, spec.schema)
    return len(spec.analyses) + len(sums) + len(trees_of(spec.statistics, spec.schema))


def statistic_answers(spec: ReleaseSpec) -> int:
    """Return the number of noisy answers of all declared statistics."""
    trees = trees_of(spec.statistics, spec.schema)
    return len(PARTS) * len(tables_of(spec.statistics, spec.schema)) + sum(
        len(tree_parts(table)) for table in trees
    )


def statistic_costs(plan: Plan) -> dict[str, Fraction]:
    """Return the cost of each question of one table, by its part."""
    share = plan.costs["analyses"] / declared_pieces(plan.spec)
    return {part: share * own for part, own in PARTS.items()}


def measure_statistics(
    plan: Plan, ask: Ask, noise: Callable[[Sum, Fraction], float]
) -> tuple[Totals, ...]:
    """Return the noisy answers for the declared statistics.

    Each number and groups with a mean or total has four answers. The levels of the quantile trees
    follow.

    Args:
        plan: Plan of the release.
        ask: Asks a question.
        noise: Standard deviation of the noise of a question at a cost, in the question's unit.
    """
    found: list[Totals] = []
    for number, table in enumerate(tables_of(plan.spec.statistics, plan.spec.schema), start=1):
        found += _measure_table(table, number, ask, noise, statistic_costs(plan))
    share = plan.costs["analyses"] / declared_pieces(plan.spec)
    for number, table in enumerate(trees_of(plan.spec.statistics, plan.spec.schema), start=1):
        parts = tree_parts(table)
        for (part, own), question in zip(parts.items(), tree_questions(table), strict=True):
            found.append(ask(f"quantiles-{number}-{part}", question, share * own))
    return tuple(found)


def _measure_table(
    table: ValueTable,
    number: int,
    ask: Ask,
    noise: Callable[[Sum, Fraction], float],
    costs: dict[str, Fraction],
) -> list[Totals]:
    def ask_part(part: str, question: Sum) -> Totals:
        return ask(f"statistic-{number}-{part}", question, costs[part])

    counts = ask_part("counts", counts_question(table))
    shape = ask_part("shape", shape_question(table))
    layers = ask_part("layers", layers_question(table))

    def of_sums(question: Sum) -> float:
        return noise(question, costs["sums"])

    sums = ask_part("sums", limited_question(table, counts, shape, layers, of_sums))
    return [counts, shape, layers, sums]


def margin_in_records(plan: Plan, statistic: DeclaredStatistic) -> float | None:
    """Return the 95 % margin of the rank of a group's quantile, in records.

    It is None for a mean or total, or if the stage has no budget.
    """
    if not plan.costs.get("analyses") or statistic.quantile is None:
        return None
    table = ValueTable.of(statistic.column, statistic.by, plan.spec.schema)
    share = plan.costs["analyses"] / declared_pieces(plan.spec)
    variances = []
    for part, question in zip(tree_parts(table).values(), tree_questions(table), strict=True):
        l1, l2_squared = sensitivities(question, plan.spec.privacy.relation)
        noise = noise_for(plan.currency, share * part, l1=l1, l2_squared=l2_squared)
        variances.append(float(noise.stddev) ** 2)
    return _NORMAL * rank_noise(table, variances, float(statistic.quantile))


def margin_in_limits(plan: Plan, statistic: DeclaredStatistic) -> float | None:
    """Return the 95 % margin of a total from its noise, in multiples of the limit of its group.

    It is None for a quantile, or if the stage has no budget.
    """
    if not plan.costs.get("analyses") or statistic.measure == "quantile":
        return None
    trial = probe(ValueTable.of(statistic.column, statistic.by, plan.spec.schema))
    l1, l2_squared = sensitivities(trial, plan.spec.privacy.relation)
    noise = noise_for(plan.currency, statistic_costs(plan)["sums"], l1=l1, l2_squared=l2_squared)
    return float(noise.half_width) / trial.reach
