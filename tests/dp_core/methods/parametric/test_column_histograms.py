"""Methods that release one histogram of every column."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.questions.linear_questions import GRID, BinnedCounts, CosineSums
from dp_core.methods import registry
from dp_core.methods.parametric import efpa, p_hp
from dp_core.methods.parametric.column_histograms import estimate_tree
from dp_core.methods.parametric.efpa import Efpa, kept_histogram, without_noisy_coefficients
from dp_core.methods.parametric.hierarchical_histogram import HierarchicalHistogram
from dp_core.methods.parametric.noise_first import merge_runs
from dp_core.methods.parametric.p_hp import PHPartition
from dp_core.methods.parametric.structure_first import StructureFirst
from dp_core.methods.private_domain import quantile_tree
from dp_core.methods.reconstruction.estimates.consistency import norm_sub
from dp_core.schema.variables import Variable, Variables
from tests.full import pairwise
from tests.measured import curator_of, method_inputs, noisy_sums
from tests.memory_measurement import EXACT, measure_in_memory, model_in_memory

ROWS = 3000
SEX = Variable(name="sex", size=2)
DAYS = Variable(name="days", size=241, positions=240, high=240.0, bins=(0, 240), missing=True)
PAY = Variable(name="pay", size=100, positions=100, high=100.0, bins=(0, 50, 100))
COLUMNS = Variables((SEX, DAYS, PAY))
METHODS = (
    "hierarchical_histogram",
    "sorted_histogram",
    "noise_first",
    "efpa",
    "p_hp",
    "structure_first",
)
CUTTING = {"p_hp", "structure_first"}
KEEPS_ALL = {
    "hierarchical_histogram": {},
    "sorted_histogram": {},
    "noise_first": {},
    "efpa": {},
    "p_hp": {},
    "structure_first": {"runs": 240},
}
"""Options with which a method loses nothing but by noise."""


def file_of(rows: int = ROWS) -> Dataset:
    rng = np.random.default_rng(4)
    sex = rng.random(rows) < 0.3
    days = np.where(rng.random(rows) < 0.1, 240, rng.integers(20, 140, rows))
    pay = np.minimum(rng.geometric(0.08, rows) - 1, 99)
    return Dataset(COLUMNS.domain, np.stack([sex, days, pay]).astype(np.uint16))


DATA = file_of()


def histogram(codes, edges):
    return np.histogram(codes, np.asarray(edges) - 0.5)[0]


def with_noise(method, counts, noise, seed=1):
    """Return totals of `method`'s questions about one column, with Gaussian noise added."""
    rng = np.random.default_rng(seed)
    variable = Variable(name="x", size=len(counts), positions=len(counts), high=1.0)
    released = []
    for number, ask in enumerate(method.ask_column(variable)):
        (edges,) = ask.what.edges
        values = np.add.reduceat(counts, edges[:-1]) + rng.normal(0, noise, len(edges) - 1)
        released.append(noisy_sums(ask.what, values, scale=noise, grant=number))
    return variable, released


def made(name, **options):
    return registry.find("parametric", name)(**options)


@pytest.mark.parametrize(
    ("name", "kind", "neighbours"),
    pairwise(
        [name for name in METHODS if name not in CUTTING],
        ["pure", "zcdp"],
        ["add-remove", "replace-one"],
    ),
)
def test_without_noise_the_histograms_are_those_of_the_file(name, kind, neighbours):
    method = made(name, **KEEPS_ALL[name])
    model, _ = model_in_memory(method, COLUMNS, DATA, kind=kind, neighbours=neighbours)
    drawn = model.sample(ROWS, rng=np.random.default_rng(1))

    assert model.rows == ROWS
    for variable, real, mine in zip(COLUMNS, DATA.codes, drawn.codes, strict=True):
        counts = (np.bincount(codes, minlength=variable.size) for codes in (real, mine))
        assert np.abs(np.subtract(*counts)).max() <= 1, variable.name


@pytest.mark.parametrize("name", METHODS)
def test_fewer_bins_are_coarser_and_missing_values_stay_missing(name, monkeypatch):
    monkeypatch.setattr(p_hp, "_DEPTH", 10)
    method = made(name, **KEEPS_ALL[name])
    monkeypatch.setattr(type(method), "bins", 12)
    model, _ = model_in_memory(method, COLUMNS, DATA)
    drawn = model.sample(ROWS, rng=np.random.default_rng(1))
    edges = [*range(0, 241, 20), 241]

    # Equal neighbours need no cut.
    assert {*model.edges[1]} <= {*edges}
    assert np.abs(histogram(DATA.codes[1], edges) - histogram(drawn.codes[1], edges)).max() <= 1
    fine = [np.bincount(codes, minlength=241) for codes in (DATA.codes[1], drawn.codes[1])]
    assert np.abs(np.subtract(*fine)).max() > 1


