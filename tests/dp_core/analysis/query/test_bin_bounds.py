"""Intervals of means and totals contain the file's value wherever in their bins the values are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.analysis.query.survey import noise_of, pooled
from tests.measured import noisy_table

GAIN = ["0", "5000", "20000", "100000"]
SCHEMA = parse_schema(
    {
        "version": "1",
        "title": "Gains",
        "columns": {
            "group": {"type": "category", "levels": ["a", "b"]},
            "gain": {
                "type": "integer",
                "min": "0",
                "max": "99999",
                "edges": GAIN,
                "missing": "level",
            },
            "height": {"type": "number", "min": "1", "max": "2", "edges": ["1", "1.5", "2"]},
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
LOW = np.array([0, 5_000, 20_000, 0])
HIGH = np.array([4_999, 19_999, 99_999, 0])
KNOWN = np.array([1, 1, 1, 0])


def sources(clique, values, scale=1e-7, rng=None):
    domain = SCHEMA.domain.project(clique)
    values = np.reshape(values, domain.sizes) + noise_of("gaussian", scale, domain.sizes, rng)
    return pooled(SCHEMA, [noisy_table(domain, values, scale=scale)])


CLEAR = sources(("group", "gain"), COUNTS)
HEIGHT, BORN, ROOMS = (
    sources((name,), counts)
    for name, counts in {"height": [30, 10], "born": [3, 1], "rooms": [5, 3, 2]}.items()
)


def ends(text, among=CLEAR, **options):
    (cell,) = ask(among, text, **options).cells
    return cell.low, cell.high


# -- without noise, the ends are the smallest and the largest possible answers


def test_an_integer_lies_between_the_whole_numbers_of_its_bin():
    of_all = COUNTS.sum(axis=0)
    wanted = (of_all @ LOW, of_all @ HIGH)
    assert ends("total of gain") == pytest.approx(wanted)
    assert ends("mean of gain") == pytest.approx(np.array(wanted) / (of_all @ KNOWN))
    result = ask(CLEAR, "mean of gain by group")
    found = [(cell.low, cell.high) for cell in result.cells]
    wanted = [(each @ LOW / (each @ KNOWN), each @ HIGH / (each @ KNOWN)) for each in COUNTS]
    assert np.array(found) == pytest.approx(np.array(wanted))
    assert result.in_bins


def test_a_number_may_reach_the_edge_and_a_date_its_legal_range():
    assert ends("mean of height", HEIGHT) == pytest.approx(
        (1 * 0.75 + 1.5 * 0.25, 1.5 * 0.75 + 2 * 0.25)
    )
    days = [np.datetime64(day).astype(int) for day in ("2000-03-01", "2000-12-31")]
    days += [np.datetime64(day).astype(int) for day in ("2001-01-01", "2001-06-30")]
    low, high = ends("mean of born", BORN)
    first, last = (3 * days[0] + days[2]) / 4, (3 * days[1] + days[3]) / 4
    assert high - low == pytest.approx(last - first)
    assert low - np.datetime64("1970-01-01").astype(object).toordinal() == pytest.approx(first)


def test_a_difference_is_smallest_at_the_first_group_s_smallest_and_the_second_s_largest():
    one, two = ((each @ LOW / (each @ KNOWN), each @ HIGH / (each @ KNOWN)) for each in COUNTS)
    text = "difference in {} of gain between group = a and group = b"
    assert ends(text.format("mean")) == pytest.approx((one[0] - two[1], one[1] - two[0]))
    sums = [(each @ LOW, each @ HIGH) for each in COUNTS]
    assert ends(text.format("total")) == pytest.approx(
        (sums[0][0] - sums[1][1], sums[0][1] - sums[1][0])
    )


def test_a_bin_of_one_value_has_no_error():
    # Bins 1 and 2 have one value each, the third has 3 to 9.
    assert ends("mean of rooms", ROOMS) == pytest.approx((1.7, 2.9))
    result = ask(ROOMS, "mean of rooms where rooms < 3")
    assert not result.in_bins
    (cell,) = result.cells
    assert cell.margin_without_bins is None
    assert (cell.low, cell.high) == pytest.approx((11 / 8, 11 / 8))
    assert not any("bin" in note for note in result.notes)


def test_the_ends_do_not_depend_on_the_density():
    uniform = parse_schema(
        {
            "version": "1",
            "title": "Gains",
            "density": "uniform",
            "columns": {"gain": {"type": "integer", "min": "0", "max": "99999", "edges": GAIN}},
        }
    )
    table = noisy_table(uniform.domain, np.array([2700, 160, 60]), scale=1e-7)
    assert ends("mean of gain", pooled(uniform, [table])) == pytest.approx(ends("mean of gain"))


# -- with noise


def test_the_interval_covers_wherever_the_values_are():
    """100 times, for values at the lower ends, in the middle and at the upper ends of their bins.

    Coverage is more than .95 less 6 standard errors, so a question whose intervals cover at .95
    fails by chance less than once in a million, by exact binomial sums (5.1e-7); the seed is fixed
    besides. If all values are at an end of their bins, the intervals cover about .975: only one of
    their ends can miss.
    """
    places = {"low": LOW, "middle": (LOW + HIGH) / 2, "high": HIGH}
    means = {name: [each @ v / (each @ KNOWN) for each in COUNTS] for name, v in places.items()}
    rng = np.random.default_rng(31)
    repeats = 100
    covered = {name: np.zeros(4) for name in places}
    without = dict.fromkeys(places, 0)
    for _ in range(repeats):
        found = sources(("group", "gain"), COUNTS, 6.0, rng)
        cells = ask(found, "mean of gain by group").cells
        (total,) = ask(found, "total of gain").cells
        (gap,) = ask(found, "difference in mean of gain between group = a and group = b").cells
        for name, values in places.items():
            one, two = means[name]
            truth = (one, two, COUNTS.sum(axis=0) @ values, one - two)
            each = zip((*cells, total, gap), truth, strict=True)
            covered[name] += [cell.low <= true <= cell.high for cell, true in each]
            without[name] += abs(cells[1].estimate - two) <= cells[1].margin_without_bins
    bound = 6 * math.sqrt(0.95 * 0.05 / repeats)
    assert min(each.min() for each in covered.values()) > (0.95 - bound) * repeats
    # The margin without bins never covers. No end is so far out that it never misses.
    assert without["low"] == without["high"] == 0
    assert covered["low"][:3].max() < repeats
    assert covered["high"][:3].max() < repeats


def test_sampling_adds_the_error_of_the_values_at_either_end():
    without, with_ = ends("mean of gain"), ends("mean of gain", sampling=True)
    counts = COUNTS.sum(axis=0)[:3]
    for one, other, values in zip(without, with_, (LOW[:3], HIGH[:3]), strict=True):
        mean = counts @ values / counts.sum()
        variance = counts @ (values - mean) ** 2 / counts.sum() ** 2
        assert abs(other - one) == pytest.approx(1.96 * math.sqrt(variance), rel=0.02)


def test_a_group_that_may_be_empty_is_not_determined_by_its_bins():
    found = sources(("group", "gain"), COUNTS, 3000.0, np.random.default_rng(3))
    result = ask(found, "mean of gain by group")

    assert all(cell.margin_without_bins is None and cell.low is None for cell in result.cells)
    assert all(cell.from_bins == 0 for cell in result.cells)
    assert len([note for note in result.notes if "width comes from the bins" in note]) == 0


# -- in words


def test_a_group_of_the_column_itself_gets_no_note_about_all_records():
    for measure in ("mean", "total", "median"):
        notes = " ".join(ask(CLEAR, f"{measure} of gain by gain").notes)
        assert "of this part" not in notes
        assert "carry no information" not in notes


def test_a_sentence_says_how_much_comes_from_bins_and_names_the_worst():
    result = ask(CLEAR, "mean of gain")
    (said,) = [note for note in result.notes if "width comes from the bins of gain" in note]
    widths = COUNTS.sum(axis=0) * (HIGH - LOW)
    part = 100 * widths[0] / widths.sum()

    assert said.startswith(("99 % of this interval's", "100 % of this interval's"))
    assert f"The bin 0 to 4999 causes {part:.0f} % of this part" in said
    assert f"contains {100 * 2700 / 2920:.0f} % of the records" in said
    only = ask(CLEAR, "mean of gain where gain < 5000").notes[0]
    assert "of this part" not in only
    assert "where in its bin a value is. Narrower bins" in only
    assert "Narrower bins in the schema" in said
    by_group = ask(CLEAR, "mean of gain by group where group = b").notes
    widths = COUNTS[1] * (HIGH - LOW)
    assert any(f"{100 * widths[0] / widths.sum():.0f} % of this part" in n for n in by_group)


def test_the_part_from_bins_is_the_width_beyond_that_without_bins():
    noisy = sources(("group", "gain"), COUNTS, 40.0, np.random.default_rng(5))
    for cell in ask(noisy, "mean of gain by group").cells:
        assert cell.from_bins == pytest.approx(
            1 - 2 * cell.margin_without_bins / (cell.high - cell.low)
        )
        assert 0 < cell.from_bins < 1
        assert cell.margin == max(cell.high - cell.estimate, cell.estimate - cell.low)
