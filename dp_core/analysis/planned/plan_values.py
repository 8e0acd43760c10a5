"""The cost, noise, size and time of a planned release, by JSON key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, cast

from dp_core.accounts.requested import PAYING_STAGES, unprotected, words_of
from dp_core.bundle.report.provenance import enumeration
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.kernel.privacy import Noise
from dp_core.methods.bin_density.fitting import outer_bins
from dp_core.methods.prior import PublicPrior
from dp_core.methods.private_domain.questions import PlannedChoice
from dp_core.methods.selection.budget.threshold_delta import Thresholding, planned_threshold
from dp_core.methods.selection.budget.wanted_shares import Margin, margins
from dp_core.plan.forecast.error_forecast import forecast_error
from dp_core.plan.forecast.one_step import many_levels
from dp_core.plan.forecast.resource_forecast import ResourceForecast, forecast_resources
from dp_core.plan.forecast.stage_pace import REFERENCE, Machine
from dp_core.plan.plan import Plan, PlannedTable, PlannedTotal, check_reach, make_plan
from dp_core.plan.steps.statistics_measurement import margin_in_limits, margin_in_records
from dp_core.schema.definition import Schema
from dp_core.schema.structure.public_totals import records_of
from dp_core.text.pages.answer import exact_json, known_values
from dp_core.text.pages.number_texts import plural, within

_FAR = 2
"""Ratio above which public totals and `rows_about` are far from each other."""
_MUCH_BETTER = 1.2
"""Ratio of margins of wanted tables from which another kind of noise is mentioned."""


def plan_values(
    plan: Plan, machine: Machine = REFERENCE, *, room: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a plan's cost, noise, size and time.

    `within` of a table is the 95 % bound of one count, and `within_records` of sums that of one
    number at the end of its range, both in records.

    Args:
        plan: The plan of the release.
        machine: The machine that makes the release; by default that of the unit costs, with one
            processor.
        room: What the account has left, by JSON key; None (the default) without an account.
    """
    spec, privacy = plan.spec, plan.spec.privacy
    rows, measures = spec.schema.rows_about, spec.measurements is None
    threshold = _threshold(plan)
    errors, takes = forecast_error(plan), forecast_resources(plan, machine)
    return {
        "release": spec.release,
        "account": spec.account,
        "method": spec.method,
        **exact_json(epsilon=privacy.epsilon, delta=privacy.delta),
        "neighbours": privacy.neighbours,
        "unit": privacy.unit,
        "protects": words_of(privacy.protects),
        "max_rows": privacy.max_rows,
        **known_values(
            max_members=privacy.max_members if privacy.unit == "household" else None,
            waves=" to ".join(privacy.protects.waves) or None,
            unprotected=unprotected(privacy.epsilon, privacy.delta) or None,
        ),
        "currency": plan.currency.kind,
        "limit": plan.currency.limit,
        "plan_hash": plan.hash,
        "sets": spec.sets,
        "mode": spec.mode,
        "rows": spec.rows or "same",
        "rows_about": rows,
        "columns": len(spec.schema.columns),
        # Levels and bins of all columns together.
        "levels": sum(spec.schema.domain.sizes),
        "stages": [
            {
                "stage": stage,
                "share": spec.shares[stage],
                "cost": plan.costs[stage],
                "what": stage_words(plan, stage, threshold),
            }
            for stage in PAYING_STAGES
            if plan.costs.get(stage)
        ],
        "tables": [_table(table, rows) for table in plan.tables],
        "totals": [_total(total, rows) for total in plan.totals],
        "extensions": list(plan.extensions),
        **known_values(
            wanted=(wanted_margins(plan) or None) if measures else None,
            wanted_by_other_noise=other_noise(plan) if measures else None,
            # The width of intervals is relative to that of intervals from the file itself.
            analyses=[
                {"formula": each.formula, "relative_width": width}
                for each, width in zip(spec.analyses, errors.widths, strict=True)
            ]
            or None,
            statistics=[_statistic(plan, each) for each in spec.statistics] or None,
            choices=[_choice(choice) for choice in plan.choices] or None,
            # Outer bins that may hold few records and much of the sum of their column.
            wide_bins=[
                {
                    "column": each.column,
                    "bin": each.label,
                    "times": each.times,
                    "moves": each.moves,
                    "in_words": each.in_words,
                }
                for each in outer_bins(spec.schema)
            ]
            or None,
            many_levels=list(many_levels(spec.schema, spec.selector)) or None,
        ),
        # The tables that are checked against the data, and the TVD bound of a check.
        "checks": {
            "tables": spec.checks,
            "within_tvd": check_reach(spec, plan.check_noise) if plan.check_noise else None,
        },
        "evenness": _evenness(plan),
        "bins_unused": _bins_unused(plan),
        "score_noise_within": within(plan.score_noise.half_width) if plan.score_noise else None,
        # None without sets, or for a method whose error cannot be forecast. Without `rows_about`,
        # `expected_by_rows` has it for several numbers of rows.
        "expected_error": errors.sets[0] if rows and errors.sets else None,
        **known_values(expected_by_rows=None if rows else errors.sets or None),
        "threshold": threshold,
        # MB (a million bytes) of the whole release, without Prefect's server.
        "memory_bound_mb": 10 * math.ceil(takes.memory_mb / 10) if takes else None,
        "time": _time(takes, machine) if takes else None,
        **(room or {}),
        **known_values(
            # The release whose noisy tables it would use at no cost.
            measurements=spec.measurements.release if spec.measurements else None,
            public_totals=[each.in_words for each in spec.schema.totals if spec.sets] or None,
            totals_remark=_totals_remark(spec.schema) if spec.sets else None,
            prior=_prior(spec.prior) if spec.prior else None,
        ),
        "spec": dict(spec.document),
    }


