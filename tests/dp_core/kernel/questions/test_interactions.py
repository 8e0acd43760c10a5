from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.accounts.losses import MOST_MOVED, loss_of
from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.interactions import cell_stddev, cell_variance, implied_table, steps_of_a_record
from dp_core.client.noise_scale import noise_for
from dp_core.client.released import Measurement, interactions_of, kind_of
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import LARGEST, MOST_ENTRIES, CellCounts, Interaction
from dp_core.kernel.questions.vetted import bounds
from dp_core.kernel.step_names import interaction_step, table_step
from tests.measured import noisy_sums

RELATIONS = ["add-remove", "replace-one"]
SIZES = st.lists(st.integers(2, 7), min_size=1, max_size=4).filter(lambda sizes: prod(sizes) <= 90)


def of_sizes(sizes):
    return Interaction(tuple(f"c{number}" for number in range(len(sizes))), tuple(sizes))


def column_rows(size, columns):
    """Return the coefficients of a column, shape (size - 1, size), from their definition."""
    rows = np.zeros((size - 1, size), dtype=np.int64)
    norm = 4 * sqrt(2) if size == 2 else max(32 * size, 2 ** min(12, 32 // columns))
    for j in range(1, size):
        rows[j - 1, :j] = 1
        rows[j - 1, j] = -j
        rows[j - 1] *= round(norm / sqrt(j * (j + 1)))
    return rows


def coefficients(sizes):
    """Return those of all entries and cells, shape (length, cells)."""
    found = np.ones((1, 1), dtype=np.int64)
    for size in sizes:
        found = np.kron(found, column_rows(size, len(sizes)))
    return found


def projection(sizes):
    found = np.ones((1, 1))
    for size in sizes:
        found = np.kron(found, np.eye(size) - 1 / size)
    return found


def test_the_sensitivity_of_many_codes_takes_little_memory():
    tracemalloc.start()
    try:
        bounds(of_sizes((2**17, 2)), Relation("replace-one"))
        assert tracemalloc.get_traced_memory()[1] < 2**17 * 160
    finally:
        tracemalloc.stop()


@given(SIZES, st.integers(0, 2**32))
def test_entries_are_the_products_of_the_table_and_the_contrasts(sizes, seed):
    of = of_sizes(sizes)
    counts = np.random.default_rng(seed).integers(0, 2**29 // math.prod(of.sizes), of.sizes)
    found = of.of_table(counts)
    assert found.shape == (of.length,)
    np.testing.assert_array_equal(found, coefficients(sizes) @ counts.ravel())
    cells = np.array(list(np.ndindex(of.sizes)), dtype=np.uint16)
    np.testing.assert_array_equal(of.total(cells, counts.ravel()), found)


@given(SIZES, st.integers(0, 2**32))
def test_what_exact_entries_stand_for_is_orthogonal_to_every_margin(sizes, seed):
    of = of_sizes(sizes)
    counts = np.random.default_rng(seed).integers(0, 1000, of.sizes)
    found = implied_table(of, of.of_table(counts))
    assert found.shape == of.sizes
    np.testing.assert_allclose(found.ravel(), projection(sizes) @ counts.ravel(), atol=1e-9)
    for axis in range(len(sizes)):
        np.testing.assert_allclose(found.sum(axis=axis), 0, atol=1e-9)


@given(SIZES)
def test_the_noise_of_a_spread_is_that_of_a_whole_table_beyond_its_margins(sizes):
    """Its covariance is that of the projection, but for the rounding of the weights."""
    of = of_sizes(sizes)
    each = np.stack([implied_table(of, entry).ravel() for entry in np.eye(of.length)])
    covariance = each.T @ each / cell_variance(of, 1.0)
    found = np.linalg.eigvalsh(covariance)[-of.length :]
    assert abs(found - 1).max() < 2 * sum(size > 2 for size in sizes) / 64 + 1e-9
    np.testing.assert_allclose(projection(sizes) @ covariance, covariance, atol=1e-9)


@given(SIZES)
def test_the_noise_of_a_cell_of_a_spread_has_the_stated_size(sizes):
    of = of_sizes(sizes)
    each = np.stack([implied_table(of, entry).ravel() for entry in np.eye(of.length)])
    found = sqrt(np.square(each).sum(axis=0).mean())
    off = 2 * sum(size > 2 for size in sizes) / 64 + 1e-9
    assert cell_stddev(of, 1.0) == pytest.approx(found, rel=off)


@given(SIZES)
def test_sensitivities_are_those_of_the_farthest_cells(sizes):
    of, rows = of_sizes(sizes), coefficients(sizes).T
    apart = (rows[:, None] - rows[None]).astype(np.float64)
    assert of.l1("add-remove") == np.abs(rows).sum(axis=1).max()
    assert of.l2_squared("add-remove") == (rows.astype(object) ** 2).sum(axis=1).max()
    l1 = of.l1("replace-one") / np.abs(apart).sum(axis=2).max()
    l2_squared = of.l2_squared("replace-one") / (apart**2).sum(axis=2).max()
    assert 1 - 1e-12 <= l1 <= (1.4 if len(sizes) > 1 else 1 + 1e-12)
    assert 1 - 1e-12 <= l2_squared <= (1.02 if len(sizes) > 1 else 1 + 1e-12)


@given(st.lists(st.integers(2, 40), min_size=1, max_size=3))
def test_the_cost_is_the_part_of_a_record_that_the_margins_do_not_see(sizes):
    """f = prod(1 - 1/p), for one that is replaced 2 f p/(p - 1) with the smallest p."""
    of = of_sizes(sizes)
    part = prod(1 - 1 / size for size in sizes)
    replaced = 2 * part * min(sizes) / (min(sizes) - 1)
    off = 0.02 if len(sizes) < 3 else 0.1
    assert of.l2_squared("add-remove") / steps_of_a_record(of) ** 2 == pytest.approx(part, rel=off)
    assert of.l2_squared("replace-one") / steps_of_a_record(of) ** 2 == pytest.approx(
        replaced, rel=off
    )


def test_of_a_table_of_two_by_two_a_quarter_of_the_variance_is_left():
    currency = Currency("zcdp", Fraction(1, 2))
    of = of_sizes((2, 2))
    noise = noise_for(
        currency, currency.limit, l1=of.l1("add-remove"), l2_squared=of.l2_squared("add-remove")
    )
    table = noise_for(currency, currency.limit, l1=1, l2_squared=1)
    assert cell_variance(of, noise.scale**2) == pytest.approx(table.scale**2 / 4)


@pytest.mark.parametrize("sizes", [(2,), (60_000,), (600, 700), (63, 63, 63), (2,) * 16])
def test_the_largest_file_fits(sizes):
    """All of 2^29 records in one cell; of more, what does not fit is cut, and both ways alike."""
    of = of_sizes(sizes)
    corners = [tuple(0 for _ in sizes), tuple(size - 1 for size in sizes)]
    for corner, records in itertools.product(corners, (2**29, 2**31 + 5)):
        counts = np.zeros(sizes, dtype=np.int64)
        counts[corner] = 1
        one = of.of_table(counts)
        assert np.abs(one).max() <= LARGEST
        if math.prod(of.sizes) > 100_000 and records > 2**29:
            continue  # Python's whole numbers take seconds
        counts[corner] = records
        expected = np.clip(one.astype(object) * records, -(2**62), 2**62)
        assert (of.of_table(counts) == expected).all()


def test_what_does_not_fit_is_cut():
    of = of_sizes((50_000,))
    counts = np.zeros(50_000, dtype=np.int64)
    counts[-1] = 2**45
    assert of.of_table(counts)[-1] == -(2**62)


@pytest.mark.parametrize(
    ("columns", "sizes"),
    [
        ((), ()),
        (("a", "a"), (2, 2)),
        (("a",), (2, 2)),
        (("a", "b"), (2, 1)),
        (("a",), (0,)),
        (("a",), (2**20 + 2,)),
        (("a", "b"), (3000, 3000)),
        (("a", "b", "c"), (64, 64, 64)),
        (tuple(f"c{number}" for number in range(27)), (2,) * 27),
    ],
)
def test_what_is_no_interaction_is_refused(columns, sizes):
    with pytest.raises(ValueError, match=r"interaction|question|codes"):
        Interaction(columns, sizes)


def test_counts_of_another_shape_are_refused():
    for counts in (np.zeros((3, 2), dtype=np.int64), np.zeros((2, 3))):
        with pytest.raises(ValueError, match="shape"):
            of_sizes((2, 3)).of_table(counts)


# -- through the curator

DOMAIN = Domain(("a", "b", "c"), (2, 3, 5))


class Counting(MemoryCounter):
    def __init__(self, data):
        super().__init__(data)
        self.asked = []

    def count(self, cliques):
        self.asked.append(tuple(cliques))
        return super().count(cliques)


def curator_of(kind="zcdp", neighbours="add-remove", *, max_rows=1, limit=Fraction(1)):
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, size, 50) for size in DOMAIN.sizes]).astype(np.uint16)
    counter = Counting(Dataset(DOMAIN, codes))
    session = MemorySession(Currency(kind, limit), neighbours, max_rows=max_rows)
    return Curator(Kernel(DOMAIN, counter, session)), counter, session


