"""Records from the cells that passed a threshold, drawn alone or by the Gibbs sampler."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.dataset import Dataset
from dp_core.domain import Domain
from dp_core.errors import BadInput, StageFailed
from dp_core.marginals import Measurement, SparseTable
from dp_core.reconstruction.gibbs import Gibbs
from dp_core.reconstruction.kernels.kept_conditional import DENSE_KEYS, KeptConditional
from dp_core.reconstruction.sparse import Sparse
from dp_core.reconstruction.start_states import Cells, start_states
from dp_core.structural_zeros import Rule, StructuralZeros

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
NONE = StructuralZeros()


def rng(seed=0):
    return np.random.default_rng(seed)


def sparse(clique, cells, values, *, domain=DOMAIN, threshold=5):
    codes = np.array(cells, np.uint16).reshape(len(values), len(clique))
    return SparseTable(
        domain=domain.project(clique),
        cells=codes,
        values=np.array(values, np.int64),
        threshold=threshold,
        capacity=100,
        noise="laplace",
        scale=1.0,
        stage="measure",
        replicate=0,
        grant=1,
    )


def total(count, domain=DOMAIN):
    return Measurement(domain.project(()), np.array(count), "laplace", 1.0, "total", 0, 2)


def table_of(data, clique, least=1):
    """The exact table of a clique, thresholded."""
    rows = np.stack([data.column(name) for name in clique], axis=1)
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    kept = counts >= least
    return sparse(clique, cells[kept], counts[kept], domain=data.domain, threshold=least)


JOINT = sparse(("a", "b", "c"), [[0, 0, 1], [0, 2, 3], [1, 1, 0]], [10, 30, 60])


# -- one table of all columns


def test_records_are_drawn_from_the_kept_cells_by_their_noisy_counts():
    model = Sparse().fit(DOMAIN, [JOINT], rows=None, zeros=NONE, rng=rng())
    assert model.rows == 100
    data = model.sample(20_000, rng=rng(1))
    cells, counts = np.unique(data.codes.T, axis=0, return_counts=True)
    assert cells.tolist() == JOINT.cells.tolist()
    np.testing.assert_allclose(counts / 20_000, [0.1, 0.3, 0.6], atol=6 * 0.5 / 20_000**0.5)
    np.testing.assert_allclose(model.project(("c", "a"))[3], [30, 0])
    assert [table.values.tolist() for table in model.tables] == [
        [40, 60],
        [10, 60, 30],
        [60, 10, 0, 30],
    ]


def test_the_number_of_records_is_the_measured_or_the_public_one():
    fit = Sparse().fit
    model = fit(DOMAIN, [JOINT, total(2000)], rows=None, zeros=NONE, rng=rng())
    assert model.rows == 2000
    assert model.tables[0].values.sum() == pytest.approx(2000)
    assert fit(DOMAIN, [JOINT, total(2000)], rows=77, zeros=NONE, rng=rng()).rows == 77


def test_a_restored_model_draws_the_same_records():
    for method, given in ((Sparse(), [JOINT]), (Gibbs(), chain_tables())):
        model = method.fit(DOMAIN, given, rows=50, zeros=NONE, rng=rng())
        again = method.restore(DOMAIN, model.tables, rows=50, zeros=NONE, released=given)
        one, two = (each.sample(300, rng=rng(3)).codes for each in (model, again))
        np.testing.assert_array_equal(one, two)


def test_columns_may_stand_in_another_order():
    turned = sparse(("c", "a", "b"), [[1, 0, 0], [3, 0, 2], [0, 1, 1]], [10, 30, 60])
    model = Sparse().fit(DOMAIN, [turned], rows=None, zeros=NONE, rng=rng())
    expected = Sparse().fit(DOMAIN, [JOINT], rows=None, zeros=NONE, rng=rng())
    np.testing.assert_array_equal(model.cells, expected.cells)


def test_nothing_kept_is_said_and_nothing_is_made_up():
    empty = sparse(("a", "b", "c"), [], [], threshold=41)
    with pytest.raises(StageFailed, match=r"removed everything: .* of 41 or more. Abandon"):
        Sparse().fit(DOMAIN, [empty, total(500)], rows=None, zeros=NONE, rng=rng())
    for given in ([total(500)], [sparse(("a",), [[0]], [9])]):
        with pytest.raises(BadInput, match="needs one thresholded table of all columns"):
            Sparse().fit(DOMAIN, given, rows=None, zeros=NONE, rng=rng())


def test_impossible_cells_are_left_out():
    zeros = StructuralZeros((Rule(("a", "c"), ((1,), (0,)), "no"),))
    model = Sparse().fit(DOMAIN, [JOINT], rows=None, zeros=zeros, rng=rng())
    assert model.cells.tolist() == [[0, 0, 1], [0, 2, 3]]
    nothing = StructuralZeros((Rule(("b",), ((0, 1, 2),), "nothing"),))
    with pytest.raises(StageFailed, match="removed everything"):
        Sparse().fit(DOMAIN, [JOINT], rows=None, zeros=nothing, rng=rng())


# -- the Gibbs sampler


def chain_tables():
    """Tables of each column with one other, from 400 records of a chain a - b - c."""
    draw = rng(5)
    a = draw.integers(0, 2, 400)
    b = np.where(draw.random(400) < 0.8, a, draw.integers(0, 3, 400))
    c = np.where(draw.random(400) < 0.8, b, draw.integers(0, 4, 400))
    data = Dataset(DOMAIN, np.stack([a, b, c]).astype(np.uint16))
    return [table_of(data, clique) for clique in (("a", "b"), ("b", "a"), ("c", "b"))]


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
    with pytest.raises(StageFailed, match="No start state: the threshold removed everything"):
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
    from dp_core.reconstruction import start_states as module

    monkeypatch.setattr(module, "MOST_STATES", 50)
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


def test_options_are_checked():
    with pytest.raises(ValueError, match="sweeps"):
        Gibbs(sweeps=0)
    for method in (Sparse(), Gibbs()):
        method.check(DOMAIN)
        assert 0 < method.memory(DOMAIN, [], 10) < method.memory(DOMAIN, [], 10**6)
