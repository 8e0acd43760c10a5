"""The distances of an audit, against the laws of the mechanisms written out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.audit.changes import Mismatch, used_bounds
from dp_core.audit.frozen_noise import Cells, Conditionals, Noisy, Scores
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent

SCALE = Fraction(3, 2)


def noisy(kind, *values, scale=SCALE):
    return Noisy(kind, scale, np.array(values))


def only(event, shape, one, other):
    (found,) = used_bounds(event, shape, one, other)
    return found


def test_norms_are_compared_exactly():
    one, other = noisy("laplace", 5, 0, 2), noisy("laplace", 4, 2, 2)
    assert only(LaplaceEvent(SCALE, 3), (3,), one, other).ratio == 1
    assert not only(LaplaceEvent(SCALE, 3), (3,), one, other).exceeded
    assert only(LaplaceEvent(SCALE, 2), (3,), one, other).exceeded
    one, other = noisy("gaussian", 5, 0), noisy("gaussian", 4, 2)
    assert only(GaussianEvent(SCALE, 5), (2,), one, other).ratio == 1
    assert only(GaussianEvent(SCALE, 4), (2,), one, other).exceeded
    large = [noisy("laplace", 2**62, each) for each in (-(2**62), 2**62)]
    assert only(LaplaceEvent(SCALE, 2**63), (2,), *large).ratio == 1


def test_a_choice_needs_the_largest_change_of_a_score():
    one, other = (Scores(True, SCALE, np.array(each)) for each in ([3, 9, 4], [5, 6, 4]))
    assert only(NoisyMaxEvent(SCALE, 3, True), (1,), one, other).ratio == 1
    assert only(NoisyMaxEvent(SCALE, 2, True), (1,), one, other).exceeded


@pytest.mark.parametrize(
    ("event", "one", "other"),
    [
        (LaplaceEvent(SCALE, 9), noisy("laplace", 1), noisy("laplace", 1, 1)),
        (LaplaceEvent(SCALE, 9), noisy("gaussian", 1), noisy("gaussian", 1)),
        (LaplaceEvent(SCALE, 9), noisy("laplace", 1), noisy("laplace", 1, scale=Fraction(1))),
        (
            NoisyMaxEvent(SCALE, 9, True),
            Scores(False, SCALE, np.array([1])),
            Scores(False, SCALE, np.array([1])),
        ),
        (LaplaceEvent(SCALE, 9), noisy("laplace", 1), Cells({}, (2,), SCALE)),
        (PolyaUrnEvent(SCALE, 1), Cells({}, (2,), None), Cells({}, (3,), None)),
        (PolyaUrnEvent(SCALE, 1), Cells({}, (2,), None), Cells({}, (2,), None)),
    ],
)
def test_what_may_not_depend_on_the_file_is_a_mismatch(event, one, other):
    with pytest.raises(Mismatch):
        used_bounds(event, (2,), one, other)


def test_cells_of_one_file_alone_appear_with_the_delta_of_the_law():
    event = StabilityEvent(SCALE, 3, 7, 3)
    one = Cells({(0,): 4, (1,): 2, (2,): 1}, (5,), SCALE)
    other = Cells({(0,): 4}, (5,), SCALE)
    counts, delta = used_bounds(event, (9, 2), one, other)
    assert counts.ratio == 1
    norm = sum(math.exp(-abs(z) / SCALE) for z in range(-400, 401))

    def tail(least):
        return sum(math.exp(-abs(z) / SCALE) for z in range(least, 401)) / norm

    shown = 1 - (1 - tail(5)) * (1 - tail(6))
    assert delta.ratio == pytest.approx(shown / float(event.own_delta()))
    assert delta.ratio < 1


# -- draws


TABLES = [
    ({(0,): 2, (1,): 1}, {(0,): 2, (1,): 0}),
    ({(0,): 5, (1,): 1}, {(0,): 4, (1,): 2}),
    ({(0,): 3}, {(2,): 3}),
    ({}, {(1,): 1}),
]


def counts_of(cells, sizes=3):
    return [cells.get((code,), 0) for code in range(sizes)]


@pytest.mark.parametrize(("mine", "theirs"), TABLES)
def test_the_largest_loss_of_an_urn_is_that_over_all_samples(mine, theirs):
    records, event = 4, PolyaUrnEvent(SCALE, 4, 3)

    def log_chance(cells, sample):
        weights = np.array(counts_of(cells)) + float(SCALE)
        total = 0.0
        for code in sample:
            total += math.log(weights[code] / weights.sum())
            weights[code] += 1
        return total

    losses = [
        abs(log_chance(mine, sample) - log_chance(theirs, sample))
        for sample in itertools.product(range(3), repeat=records)
    ]
    one, other = (Cells(each, (3,), None) for each in (mine, theirs))
    found = only(event, (records, 1), one, other)
    assert found.ratio == pytest.approx(max(losses) / float(event.epsilon()))
    assert not found.exceeded


@pytest.mark.parametrize(("mine", "theirs"), TABLES)
def test_the_largest_loss_of_independent_draws_is_that_of_the_most_telling_cell(mine, theirs):
    event = PerturbedDrawsEvent(SCALE, 2, 3)
    first, second = (np.array(counts_of(each)) + float(SCALE) for each in (mine, theirs))
    loss = np.abs(np.log(first / first.sum()) - np.log(second / second.sum())).max()
    one, other = (Cells(each, (3,), None) for each in (mine, theirs))
    found = only(event, (2, 1), one, other)
    assert found.ratio == pytest.approx(2 * loss / float(event.epsilon()))


def conditionals(seed, sweeps):
    """Return the tables of a file with one row more, for columns of 2, 2 and 3 codes."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, (2, 2, 3), (6, 3))
    others = ((1,), (2,), (1, 0))
    files = []
    for part in (rows, rows[1:]):
        tables = []
        for column, given in enumerate(others):
            axes = (column, *given)
            table = np.zeros([(2, 2, 3)[axis] for axis in axes], dtype=np.int64)
            np.add.at(table, tuple(part[:, axis] for axis in axes), 1)
            tables.append(table)
        files.append(Conditionals(tuple(tables), others, sweeps))
    return files


