"""Intervals of means and totals cover where values usually lie in their bins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.bin_errors import HEAPS_OF_GROUP, OF_GROUP
from dp_core.methods.bin_density.bin_bias import TOGETHER, bin_bias
from dp_core.methods.bin_density.fitting import with_densities
from dp_core.schema.bin_values import BinValues
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.analysis.query.survey import noise_of, pooled
from tests.measured import noisy_table

GROUP = {"type": "category", "levels": ["a", "b"]}
GAIN = ["0", "5000", "20000", "100000"]
SCHEMA = parse_schema(
    {
        "version": "1",
        "title": "Gains",
        "columns": {
            "group": GROUP,
            "gain": {
                "type": "integer",
                "min": "0",
                "max": "99999",
                "edges": GAIN,
                "missing": "level",
            },
            "score": {"type": "number", "min": "0", "max": "80", "bins": "8"},
            "born": {
                "type": "date",
                "min": "2000-03-01",
                "max": "2001-06-30",
                "bins": "year",
            },
            "rooms": {"type": "integer", "min": "1", "max": "9", "edges": ["1", "2", "3", "10"]},
        },
    }
)
COUNTS = np.array([[900, 60, 40, 10], [1800, 100, 20, 0]])
"""Records by group, bin of gain and missing."""
LOW, HIGH = np.array([0, 5_000, 20_000, 0]), np.array([4_999, 19_999, 99_999, 0])
SMOOTH = np.array([[40, 110, 220, 320, 330, 230, 120, 30], [5, 20, 60, 140, 200, 180, 100, 45]])
"""Records by group and bin of score."""


def sources(clique, values, scale=1e-7, rng=None):
    domain = SCHEMA.domain.project(clique)
    values = np.reshape(values, domain.sizes) + noise_of("gaussian", scale, domain.sizes, rng)
    return pooled(SCHEMA, [noisy_table(domain, values, scale=scale)])


CLEAR = sources(("group", "gain"), COUNTS)
EVEN = sources(("group", "score"), SMOOTH)
BORN, ROOMS = (
    sources((name,), counts) for name, counts in {"born": [3, 1], "rooms": [5, 3, 2]}.items()
)


def half(cell):
    return (cell.high - cell.low) / 2


def deviations(counts, column="score", of_all=SMOOTH):
    """Errors of a sum by bins: each bin by itself, and all together; and the group's own."""
    counts = np.asarray(counts, dtype=float)
    found = bin_bias(SCHEMA.column(column), of_all.sum(axis=0), 1e-7)
    return found.errors_of_totals(counts), float(found.tilts(counts))


# -- without noise, the errors of bins alone make the interval


def test_the_interval_of_a_mean_or_total_has_the_errors_of_all_bins():
    of_all = SMOOTH.sum(axis=0)
    shared, own = deviations(of_all)
    assert own == pytest.approx(0, abs=1e-3 * of_all.sum())
    wanted = 1.96 * math.sqrt(shared @ shared)
    assert half(ask(EVEN, "total of score").cells[0]) == pytest.approx(wanted, rel=1e-4)
    (cell,) = ask(EVEN, "mean of score").cells
    assert half(cell) == pytest.approx(wanted / of_all.sum(), rel=1e-4)
    result = ask(EVEN, "mean of score by group")
    assert result.in_bins
    for cell, counts in zip(result.cells, SMOOTH, strict=True):
        shared, own = deviations(counts)
        wanted = 1.96 * math.hypot(*shared, own) / counts.sum()
        assert half(cell) == pytest.approx(wanted, rel=1e-4)
        assert cell.margin_without_bins < 1e-3 * wanted


def test_all_bins_together_are_off_by_a_part_of_their_length():
    shared, _ = deviations(SMOOTH.sum(axis=0))
    assert shared[-1] == pytest.approx(TOGETHER * 10 * SMOOTH.sum(), rel=2e-3)


@pytest.mark.parametrize("measure", ["mean", "total"])
def test_most_of_the_error_cancels_in_a_difference(measure):
    text = f"difference in {measure} of score between group = a and group = b"
    (cell,) = ask(EVEN, text).cells
    (one, tilt), (two, its_tilt) = (
        [each / (counts.sum() if measure == "mean" else 1) for each in deviations(counts)]
        for counts in SMOOTH
    )
    apart = one @ one + two @ two + tilt**2 + its_tilt**2
    common = np.array([*[1 - OF_GROUP] * 8, 1 - HEAPS_OF_GROUP, 1 - OF_GROUP])
    variance = apart - 2 * common @ (one * two)
    assert half(cell) == pytest.approx(1.96 * math.sqrt(variance), rel=1e-3)
    assert half(cell) < 0.9 * 1.96 * math.sqrt(apart)