def _statistic(plan: Plan, statistic: DeclaredStatistic) -> dict[str, Any]:
    """Return a declared mean, total or quantile, with 95 % margins.

    That of a group's total, from the noise of its sum, is in multiples of the limit to which the
    values of the group are cut, which depends on the data; that of a group's quantile is a rank.
    """
    return {
        "statistic": statistic.text,
        "groups": math.prod(plan.spec.schema.column(name).size for name in statistic.by),
        "margin_in_limits": margin_in_limits(plan, statistic),
        "margin_in_records": margin_in_records(plan, statistic),
    }


def _prior(prior: PublicPrior) -> dict[str, Any]:
    """Return the public records that predict how columns depend, at no cost.

    The plan's hash covers their hash: of the release's statement, or of the file's bytes.
    """
    stated = dict(prior.document)
    return {
        "kind": "release" if "release" in stated else "file",
        "name": stated.get("release") or stated.get("file") or "in memory",
        "sha256": stated.get("sha256", ""),
        "columns": len(prior.domain),
        "notes": prior.notes,
    }


def _totals_remark(schema: Schema) -> str | None:
    """Return a sentence if public totals add up to far more or less than `rows_about`."""
    records, about = records_of(schema.totals), schema.rows_about
    if records is None or about is None or 1 / _FAR <= records / about <= _FAR:
        return None
    return (
        f"The public totals add up to {records:,}, but rows_about is {about:,}. Totals must be of"
        " the same population as the file; check both numbers."
    )


def _time(takes: ResourceForecast, machine: Machine) -> dict[str, Any]:
    """Return the seconds of the release if the machine does nothing else; `start` is start-up."""
    stages = {stage: _two_digits(seconds) for stage, seconds in takes.seconds.items()}
    return {
        "seconds": _two_digits(sum(takes.seconds.values())),
        "stages": stages,
        "processors": machine.processors,
    }


def _two_digits(seconds: float) -> float:
    return float(f"{seconds:.2g}")


