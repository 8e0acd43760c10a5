"""What a candidate's score is lowered by, in numbers worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.client.noise_scale import NoiseScale
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.mechanisms import additive_noise, private_choice
from dp_core.methods.selection.aim import Aim
from dp_core.methods.selection.candidates.model_errors import (
    GRID,
    RoundModel,
    table_distances,
    tables_up_to,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.measured import noisy_table, select_in_memory


def lost(table, **options):
    """Return by how many records the score of one table is lowered."""
    (offset,) = table_distances([("a",)], [np.array(table, float)], **options).offsets
    return offset / GRID


def test_a_score_is_lowered_by_the_noise_of_every_cell():
    cliques, tables = [("a",), ("a", "b")], [np.array([10.0, 20.0]), np.full((2, 3), 5.0)]
    scores = table_distances(cliques, tables, noise=1.5)
    assert scores.offsets == (GRID * 3, GRID * 9)
    counts = MemoryCounter(
        Dataset(Domain(("a", "b"), (2, 3)), np.array([[0] * 15 + [1] * 25, [0] * 40], np.uint16))
    ).count([("a",), ("a", "b")])
    # By hand: |15 - 10| + |25 - 20| less 3, and |15 - 5| + |25 - 5| + four times 5 less 9.
    assert scores.compute(counts).tolist() == [GRID * 7, GRID * 41]
    assert table_distances(cliques, tables).offsets == (0, 0)


@pytest.mark.parametrize(
    ("expected", "left"),
    [
        (0, 0),  # nothing expected, nothing lost
        (0.01, 0.02 + 0.0316),  # twice what is expected is less than sqrt(.02 / pi) = .0798
        (1, 0.7979 + 1),  # sqrt(2 / pi), and 1
        (16, 3.1915 + 8),  # sqrt(32 / pi), and 16^(3/4)
        (81, 7.1810 + 27),
        (256, 50),  # 12.77 + 64, more than the noise
    ],
)
def test_where_cells_are_drawn_in_small_ones_lose_what_chance_and_dependence_leave(expected, left):
    many = 100  # cells, so that rounding to the grid is nothing
    found = lost([expected] * many, noise=50.0, drawn_in=True) / many
    assert found == pytest.approx(left, abs=1e-3)
    assert lost([expected] * many, noise=50.0) == 50 * many


def test_cells_are_drawn_in_one_by_one():
    # By hand: 0, 1.7979 and 11.1915 where the noise is more, and the noise, 20, of the last.
    assert lost([0, 1, 16, 256], noise=20.0, drawn_in=True) == pytest.approx(32.989, abs=1 / GRID)


def test_aim_takes_a_small_table_before_a_large_one_of_which_noise_would_leave_nothing(
    monkeypatch,
):
    monkeypatch.setattr(additive_noise, "add", lambda values, _: values)
    monkeypatch.setattr(private_choice, "choose", lambda values, _: int(np.argmax(values)))
    draw = np.random.default_rng(0)
    domain = Domain(("a", "b", "c", "d"), (2, 2, 20, 20))
    a, c, d = (draw.integers(0, size, 1000) for size in (2, 20, 20))
    b = np.where(draw.random(1000) < 0.65, a, 1 - a)
    data = Dataset(domain, np.stack([a, b, c, d]).astype(np.uint16))

    def distance(one, two, sizes):
        counts = np.zeros(sizes)
        np.add.at(counts, (one, two), 1)
        even = np.multiply.outer(counts.sum(axis=1), counts.sum(axis=0)) / 1000
        return np.abs(counts - even).sum()

    small, large = distance(a, b, (2, 2)), distance(c, d, (20, 20))
    assert small + 50 < large, "without the noise the large table would be taken"
    parts = {"look": Fraction(1, 10), "measure": Fraction(9, 10)}
    selection, _ = select_in_memory(Aim(order=2), data, Fraction(1, 2), **parts)
    first = next(table for table in selection.measured if len(table.clique) == 2)
    assert first.clique == ("a", "b")
    noise = NoiseScale(first.noise, first.scale).mean_absolute
    # Standard deviation sqrt(1 / (2 rho)), rho = 9/20 * 9/10 / 16; E|x| is sqrt(2 / pi) of it.
    assert noise == pytest.approx((16 / 0.81) ** 0.5 * (2 / np.pi) ** 0.5, rel=1e-2)
    assert large - 400 * noise < 0 < small - 4 * noise


def test_a_model_answers_where_a_rule_forbids_what_was_measured():
    domain = Domain(("age", "marital", "income"), (3, 4, 5))
    zeros = StructuralZeros((Rule(("age", "marital"), ((0,), (1, 2)), "no married children"),))
    model = RoundModel(domain, zeros, rows=42, max_cells=1000)
    tables = {
        ("age",): [31, 11, 0],
        ("marital",): [0, 0, 42, 0],
        ("age", "marital"): [[0, 0, 31, 0], [0, 0, 11, 0], [0, 0, 0, 0]],
        ("income",): [42, 0, 0, 0, 0],
    }
    given = [
        noisy_table(domain.project(clique), np.array(table)) for clique, table in tables.items()
    ]
    for known in (given[:1], given[:2], given):  # each fit starts from the one before
        model.refit(known)
        for clique in tables_up_to(domain, 3, max_cells=1000):
            answer = model.answer(clique)
            assert (answer >= 0).all()
            assert answer.sum() == pytest.approx(42)
    assert model.answer(("age", "marital"))[0, 1:3].sum() == 0