@pytest.mark.parametrize("name", METHODS)
def test_the_columns_have_equal_parts_of_the_budget(name):
    _, session = measure_in_memory(made(name), COLUMNS, DATA, 9)
    spent = {}
    for charge in session.charges:
        column = charge.step.name
        number = next((digit for digit in "23" if f"column-{digit}" in column), "1")
        spent[number] = spent.get(number, 0) + charge.step.cost

    assert spent == {"1": 3, "2": 3, "3": 3}


# -- hierarchical histograms


def test_counts_that_disagree_become_those_that_the_paper_computes():
    """Hay et al. (2010), Figure 2(b): 13, 3, 11, 4, 1, 12, 1 become 14, 3, 11, 3, 0, 11, 0.

    The root is stated here, 14; without it, ours is the estimate from the two other levels.
    """
    levels = [[3.0, 11.0], [4.0, 1.0, 12.0, 1.0]]
    found = quantile_tree.estimate(levels, branching=2, total=14.0)
    assert found == pytest.approx([3.0, 0.0, 11.0, 0.0])
    halves = [2 / 3 * 3 + 5 / 3, 2 / 3 * 11 + 13 / 3]
    free = quantile_tree.estimate(levels, branching=2)
    assert [free[0] + free[1], free[2] + free[3]] == pytest.approx(halves)


@pytest.mark.parametrize(("branching", "bins"), [(2, 8), (3, 17), (4, 60), (16, 100)])
def test_the_two_passes_are_the_least_squares_solution(branching, bins):
    rng = np.random.default_rng(branching)
    rows, noisy = [], []
    for width in quantile_tree.widths(bins, branching):
        for start in range(0, bins, width):
            row = np.zeros(bins)
            row[start : start + width] = 1
            rows.append(row)
    noisy = rng.normal(50, 30, len(rows))
    expected = np.linalg.lstsq(np.array(rows), noisy, rcond=None)[0]
    levels, place = [], 0
    for width in quantile_tree.widths(bins, branching):
        count = math.ceil(bins / width)
        levels.append(noisy[place : place + count].tolist())
        place += count

    found = quantile_tree.estimate(levels, branching=branching, bounded=False)

    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_stated_total_is_kept():
    levels = [[4.0, 2.0], [1.0, 1.0, -3.0, 4.0]]
    for bounded in (True, False):
        found = quantile_tree.estimate(levels, branching=2, total=10.0, bounded=bounded)
        assert sum(found) == pytest.approx(10.0)
        assert (min(found) >= 0) == bounded


def test_negative_counts_are_removed_level_by_level():
    counts = np.zeros(64, dtype=np.int64)
    counts[:4] = 100
    method = HierarchicalHistogram(branching=4)
    variable, released = with_noise(method, counts, 6.0)
    values = method.estimate(variable, released, 400.0).values
    assert values.min() >= 0
    free = estimate_tree(variable, released, 4, rows=400.0, bounded=False).values
    at_once = norm_sub(free, total=400.0, possible=np.ones(64, dtype=bool))
    away = [float(np.abs(found - counts)[16:].sum()) for found in (values, at_once)]
    assert away[0] < away[1]


# -- NoiseFirst


def best(counts, price):
    """Return the smallest price of all partitions, one by one."""
    least = math.inf
    for pattern in range(2 ** (len(counts) - 1)):
        cuts = [i + 1 for i in range(len(counts) - 1) if pattern >> i & 1]
        runs = np.split(counts, cuts)
        total = sum(((run - run.mean()) ** 2).sum() + price for run in runs)
        least = min(least, float(total))
    return least


@pytest.mark.parametrize("price", [0.5, 8.0, 200.0])
def test_the_runs_have_the_smallest_price_of_all_partitions(price):
    rng = np.random.default_rng(8)
    for _ in range(20):
        counts = rng.normal(10, 5, 9)
        found = merge_runs(counts, price)
        runs = np.split(counts, np.flatnonzero(np.diff(found)) + 1)
        total = sum(((run - run.mean()) ** 2).sum() + price for run in runs)
        assert total == pytest.approx(best(counts, price))


# -- EFPA


def inputs_of(curator, domain, epsilon):
    return method_inputs(curator, domain, measure_cost=Fraction(epsilon))


