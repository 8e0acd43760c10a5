from __future__ import annotations

import threading

import numpy as np
import pytest

from dp_core.kernel.mechanisms import additive_noise
from dp_core.kernel.mechanisms.additive_noise import FEW_CELLS, PIECE_CELLS, add_to_tables

SHAPES = [(), (3, 5), (PIECE_CELLS,), (PIECE_CELLS + 1,), (7, 2000), (0,)]


def tables():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 10**9, shape) for shape in SHAPES]


@pytest.mark.parametrize("processors", [1, 3])
@pytest.mark.parametrize("number", [3, len(SHAPES)])
def test_every_cell_is_perturbed_once_by_its_own_grant(monkeypatch, processors, number):
    monkeypatch.setattr(additive_noise, "threads", lambda: processors)
    exact = [np.asarray(table)[::-1] if np.ndim(table) else table for table in tables()[:number]]
    sizes = []

    def perturb(cells, grant):
        sizes.append(cells.size)
        return cells + grant

    monkeypatch.setattr(additive_noise, "add", perturb)
    drawn = add_to_tables(exact, range(number))
    assert sum(sizes) == sum(np.size(table) for table in exact)
    for grant, (one, noisy) in enumerate(zip(exact, drawn, strict=True)):
        assert noisy.shape == np.shape(one)
        np.testing.assert_array_equal(noisy, one + grant)
    assert (max(sizes) > PIECE_CELLS) == (processors == 1 and number > 3)


def test_few_cells_need_no_threads(monkeypatch):
    monkeypatch.setattr(additive_noise, "threads", lambda: 4)
    seen = set()

    def perturb(cells, _grant):
        seen.add(threading.current_thread())
        return cells

    monkeypatch.setattr(additive_noise, "add", perturb)
    add_to_tables([np.zeros(FEW_CELLS, np.int64)], [0])
    assert seen == {threading.current_thread()}
    add_to_tables([np.zeros(FEW_CELLS, np.int64)] * 2, [0, 1])
    assert len(seen) > 1


def test_of_a_draw_that_fails_nothing_is_returned(monkeypatch):
    monkeypatch.setattr(additive_noise, "threads", lambda: 2)

    def perturb(cells, grant):
        if grant == 1:
            raise ValueError("no entropy")
        return cells

    monkeypatch.setattr(additive_noise, "add", perturb)
    with pytest.raises(ValueError, match="no entropy"):
        add_to_tables([np.zeros(FEW_CELLS, np.int64)] * 2, [0, 1])
