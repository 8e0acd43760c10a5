"""The part of a plan's answer that is about the wanted tables: their margins of error."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

from dp_core.methods.selection.budget.wanted_margins import Margin, margins
from dp_core.plan.plan import Plan, make_plan
from dp_core.schema.privacy import Noise
from dp_core.text.pages.answer import Answer
from flows.answers.amounts import within

_MUCH_BETTER = 1.2
"""Ratio of margins from which another kind of noise is mentioned."""


@dataclass(frozen=True, slots=True)
class WantedMargin(Answer):
    """The margin that a wanted table will have at most; `within` are 95 % half widths.

    `within_points` are percentage points of a share of all records; None without `rows_about`. With
    ranges or prefixes, both are those of a typical answer (root mean square) instead of each cell.
    """

    columns: tuple[str, ...]
    ranges: tuple[str, ...]
    prefixes: tuple[str, ...]
    weight: Fraction
    cells: int
    within: float
    within_points: float | None


@dataclass(frozen=True, slots=True)
class OtherNoise(Answer):
    """A kind of noise with which the wanted tables would be this many times as exact.

    It was not taken because everything else would be less exact; `measure.noise` takes it.
    """

    noise: str
    times: float


def wanted_margins(plan: Plan) -> tuple[WantedMargin, ...]:
    """Return the margin of each wanted table; empty without a workload."""
    return tuple(_wanted(margin, plan) for margin in _margins(plan))


def _wanted(margin: Margin, plan: Plan) -> WantedMargin:
    table, rows = margin.table, plan.spec.schema.rows_about
    # All measurements serve an answer, also those that were made for single sets.
    half_width = margin.half_width / math.sqrt(plan.replicates)
    return WantedMargin(
        columns=tuple(table.of),
        ranges=tuple(table.ranges),
        prefixes=tuple(table.prefixes),
        weight=table.weight,
        cells=margin.cells,
        within=within(half_width),
        within_points=float(f"{100 * half_width / rows:.2g}") if rows else None,
    )


def other_noise(plan: Plan) -> OtherNoise | None:
    """Return the other kind of noise if the wanted tables alone would be much better with it."""
    spec = plan.spec
    if not spec.selector.workload or spec.noise != "auto":
        return None
    other: Noise = "gaussian" if plan.currency.kind == "pure" else "laplace"
    if other == "gaussian" and not spec.privacy.delta:
        return None
    plans = plan, make_plan(dataclasses.replace(spec, noise=other))
    now, then = (_weighted_width(each) for each in plans)
    times = now / then
    return OtherNoise(other, float(f"{times:.2g}")) if times > _MUCH_BETTER else None


def _weighted_width(plan: Plan) -> float:
    """Return the weighted root mean square of the half widths of the wanted tables."""
    return math.sqrt(sum(float(each.table.weight) * each.half_width**2 for each in _margins(plan)))


def _margins(plan: Plan) -> tuple[Margin, ...]:
    return margins(plan.spec.selector, plan.spec.schema.domain, plan.terms)