def losses_of_paths(files, sweeps, records):
    """Return the loss of every path of draws, by going through all of them."""
    tables = [
        [np.log((table + float(SCALE)) / (table + float(SCALE)).sum(axis=0)) for table in each]
        for each in (file.tables for file in files)
    ]
    sizes, others = (2, 2, 3), files[0].others
    paths = {start: {0.0} for start in itertools.product(*map(range, sizes))}
    for _ in range(records):
        inside = {(state, frozenset()): values for state, values in paths.items()}
        for column in list(range(3)) * sweeps:
            further = {}
            for (state, visited), values in inside.items():
                given = tuple(state[each] for each in others[column])
                for code in range(sizes[column]):
                    gain = 0.0
                    if (column, given) not in visited:
                        gain = tables[0][column][code, *given] - tables[1][column][code, *given]
                    new = (*state[:column], code, *state[column + 1 :])
                    key = (new, visited | {(column, given)})
                    further.setdefault(key, set()).update(round(v + gain, 9) for v in values)
            inside = further
        paths = {}
        for (state, _visited), values in inside.items():
            paths.setdefault(state, set()).update(values)
    return set().union(*paths.values())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("sweeps", "records"), [(1, 2), (2, 1)])
def test_the_largest_loss_of_conditional_draws_is_that_over_all_paths(seed, sweeps, records):
    files = conditionals(seed, sweeps)
    event = PerturbedDrawsEvent(SCALE, 3 * records)
    largest = max(abs(loss) for loss in losses_of_paths(files, sweeps, records))
    found = only(event, (records, 3), *files)
    assert found.ratio == pytest.approx(largest / float(event.epsilon()))
    assert not found.exceeded
