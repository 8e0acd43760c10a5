"""The forecast of time is a function of the plan and of the machine, and of nothing else."""

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.trial import trial_plan
from dp_core.plan.forecast.machine_speed import REFERENCE, Machine, measure_machine
from dp_core.plan.forecast.resource_forecast import Work, forecast_resources, size_of, stage_work
from dp_core.plan.presets import PRESETS
from dp_core.tables.domain import Domain
from tasks.run.stage_table import stages_of

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))


def plan_of(about: int | None = 1000, method: str = "privsyn", *, domain: Domain = DOMAIN, **more):
    options = {"sets": 5, "mode": "posterior", **more}
    plan = trial_plan(domain, method, Fraction(1), Fraction("1e-9"), **options)
    schema = replace(plan.spec.schema, rows_about=about)
    return replace(plan, spec=replace(plan.spec, schema=schema))


def seconds_of(plan):
    return forecast_resources(plan, REFERENCE).seconds


def work_of(plan):
    return stage_work(plan, size_of(plan))


def test_without_rows_about_there_is_no_forecast():
    assert forecast_resources(plan_of(None), REFERENCE) is None
    with pytest.raises(ValueError, match="rows_about"):
        size_of(plan_of(None))


def test_the_forecast_has_the_stages_of_the_release():
    plan = plan_of()
    assert tuple(seconds_of(plan)) == ("start", *stages_of(plan.costs, plan.spec.sets))
    tables = plan_of(sets=0, mode="shared")
    assert tuple(seconds_of(tables)) == ("start", *stages_of(tables.costs, 0))


@pytest.mark.parametrize("method", sorted({*PRESETS} - {"average"}))
def test_every_method_has_a_forecast(method):
    domain = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
    stated = {"select": {"cliques": (("a", "b"), ("c",))}} if method == "fixed" else {}
    plan = plan_of(method=method, domain=domain, sets=2, mode="shared", **stated)
    found = seconds_of(plan)
    assert all(seconds > 0 for seconds in found.values())


@pytest.mark.parametrize("mode", ["posterior", "shared", "split", "noise-aware"])
def test_the_work_is_linear_in_the_rows(mode):
    one, two, three = (work_of(plan_of(rows, mode=mode)) for rows in (10_000, 20_000, 30_000))
    for stage in one:
        assert one[stage].interpreted == two[stage].interpreted
        growth = two[stage].arrays - one[stage].arrays
        assert three[stage].arrays - two[stage].arrays == pytest.approx(growth, abs=1e-12)
    assert two["synthesize"].arrays > 1.5 * one["synthesize"].arrays


def test_a_record_of_a_large_set_takes_less_work():
    # One piece, eight pieces, and eighty, of which all but eight are early.
    sizes = (500_000, 4_000_000, 40_000_000)
    small, large, huge = (work_of(plan_of(1000, rows=rows))["synthesize"] for rows in sizes)
    assert large.arrays / small.arrays == pytest.approx(8 * 0.44, rel=0.05)
    assert huge.arrays / small.arrays == pytest.approx(80 * (0.9 * 0.22 + 0.1 * 0.44), rel=0.05)


def test_stated_rows_of_the_sets_decide_their_work_and_not_that_of_the_file():
    usual, fewer = work_of(plan_of(10**6)), work_of(plan_of(10**6, rows=1000))
    assert fewer["validate"] == usual["validate"]
    assert fewer["synthesize"].arrays < usual["synthesize"].arrays / 100


def test_sizes_count_pairs_and_cells():
    size = size_of(plan_of(7))
    assert (size.pairs, size.cells) == (6, 6 + 8 + 10 + 12 + 15 + 20)
    assert (size.values, size.set_values) == (28, 140)


def test_pairs_that_are_too_large_to_be_measured_take_no_time():
    levels = Domain(("a", "b", "c"), (10_000, 10_000, 3))
    assert size_of(plan_of(domain=levels)).cells == 2 * 30_000
    method = {"method": "auto", "mode": "shared", "sets": 1}
    size = size_of(plan_of(domain=levels, **method))
    assert size.cells == 2 * 30_000
    assert sum(seconds_of(plan_of(20_000, domain=levels, **method)).values()) < 20


def test_more_sets_columns_and_rows_never_take_less_time():
    least = sum(seconds_of(plan_of()).values())
    wide = Domain((*DOMAIN.columns, "e"), (*DOMAIN.sizes, 6))
    for more in (plan_of(2000), plan_of(sets=6), plan_of(domain=wide)):
        assert sum(seconds_of(more).values()) > least


def test_a_machine_scales_the_two_kinds_of_work():
    work = Work(interpreted=3.0, arrays=8.0, lanes=2)
    assert work.seconds(REFERENCE) == 11.0
    assert work.seconds(Machine(2.0, 1.0, 1)) == 14.0
    assert work.seconds(Machine(1.0, 0.5, 1)) == 7.0
    assert work.seconds(Machine(1.0, 1.0, 2)) == work.seconds(Machine(1.0, 1.0, 64)) == 7.0


def test_the_fastest_of_the_repetitions_measures_a_machine():
    moments = iter([0.0, 0.5, 1.0, 1.25, 2.0, 2.75, 3.0, 3.125, 4.0, 5.0, 6.0, 7.0])
    found = measure_machine(4, now=lambda: next(moments), times=3)
    alone = iter([0.0, 0.25, 1.0, 1.125])
    assert found == measure_machine(4, now=lambda: next(alone), times=1)
    assert found.processors == 4


def test_of_two_measurements_the_faster_one_counts():
    assert Machine(1.0, 3.0, 2).faster(Machine(2.0, 1.0, 2)) == Machine(1.0, 1.0, 2)


@pytest.mark.parametrize("speed", [(0.0, 1.0, 1), (1.0, -1.0, 1), (1.0, 1.0, 0)])
def test_a_machine_without_speed_is_refused(speed):
    with pytest.raises(ValueError, match="above 0"):
        Machine(*speed)
