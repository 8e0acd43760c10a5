"""What a parametric method measures in memory, for the tests of single methods."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.kernel import Kernel
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from tests.measured import NONE

EXACT = Fraction(10**13)
"""Epsilon at which nothing of the noise is left."""


def measure_in_memory(
    method, variables, data, epsilon, *, kind="pure", neighbours="add-remove", seed=0, **more
):
    """Return what a method measures at a budget, and the session that charged it.

    Args:
        method: The method.
        variables: The columns.
        data: Records, as codes of the columns.
        epsilon: The budget, in the currency `kind`.
        kind: The currency.
        neighbours: The neighbouring relation.
        seed: Seed of post-processing.
        more: Other fields of `MethodInputs`, such as `zeros` and `stated_rows`.
    """
    method.check(variables, neighbours)
    session = MemorySession(Currency(kind, Fraction(epsilon)), neighbours)
    inputs = MethodInputs(
        curator=Curator(Kernel(variables.domain, MemoryCounter(data), session)),
        domain=variables.domain,
        measure_cost=Fraction(epsilon),
        rng=np.random.default_rng(seed),
        **{"zeros": NONE, **more},
    )
    return method.measure(inputs, variables), session


def model_in_memory(
    method,
    variables,
    data,
    epsilon=EXACT,
    *,
    neighbours="add-remove",
    rows=None,
    zeros=NONE,
    **more,
):
    """Return the model of what `measure_in_memory` measures, and the session that charged it.

    Args:
        method: The method.
        variables: The columns.
        data: Records; where one is replaced by another, their number is public.
        epsilon: The budget.
        neighbours: The neighbouring relation.
        rows: Another public number of records.
        zeros: The impossible cells.
        more: Other arguments of `measure_in_memory`.
    """
    rows = data.rows if neighbours == "replace-one" else rows
    more |= {"neighbours": neighbours, "zeros": zeros, "stated_rows": rows}
    released, session = measure_in_memory(method, variables, data, epsilon, **more)
    return method.model_of(variables, FitInputs(variables.domain, released, rows, zeros)), session