@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_without_noise_they_are_exact_and_of_one_count(kind, monkeypatch):
    monkeypatch.setattr("dp_core.kernel.mechanisms.additive_noise.add", lambda values, _: values)
    curator, counter, session = curator_of(kind)
    cliques = [("a", "b"), ("c", "a"), ("c",), ("a", "b", "c")]
    found = curator.interactions("measure", cliques, [Fraction(1, 4)] * 4, replicate=2)

    assert counter.asked == [tuple(cliques)]
    exact = MemoryCounter.count(counter, cliques)
    for item, clique in zip(found, cliques, strict=True):
        assert item.of == Interaction(clique, DOMAIN.project(clique).sizes)
        assert (item.replicate, item.round, item.stage) == (2, 0, "measure")
        np.testing.assert_array_equal(item.values, item.of.of_table(exact[clique].counts))
    assert [item.grant for item in found] == [1, 2, 3, 4]
    assert interactions_of(found) == found
    assert [grant.step.asks for grant in session.charges] == [item.of.to_json() for item in found]
    # Asked again, the same is given back, and nothing is counted or charged.
    again = curator.interactions("measure", cliques, [Fraction(1, 4)] * 4, replicate=2)
    assert [item.values.tolist() for item in again] == [item.values.tolist() for item in found]
    assert (len(counter.asked), len(session.charges)) == (1, 4)


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_the_charge_is_what_the_formula_says(kind, neighbours, max_rows):
    curator, _, session = curator_of(kind, neighbours, max_rows=max_rows)
    cost = Fraction(1, 3)
    (found,) = curator.interactions("measure", [("b", "c")], [cost])
    relation = Relation(neighbours, max_rows)
    _, l1, l2_squared = bounds(of_sizes((3, 5)), relation)
    event = session.charges[0].step.event
    if kind == "pure":
        assert (type(event), event.l1_sensitivity) == (LaplaceEvent, l1)
        assert event.scale == pytest.approx(l1 * 3)
    else:
        assert (type(event), event.l2_sensitivity_squared) == (GaussianEvent, l2_squared)
        assert event.scale == pytest.approx(sqrt(l2_squared * 3 / 2), rel=1e-3)
    assert session.charges[0].step.cost == cost
    assert cost * Fraction(999_999, 10**6) <= session.currency.cost(event) <= cost
    assert curator.statistic_noise(of_sizes((3, 5)), cost).scale == found.scale


