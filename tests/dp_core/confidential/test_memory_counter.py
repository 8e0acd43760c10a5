import numpy as np
import pytest

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain

DOMAIN = Domain(("a", "b"), (2, 3))
DATA = Dataset(DOMAIN, np.array([[0, 1, 1], [2, 0, 0]], dtype=np.uint16))


def test_counts_have_the_axes_of_the_clique_and_are_the_same_again():
    counter = MemoryCounter(DATA)
    for _ in range(2):
        found = counter.count([("b", "a"), (), ("a", "b")])
        assert found["b", "a"].counts.tolist() == [[0, 2], [0, 0], [1, 0]]
        assert found["a", "b"].counts.tolist() == [[0, 0, 1], [2, 0, 0]]
        assert int(found[()].counts) == 3


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr("dp_core.confidential.memory_counter.CACHED_BYTES", 8 * 6)
    counter = MemoryCounter(DATA)
    counter.count([("a", "b"), ("b", "a")])
    assert len(counter._cached) == 1
    assert counter.count([("b", "a")])["b", "a"].counts.sum() == 3


def test_observed_cells_are_those_that_hold_a_record():
    cells, counts = MemoryCounter(DATA).observed(("b", "a"))
    assert cells.tolist() == [[0, 1], [2, 0]]
    assert counts.tolist() == [2, 1]


def test_an_unknown_column_is_refused():
    with pytest.raises(KeyError):
        MemoryCounter(DATA).count([("c",)])
