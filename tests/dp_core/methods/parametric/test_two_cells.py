"""One column of two levels and a public number of records: one count is measured."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.interactions import implied_table
from dp_core.client.noise_scale import sensitivities
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric.laplace_sanitizer import LaplaceSanitizer
from dp_core.methods.parametric.modips import Modips
from dp_core.methods.parametric.two_cells import counts_of, difference
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.schema.variables import Variable, Variables
from tests.measured import NONE, method_inputs

ONE = Variables((Variable(name="x", size=2),))
METHODS = (LaplaceSanitizer(), Modips())


def asked(method, variables, neighbours, *, epsilon=1, ones=30, max_rows=1):
    """Return what a method releases of 100 records, and what it was charged."""
    codes = np.zeros((len(variables), 100), dtype=np.uint16)
    codes[:, :ones] = 1
    session = MemorySession(Currency("pure", Fraction(epsilon)), neighbours, max_rows=max_rows)
    curator = Curator(
        Kernel(variables.domain, MemoryCounter(Dataset(variables.domain, codes)), session)
    )
    found = method.measure(
        method_inputs(
            curator,
            variables.domain,
            measure_cost=Fraction(epsilon),
            stated_rows=100,
            rng=np.random.default_rng(1),
        ),
        variables,
    )
    return found, session, curator


@pytest.mark.parametrize("method", METHODS)
def test_one_count_is_asked_at_the_whole_budget_and_half_of_the_table_s_scale(method):
    (found,), session, _ = asked(method, ONE, "replace-one")
    assert session.spent() == 1
    table = BinnedCounts(columns=("x",), sizes=(2,), edges=(None,))
    l1_of_table, _ = sensitivities(table, Relation("replace-one"))
    # The noise of one count, which is half the difference, in records.
    scale = implied_table(found.of, np.array([found.scale])).ravel()[0]
    assert abs(scale) == pytest.approx(1.0)
    assert l1_of_table == 2  # so the table has scale 2 on each of its counts
    assert counts_of((found,), 100).sum() == pytest.approx(100)


@pytest.mark.parametrize("method", METHODS)
def test_with_much_budget_the_counts_are_exact(method):
    found, _, _ = asked(method, ONE, "replace-one", epsilon=1000)
    np.testing.assert_allclose(counts_of(found, 100), [70, 30])
    model = method.model_of(ONE, FitInputs(ONE.domain, found, 100, NONE))
    assert model.rows == 100
    drawn = model.sample(10_000, rng=np.random.default_rng(1)).codes.mean()
    assert drawn == pytest.approx(0.3, abs=0.26)  # MODIPS draws the proportion: deviation .046


def test_a_level_that_is_impossible_gets_no_record():
    zeros = StructuralZeros((Rule(("x",), ((1,),), "x: 1"),))
    for method in METHODS:
        found, _, _ = asked(method, ONE, "replace-one", ones=0)
        model = method.model_of(ONE, FitInputs(ONE.domain, found, 100, zeros))
        assert not model.sample(50, rng=np.random.default_rng(1)).codes.any()


def test_other_columns_and_a_number_of_records_that_is_not_public_keep_the_table():
    two = Variables((Variable(name="x", size=2), Variable(name="y", size=2)))
    three = Variables((Variable(name="x", size=3),))
    number = Variables((Variable(name="x", size=2, positions=2),))
    for variables, neighbours, max_rows in (
        (ONE, "add-remove", 1),
        (ONE, "replace-one", 2),
        (two, "replace-one", 1),
        (three, "replace-one", 1),
        (number, "replace-one", 1),
    ):
        _, _, curator = asked(LaplaceSanitizer(), variables, neighbours, max_rows=max_rows, ones=10)
        assert difference(curator, variables) is None
    found, _, _ = asked(LaplaceSanitizer(), ONE, "add-remove")
    assert counts_of(found, 100) is None
