"""Records drawn by the Gibbs sampler from thresholded tables of each column with others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import gibbs
from dp_core.methods.reconstruction.gibbs import Cells, Gibbs, start_states
from dp_core.methods.reconstruction.kernels.kept_conditional import DENSE_KEYS, KeptConditional
from tests.dp_core.methods.reconstruction.thresholded import (
    DOMAIN,
    NONE,
    chain_tables,
    rng,
    sparse,
    table_of,
)

BINARY = Domain(("a", "b"), (2, 2))
CELLS = [[0, 0], [0, 1], [1, 0], [1, 1]]
SAMPLED = 20_000


def kept(clique):
    """Two columns that agree in nine records of ten, and are 0 in half of all."""
    return sparse(clique, CELLS, [450, 50, 50, 450], domain=BINARY)


def begun_at_zero(method):
    """Return the part of the records with a = 0 and with b = 0, all begun at (0, 0)."""
    model = method.fit(
        BINARY,
        [kept(("a", "b")), kept(("b", "a"))],
        rows=None,
        zeros=NONE,
        rng=rng(),
    )
    model = dataclasses.replace(model, states=np.zeros((1, 2), np.uint16), chances=np.ones(1))
    return (model.sample(SAMPLED, rng=rng(1)).codes == 0).mean(axis=1)


@pytest.mark.parametrize(
    ("method", "steps"), [(Gibbs(sweeps=1), 1), (Gibbs(sweeps=2), 3), (Gibbs(), 39)]
)
def test_every_sweep_forgets_the_start_by_as_much_as_the_chain_says(method, steps):
    """A step leaves .8 of the distance from 1/2: after one sweep a is 0 in .9, b in .82.

    Twenty sweeps, the default, are 40 steps; what is left of the start is below 1e-4.
    """
    exact = [0.5 + 0.5 * 0.8**steps, 0.5 + 0.5 * 0.8 ** (steps + 1)]
    np.testing.assert_allclose(begun_at_zero(method), exact, atol=6 * 0.5 / SAMPLED**0.5)


def chi_square(data, clique, exact):
    """The most standard errors by which a drawn table differs from probabilities."""
    sizes = data.domain.project(clique).sizes
    seen = np.zeros(sizes)
    np.add.at(seen, tuple(data.column(name) for name in clique), 1)
    error = np.sqrt(np.maximum(exact * (1 - exact), 1e-9) / data.rows)
    return np.abs(seen / data.rows - exact).max(), (np.abs(seen / data.rows - exact) / error).max()


def test_without_noise_or_threshold_the_sampler_has_the_tables_it_was_given():
    given = chain_tables()
    model = Gibbs(sweeps=40).fit(DOMAIN, given, rows=None, zeros=NONE, rng=rng())
    data = model.sample(30_000, rng=rng(2))
    for table in given:
        exact = np.zeros(table.domain.sizes)
        exact[tuple(table.cells.T)] = table.values / table.values.sum()
        _, errors = chi_square(data, table.clique, exact)
        assert errors < 6
    np.testing.assert_allclose(model.project(("a", "b")), model.project(("b", "a")).T)
    with pytest.raises(KeyError):
        model.project(("a", "c"))


def test_every_conditional_of_every_record_has_a_kept_cell():
    """What a rejection is for (Remark 3.3): with its branches exchanged records would leave it."""
    draw = rng(7)
    domain = Domain(tuple("abcd"), (6, 6, 6, 6))
    codes = np.minimum(draw.poisson(1.5, (4, 300)), 5).astype(np.uint16)
    data = Dataset(domain, codes)
    cliques = [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "a"), ("d", "a", "b")]
    given = [table_of(data, clique, least=4) for clique in cliques]
    model = Gibbs().fit(domain, given, rows=None, zeros=NONE, rng=rng())
    drawn = model.sample(500, rng=rng(1)).codes
    moved = (drawn[:, None] != model.states.T[:, :, None]).any(axis=0).all(axis=0)
    assert moved.any(), "nothing moved"
    for conditional in model.conditionals:
        assert (conditional.group(drawn) >= 0).all()
    # Proposals are rejected here: without the test some record has a conditional without cells.
    reckless = Gibbs().fit(domain, given, rows=None, zeros=NONE, rng=rng())
    object.__setattr__(reckless, "asked_by", ((),) * 4)
    left = reckless.sample(500, rng=rng(1)).codes
    assert any((conditional.group(left) < 0).any() for conditional in model.conditionals)


def test_tables_that_agree_on_no_record_have_no_start_state():
    given = [
        sparse(("a", "b"), [[0, 0]], [50]),
        sparse(("b", "c"), [[1, 1]], [50]),
        sparse(("c", "a"), [[1, 0]], [50]),
    ]
    with pytest.raises(StageFailed, match="No start state: no record was found"):
        Gibbs().fit(DOMAIN, given, rows=None, zeros=NONE, rng=rng())
    given[1] = sparse(("b", "c"), [], [], threshold=133)
    with pytest.raises(StageFailed, match="The threshold removed everything"):
        Gibbs().fit(DOMAIN, given, rows=None, zeros=NONE, rng=rng())
    with pytest.raises(BadInput, match="begins with 'c'"):
        Gibbs().fit(DOMAIN, given[:2], rows=None, zeros=NONE, rng=rng())


def test_start_states_are_the_join_of_all_tables():
    draw = rng(11)
    sizes = (3, 4, 5, 3)
    cliques = [(0, 1), (1, 2), (2, 0), (3, 1)]
    tables = []
    for axes in cliques:
        full = np.array(list(np.ndindex(*(sizes[axis] for axis in axes))), np.uint16)
        kept = full[draw.random(len(full)) < 0.5]
        weights = draw.integers(1, 50, len(kept))
        tables.append(Cells(tuple(str(axis) for axis in axes), axes, kept, weights))
    states, chances = start_states(tables, 4)
    everything = np.array(list(np.ndindex(*sizes)))
    allowed = np.ones(len(everything), dtype=bool)
    for table in tables:
        cells = {tuple(cell) for cell in table.codes.tolist()}
        allowed &= [tuple(row[list(table.axes)]) in cells for row in everything]
    assert {tuple(row) for row in states.tolist()} == set(map(tuple, everything[allowed].tolist()))
    assert len(states) == allowed.sum() > 5
    assert chances.sum() == pytest.approx(1)
    assert (np.diff(chances) <= 0).all()


def test_the_join_ends_whatever_the_tables_hold(monkeypatch):
    """Sixteen columns that nothing ties together have 3^16 records; few are looked at."""
    monkeypatch.setattr(gibbs, "MOST_STATES", 50)
    tables = [
        Cells((str(axis),), (axis,), np.arange(3, dtype=np.uint16)[:, None], np.array([5, 6, 7]))
        for axis in range(16)
    ]
    states, _ = start_states(tables, 16)
    assert len(states) == 50
    assert states[0].tolist() == [2] * 16


@pytest.mark.parametrize("size", [5, DENSE_KEYS + 1])
def test_a_conditional_draws_by_the_weights_of_its_group(size):
    cells = np.array([[0, 2], [1, 2], [4, 2], [3, 4]], np.uint16)
    conditional = KeptConditional.build(cells, np.array([10, 30, 60, 7]), (1,), (5, size))
    assert bool(len(conditional.dense)) == (size == 5)
    records = np.zeros((2, 30_000), np.uint16)
    records[1] = 2
    records[1, -1] = 4
    groups = conditional.group(records)
    drawn = conditional.draw(groups, rng=rng(1))
    assert drawn[-1] == 3
    seen = np.bincount(drawn[:-1], minlength=5) / 30_000
    np.testing.assert_allclose(seen, [0.1, 0.3, 0, 0, 0.6], atol=6 * 0.5 / 30_000**0.5)
    records[1] = 3
    assert (conditional.group(records) == -1).all()