def measured_column(method, counts, epsilon):
    """Return the one result of a column with these counts, the column, and the charges."""
    variable = Variable(name="x", size=len(counts), positions=len(counts))
    codes = np.repeat(np.arange(len(counts)), counts).astype(np.uint16)[None, :]
    data = Dataset(Variables((variable,)).domain, codes)
    curator, session = curator_of(data, Fraction(epsilon), "pure")
    (released,) = method.measure_column(
        inputs_of(curator, data.domain, epsilon), variable, "x", Fraction(epsilon)
    )
    return released, variable, [charge.step.cost for charge in session.charges]


COSINE = 100 + 80 * np.cos(np.pi * (2 * np.arange(512) + 1) * 3 / 1024)
SMOOTH = np.rint(COSINE).astype(int)
COMB = np.where(np.arange(512) % 2, 400, 0)


@pytest.mark.parametrize(("positions", "most"), [(256, 256), (50, 7), (1, 4)])
def test_the_choice_and_the_values_divide_the_budget(monkeypatch, positions, most):
    monkeypatch.setattr(efpa, "_MOST_KEPT", most)
    _, _, costs = measured_column(Efpa(), np.full(positions, 2), 8)
    assert costs == ([8] if positions == 1 else [1, 7])


def test_a_smooth_histogram_needs_few_coefficients_and_a_comb_all_counts(monkeypatch):
    # At a large epsilon of the choice alone, so that it is nearly certain.
    monkeypatch.setattr(efpa, "CHOOSING", Fraction(999, 1000))
    smooth, _, _ = measured_column(Efpa(), SMOOTH, 100)
    comb, _, _ = measured_column(Efpa(), COMB, 100)
    assert isinstance(smooth.of, CosineSums)
    assert smooth.of.kept == 4
    assert isinstance(comb.of, BinnedCounts)


def test_few_coefficients_are_more_exact_than_coefficients_of_counts_and_these_than_counts():
    asked = CosineSums(column="x", size=512, edges=tuple(range(513)), kept=4)
    cells = np.arange(512)[:, None].astype(np.uint16)
    found = np.zeros(3)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        # Laplace noise of epsilon 1: the sums have L1 sensitivity 4.
        sums = asked.total(cells, SMOOTH) + rng.laplace(0, 4 * GRID, 4)
        counts = SMOOTH + rng.laplace(0, 1, 512)
        for place, each in enumerate(
            (kept_histogram(asked, sums), without_noisy_coefficients(counts, 2.0), counts)
        ):
            found[place] += np.square(each - COSINE).mean()
    assert found[0] < 0.7 * found[1]
    assert found[1] < 0.3 * found[2]


# -- cuts


STEPS = np.repeat([60, 5, 200, 0], [30, 50, 20, 28])


def cut_steps(method, epsilon=EXACT, kind="pure"):
    """Return the edges that a method finds in a histogram of four steps, and the charges."""
    variable = Variable(name="x", size=128, positions=128)
    codes = np.repeat(np.arange(128), STEPS).astype(np.uint16)[None, :]
    data = Dataset(Variables((variable,)).domain, codes)
    curator, session = curator_of(data, Fraction(epsilon), kind)
    (released,) = method.measure_column(
        inputs_of(curator, data.domain, epsilon), variable, "x", Fraction(epsilon)
    )
    assert session.spent() == Fraction(epsilon)
    return released.of.edges[0], [charge.step for charge in session.charges]


@pytest.mark.parametrize("method", [PHPartition(), StructureFirst(runs=4)])
def test_the_cuts_of_a_histogram_of_steps_are_found(method):
    assert cut_steps(method)[0] == (0, 30, 80, 100, 128)


def test_parts_that_need_no_cut_leave_their_budget_to_the_counts():
    _, steps = cut_steps(PHPartition())
    cuts, counts = steps[:-1], steps[-1]
    # Three cuts, and the four parts once more; 56 further choices were not needed.
    assert len(cuts) == 7
    assert {step.cost for step in cuts} == {EXACT / 126}
    assert counts.cost == EXACT - 7 * EXACT / 126


def test_the_depth_limits_the_number_of_parts(monkeypatch):
    monkeypatch.setattr(p_hp, "_DEPTH", 1)
    assert len(cut_steps(PHPartition())[0]) == 3
    monkeypatch.setattr(p_hp, "_DEPTH", 2)
    assert len(cut_steps(PHPartition())[0]) <= 5


def test_half_of_the_budget_is_for_the_cuts():
    _, steps = cut_steps(StructureFirst(runs=4), 9)
    assert [step.cost for step in steps] == [Fraction(3, 2)] * 3 + [Fraction(9, 2)]


def test_one_run_has_no_cut():
    edges, steps = cut_steps(StructureFirst(runs=1), 2)
    assert edges == (0, 128)
    assert [step.cost for step in steps] == [2]
