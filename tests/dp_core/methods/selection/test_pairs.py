from __future__ import annotations

import numpy as np

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.candidates.pairs import dependences, one_way_tables, pairs_up_to
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 3, 5))


def measured(clique, stddev):
    project = DOMAIN.project(clique)
    values = np.full(project.sizes, 300 // project.size())
    return noisy_table(project, values, scale=stddev, stage="one_way")


def test_pairs_are_those_of_so_many_cells():
    assert pairs_up_to(DOMAIN, 10) == (("a", "b"), ("a", "c"))
    assert dependences(pairs_up_to(DOMAIN, 5)) is None
    assert dependences([("a", "b")]).pairs == (("a", "b"),)


def test_a_columns_precision_is_that_of_the_cells_which_are_added_up():
    tables = one_way_tables(DOMAIN, [measured(("a",), 2.0), measured(("a", "b"), 10.0)])
    values = [found.tolist() for found, _ in tables]
    assert values == [[150.0] * 2, [100.0] * 3, [60.0] * 5]
    # A cell of `a` is the sum of three of the pair's, one of `b` of two; `c` is in no table.
    wanted = [1 / 4 + 1 / 300, 1 / 200, 0.0]
    np.testing.assert_allclose([precision for _, precision in tables], wanted, rtol=1e-12)