def test_heaps_in_several_bins_are_off_on_the_same_side():
    """As 35 and 40 hours, where bins begin: neither explains the other, and both add up."""
    heaped = np.array([[20, 40, 60, 300, 320, 60, 40, 20]] * 2)
    shared, _ = deviations(heaped[0], of_all=heaped)
    spread = 10 / math.sqrt(12)
    parts = [1 - math.sqrt(60 * 320) / 300, 1 - math.sqrt(300 * 60) / 320]
    others = 2 * 20 / 4 + 2 * 40 * (1 - math.sqrt(20 * 60) / 40)  # the ends, and those beside them
    wanted = spread * (300 * parts[0] + 320 * parts[1] + others)
    assert shared[-2] == pytest.approx(wanted, rel=0.01)


def test_no_interval_is_longer_than_if_values_were_anywhere_in_their_bins():
    for text, counts in (("", COUNTS.sum(axis=0)), (" where group = a", COUNTS[0])):
        known = counts[:3].sum()
        (cell,) = ask(CLEAR, f"mean of gain{text}").cells
        assert counts @ LOW / known - 1e-3 <= cell.low
        assert cell.high <= counts @ HIGH / known + 1e-3
    one, two = ((each @ LOW, each @ HIGH) for each in COUNTS)
    (cell,) = ask(CLEAR, "difference in total of gain between group = a and group = b").cells
    assert one[0] - two[1] - 1 <= cell.low < cell.high <= one[1] - two[0] + 1


def test_a_date_has_a_mean_and_its_interval_stays_in_its_legal_range():
    (cell,) = ask(BORN, "mean of born").cells
    first, last = (np.datetime64(day).astype(object) for day in ("2000-03-01", "2001-06-30"))
    assert first.toordinal() <= cell.low < cell.estimate < cell.high <= last.toordinal()


def test_a_bin_of_one_value_has_no_error():
    # Bins 1 and 2 have one value each, the third has 3 to 9.
    (cell,) = ask(ROOMS, "mean of rooms").cells
    assert 1.7 <= cell.low < cell.high
    result = ask(ROOMS, "mean of rooms where rooms < 3")
    assert not result.in_bins
    (cell,) = result.cells
    assert cell.margin_without_bins is None
    assert (cell.low, cell.high) == pytest.approx((11 / 8, 11 / 8))
    assert not any("bin" in note for note in result.notes)


def test_sampling_adds_the_variance_of_values_between_and_within_bins():
    (without,), (with_,) = (ask(EVEN, "mean of score", sampling=each).cells for each in (0, 1))
    counts = SMOOTH.sum(axis=0)
    values = BinValues.of(SCHEMA.column("score"))
    mean = counts @ values.mean() / counts.sum()
    variance = counts @ ((values.mean() - mean) ** 2 + values.variance()) / counts.sum() ** 2
    assert half(with_) ** 2 - half(without) ** 2 == pytest.approx(1.96**2 * variance, rel=0.01)


def test_a_group_that_may_be_empty_is_not_determined_by_its_bins():
    found = sources(("group", "gain"), COUNTS, 3000.0, np.random.default_rng(3))
    result = ask(found, "mean of gain by group")

    assert all(cell.margin_without_bins is None and cell.low is None for cell in result.cells)
    assert all(cell.from_bins == 0 for cell in result.cells)
    assert len([note for note in result.notes if "would be" in note]) == 0


def test_with_more_bins_than_have_a_density_values_may_be_anywhere_in_them():
    lengths = {}
    for bins in (256, 257):
        column = {"type": "number", "min": "0", "max": str(bins), "bins": str(bins)}
        schema = parse_schema({"version": "1", "title": "x", "columns": {"x": column}})
        counts = np.exp(-np.square((np.arange(bins) - 128) / 40) / 2) * 1000
        table = noisy_table(schema.domain, counts.round(), scale=1e-7)
        found = pooled(schema, [table])
        (mean,), (median,) = (ask(found, f"{each} of x").cells for each in ("mean", "median"))
        lengths[bins] = mean.high - mean.low, median.high - median.low
    assert all(more > less for less, more in zip(*lengths.values(), strict=True))
    assert lengths[257][1] == pytest.approx(1, abs=0.05)  # the whole bin


# -- coverage, on files as they are


