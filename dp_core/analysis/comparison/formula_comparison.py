"""Regressions on a file and on its synthetic sets.

Everything here looks at the file itself, so what it returns is as confidential as that file is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from dp_core.analysis.regression.analysis import Analysis
from dp_core.analysis.regression.analysis import analyse as fit_and_combine
from dp_core.analysis.regression.frames import Frame, frame_of, levels_of
from dp_core.errors import BadInput, ReleaseError
from dp_core.inference.combine import Rule
from dp_core.inference.formulas.comparable_formula import check_formula
from dp_core.inference.formulas.formula import Formula, read_formula
from dp_core.inference.intervals import interval
from dp_core.metrics.inference_agreement import Agreement, Coefficient, agree
from dp_core.schema.definition import Schema

Coefficients = Sequence[Coefficient]
Analyse = Callable[
    [str, pa.Table, Sequence[pa.Table], Schema, Rule], tuple[Coefficients, Coefficients]
]
"""From a formula, the file, its sets, their schema and rule to the coefficients of the file and the
combined ones of the sets, with intervals of 95 %."""


def analyse(
    formula: str, real: pa.Table, sets: Sequence[pa.Table], schema: Schema, rule: Rule
) -> tuple[Coefficients, Coefficients]:
    """Return the coefficients of a regression on the file, and on the sets, combined.

    Each has the coefficients that an analyst of it would have: a level that no set has is in the
    first only.

    Args:
        formula: As people write it; see `check_formula`.
        real: The file, in the labels and units of the sets.
        sets: Synthetic sets.
        schema: Of both.
        rule: By which the sets are combined.

    Raises:
        BadInput: if the regression has no solution on the file or on one of the sets.
    """
    check_formula(formula, schema)
    read = read_formula(formula, schema.names)
    columns = [schema.column(name) for name in read.columns]
    frames = [frame_of(number, table, columns) for number, table in enumerate(sets, start=1)]
    try:
        own = frame_of(1, real, columns)
        before = fit_and_combine(read, [own], schema, "shared")
    except BadInput as error:
        # The fit calls whatever it is given a set.
        raise BadInput(re.sub(r"\bset 1\b", "the file", error.message)) from None
    _check_references(read, own, frames, schema)
    # The variance within a set is that of as many records as the set has.
    size = sum(table.num_rows for table in sets) / len(sets) / max(real.num_rows, 1)
    after = fit_and_combine(read, frames, schema, rule, size_factor=size)
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
    """Return how the analyses of the sets agree with those of the file, one for each formula.

    What cannot be fitted is told as a problem of its formula and stops nothing: whether a
    regression has a solution depends on the data, and a release must not.

    Args:
        real: The file, in the labels and units of the sets.
        sets: Synthetic sets.
        formulas: As people write them.
        schema: Of both.
        rule: By which the sets are combined.
        analyse: Fits and combines.
    """
    found = []
    for formula in formulas:
        try:
            found.append(agree(formula, *analyse(formula, real, sets, schema, rule)))
        except ReleaseError as error:
            found.append(Agreement(formula, problem=error.message))
        except (Exception, SystemExit, GeneratorExit) as error:
            # privacy: whatever the data brings a library to, an exit too, ends this formula alone.
            # What stops a run from outside is none of it, and passes.
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


def _check_references(formula: Formula, real: Frame, sets: Sequence[Frame], schema: Schema) -> None:
    """Refuse coefficients that would say more than one thing: each is against the first level."""
    for name in formula.by_level:
        column = schema.column(name)
        if not column.levels:
            continue
        labels = levels_of(column)
        present = [set(real.data[name]), set().union(*(frame.data[name] for frame in sets))]
        first, other = (next(one for one in labels if one in found) for found in present)
        if first != other:
            raise BadInput(
                f"The levels of {name} are compared with {first!r} in the file and with {other!r}"
                " in the sets, since not both have the first one; model single levels, as in"
                f" I({name} == {other!r})."
            )