def test_tables_and_interactions_of_the_same_columns_go_together():
    curator, _, session = curator_of()
    cliques, costs = [("a", "b"), ("c",)], [Fraction(1, 4)] * 2
    tables = curator.measure("measure", cliques, costs)
    found = curator.interactions("measure", cliques, costs)
    assert [kind_of(item) for item in (*tables, *found)] == ["tables"] * 2 + ["interactions"] * 2
    assert isinstance(tables[0], Measurement)
    assert len({grant.step.name for grant in session.charges}) == 4
    assert session.spent() == 1
    other = CellCounts(by=("a",), sizes=(2,), numbers=(), positions=())
    assert kind_of(noisy_sums(other, np.zeros(2, np.int64), noise="laplace")) == "totals"


def test_names_of_interactions_are_of_no_table():
    names = ["a", "interaction of a", "interaction of a x b", "set 1: a", "rows"]
    cliques = [c for width in (1, 2) for c in itertools.permutations(names, width)]
    steps = [step(c, r) for step in (table_step, interaction_step) for c in cliques for r in (0, 1)]
    assert len({*steps}) == len(steps)


@pytest.mark.parametrize("cliques", [[("a", "a")], [()], [("a", "nothing")]])
def test_what_cannot_be_measured_costs_nothing(cliques):
    curator, counter, session = curator_of()
    with pytest.raises((ValueError, KeyError)):
        curator.interactions("measure", cliques, [Fraction(1)])
    assert not session.charges
    assert not counter.asked


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("sizes", [(2,), (2, 2), (3,), (2, 3)])
def test_the_loss_of_an_event_covers_every_change_within_its_sensitivity(neighbours, sizes):
    """A table's loss would not: its counts move by 1, and the entries of an interaction by more."""
    of = of_sizes(sizes)
    l1, l2_squared = of.l1(neighbours), of.l2_squared(neighbours)
    relation = Relation(neighbours)
    loss, copies = loss_of(LaplaceEvent(Fraction(10**6), l1), of.to_json(), relation)
    assert copies * loss.largest == pytest.approx(l1 / 10**6)
    event = GaussianEvent(Fraction(1000), l2_squared)
    if l2_squared > MOST_MOVED:
        with pytest.raises(ValueError, match="No privacy loss"):
            loss_of(event, of.to_json(), relation)
        return
    loss, copies = loss_of(event, of.to_json(), relation)
    assert copies * loss.l2_squared == l2_squared


