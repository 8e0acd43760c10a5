"""Regressions on a file and on its synthetic sets.

Everything here looks at the file itself, so what it returns is as confidential as that file is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from dp_core.errors import ReleaseError
from dp_core.inference.combine import Rule
from dp_core.metrics.inference_agreement import Agreement, Coefficient, agree

Analyse = Callable[[str, Sequence[pa.Table], Rule | None], Sequence[Coefficient]]
"""From a formula, tables and their combining rule to combined coefficients with intervals of 95 %;
the rule is None for one table as it is."""


def compare_formulas(
    real: pa.Table,
    sets: Sequence[pa.Table],
    formulas: Sequence[str],
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
        rule: By which the sets are combined.
        analyse: Fits and combines.
    """
    return tuple(_compared(real, sets, formula, rule, analyse) for formula in formulas)


def _compared(
    real: pa.Table, sets: Sequence[pa.Table], formula: str, rule: Rule, analyse: Analyse
) -> Agreement:
    whose = "The file"
    try:
        before = analyse(formula, [real], None)
        whose = "The sets"
        after = analyse(formula, sets, rule)
        return agree(formula, before, after)
    except ReleaseError as error:
        return Agreement(formula, problem=f"{whose}: {error.message}")
    except Exception as error:  # a singular matrix, a fit that does not converge
        return Agreement(formula, problem=f"{whose}: the fit stopped with {type(error).__name__}.")