def uneven(rng, group):
    """Values with smooth densities, long tails, points and rounding, each in its own range."""
    size, other = len(group), group == 1
    log = rng.standard_normal(size)
    return {
        (0, 100): np.clip(rng.normal(45, 15, size) + 5 * other, 0, 99.9),
        (0, 500_000): np.clip(np.exp(0.8 * log + 0.5 * other) * 20_000, 0, 499_999),
        (0, 400): rng.exponential(30 + 20 * other),
        (0, 99): np.where(rng.random(size) < 0.35, 40, np.clip(rng.normal(38, 12, size), 0, 98)),
        (0, 20_000): np.where(rng.random(size) < 0.6, 0, np.clip(np.exp(log + 6), 0, 19_999)),
        (0, 200_000): np.clip(np.rint(np.exp(0.6 * log + 10) / 1000) * 1000, 0, 199_999),
        (0, 60): np.where(other & (rng.random(size) < 0.9), 52.14, rng.uniform(0, 60, size)),
    }


def surveys(repeats, noise):
    """Yield values of generated files, their groups and the pooled tables of a release."""
    for seed in range(repeats):
        rng = np.random.default_rng([7, seed])
        group = rng.binomial(1, 0.3, 8000)
        for (low, high), values in uneven(rng, group).items():
            values = np.minimum(values, high * 0.9999)
            for bins in (8, 14, 24):
                number = {"type": "number", "min": str(low), "max": str(high), "bins": str(bins)}
                schema = parse_schema(
                    {"version": "1", "title": "x", "columns": {"group": GROUP, "x": number}}
                )
                codes = np.searchsorted([float(e) for e in schema.columns[1].edges[1:-1]], values)
                counts = np.zeros((2, bins))
                np.add.at(counts, (group, codes), 1)
                noisy = counts + rng.normal(0, noise, counts.shape)
                table = noisy_table(schema.domain, noisy, scale=noise)
                yield values, group, pooled(with_densities(schema, [table]), [table])


@pytest.mark.slow
@pytest.mark.parametrize("noise", [3.0, 20.0])
def test_intervals_cover_on_smooth_skewed_heaped_and_rounded_values(noise):
    """The seed is fixed. About .95 to .98 are covered, most of them by far less than half a bin."""
    covered = {name: [] for name in ("mean", "difference", "median", "quantile 0.9")}
    parts = []
    for values, group, found in surveys(4, noise):
        (gap,) = ask(found, "difference in mean of x between group = a and group = b").cells
        means = [values[group == each].mean() for each in (0, 1)]
        covered["difference"].append(gap.low <= means[0] - means[1] <= gap.high)
        for name, q in (("mean", None), ("median", 0.5), ("quantile 0.9", 0.9)):
            for each, cell in enumerate(ask(found, f"{name} of x by group").cells):
                own = values[group == each]
                true = own.mean() if q is None else np.quantile(own, q, method="inverted_cdf")
                covered[name].append(cell.low - 1e-9 <= true <= cell.high + 1e-9)
                if q is None:
                    length = float(found.schema.columns[1].edges[1])
                    parts.append(math.sqrt(half(cell) ** 2 - cell.margin_without_bins**2) / length)
    for name, inside in covered.items():
        assert np.mean(inside) > 0.93, name
    assert np.median(parts) < 0.3


# -- in words


def test_a_group_of_the_column_itself_gets_no_note_about_all_records():
    for measure in ("mean", "total", "median"):
        notes = " ".join(ask(CLEAR, f"{measure} of gain by gain").notes)
        assert "adds most" not in notes
        assert "carry no information" not in notes


def test_a_note_says_how_much_bins_add_and_names_the_worst():
    result = ask(CLEAR, "mean of gain")
    (said,) = [note for note in result.notes if "in its bin a value of gain is" in note]
    assert said.startswith("Without the error of bins, this interval would be ")
    assert "The bin 0 to 4999 adds most to this error, and has" in said
    assert f"has {100 * 2700 / 2920:.0f} % of the records" in said
    only = ask(CLEAR, "mean of gain where gain < 5000").notes[0]
    assert "adds most" not in only
    assert "a value of gain is. Narrower bins in the schema" in only


def test_no_note_says_that_nothing_comes_from_bins():
    noisy = sources(("group", "score"), SMOOTH, 400.0, np.random.default_rng(4))
    result = ask(noisy, "total of score")
    assert result.cells[0].from_bins < 0.01
    assert not any("shorter" in note for note in result.notes)


def test_the_part_from_bins_is_the_width_beyond_that_without_bins():
    noisy = sources(("group", "gain"), COUNTS, 40.0, np.random.default_rng(5))
    for cell in ask(noisy, "mean of gain by group").cells:
        assert cell.from_bins == pytest.approx(
            1 - 2 * cell.margin_without_bins / (cell.high - cell.low)
        )
        assert 0 < cell.from_bins < 1
        assert cell.margin == max(cell.high - cell.estimate, cell.estimate - cell.low)