def _threshold(plan: Plan) -> dict[str, Any] | None:
    """Return the least noisy count that a method keeps; None if it has no threshold."""
    spec, domain = plan.spec, plan.spec.schema.domain
    if not spec.selector.own_delta or spec.measurements is not None:
        return None
    method = cast(Thresholding, spec.selector)
    kept = planned_threshold(
        method,
        domain,
        plan.currency,
        plan.costs["measure"],
        relation=spec.privacy.relation,
        split=plan.replicates if spec.mode == "split" else 0,
    )
    tables, cells = method.tables(domain)
    lost, rows = None, spec.schema.rows_about
    if rows and cells > rows:
        lost = (
            f"{'The table has' if tables == 1 else 'A table has up to'} {cells:,} cells for about"
            f" {rows:,} rows: combinations that fewer than about {kept:,} records share are lost,"
            " and with many columns that can be nearly all."
        )
    # `rare_lost` warns if rare cells will be lost.
    return {"kept_from": kept, "tables": tables, "most_cells": cells, "rare_lost": lost}


def stage_words(plan: Plan, stage: str, threshold: Mapping[str, Any] | None) -> str:
    """Return what a paying stage pays for."""
    tables = [table for table in plan.tables if table.stage == stage]
    times = f", {plan.replicates} times" if plan.replicates > 1 else ""
    if stage == "domain":
        return f"the bins or levels of {enumeration([choice.column for choice in plan.choices])}"
    if stage == "total":
        return f"the number of rows{times}"
    if stage == "checks" and plan.check_noise:
        reach = check_reach(plan.spec, plan.check_noise)
        bound = "" if reach is None else f", TVD within ±{reach:.2g}"
        return f"how far {plural(len(plan.spec.checks), 'table')} of the sets are off{bound}"
    if stage == "select":
        return f"{plan.scores} scores of dependence" if plan.scores else f"private choices{times}"
    if stage == "analyses":
        found = []
        if plan.spec.analyses:
            declared = plural(len(plan.spec.analyses), "declared regression")
            found.append(f"{declared}, three noisy sums each")
        if plan.spec.statistics:
            found.append(plural(len(plan.spec.statistics), "declared statistic"))
        return "; ".join(found)
    if plan.totals and stage == "measure":
        numbers = sum(total.numbers for total in plan.totals) + sum(t.cells for t in tables)
        return f"{numbers:,} sums and counts that the method needs{times}"
    if tables:
        beyond = sum(table.interaction for table in tables)
        counted = ((len(tables) - beyond, "table"), (beyond, "interaction"))
        named = [plural(number, noun) for number, noun in counted if number]
        return f"{enumeration(named)}, {sum(t.cells for t in tables):,} cells{times}"
    gives = plan.spec.selector.gives
    if "sparse" in gives:
        if threshold:
            several, kept = threshold["tables"], threshold["kept_from"]
            each = "" if several == 1 else f" of {several} tables"
            return f"cells{each} of {kept:,} records or more are kept{times}"
        return f"combinations that enough records share{times}"
    if "answers" in gives:
        return f"single numbers that the selection asks for{times}"
    if "records" in gives:
        return f"records that the method makes itself{times}"
    if "totals" in gives:
        return f"sums and counts that the method needs{times}"
    what = "tables and trends" if len(plan.spec.ordered) > 1 else "tables"
    return f"{what} that the selection chooses{times}"


def _choice(choice: PlannedChoice) -> dict[str, Any]:
    """Return the noise of a private choice of bins or levels."""
    return {
        "column": choice.column,
        "of": choice.of,
        "number": choice.number,
        "among": choice.among,
        "noise": choice.noise.kind,
        "scale": choice.noise.scale,
        "within": within(choice.within),
        "in_words": choice.in_words(),
    }


