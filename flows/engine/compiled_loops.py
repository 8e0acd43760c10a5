"""The compiled loops, made ready where the program is installed.

Numba compiles a loop when it is first called, and keeps it beside its source or, where nobody may
write there, in the caller's own cache. All of them take some twenty seconds, of which the first
release would wait for most:

    python -m flows.engine.compiled_loops

calls every loop once; `make` does so. Another processor compiles its own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.spec.procedure import carry_out, sample
from dp_core.spec.trial import trial_plan
from dp_core.tables.counting import count_codes
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain

ROWS = 2000
MIXED = (2, 3, 4, 5, 6)
TWO_LEVELS = (2, 2, 2, 2, 2)
RELEASES: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    *((method, MIXED, {}) for method in ("auto", "privsyn", "mst", "sbhg", "sba", "dualquery")),
    # They ask for parities, which only columns of two levels have.
    ("fourier", TWO_LEVELS, {}),
    ("mwem", TWO_LEVELS, {"select": {"updates": "steps"}}),
)
"""Methods, numbers of codes and options; together they call every loop there is."""


def compile_all() -> None:
    """Carry out small releases of invented records, in memory."""
    rng = np.random.default_rng(1)
    # Codes of the store, of few levels and of many; the releases below hold them in memory.
    for kind in (np.uint8, np.uint16):
        columns = [rng.integers(0, size, ROWS, kind) for size in MIXED]
        count_codes(columns, MIXED, [(0,), (0, 1), (0, 1, 2, 3, 4)])
    for method, sizes, options in RELEASES:
        domain = Domain(("a", "b", "c", "d", "e"), sizes)
        codes = np.array([rng.integers(0, size, ROWS, np.uint16) for size in sizes])
        plan = trial_plan(domain, method, Fraction(10), Fraction("1e-6"), **options)
        outcome = carry_out(plan, MemoryCounter(Dataset(domain, codes)))
        sample(outcome.plan, outcome.models, 1)


if __name__ == "__main__":
    compile_all()
