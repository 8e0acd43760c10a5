from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.methods.reconstruction import reconstructor
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.plan.procedure import (
    LANES,
    SetDrawing,
    carry_out,
    piece_sizes,
    restore,
    sample,
)
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.tables.structural_zeros import Rule, StructuralZeros
from dp_core.wall.released import Table

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))


def release_of(preset, *, sets=1, rows=1000, **options):
    """Return the plan and the models of a release of 900 records."""
    codes = np.random.default_rng(0).integers(0, 2, (3, 900)).astype(np.uint16)
    plan = trial_plan(
        *(DOMAIN, preset, Fraction(5), Fraction(1, 10**6)), sets=sets, rows=rows, **options
    )
    return plan, carry_out(plan, MemoryCounter(Dataset(DOMAIN, codes))).models


@pytest.fixture(scope="module", params=["privsyn", "independent", "mst"])
def made(request):
    return release_of(request.param, sets=2)


def test_a_set_that_fits_is_drawn_at_once(made):
    plan, models = made
    drawing = SetDrawing(plan, models, 2)
    assert drawing.sizes == (1000,)
    at_once = models[0].sample(1000, rng=plan.spec.rng("sample 0", 2))
    np.testing.assert_array_equal(drawing.draw(0).codes, at_once.codes)


def test_pieces_are_the_same_in_whichever_order_lanes_are_drawn(made, monkeypatch):
    plan, models = made
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 150)
    expected = sample(plan, models, 1)
    assert expected.rows == 1000
    drawing = SetDrawing(plan, models, 1)
    assert drawing.sizes == piece_sizes(plan, models, 1) == (150,) * 6 + (100,)
    found = {}
    for lane in reversed(range(LANES)):
        for position in range(lane, len(drawing.sizes), LANES):
            found[position] = drawing.draw(position).codes
    whole = np.concatenate([found[position] for position in sorted(found)], axis=1)
    np.testing.assert_array_equal(whole, expected.codes)


def test_each_piece_has_a_generator_of_its_own(monkeypatch):
    plan, models = release_of("independent")
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 150)
    drawing = SetDrawing(plan, models, 1)
    for position, size in enumerate(drawing.sizes):
        alone = models[0].sample(size, rng=plan.spec.rng(f"sample {position}", 1))
        np.testing.assert_array_equal(drawing.draw(position).codes, alone.codes)
    assert drawing.draw(0).codes.tolist() != drawing.draw(1).codes.tolist()


def test_chains_of_a_set_remember_what_they_drew(monkeypatch):
    """Pieces that were drawn each by itself would miss their tables by more and more records."""
    plan, models = release_of("privsyn", rows=4000)
    once = sample(plan, models, 1)
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 40)
    drawn = sample(plan, models, 1)
    for table in models[0].tables:
        wanted = table.values * (4000 / table.values.sum())
        gaps = [np.abs(counted(data, table.clique) - wanted).max() for data in (drawn, once)]
        assert gaps[0] < LANES * (gaps[1] + 2)


def test_a_model_that_does_not_stream_is_drawn_at_once(monkeypatch):
    plan, models = release_of("privsyn", reconstruct={"method": "average", "by": "set"})
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 150)
    assert piece_sizes(plan, models, 1) == (1000,)


def test_sets_of_two_rows_of_which_none_was_drawn_possible_obey_the_rules():
    """All columns must be equal, and the tables say that they mostly are not."""
    domain = Domain(("a", "b", "c"), (3, 3, 3))
    unequal = [(one, other) for one in range(3) for other in range(3) if one != other]
    rules = [
        Rule(clique, ((one,), (other,)), "")
        for clique in (("a", "b"), ("b", "c"))
        for one, other in unequal
    ]
    zeros, even = StructuralZeros(tuple(rules)), np.full(3, 2 / 3)
    plan = trial_plan(*(domain, "auto", Fraction(1)), sets=2, mode="posterior", rows=2, zeros=zeros)
    tables = [Table(domain.project((name,)), even) for name in domain.columns]
    for seed in range(40):
        seeded = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, seed=seed))
        model = restore(seeded, (), 1, tables=tables, rows=2)
        made = sample(seeded, {1: model}, 1)
        assert made.rows == 2
        assert not zeros.violations(made).any()
