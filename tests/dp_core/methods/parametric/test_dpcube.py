"""DPCube: noisy cells, boxes of cells with about equal counts, and noisy counts of the boxes."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric import dpcube
from dp_core.methods.parametric.dpcube import MOST_BOXES, DPCube, partition
from dp_core.schema.variables import Variable, Variables
from tests.memory_measurement import NONE, measure_in_memory, model_in_memory

SEX = Variable(name="sex", size=2)
AGE = Variable(name="age", size=101, positions=100, high=100, bins=(0, 20, 65, 100), missing=True)
PAY = Variable(name="pay", size=64, positions=64, high=64, bins=(0, 32, 64))
MIXED = Variables((SEX, AGE, PAY))


def file_of(rows=3_000, seed=3):
    rng = np.random.default_rng(seed)
    sex = rng.random(rows) < 0.3
    age = np.where(rng.random(rows) < 0.1, 100, rng.integers(0, 60, rows) + 20 * sex)
    pay = np.minimum(rng.geometric(0.1, rows) - 1, 63)
    return Dataset(MIXED.domain, np.stack([sex, age, pay]).astype(np.uint16))


def divided(cells, *, variance=1e-9, possible=None):
    cells = np.asarray(cells, dtype=float)
    possible = np.ones(cells.shape, dtype=bool) if possible is None else possible
    return partition(cells, possible, variance=variance)


def test_boxes_cover_every_cell_once_and_are_even_where_the_cells_are():
    cells = np.zeros((8, 8))
    cells[:3, :5] = 10
    cells[3:, 5:] = 4
    boxes = divided(cells)
    covered = np.zeros(cells.shape, dtype=int)
    for box in boxes:
        covered[box] += 1
        assert np.ptp(cells[box]) == 0
    assert (covered == 1).all()
    assert len(boxes) == 4


def test_even_cells_are_one_box_and_noise_alone_makes_few():
    assert divided(np.full((6, 6), 7.0)) == [(slice(0, 6), slice(0, 6))]
    noise = np.random.default_rng(1).normal(0, 3, (40, 40))
    assert len(divided(noise, variance=9.0)) < 100
    # Noise that is taken for 30 times smaller is divided to the end.
    assert len(divided(noise, variance=0.01)) > 1000


def test_there_are_never_more_boxes_than_may_be_asked():
    assert len(divided(np.random.default_rng(3).normal(0, 9, (80, 80)))) == MOST_BOXES


def test_impossible_cells_do_not_divide_a_box():
    cells = np.full((4, 4), 5.0)
    cells[:, 0] = 0
    possible = cells > 0
    assert len(divided(cells, possible=possible)) == 1
    assert len(divided(cells)) == 2


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_without_noise_the_table_is_that_of_the_file(neighbours):
    data = file_of()
    model, _ = model_in_memory(DPCube(), MIXED, data, neighbours=neighbours)
    exact = np.zeros((2, 4, 2))
    bins = [data.codes[0], np.digitize(data.codes[1], [20, 65, 100]), data.codes[2] >= 32]
    np.add.at(exact, tuple(np.asarray(each, dtype=int) for each in bins), 1)
    np.testing.assert_allclose(model.cells[0].values, exact, atol=1e-4)
    assert model.rows == data.rows
    drawn = model.sample(data.rows, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(np.bincount(drawn.codes[0]), np.bincount(data.codes[0]))


def test_each_box_is_the_average_by_precision_of_its_two_noisy_totals(monkeypatch):
    monkeypatch.setattr(dpcube, "_division", lambda *_: None)
    method = DPCube()
    (cells, boxes), _ = measure_in_memory(method, MIXED, file_of(), 1)
    assert len(boxes.values) == 1  # nothing is divided
    own, other = boxes.variance, 16 * cells.variance
    wanted = (boxes.values[0] * other + cells.values.sum() * own) / (own + other)
    model = method.model_of(MIXED, FitInputs(MIXED.domain, (cells, boxes), None, NONE))
    assert model.rows == round(wanted)
    np.testing.assert_allclose(model.cells[0].values, model.rows / 16)


def test_the_cells_part_sets_the_noise_of_cells_and_boxes():
    _, session = model_in_memory(DPCube(), MIXED, file_of(100), 1)
    scales = {grant.step.name: grant.step.event.scale for grant in session.charges}
    assert scales == {"cells": pytest.approx(4 / 3), "boxes": pytest.approx(4)}


def test_a_table_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(dpcube, "MOST_CELLS", 15)
    with pytest.raises(BadInput, match="16 cells, more than 15"):
        DPCube().check(MIXED, "add-remove")
    monkeypatch.setattr(dpcube, "MOST_CELLS", 16)
    DPCube().check(MIXED, "add-remove")
