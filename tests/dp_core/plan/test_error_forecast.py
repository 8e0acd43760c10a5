"""The error that a plan promises: exact formulas, directions, and what releases have."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trial import trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.client.noise_scale import NoiseScale
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.metrics.marginal_error import average_tvd
from dp_core.plan.forecast.error_calibration import TWO_WAY, USUAL_ERROR, Calibration
from dp_core.plan.forecast.error_forecast import (
    MOSTLY_NOISE,
    SUPPOSED_ROWS,
    ends_of,
    forecast_error,
    planned_error,
)
from dp_core.plan.plan import PlannedTable, make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.procedure import ask_all, fits, sample
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema

TWO = Domain(("a", "b"), (2, 2))
THREE = Domain(("a", "b", "c"), (2, 3, 4))
FIVE = Domain(tuple("abcde"), (2, 3, 4, 2, 6))
EIGHT = Domain(tuple("abcdefgh"), (2, 3, 4, 2, 5, 3, 6, 2))
HALF_NORMAL = math.sqrt(2 / math.pi)
PRESET_OF = {"densemarg": "privsyn", "one_way": "independent"}


def plan_for(preset, epsilon="1", rows=5_000, mode="shared", domain=EIGHT, **options):
    sets = options.pop("sets", 4)
    if preset == "full":
        preset, options["select"] = "auto", {"at_once": "joint"}
    if preset == "fixed":
        options["select"] = {"cliques": tuple(itertools.pairwise(domain.columns))}
    delta = Fraction("1e-9")
    plan = trial_plan(domain, preset, Fraction(epsilon), delta, sets=sets, mode=mode, **options)
    schema = dataclasses.replace(plan.spec.schema, rows_about=rows)
    return make_plan(dataclasses.replace(plan.spec, schema=schema))


def promised(preset, *settings, **options):
    return set_error(plan_for(preset, *settings, **options))


def set_error(plan):
    (found,) = forecast_error(plan).sets or (None,)
    return found


def known(domain, clique, variance, *, interaction=False):
    """A table whose noise is known."""
    noise = NoiseScale("gaussian", math.sqrt(variance))
    cells = domain.size(clique)
    return PlannedTable("measure", clique, cells, Fraction(1), noise, 1, interaction)


def one_way(domain, variance):
    return [known(domain, (name,), variance) for name in domain.columns]


def shrunk(counts, variance):
    """Mean absolute error of cells that deviate by their own size, after shrinkage, in records."""
    return sum(HALF_NORMAL * count / math.sqrt(1 + count**2 / variance) for count in counts)


@pytest.mark.parametrize("variance", [0.1, 25.0, 1e4])
def test_noise_of_planned_columns_is_that_of_shrunk_cells(variance):
    """Two columns of 2 levels and 900 records have 600 and 300; the pair is known exactly."""
    pair = known(TWO, ("a", "b"), 1e-9, interaction=True)
    found = planned_error(TWO, 900, [*one_way(TWO, variance), pair], 1.0).two
    of_column = shrunk((600.0, 300.0), variance)
    assert found == pytest.approx(math.sqrt(2) * of_column / (2 * 900), rel=1e-3)


def test_a_planned_pair_tells_its_columns_by_the_sum_of_its_cells():
    """A count of a column is the sum of 2 cells of the table, and has twice the variance."""
    own = known(TWO, ("a", "b"), 50.0 / 4, interaction=True)  # (1 - 1/2)^2 of the table's noise
    by_table = planned_error(TWO, 900, [known(TWO, ("a", "b"), 50.0)], 1.0)
    by_parts = planned_error(TWO, 900, [*one_way(TWO, 100.0), own], 1.0)
    assert by_table.two == pytest.approx(by_parts.two, rel=1e-9)


def test_four_measurements_of_a_table_are_one_of_a_quarter_of_the_variance():
    often = planned_error(THREE, 900, 4 * one_way(THREE, 64.0), 1.0)
    assert often == planned_error(THREE, 900, one_way(THREE, 16.0), 1.0)


def test_what_no_table_tells_is_left_as_dependence_and_sampling():
    """Without noise the error is what two columns depend on each other beyond any table."""
    errors = [planned_error(TWO, 10**9, one_way(TWO, 1e-6), each).two for each in (1.0, 2.0)]
    # The dependence of a typical file is an L1 distance of .08 of the records.
    assert errors == pytest.approx([0.04, 0.08], rel=0.01)
    tables = [*one_way(TWO, 1e-6), known(TWO, ("a", "b"), 1e-6)]
    assert planned_error(TWO, 10**9, tables, 2.0).two < 1e-6


@given(
    bias=st.floats(-1, 1),
    level=st.floats(-0.3, 0.3),
    width=st.floats(0, 1),
    part=st.floats(0, 1),
    ends=st.tuples(st.floats(1e-4, 0.9), st.floats(1, 5), st.floats(1, 3), st.floats(1, 3)),
    columns=st.integers(2, 80),
)
def test_a_range_grows_with_both_ends_of_the_theory(bias, level, width, part, ends, columns):
    by = Calibration(bias, level, -0.2, width, part * (1 + level) / 2)
    low, times, more_low, more_high = ends
    before = by.range((low, low * times), columns)
    after = by.range((low * more_low, low * times * more_low * more_high), columns)
    assert before[0] <= before[1] <= 1
    assert after[0] >= before[0] * (1 - 1e-9)
    assert after[1] >= before[1] * (1 - 1e-9)


def test_a_range_without_calibration_is_that_of_the_theory():
    plain = Calibration(0.0, 0.0, 0.0, 0.0, 0.5)
    assert plain.range((0.01, 0.09), 12) == pytest.approx((0.01, 0.09))
    biased = Calibration(math.log(2), 0.0, 0.0, math.log(1.5), 0.0)
    assert biased.range((0.01, 0.01), 40) == pytest.approx((0.02 / 1.5, 0.03))
    level = Calibration(0.0, 0.5, 0.0, 0.0, 0.0)
    assert level.range((USUAL_ERROR, USUAL_ERROR), 5)[0] == pytest.approx(USUAL_ERROR)
    assert plain.range((0.0, 0.0), 2) == (0, 0)
    with pytest.raises(ValueError, match="spread"):
        Calibration(0.0, -0.5, 0.0, 0.1, 0.4)


@pytest.mark.parametrize(("name", "mode"), TWO_WAY)
def test_the_promise_falls_with_epsilon_and_with_the_number_of_rows(name, mode):
    preset = PRESET_OF.get(name, name)
    for settings in (
        [(epsilon, 5_000) for epsilon in ("0.1", "1", "8")],
        [("1", rows) for rows in (200, 5_000, 200_000)],
    ):
        found = [promised(preset, *each, mode, FIVE) for each in settings]
        assert all(each is not None for each in found)
        ranges = [each.two_way for each in found]
        assert all(0 < low < high <= 1 or low == high == 1 for low, high in ranges)
        # The forecast of `auto` is a quick one, so neighbours may differ by a hundredth.
        for end in (0, 1):
            values = [each[end] for each in ranges]
            assert all(b <= a * 1.01 for a, b in itertools.pairwise(values))


def test_the_constants_are_of_selections_of_presets():
    assert {name for name, _ in TWO_WAY} <= {preset.select for preset in PRESETS.values()}


@pytest.mark.parametrize("preset", ["auto", "privsyn"])
def test_a_mode_that_adds_noise_promises_more_error(preset):
    best, posterior, split = (
        promised(preset, mode=mode).two_way for mode in ("shared", "posterior", "split")
    )
    assert best < posterior < split


def test_a_split_budget_has_the_theory_of_its_part():
    """The selection of `one_way` is the same, and the noise of each set is that of a quarter."""
    split = plan_for("independent", "1", mode="split", sets=4, noise="laplace")
    part = plan_for("independent", "1/4", mode="shared", noise="laplace")
    assert ends_of(split, "one_way", 5_000) == ends_of(part, "one_way", 5_000)


def test_many_levels_and_few_rows_are_mostly_noise():
    wide = Domain(tuple("abcdef"), (40, 40, 40, 40, 40, 40))
    assert promised("auto", rows=500, domain=wide).mostly_noise
    found = promised("auto", rows=10**6, domain=wide)
    assert not found.mostly_noise
    assert math.sqrt(math.prod(found.two_way)) < MOSTLY_NOISE


def test_a_set_of_few_records_may_have_their_sampling_error_too():
    whole, few = promised("auto", rows=50_000), None
    plan = plan_for("auto", rows=50_000)
    few = set_error(dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, rows=100)))
    assert few.two_way[0] == whole.two_way[0]
    assert few.two_way[1] > 5 * whole.two_way[1]


def test_nothing_is_promised_where_nothing_is_known():
    plan = plan_for("auto")
    assert set_error(plan) is not None
    without_sets = dataclasses.replace(plan.spec, sets=0)
    assert set_error(dataclasses.replace(plan, spec=without_sets)) is None
    assert promised("modips") is None
    assert promised("fourier", domain=Domain(tuple("abc"), (2, 2, 2))) is None
    assert promised("auto", domain=Domain(("a",), (5,))) is None
    assert promised("privsyn", reconstruct={"shrink": False}) is None


def test_without_rows_about_the_error_is_that_of_several_numbers_of_rows():
    found = forecast_error(plan_for("auto", rows=None)).sets
    assert tuple(each.rows for each in found) == SUPPOSED_ROWS
    assert list(found) == [promised("auto", rows=rows) for rows in SUPPOSED_ROWS]
    many = Domain(tuple(f"c{at}" for at in range(33)), (2,) * 33)
    assert not forecast_error(plan_for("independent", rows=None, domain=many)).sets


def town(rows=4_000):
    """A file of eight columns, each of which follows the one before it half of the time."""
    rng = np.random.default_rng(5)
    codes = [rng.choice(2, size=rows, p=[0.7, 0.3])]
    for size in EIGHT.sizes[1:]:
        shares = 1 / np.arange(1, size + 1)
        fresh = rng.choice(size, size=rows, p=shares / shares.sum())
        codes.append(np.where(rng.random(rows) < 0.2, codes[-1] % size, fresh))
    return Dataset(EIGHT, np.stack(codes).astype(np.uint16))


@pytest.mark.parametrize(
    ("preset", "mode"),
    [("auto", "posterior"), ("privsyn", "split"), ("mst", "shared")],
)
def test_a_release_errs_as_promised(preset, mode):
    """Within a factor 2 of the range: it is exceeded by one file in ten, and never by far."""
    data = town()
    plan = plan_for(preset, "1", data.rows, mode)
    session = MemorySession(plan.currency, plan.spec.privacy.neighbours)
    answered = ask_all(plan, MemoryCounter(data), session)
    models = fits(answered.plan, answered.released, answered.selections, rows=answered.rows)
    of_set = 0 if mode == "shared" else 1
    model = dict(models)[of_set]
    drawn = sample(answered.plan, {of_set: model}, 1)
    low, high = set_error(plan).two_way
    assert low / 2 < average_tvd(data, drawn, 2).mean < 2 * high


# -- the width of declared analyses

COLUMNS = {
    "income": {"type": "number", "min": "0", "max": "1000", "bins": "10"},
    "age": {"type": "integer", "min": "18", "max": "80", "bins": "9"},
    "region": {"type": "category", "levels": list("abcdefgh")},
    "area": {"type": "category", "levels": list("abcd")},
    "works": {"type": "category", "levels": ["no", "yes"]},
}


def width(formula, epsilon="0.5", rows="8000"):
    about = {"rows_about": rows} if rows else {}
    schema = parse_schema({"version": "1", "title": "t", "columns": COLUMNS, **about})
    keys = {
        "privacy": {"epsilon": epsilon, "delta": "1e-9"},
        "method": "auto",
        "measure": {"noise": "gaussian"},
        "analyses": {"formulas": [formula], "share": "0.8"},
        "synthesize": {"sets": "2", "mode": "posterior"},
    }
    plan = memory_plan(schema, keys)
    (found,) = forecast_error(plan).widths
    return found


def excess(*given):
    """Return the variance that noise adds, relative to that of sampling."""
    return width(*given) ** 2 - 1


def test_a_forecast_needs_the_number_of_records():
    assert width("income ~ age", rows="") is None


@pytest.mark.parametrize("formula", ["income ~ age", "works ~ age", "area ~ age"])
def test_the_forecast_tends_to_the_files_own_width(formula):
    assert width(formula, "100", "1000000") == pytest.approx(1, abs=0.01)
    assert width(formula, "0.1") > width(formula, "0.5") > width(formula, "1") > 1
    assert width(formula, "0.5", "3000") > width(formula, "0.5", "8000")


@pytest.mark.parametrize("formula", ["income ~ age", "works ~ age", "area ~ age"])
def test_noise_of_the_second_moments_widens_intervals_more_than_in_proportion(formula):
    """At a small epsilon the answer is far from the last public coefficients."""
    noise = excess(formula, "0.1", "10000000") / excess(formula, "0.5", "10000000")
    assert excess(formula, "0.1", "2000") > 1.1 * noise * excess(formula, "0.5", "2000")


def test_each_level_of_the_outcome_widens_the_forecast():
    assert math.sqrt(excess("area ~ age")) > 1.5 * math.sqrt(excess("works ~ age"))


def test_each_coefficient_widens_the_forecast():
    assert excess("income ~ age + region", "1") > 4 * excess("income ~ age", "1")
