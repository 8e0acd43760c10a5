"""What a parametric method measures in memory, for the tests of single methods."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.kernel import Kernel
from dp_core.methods.method_inputs import MethodInputs
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
    session = MemorySession(Currency(kind, Fraction(epsilon)), neighbours)
    inputs = MethodInputs(
        curator=Curator(Kernel(variables.domain, MemoryCounter(data), session)),
        domain=variables.domain,
        measure_cost=Fraction(epsilon),
        rng=np.random.default_rng(seed),
        **{"zeros": NONE, **more},
    )
    return method.measure(inputs, variables), session