def test_a_record_moves_no_more_entries_than_the_accounting_has_room_for(monkeypatch):
    from dp_core.accounts.account_curve import CELLS_OF_A_CHARGE
    from dp_core.kernel import requests as requests_module
    from dp_core.kernel.cost.curves import MOST_CELLS
    from dp_core.plan.reading.spec_file import MAX_SETS

    assert MOST_ENTRIES <= CELLS_OF_A_CHARGE
    assert 2 * MOST_ENTRIES * MAX_SETS <= MOST_CELLS
    assert of_sizes((1025, 1025)).length == MOST_ENTRIES
    with pytest.raises(ValueError, match="too many cells"):
        of_sizes((1025, 1026))
    monkeypatch.setattr(requests_module, "MOST_ENTRIES", 3)
    domain = Domain(("a", "b", "c"), (2, 3, 3))
    counter = MemoryCounter(Dataset(domain, np.zeros((3, 5), dtype=np.uint16)))
    session = MemorySession(Currency("pure", Fraction(2)), "add-remove")
    curator = Curator(Kernel(domain, counter, session))
    with pytest.raises(ValueError, match="measured together"):
        curator.interactions("measure", [("b",), ("c",)], [Fraction(1)] * 2)
    assert not session.charges
    assert len(curator.interactions("measure", [("a",), ("b",)], [Fraction(1)] * 2)) == 2
