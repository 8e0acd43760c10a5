"""STEPS: nested tables in the order of the columns' importance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.steps import Steps
from tests.measured import select_in_memory

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))


def file_of(rows=2_000):
    """Return a file in which `c` decides `b` and `d`; `a` is independent."""
    rng = np.random.default_rng(1)
    c = rng.integers(0, 4, rows)
    columns = [rng.integers(0, 2, rows), np.minimum(c, 2), c, c + (rng.random(rows) < 0.3)]
    return Dataset(DOMAIN, np.stack(columns).astype(np.uint16))


def selected(method, data=None, cost=Fraction(10**6)):
    return select_in_memory(method, data or file_of(), cost, kind="pure", look=Fraction(1))


def test_a_stated_order_gives_its_nested_tables_and_looks_at_nothing():
    found, session = selected(Steps(order=("d", "b")))
    assert found.cliques == (("d",), ("b", "d"), ("a", "b", "d"), ("a", "b", "c", "d"))
    assert found.weights == (Fraction(1, 4),) * 4
    assert not session.charges
    assert not Steps(order=("d",)).adaptive
    assert Steps().adaptive


def test_without_an_order_the_most_dependent_column_comes_first_and_the_cost_is_spent():
    found, session = selected(Steps())
    assert "a" not in found.cliques[-2]
    assert found.cliques[0] == ("c",)
    assert len(found.cliques) == 4
    assert session.spent() == session.currency.limit
    assert [grant.step.asks["name"] for grant in session.charges] == ["indif"]


def test_tables_that_would_be_too_large_leave_columns_to_the_first(monkeypatch):
    monkeypatch.setattr(Steps, "max_cells", 20)
    found, _ = selected(Steps(order=("c", "b", "a", "d")))
    # c and b have 12 cells; with a 24; and d fits with c only.
    assert found.cliques == (("c",), ("b", "c"), ("a", "c"), ("c", "d"))
    # Neither d nor b fits with c; a does.
    monkeypatch.setattr(Steps, "max_cells", 10)
    found, _ = selected(Steps(order=("c", "d", "b", "a")))
    assert found.cliques == (("c",), ("a", "c"), ("d",), ("b",))


def test_the_depth_limits_the_columns_of_a_table(monkeypatch):
    monkeypatch.setattr(Steps, "depth", 2)
    found, _ = selected(Steps(order=("a", "b", "c", "d")))
    assert found.cliques == (("a",), ("a", "b"), ("a", "c"), ("a", "d"))
    monkeypatch.setattr(Steps, "depth", 1)
    found, _ = selected(Steps(order=("a", "b", "c", "d")))
    assert found.cliques == (("a",), ("b",), ("c",), ("d",))


def test_a_single_column_is_measured_alone():
    one = Dataset(Domain(("a",), (2,)), np.zeros((1, 9), dtype=np.uint16))
    found, session = selected(Steps(), one)
    assert found.cliques == (("a",),)
    assert not session.charges


def test_wrong_options_are_refused():
    for options, why in (
        ({"order": ("e",)}, "'e', which the schema does not have"),
        ({"order": ("a", "a")}, "twice"),
    ):
        with pytest.raises(BadInput, match=why):
            Steps(**options).check(DOMAIN)
