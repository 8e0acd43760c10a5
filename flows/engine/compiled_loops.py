"""Compiles all Numba loops at installation, so that the first release need not wait for it.

Numba compiles a loop when it is first called. It caches the result beside the source file or, if
that folder is not writable, in the user's own cache. Compiling all loops takes about twenty
seconds. This command calls each loop once; `make` runs it:

    python -m flows.engine.compiled_loops

The cache is valid for this type of processor only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_core.client.released import Table
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.lab.field_scores.propensity import propensity
from dp_core.methods.reconstruction.linked.household_model import HouseholdModel
from dp_core.plan.procedure import carry_out, sample
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.tables.cliques import cliques_of
from dp_core.tables.table_plan import count_codes

ROWS = 2000
MIXED = (2, 3, 4, 5, 6)
TWO_LEVELS = (2, 2, 2, 2, 2)
RELEASES: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    *((method, MIXED, {}) for method in ("auto", "privsyn", "mst", "sbhg", "sba", "dualquery")),
    # Of a column with many levels, single values are changed by other loops.
    ("privsyn", (2, 3, 4, 5, 600), {}),
    # Parities exist only for columns with two levels.
    ("fourier", TWO_LEVELS, {}),
    ("mwem", TWO_LEVELS, {"select": {"updates": "steps"}}),
)
"""Method, numbers of codes and options of each release; together they call every loop."""


def compile_all() -> None:
    """Make small releases of random records in memory, so that every loop is compiled."""
    rng = np.random.default_rng(1)
    # The code store uses both integer types; the releases below use only one.
    for kind in (np.uint8, np.uint16):
        columns = [rng.integers(0, size, ROWS, kind) for size in MIXED]
        count_codes(columns, MIXED, [(0,), (0, 1), (0, 1, 2, 3, 4)])
    file = Dataset(Domain(("a",), (2,)), rng.integers(0, 2, (1, ROWS), np.uint16))
    propensity(file, file)
    for method, sizes, options in RELEASES:
        levels = {
            name: {"type": "category", "levels": [f"{code}" for code in range(size)]}
            for name, size in zip("abcde", sizes, strict=True)
        }
        schema = parse_schema({"version": 1, "title": "Random", "columns": levels})
        one_set = {"synthesize": {"sets": 1, "mode": "shared"}}
        stated = {"privacy": {"epsilon": 10, "delta": "1e-6"}, "method": method}
        plan = memory_plan(schema, {**stated, **one_set, **options})
        codes = np.array([rng.integers(0, size, ROWS, np.uint16) for size in sizes])
        outcome = carry_out(plan, MemoryCounter(Dataset(schema.domain, codes)))
        sample(outcome.plan, outcome.models, 1)
    _draw_households(rng)


def _draw_households(rng: np.random.Generator) -> None:
    """Draw households with their members, as releases of linked tables do."""
    linked = LinkedColumns(household_columns=("a",), person_columns=("b", "c"), max_members=3)
    domain = Domain(linked.columns, (2, 3, 2, 3, 3, 4), linked)
    cliques = [*((name,) for name in domain.columns), *cliques_of(domain, 2)]
    tables = [domain.project(clique) for clique in cliques]
    fitted = tuple(Table(each, rng.uniform(1, 2, each.sizes)) for each in tables)
    # Whole members are copied where a rule ties two of their columns.
    tied = StructuralZeros((Rule(("b", "c"), ((1,), (1,)), "{b: 1, c: 1}"),))
    for zeros in (StructuralZeros(), tied):
        HouseholdModel(domain, fitted, ROWS, zeros).sample(ROWS, rng=rng)


if __name__ == "__main__":
    compile_all()
