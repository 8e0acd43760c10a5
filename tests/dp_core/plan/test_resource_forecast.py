"""The forecast of time and memory is a function of the plan and of the machine alone."""

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.trial import trial_plan
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.reconstructor import LANES, piece_rows
from dp_core.plan.forecast.resource_forecast import (
    BASE_MB,
    PAIR_ROWS,
    SAFETY,
    Work,
    forecast_resources,
    size_of,
    stage_work,
)
from dp_core.plan.forecast.stage_pace import REFERENCE, Machine, measure_machine
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema
from tasks.run.stage_table import stages_of
from tests.linked_release import SCHEMA

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
    found = forecast_resources(plan, REFERENCE)
    assert all(seconds > 0 for seconds in found.seconds.values())
    assert found.memory_mb > SAFETY * BASE_MB


@pytest.mark.parametrize("mode", ["posterior", "shared", "split"])
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


# -- the memory


def planned(*sizes, **more):
    """Return the plan with the memory of its number of rows."""
    return make_plan(plan_of(*sizes, **more).spec)


def bound_of(plan, processors):
    return forecast_resources(plan, Machine(processors=processors)).memory_mb


def test_more_rows_sets_columns_and_levels_never_need_less():
    wide = Domain((*DOMAIN.columns, "e"), (*DOMAIN.sizes, 6))
    fine = Domain(DOMAIN.columns, (2, 3, 4, 500))
    least = bound_of(planned(), 2)
    for more in (planned(2000), planned(sets=6), planned(domain=wide), planned(domain=fine)):
        assert bound_of(more, 2) >= least
    assert bound_of(planned(10**6), 2) > least


def test_only_the_pieces_that_are_drawn_at_a_time_are_held():
    piece = piece_rows(DOMAIN)
    one, more = size_of(planned(20 * piece), 1), size_of(planned(200 * piece), 1)
    assert one.held == more.held == 3 * piece * len(DOMAIN)
    assert more.values == 10 * one.values
    most = size_of(planned(20 * piece), 64).held
    assert most == size_of(planned(20 * piece), LANES).held == (LANES + 1) * piece * len(DOMAIN)


def test_tables_that_are_never_made_are_not_counted():
    levels = Domain(("a", "b", "c"), (10_000, 10_000, 3))
    held = size_of(planned(domain=levels), 2)
    assert held.cells == 2 * 30_000
    assert held.compared == 2 * 30_000


@pytest.mark.parametrize("mode", ["shared", "posterior"])
def test_large_tables_are_in_the_bound(mode):
    domain = Domain(("a", "b", "c", "d"), (200, 200, 200, 5))
    large = {"select": {"cliques": (("a", "b", "c"), ("d",))}, "sets": 2, "mode": mode}
    plan = planned(20_000, "fixed", domain=domain, **large)
    assert plan.memory > 10**9
    assert bound_of(plan, 2) > SAFETY * (BASE_MB + plan.memory / 1e6)


def test_a_large_pair_is_compared_by_itself():
    held = size_of(planned(domain=Domain(("a", "b", "c"), (2_200, 2_200, 3))), 2)
    assert held.compared == 2_200 * 2_200


def test_households_are_counted_by_their_pair_rows_and_drawn_at_once():
    schema = parse_schema(SCHEMA)
    stated = {"privacy": {"epsilon": 1, "delta": 1e-9}, "synthesize": {"sets": 5}}

    def of(households):
        return memory_plan(replace(schema, rows_about=households), stated)

    few, many = size_of(of(10**4), 1), size_of(of(10**7), 1)
    columns = len(schema.columns)
    assert few.held == 3 * PAIR_ROWS * 10**4 * columns
    assert many.held == 1000 * few.held  # not one piece
    assert forecast_resources(of(10**6), REFERENCE).seconds["synthesize"] > 10


def test_the_names_of_many_levels_are_in_the_bound():
    few, many = (Domain(("a", "b"), (size, 2)) for size in (100_000, 200_000))
    one, other = planned(domain=few), planned(domain=many)
    assert size_of(one, 1).levels == 100_002
    assert bound_of(other, 1) > bound_of(one, 1) + 100_000 * 1600 / 1e6
