from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import pgm
from dp_core.methods.reconstruction.estimates import implied_pairs
from dp_core.methods.reconstruction.estimates.implied_pairs import (
    counted,
    implied_tables,
    unmeasured,
)
from dp_core.methods.reconstruction.pgm import GraphicalModel
from dp_core.schema.structure.structural_zeros import StructuralZeros

DOMAIN = Domain(tuple("abcdef"), (5, 5, 6, 4, 5, 3))
ROWS = 4_000
NONE = StructuralZeros()


def records(strong=True, seed=0):
    """Independent columns, but for b, which mostly repeats a."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, ROWS) for size in DOMAIN.sizes]).astype(np.uint16)
    if strong:
        codes[1] = np.where(rng.random(ROWS) < 0.7, codes[0], codes[1])
    return Dataset(DOMAIN, codes)


def columns_of(data):
    return [Table(DOMAIN.project((n,)), counted(data, (n,))) for n in DOMAIN.columns]


def even(clique):
    project = DOMAIN.project(clique)
    return np.full(project.sizes, ROWS / project.size())


def distance(one, other):
    return np.abs(one - other).sum() / (2 * ROWS)


def test_what_is_measured_or_too_large_is_left_out(monkeypatch):
    pairs = unmeasured(DOMAIN, [("a", "b", "c"), ("f", "a")])
    assert ("a", "c") not in pairs
    assert ("a", "f") not in pairs
    assert len(pairs) == 15 - 4
    monkeypatch.setattr(implied_pairs, "MOST_CELLS", 12)
    assert unmeasured(DOMAIN, []) == (("d", "f"),)


def test_chance_is_taken_off_and_dependence_is_kept():
    data = records()
    found = implied_tables(data, unmeasured(DOMAIN, []), columns_of(data))
    by = {table.clique: table.values for table in found}
    seen = counted(data, ("a", "b"))
    assert distance(by["a", "b"], seen) < 0.3 * distance(even(("a", "b")), seen)
    independent = [clique for clique in by if clique != ("a", "b")]
    product = {
        (one, two): np.outer(counted(data, (one,)), counted(data, (two,))) / ROWS
        for one, two in independent
    }
    left = np.mean([distance(by[clique], product[clique]) for clique in independent])
    chance = np.mean([distance(counted(data, clique), product[clique]) for clique in independent])
    assert left < 0.25 * chance


def test_of_the_chance_in_a_count_only_what_its_columns_leave_free_is_taken_off(monkeypatch):
    seen = []

    def kept(residual, variance, expected):
        seen.append(variance / expected)
        return residual, residual

    monkeypatch.setattr(implied_pairs, "posterior_residual", kept)
    data = records()
    implied_tables(data, [("c", "d")], columns_of(data))
    np.testing.assert_allclose(seen[0], 3.0 * (5 / 6) * (3 / 4))  # columns of 6 and 4 codes


def test_of_very_many_records_nothing_is_taken_off(monkeypatch):
    data = records()
    pairs = unmeasured(DOMAIN, [])
    monkeypatch.setattr(implied_pairs, "_MOST_COUNTED", ROWS * len(pairs) - 1)
    assert implied_tables(data, pairs, columns_of(data)) == ()


def test_tables_agree_with_their_columns_and_hold_nothing_negative():
    data = records()
    columns = columns_of(data)
    for table in implied_tables(data, unmeasured(DOMAIN, []), columns):
        assert (table.values >= 0).all()
        for axis, name in enumerate(table.clique):
            at = DOMAIN.columns.index(name)
            np.testing.assert_allclose(
                table.values.sum(axis=1 - axis), columns[at].values, rtol=1e-3, atol=0.5
            )


@pytest.mark.parametrize("rows", [1, 3_000])
def test_evened_records_of_a_graphical_model_have_its_pairs(monkeypatch, rows):
    data = records()
    pairs = [("a", "b"), ("b", "c"), ("d",), ("e",), ("f",)]
    columns = {n: counted(data, (n,)) for n in DOMAIN.columns}
    ab, bc = counted(data, ("a", "b")), np.outer(columns["b"], columns["c"]) / ROWS
    values = [ab, bc, columns["d"], columns["e"], columns["f"]]
    from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree

    tree = JunctionTree.of(DOMAIN, pairs)
    held = dict(zip(pairs, values, strict=True))
    tables = tuple(Table(DOMAIN.project(clique), held[clique]) for clique in tree.cliques)

    def left(visits):
        monkeypatch.setattr(pgm, "EVENED", visits)
        model = GraphicalModel(DOMAIN, tables, ROWS, NONE)
        drawn = model.sample(rows, rng=np.random.default_rng(2))
        assert drawn.rows == rows
        return np.mean([
            np.abs(counted(drawn, pair) * (ROWS / rows) - model.project(pair)).sum() / ROWS
            for pair in itertools.combinations(DOMAIN.columns, 2)
        ])  # fmt: skip

    if rows > 1:
        assert left(3) < 0.4 * left(0)
    else:
        assert left(3) > 0
