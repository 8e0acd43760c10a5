"""The stability-based histogram: what is kept, in which form, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BudgetRefused
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions import thresholds
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.additive_noise import LaplaceEvent
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.methods.drawn_answers import read_sparse_result, threshold_table
from dp_core.methods.drawn_events import threshold_event
from dp_core.plan.currency_choice import threshold_currency

SIZES = (300, 400, 500, 600, 700, 800, 900, 1000)
WIDE = Domain(tuple("abcdefgh"), SIZES)
MICRO = Fraction(1, 10**6)


def grant(capacity=5, threshold=10, words=1):
    event = StabilityEvent(Fraction(1), 1, threshold)
    return Grant(1, Step("measure", "a", Fraction(1), event, (capacity, words + 1)))


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(thresholds, "add_noise", lambda _kind, values, _scale: values)


@pytest.mark.usefixtures("noiseless")
def test_cells_below_the_threshold_leave_no_trace():
    cells = np.array([[0, 1], [1, 0], [1, 2], [2, 2]], np.uint16)
    stored = thresholds.release(cells, np.array([9, 10, 3, 70]), (3, 3), grant())
    assert stored.shape == (5, 2)
    assert stored.dtype == np.int64
    assert (stored[2:] == -1).all()
    kept, values = read_sparse_result(stored, (3, 3))
    assert kept.tolist() == [[1, 0], [2, 2]]
    assert values.tolist() == [10, 70]


@pytest.mark.usefixtures("noiseless")
def test_beyond_the_capacity_the_smallest_noisy_counts_are_dropped():
    cells = np.arange(6, dtype=np.uint16)[:, None]
    counts = np.array([30, 11, 50, 11, 40, 11])
    kept, values = read_sparse_result(
        thresholds.release(cells, counts, (6,), grant(capacity=4)), (6,)
    )
    assert kept[:, 0].tolist() == [0, 1, 2, 4]
    assert values.tolist() == [30, 11, 50, 40]


def test_the_shape_is_the_same_whatever_the_file_holds():
    none = thresholds.release(np.empty((0, 1), np.uint16), np.empty(0, np.int64), (9,), grant())
    many = thresholds.release(
        np.arange(9, dtype=np.uint16)[:, None], np.full(9, 1000), (9,), grant()
    )
    assert none.shape == many.shape == (5, 2)
    assert (none == -1).all()
    assert (many >= 0).all()


def test_only_counts_of_records_are_taken():
    with pytest.raises(AssertionError):
        thresholds.release(np.zeros((1, 1), np.uint16), np.array([0]), (3,), grant())
    other = Grant(1, Step("measure", "a", Fraction(1), LaplaceEvent(Fraction(1), 1), (5, 2)))
    with pytest.raises(TypeError, match="not for a histogram"):
        thresholds.release(np.zeros((1, 1), np.uint16), np.array([2]), (3,), other)


def test_a_table_of_any_size_is_released_without_its_domain():
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, 2, 4000) * (size - 1) for size in SIZES])
    codes = codes.astype(np.uint16)
    session = MemorySession(threshold_currency(Fraction(8), MICRO), "add-remove")
    curator = Curator(Kernel(WIDE, MemoryCounter(Dataset(WIDE, codes)), session))
    table = threshold_table(curator, "measure", WIDE.columns, Fraction(8), MICRO, capacity=300)
    seen, counts = np.unique(codes.T, axis=0, return_counts=True)
    np.testing.assert_array_equal(table.cells, seen)  # all 256, of about 16 records each
    assert np.abs(table.values - counts).max() < 10
    assert table.threshold == session.charges[0].step.event.threshold
    assert (session.spent(), session.charges[0].step.event.own_delta() <= MICRO) == (8, True)


def test_a_threshold_may_be_larger_than_need_be_but_not_lower():
    currency = threshold_currency(Fraction(1), MICRO)
    least = threshold_event(currency, Fraction(1), MICRO, l1=1).threshold
    event = threshold_event(currency, Fraction(1), MICRO, l1=1, threshold=least + 3)
    assert event.threshold == least + 3
    with pytest.raises(ValueError, match=f"at least {least}"):
        threshold_event(currency, Fraction(1), MICRO, l1=1, threshold=least - 1)
    with pytest.raises(ValueError, match="cost must be positive"):
        threshold_event(currency, Fraction(0), MICRO, l1=1)
    with pytest.raises(ValueError, match="Gaussian curve"):
        threshold_event(Currency("gaussian", Fraction(1), MICRO), Fraction(1), MICRO, l1=1)


def test_no_look_at_the_data_without_delta_for_it():
    class Untouched:
        def observed(self, _):
            raise AssertionError("looked")

    session = MemorySession(threshold_currency(Fraction(1), MICRO / 2), "add-remove")
    curator = Curator(Kernel(WIDE, Untouched(), session))
    with pytest.raises((BudgetRefused, ValueError), match="delta"):
        threshold_table(curator, "measure", ("a",), Fraction(1), MICRO, capacity=5)
    with pytest.raises(BudgetRefused):
        threshold_table(curator, "measure", ("a",), Fraction(2), MICRO / 2, capacity=5)


def test_the_delta_of_a_release_is_what_a_threshold_needs():
    with pytest.raises(ValueError, match="above 0"):
        threshold_currency(Fraction(1), Fraction(0))
