"""Model records of declared analyses: they decide the scales of what is asked, never an answer."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.audit.configurations import Configuration, plan_of
from dp_core.client.released import Totals
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.privacy import Relation
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.plan.procedure import ask_all
from dp_core.plan.steps.posterior_draws import PosteriorDraws

MARRIED, MISSING = 1, 3


def drawn(formula, marital, rows):
    """Return a regression and its model records, of a file whose people are one way married.

    Args:
        formula: The declared analysis.
        marital: Code of everybody.
        rows: Number of people.
    """
    relation = Relation("add-remove")
    keys = {"analyses": f"[{formula}]"}
    plan = plan_of(Configuration("declared", "auto", keys), relation, epsilon="400", delta="1e-6")
    assert plan is not None
    schema, rng = plan.spec.schema, np.random.default_rng(1)
    domain = schema.stored.domain
    codes = np.array(
        [rng.integers(size // 2, max(size - 1, size // 2 + 1), rows) for size in domain.sizes],
        np.uint16,
    )
    codes[domain.columns.index("marital")] = marital
    # An income that is missing has a code beyond those of the other columns.
    codes[domain.columns.index("income"), ::2] = domain.sizes[domain.columns.index("income")] - 1
    session = MemorySession(plan.currency, relation.neighbours)
    answered = ask_all(plan, MemoryCounter(Dataset(domain, codes)), session)
    before = [each for each in answered.released if not isinstance(each, Totals)]
    draws = PosteriorDraws(plan, before, answered.selections, rows=None)
    regression = DeclaredRegression.of(plan.spec.analyses[0], schema)
    return regression, *draws.model_records(regression, rng)


@pytest.mark.parametrize(
    "formula", ["marital ~ income", "income ~ marital", "sex ~ income + marital"]
)
def test_model_records_have_their_own_columns_values_in_any_order_of_the_formula(formula):
    regression, codes, records = drawn(formula, MARRIED, 800)
    names = regression.analysis.columns
    assert np.mean(codes[:, names.index("marital")] == MARRIED) > 0.98
    # Incomes are in the upper half of the range.
    income = regression.together.all[names.index("income")]
    assert np.mean(codes[:, names.index("income")] >= income.positions // 2 - 1) > 0.98
    assert records == pytest.approx(400, rel=0.1)


def test_without_a_complete_model_record_any_records_take_their_place():
    regression, codes, records = drawn("marital ~ income", MISSING, 40)
    assert len(codes)
    assert regression.complete(codes).all()
    assert records < 10