def _total(total: PlannedTotal, rows: int | None) -> dict[str, Any]:
    counts = total.largest == 1  # every record is in one entry, and adds 1 to it
    moved = total.numbers * total.noise.mean_absolute / (2 * rows) if rows else 0.0
    return {
        "step": total.step,
        "columns": total.of,
        "numbers": total.numbers,
        "noise": total.noise.kind,
        "scale": total.noise.scale,
        # One unit for the sums of any column: records at the end of its range.
        "within_records": total.noise.half_width / total.largest,
        "tvd": min(1.0, moved) if rows and counts else None,
        "times": total.times,
    }


def _evenness(plan: Plan) -> float | None:
    """Return the share of uniformly random records; None for methods that draw no records."""
    from dp_core.methods.parametric.drawn_records import Measuring, TableDraws

    spec, rows = plan.spec, plan.spec.rows or plan.spec.schema.rows_about
    half = spec.selector
    if not (isinstance(half, Measuring) and isinstance(half.method, TableDraws) and rows):
        return None
    cost = plan.costs["measure"] / plan.replicates
    return half.method.evenness(half.variables, plan.currency, cost, rows, spec.privacy.max_rows)


def _bins_unused(plan: Plan) -> list[str]:
    """Return the columns whose bins are paid for but not used by the method's model."""
    from dp_core.methods.parametric.drawn_records import Measuring

    half = plan.spec.selector
    if not isinstance(half, Measuring) or half.method.by_bins:
        return []
    return [choice.column for choice in plan.choices if choice.of == "bins"]


def _table(table: PlannedTable, rows: int | None) -> dict[str, Any]:
    return {
        "stage": table.stage,
        "columns": table.clique,
        "cells": table.cells,
        "noise": table.noise.kind,
        "scale": table.noise.scale,
        "within": within(table.noise.half_width),
        "tvd": table.tvd(rows) if rows and table.clique else None,
        "times": table.times,
        **known_values(interaction=table.interaction or None),
    }


def wanted_margins(plan: Plan) -> list[dict[str, Any]]:
    """Return the margin that each wanted table will have at most; empty without a workload.

    `within` is a 95 % half width, and `within_points` the same in percentage points of a share of
    all records; None without `rows_about`. With ranges or prefixes, both are those of a typical
    answer (root mean square) instead of each cell.
    """
    return [_wanted_table_values(margin, plan) for margin in _margins(plan)]


def _wanted_table_values(margin: Margin, plan: Plan) -> dict[str, Any]:
    table, rows = margin.table, plan.spec.schema.rows_about
    # All measurements serve an answer, also those that were made for single sets.
    half_width = margin.half_width / math.sqrt(plan.replicates)
    return {
        "columns": table.of,
        "ranges": table.ranges,
        "prefixes": table.prefixes,
        "weight": table.weight,
        "cells": margin.cells,
        "within": within(half_width),
        "within_points": float(f"{100 * half_width / rows:.2g}") if rows else None,
    }


def other_noise(plan: Plan) -> dict[str, Any] | None:
    """Return the other kind of noise if the wanted tables alone would be much better with it.

    `times` is how many times as exact they would be. It was not taken because everything else would
    be less exact; `measure.noise` takes it.
    """
    spec = plan.spec
    if not spec.selector.workload or spec.noise != "auto":
        return None
    other: Noise = "gaussian" if plan.currency.kind == "pure" else "laplace"
    if other == "gaussian" and not spec.privacy.delta:
        return None
    plans = plan, make_plan(dataclasses.replace(spec, noise=other))
    now, then = (_weighted_width(each) for each in plans)
    times = now / then
    found = {"noise": other, "times": float(f"{times:.2g}")}
    return found if times > _MUCH_BETTER else None


def _weighted_width(plan: Plan) -> float:
    """Return the weighted root mean square of the half widths of the wanted tables."""
    return math.sqrt(sum(float(each.table.weight) * each.half_width**2 for each in _margins(plan)))


def _margins(plan: Plan) -> tuple[Margin, ...]:
    return margins(plan.spec.selector, plan.spec.schema.domain, plan.terms)
