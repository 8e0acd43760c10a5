"""How values lie within bins that were chosen privately, and that codes and points follow."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.confidential.encoding import Encoder
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.code_values import numbers_of
from dp_core.methods.private_domain.quantile_tree import (
    equal_cuts,
    estimate,
    group_edges,
    pieces_of,
    widths,
)
from dp_core.plan.chosen_domain import Chosen, with_choices
from dp_core.schema.bin_pieces import spread, weights_of
from dp_core.schema.grid import on_grid, variables
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode

POSITIONS = 4096


def estimated(leaves, sd, rng):
    levels = []
    for width in widths(len(leaves)):
        exact = np.add.reduceat(leaves, group_edges(len(leaves), width)[:-1])
        levels.append((exact + rng.normal(0, sd, exact.size)).tolist())
    return estimate(levels)


def mean_of(pieces, cuts, bins):
    """Return the mean position of sets whose bins hold these records."""
    edges = (0, *cuts, POSITIONS)
    starts = [start for start, _ in pieces]
    weights = weights_of((*starts, POSITIONS), pieces)
    middles = np.mean([starts, [*starts[1:], POSITIONS]], axis=0)
    of = np.searchsorted(edges, starts, side="right") - 1
    means = np.bincount(of, weights * middles) / np.bincount(of, weights)
    return float(means @ bins / np.sum(bins))


def test_exact_counts_of_a_long_tail_give_back_its_mean():
    rng = np.random.default_rng(1)
    codes = np.minimum(rng.lognormal(5, 0.9, 50_000), POSITIONS - 1).astype(int)
    leaves = np.bincount(codes, minlength=POSITIONS)
    records = [float(count) for count in leaves]
    cuts = equal_cuts(records, 12)
    bins = np.add.reduceat(leaves, [0, *cuts])
    even = [(cut, 1) for cut in (0, *cuts)]
    true = codes.mean() + 0.5
    assert mean_of(even, cuts, bins) > 1.3 * true
    assert mean_of(pieces_of(records, cuts, 1.0), cuts, bins) == pytest.approx(true, rel=1e-3)


def test_what_noise_alone_could_make_is_spread_evenly():
    """Noise exceeds twice what is expected of it at one column in a hundred: never at 4 of 8."""
    rng = np.random.default_rng(3)
    cuts = (300, 2000)
    kept = 0
    for _ in range(8):
        records = estimated(np.full(POSITIONS, 5), 30.0, rng)
        # Without a part that is told apart a bin is one piece.
        kept += [start for start, _ in pieces_of(records, cuts, 900.0)] == [0, *cuts]
    assert kept > 4


def test_every_bin_has_weight_and_pieces_of_none_are_joined():
    records = [0.0] * 40 + [50.0, 0.0] + [0.0] * 38
    pieces = pieces_of(records, (20, 60), 1.0)
    assert pieces == ((0, 1), (20, 0), (40, 50_000), (41, 0), (60, 1))


def test_a_short_last_group_is_taken_apart_as_others_are():
    records = [0.0] * 256 + [100.0, 0.0, 0.0]
    assert pieces_of(records, (128,), 1.0) == ((0, 1), (128, 0), (256, 100_000), (257, 0))


@pytest.mark.statistical
def test_pieces_are_drawn_by_their_weight_within_each_bin():
    rng = np.random.default_rng(4)
    pieces = ((0, 3), (2, 1), (4, 0), (7, 0), (10, 1))
    bins = np.repeat([0, 1, 2], 20_000)
    drawn, finer = spread(bins, (0, 4, 10, 12), pieces, rng=rng)
    assert finer == (0, 2, 4, 7, 10, 12)
    # Where no piece has weight, widths decide: 3 and 3.
    chances = np.array([0.75, 0.25, 0.5, 0.5, 1.0])
    assert (np.searchsorted((0, 4, 10), np.array(finer)[drawn], side="right") - 1 == bins).all()
    counts = np.bincount(drawn, minlength=5)
    off = (counts - 20_000 * chances) / np.sqrt(20_000 * chances * (1 - chances) + 1e-9)
    assert np.abs(off[:4]).max() < 5.5
    assert counts[4] == 20_000


SCHEMA = {
    "version": 1,
    "title": "t",
    "columns": {
        "x": {"type": "number", "min": 0, "max": 4096, "bins": {"private": 2}, "missing": "level"},
        "n": {"type": "integer", "min": 0, "max": 99, "bins": {"private": 2}},
        "d": {"type": "date", "min": "2020-01-01", "max": "2020-01-31", "bins": {"private": 2}},
    },
}
CHOSEN = {
    "x": Chosen((8,), ((0, 1), (8, 9), (16, 1))),
    "n": Chosen((10,), ((0, 1), (10, 3), (11, 0), (98, 1))),
    "d": Chosen((5,), ((0, 1), (5, 0), (30, 1))),
}


@pytest.fixture(scope="module")
def schema():
    return with_choices(parse_schema(SCHEMA), CHOSEN)


@pytest.mark.statistical
def test_decoded_values_lie_as_the_pieces_say_and_keep_their_codes(schema):
    rng = np.random.default_rng(5)
    codes = np.array([rng.integers(0, 3, 30_000), *rng.integers(0, 2, (2, 30_000))], np.uint16)
    table = decode(schema, Dataset(schema.domain, codes), rng=rng)
    for axis, column in enumerate(schema.columns):
        assert (
            Encoder(column).encode(table[column.name].combine_chunks()).codes == codes[axis]
        ).all()
    number = table["n"].to_numpy()[codes[1] == 1]
    assert {*number} == {10, 98, 99}
    days = [str(day) for day in table["d"].to_pylist()]
    assert {days[row] for row in np.flatnonzero(codes[2])} == {"2020-01-31"}
    high = table["x"].to_numpy(zero_copy_only=False)[codes[0] == 1]
    part = int((high < 16).sum())
    assert abs(part - 0.9 * high.size) < 5.5 * np.sqrt(0.09 * high.size)


@pytest.mark.statistical
def test_numbers_of_bins_are_the_means_of_what_is_decoded(schema):
    rng = np.random.default_rng(6)
    codes = np.array([rng.integers(0, 2, 60_000)] * 3, np.uint16)
    table = decode(schema, Dataset(schema.domain, codes), rng=rng)
    points = {name: numbers_of(schema.column(name)) for name in ("x", "n")}
    assert np.isnan(points["x"][2])
    assert points["n"][1] == pytest.approx((3 * 10 + 98.5) / 4)
    for name in ("x", "n"):
        values = table[name].to_numpy(zero_copy_only=False)
        for code in (0, 1):
            mine = values[codes[0] == code]
            error = mine.std() / np.sqrt(mine.size)
            assert abs(mine.mean() - points[name][code]) < 5.5 * error, (name, code)


@pytest.mark.statistical
def test_methods_on_a_grid_draw_positions_as_the_pieces_say():
    schema = with_choices(on_grid(parse_schema(SCHEMA), POSITIONS), CHOSEN)
    x, n, _ = variables(schema).numeric
    rng = np.random.default_rng(7)
    bins = rng.integers(0, 2, 20_000)
    drawn = n.within(bins, n.bins, rng=rng)
    assert {*drawn[bins == 1]} == {10, 98, 99}
    assert {*drawn[bins == 0]} == {*range(10)}
    # Missing is the bin after the last and stays what it is.
    assert {*x.within(np.full(9, 2), (*x.bins, x.size), rng=rng)} == {4096}
    # Other edges than those that were chosen: the pieces are shared by them.
    finer = n.within(np.full(20_000, 2), (0, 10, 98, 99, 100), rng=rng)
    assert {*finer} == {98}


def test_the_largest_random_number_stays_in_its_bin():
    class Largest:
        def random(self, size):
            return np.full(size, 1 - 2.0**-53)

    # 1000 + 1000 (1 - 2^-53) is 2000 in floating point: the end of the last piece.
    drawn, _ = spread(np.array([0, 1]), (0, 1, 2), ((0, 1000), (1, 1000)), rng=Largest())
    assert drawn.tolist() == [0, 1]
