from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.fourier import Fourier
from tests.measured import select_in_memory


def measure(columns, order, *, kind="pure", neighbours="replace-one", rows=50):
    domain = Domain(tuple(f"x{axis}" for axis in range(columns)), (2,) * columns)
    codes = np.random.default_rng(1).integers(0, 2, (columns, rows)).astype(np.uint16)
    limit = largest_limit(kind, Fraction(1), Fraction("1e-9"))
    method, data = Fourier(order=order), Dataset(domain, codes)
    selection, session = select_in_memory(
        method, data, limit, kind=kind, neighbours=neighbours, measure=Fraction(1)
    )
    return selection.measured[0], session


# F: most parities that one replaced row can move, of those of order 1 to k.
TIGHT = [(6, 2, 12), (6, 3, 26), (8, 2, 20), (8, 3, 64), (16, 2, 72), (16, 3, 576)]


@pytest.mark.parametrize(("columns", "order", "most"), TIGHT)
def test_the_noise_is_that_of_the_tight_sensitivity(columns, order, most):
    number = sum(comb(columns, size) for size in range(1, order + 1))
    answers, session = measure(columns, order)
    (grant,) = session.charges
    assert answers.queries.length == number
    assert grant.step.event.l1_sensitivity == most
    assert answers.scale == most
    assert session.spent() == session.currency.limit
    # With the number of rows among them, every one of them moves when a row comes or goes.
    answers, session = measure(columns, order, neighbours="add-remove")
    assert answers.queries.length == number + 1
    assert session.charges[0].step.event.l1_sensitivity == number + 1
    assert answers.scale == number + 1


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
def test_gaussian_noise_has_the_root_of_it(kind):
    _, session = measure(16, 2, kind=kind)
    assert session.charges[0].step.event.l2_sensitivity_squared == 72
    _, session = measure(16, 2, kind=kind, neighbours="add-remove")
    assert session.charges[0].step.event.l2_sensitivity_squared == 137


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_plan_is_told_what_is_asked_in_that_one_event(neighbours):
    answers, _ = measure(8, 2, neighbours=neighbours)
    domain = Domain(tuple(f"x{axis}" for axis in range(8)), (2,) * 8)
    assert Fourier().queries(domain, neighbours) == answers.queries


def test_nothing_is_chosen_and_nothing_is_known_to_the_plan():
    selector, domain = Fourier(), Domain(("a", "b"), (2, 2))
    assert not selector.adaptive
    assert selector.fixed_selection(domain) is None
    assert selector.statistic(domain) is None


def test_columns_of_more_levels_are_refused_with_what_fits():
    with pytest.raises(BadInput, match=r"'b' has 3.*privsyn"):
        Fourier().check(Domain(("a", "b"), (2, 3)))
    with pytest.raises(BadInput, match="smaller orders"):
        Fourier(order=5).check(Domain(tuple(f"x{axis}" for axis in range(60)), (2,) * 60))
    with pytest.raises(ValueError, match="order"):
        Fourier(order=0)
