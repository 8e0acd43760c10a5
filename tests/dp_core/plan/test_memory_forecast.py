"""The bound of the memory is a function of the plan and of the processors, and of nothing else."""

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.trial import trial_plan
from dp_core.methods.reconstruction.reconstructor import LANES, piece_rows
from dp_core.plan.forecast.machine_speed import REFERENCE, Machine
from dp_core.plan.forecast.resource_forecast import (
    BASE_MB,
    PAIR_ROWS,
    SAFETY,
    forecast_resources,
    held_by,
    size_of,
)
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.tables.domain import Domain
from tests.linked_release import SCHEMA

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))


def plan_of(about: int | None = 1000, method: str = "privsyn", *, domain: Domain = DOMAIN, **more):
    options = {"sets": 5, "mode": "posterior", **more}
    plan = trial_plan(domain, method, Fraction(1), Fraction("1e-9"), **options)
    schema = replace(plan.spec.schema, rows_about=about)
    return make_plan(replace(plan.spec, schema=schema))


def bound_of(plan, processors):
    return forecast_resources(plan, Machine(processors=processors)).memory_mb


def held_of(plan, processors):
    return held_by(plan, size_of(plan), processors)


def test_without_rows_about_there_is_no_bound():
    assert forecast_resources(plan_of(None), Machine(processors=2)) is None


@pytest.mark.parametrize("method", sorted({*PRESETS} - {"average"}))
def test_every_method_has_a_bound_above_what_the_program_takes(method):
    domain = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
    stated = {"select": {"cliques": (("a", "b"), ("c",))}} if method == "fixed" else {}
    plan = plan_of(method=method, domain=domain, sets=2, mode="shared", **stated)
    assert bound_of(plan, 1) > SAFETY * BASE_MB


def test_more_rows_sets_columns_and_levels_never_need_less():
    wide = Domain((*DOMAIN.columns, "e"), (*DOMAIN.sizes, 6))
    fine = Domain(DOMAIN.columns, (2, 3, 4, 500))
    least = bound_of(plan_of(), 2)
    for more in (plan_of(2000), plan_of(sets=6), plan_of(domain=wide), plan_of(domain=fine)):
        assert bound_of(more, 2) >= least
    assert bound_of(plan_of(10**6), 2) > least


def test_only_the_pieces_that_are_drawn_at_a_time_are_held():
    piece = piece_rows(DOMAIN)
    one, more = held_of(plan_of(20 * piece), 1), held_of(plan_of(200 * piece), 1)
    assert one.values == more.values == 3 * piece * len(DOMAIN)
    assert more.codes == 10 * one.codes
    most = held_of(plan_of(20 * piece), 64).values
    assert most == held_of(plan_of(20 * piece), LANES).values == (LANES + 1) * piece * len(DOMAIN)


def test_tables_that_are_never_made_are_not_counted():
    levels = Domain(("a", "b", "c"), (10_000, 10_000, 3))
    held = held_of(plan_of(domain=levels), 2)
    assert held.cells == 2 * 30_000
    assert held.compared == 2 * 30_000


@pytest.mark.parametrize("mode", ["shared", "noise-aware"])
def test_large_tables_and_sets_that_are_drawn_whole_are_in_the_bound(mode):
    domain = Domain(("a", "b", "c", "d"), (200, 200, 200, 5))
    large = {"select": {"cliques": (("a", "b", "c"), ("d",))}, "sets": 2, "mode": mode}
    plan = plan_of(20_000, "fixed", domain=domain, **large)
    assert plan.memory > 10**9
    assert bound_of(plan, 2) > SAFETY * (BASE_MB + plan.memory / 1e6)


def test_a_large_pair_is_compared_by_itself():
    held = held_of(plan_of(domain=Domain(("a", "b", "c"), (2_200, 2_200, 3))), 2)
    assert held.compared == 2_200 * 2_200


def test_households_are_counted_by_their_pair_rows_and_drawn_at_once():
    schema = parse_schema(SCHEMA)
    stated = {"privacy": {"epsilon": 1, "delta": 1e-9}, "synthesize": {"sets": 5}}

    def of(households):
        return memory_plan(replace(schema, rows_about=households), stated)

    few, many = held_of(of(10**4), 1), held_of(of(10**7), 1)
    columns = len(schema.columns)
    assert few.values == 3 * PAIR_ROWS * 10**4 * columns
    assert many.values == 1000 * few.values  # not one piece
    assert forecast_resources(of(10**6), REFERENCE).seconds["synthesize"] > 10


def test_the_names_of_many_levels_are_in_the_bound():
    few, many = (Domain(("a", "b"), (size, 2)) for size in (100_000, 200_000))
    one, other = plan_of(domain=few), plan_of(domain=many)
    assert held_of(one, 1).levels == 100_002
    assert bound_of(other, 1) > bound_of(one, 1) + 100_000 * 1600 / 1e6
