"""Comparison of regressions on a file and on its synthetic sets.

The results are computed from the file itself and are as confidential as the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.analysis.regression.analysis import Analysis
from dp_core.analysis.regression.analysis import analyse as fit_and_combine
from dp_core.analysis.regression.design import frequent_levels
from dp_core.analysis.regression.frames import frame_of
from dp_core.errors import BadInput, ReleaseError
from dp_core.inference.combine import Rule
from dp_core.inference.combining_rules import rule_of
from dp_core.inference.formulas.formula import check_formula, read_formula
from dp_core.inference.intervals import interval
from dp_core.lab.comparison.figures import figure_name
from dp_core.lab.comparison.judging import mean_or_nan, seen_records
from dp_core.lab.measures.inference_agreement import Agreement, Coefficient, Outcome, agree, shares
from dp_core.methods.reconstruction.reconstructor import Model
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import decode_piece, sample
from dp_core.schema.definition import Schema

Coefficients = Sequence[Coefficient]
Analyse = Callable[
    [str, pa.Table, Sequence[pa.Table], Schema, Rule], tuple[Coefficients, Coefficients]
]
"""Takes a formula, the file, its sets, their schema and combining rule. Returns the coefficients of
the file and the combined coefficients of the sets, with 95 % intervals."""


def analyse(
    formula: str, real: pa.Table, sets: Sequence[pa.Table], schema: Schema, rule: Rule
) -> tuple[Coefficients, Coefficients]:
    """Return the coefficients of a regression on the file and the combined ones of the sets.

    A level that no set has gives a coefficient of the file only.

    Args:
        formula: Formula of the regression; see `check_formula`.
        real: The file, in the labels and units of the sets.
        sets: Synthetic sets.
        schema: Schema of both.
        rule: Rule by which the sets are combined.

    Raises:
        BadInput: if the regression has no solution on the file or on one of the sets.
    """
    check_formula(formula, schema)
    read = read_formula(formula, schema.names)
    columns = [schema.column(name) for name in read.columns]
    frames = [frame_of(number, table, columns) for number, table in enumerate(sets, start=1)]
    try:
        own = frame_of(1, real, columns)
        # The file's coefficients compare with the same levels, whatever is most frequent there.
        references = frequent_levels(read, frames, schema)
        before = fit_and_combine(read, [own], schema, "shared", references=references)
    except BadInput as error:
        # The fit calls its only input set 1.
        raise BadInput(re.sub(r"\bset 1\b", "the file", error.message)) from None
    # The variance within a set belongs to as many records as the set has.
    size = sum(table.num_rows for table in sets) / len(sets) / max(real.num_rows, 1)
    after = fit_and_combine(read, frames, schema, rule, size_factor=size, references=references)
    return _coefficients(before), _coefficients(after)


def compare_formulas(
    real: pa.Table,
    sets: Sequence[pa.Table],
    formulas: Sequence[str],
    schema: Schema,
    rule: Rule,
    *,
    analyse: Analyse,
) -> tuple[Agreement, ...]:
    """Return for each formula the agreement between the sets and the file.

    A regression that cannot be fitted is reported as a problem of its formula and stops nothing:
    whether it has a solution depends on the data, and the course of a release must not.

    Args:
        real: The file, in the labels and units of the sets.
        sets: Synthetic sets.
        formulas: Formulas of the regressions.
        schema: Schema of both.
        rule: Rule by which the sets are combined.
        analyse: Function that fits and combines.
    """
    found = []
    for formula in formulas:
        try:
            found.append(agree(formula, *analyse(formula, real, sets, schema, rule)))
        except ReleaseError as error:
            found.append(Agreement(formula, problem=error.message))
        except (Exception, SystemExit, GeneratorExit) as error:
            # privacy: anything that the data make a library do, even exit, ends this formula only.
            # KeyboardInterrupt comes from outside and is not caught.
            text = f"The fit stopped with {type(error).__name__}."
            found.append(Agreement(formula, problem=text))
    return tuple(found)


def _coefficients(found: Analysis) -> list[Coefficient]:
    if found.combined is None:
        fit = found.fits[0]
        estimate = fit.coefficients
        low, high = interval(estimate, np.diag(fit.covariance), fit.residual_df or np.inf)
    else:
        estimate = found.combined.estimate
        low, high = found.combined.interval()
    return [
        Coefficient(name, *map(float, numbers))
        for name, *numbers in zip(found.names, estimate, low, high, strict=True)
    ]


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
        again = np.random.default_rng(seed).integers(0, real.num_rows, real.num_rows)
        sets, rule = [real.take(pa.array(again))], rule_of("shared", 1)
    else:
        plan, models = made
        sets = []
        for number in range(1, plan.spec.sets + 1):
            decoded: pa.Table = decode_piece(plan, sample(plan, models, number), number, 0)
            sets.append(decoded.select(whole.column_names))
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
        logs = [math.log(ratio) for ratio in ratios if ratio > 0]
        figures["width"] = math.exp(mean_or_nan(logs))
    figures = {name: value for name, value in figures.items() if math.isfinite(value)}
    return figures, " ".join(_agreement_text(one) for one in found if _agreement_text(one))


def _agreement_text(found: Agreement) -> str:
    if found.problem:
        return f"`{found.formula}` was not compared. {found.problem}"
    if found.lost:
        return f"`{found.formula}`: the sets have no coefficient {', '.join(found.lost)}."
    return ""
