"""Figures on the agreement of regressions on the sets with those on the file.

The values of the file are in a Parquet file beside its codes, row for row. The sets of a method are
decoded and combined by the rule of its release; the bootstrap is one set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.inference.combining_rules import rule_of
from dp_core.lab.comparison.figures import figure_name
from dp_core.lab.comparison.formula_comparison import Analyse, compare_formulas
from dp_core.lab.comparison.judging import drawn_again, mean_or_nan, seen_records
from dp_core.lab.measures.inference_agreement import Agreement
from dp_core.lab.measures.significance import Outcome, shares
from dp_core.methods.reconstruction.reconstructor import Model
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import generator, sample
from dp_core.schema.definition import Schema
from dp_core.schema.rules.obeyed_values import decode

VALUES = "values.parquet"
"""Name of the file of values in the folder of the codes."""


def judge_formulas(
    values: Path,
    formulas: Sequence[str],
    schema: Schema,
    made: tuple[Plan, Mapping[int, Model]] | None,
    *,
    hold_out: float,
    seed: int,
    analyse: Analyse,
) -> tuple[dict[str, float], str]:
    """Return figures over all formulas, and a sentence about what they leave out.

    Args:
        values: Parquet file with the values of the columns that the formulas name.
        formulas: Formulas of the regressions.
        schema: Schema of the file.
        made: Plan and fitted models of a method; None for the bootstrap.
        hold_out: Share of records that no method saw.
        seed: Seed of the bootstrap.
        analyse: Function that fits and combines.
    """
    whole = pq.read_table(values)
    real = whole.take(pa.array(seen_records(whole.num_rows, hold_out)))
    if made is None:
        again = drawn_again(real.num_rows, np.random.default_rng(seed))
        sets, rule = [real.take(pa.array(again))], rule_of("shared", 1)
    else:
        plan, models = made
        sets = [
            _decode_set(plan, models, number).select(whole.column_names)
            for number in range(1, plan.spec.sets + 1)
        ]
        rule = rule_of(plan.spec.mode, plan.spec.sets)
    found = compare_formulas(real, sets, formulas, schema, rule, analyse=analyse)
    outcomes = [kind for one in found for kind in one.outcomes]
    figures = {}
    if outcomes:
        figures = {figure_name(kind): share for kind, share in shares(outcomes).items()}
        figures["best"] = figures[figure_name(Outcome.BEST)]
        figures["overlap"] = mean_or_nan(
            [max(pair.overlap, 0.0) for one in found for pair in one.slopes]
        )
        ratios = [pair.width_ratio for one in found for pair in one.slopes]
        figures["width"] = _geometric([ratio for ratio in ratios if ratio > 0])
    figures = {name: value for name, value in figures.items() if math.isfinite(value)}
    return figures, " ".join(_agreement_text(one) for one in found if _agreement_text(one))


def _decode_set(plan: Plan, models: Mapping[int, Model], number: int) -> pa.Table:
    drawn = sample(plan, models, number)
    rng = generator(plan.spec.seed, "decode 0", number)
    return decode(plan.spec.schema, drawn, rng=rng)


def _agreement_text(found: Agreement) -> str:
    if found.problem:
        return f"`{found.formula}` was not compared. {found.problem}"
    if found.lost:
        return f"`{found.formula}`: the sets have no coefficient {', '.join(found.lost)}."
    return ""


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(mean_or_nan([math.log(ratio) for ratio in ratios])) if ratios else math.nan
