"""When `auto` measures known tables in one step, and that the plan alone decides it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods import registry
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.costs import DEPENDENCES
from dp_core.plan.forecast.error_forecast import planned_error
from dp_core.plan.forecast.one_step import better_plan, many_levels
from dp_core.plan.procedure import ask_all, carry_out, fits, restore
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from tests.exact_tables import counts_of
from tests.specs import plan_of

DELTA = Fraction("1e-9")
EIGHT = Domain(tuple("abcdefgh"), (2, 3, 4, 2, 5, 3, 6, 2))
FIVE = Domain(tuple("abcde"), (2, 2, 2, 3, 4))
SCHEMA = """\
version: 1
title: Small survey
unit: row
{about}columns:
  a: {{type: category, levels: [x, y]}}
  b: {{type: category, levels: [r, s, t]}}
  c: {{type: category, levels: [k, l, m, n]}}
"""
ABOUT = SCHEMA.format(about="rows_about: 1000\n")
PRIVATE = ABOUT.replace("levels: [x, y]", "levels: {private: 2}, groups: {u: [x, y], v: [z]}")


def planned(domain, epsilon, rows, **options):
    return trial_plan(domain, "auto", Fraction(epsilon), DELTA, rows_about=rows, **options)


def measured(plan):
    """Return what a plan is certain to measure, by stage."""
    return {(table.stage, table.clique) for table in plan.tables}


def file_of(domain, rows, seed):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in domain.sizes]
    return Dataset(domain, np.stack(codes).astype(np.uint16))


@pytest.mark.parametrize("mode", ["shared", "posterior"])
def test_where_noise_hides_all_but_the_columns_they_get_the_whole_budget(mode):
    plan = planned(EIGHT, "1/5", 500, mode=mode, sets=2)
    assert plan.spec.selector.at_once == "columns"
    assert measured(plan) == {("measure", (name,)) for name in EIGHT.columns}
    assert plan.costs["measure"] == plan.currency.limit == Fraction(1, 5)
    assert (plan.scores, plan.score_noise) == (0, None)


@pytest.mark.parametrize("mode", ["shared", "posterior", "split"])
def test_a_joint_table_of_few_cells_gets_the_whole_budget(mode):
    plan = planned(FIVE, "2", 1_000, mode=mode, sets=2)
    assert plan.spec.selector.at_once == "joint"
    assert measured(plan) == {("measure", FIVE.columns)}
    assert plan.costs["measure"] == plan.currency.limit


def test_records_of_a_joint_table_are_those_of_its_centre_also_when_restored():
    plan = planned(FIVE, "2", 1_000, mode="posterior", sets=2)
    session = MemorySession(plan.currency, plan.spec.privacy.neighbours)
    asked = ask_all(plan, MemoryCounter(file_of(FIVE, 1_000, seed=3)), session)
    for number, model in fits(asked.plan, asked.released, asked.selections, rows=asked.rows):
        (table,) = model.tables
        again = restore(asked.plan, asked.released, number, tables=model.tables, rows=model.rows)
        for each in (model, again):
            drawn = each.sample(model.rows, rng=np.random.default_rng(number))
            np.testing.assert_array_equal(counts_of(drawn, FIVE.columns), table.values)


def test_a_declared_regression_is_answered_beside_a_joint_table(tmp_path):
    text = 'analyses: ["a ~ b"]\nsynthesize: {sets: 2}\n'
    plan = plan_of(tmp_path / "a", text, method="auto", schema=ABOUT, privacy="{epsilon: 2}")
    assert plan.spec.selector.at_once == "joint"
    data = file_of(plan.spec.schema.domain, 1_000, seed=4)
    session = MemorySession(plan.currency, plan.spec.privacy.neighbours)
    asked = ask_all(plan, MemoryCounter(data), session)
    assert {charge.step.stage for charge in session.charges} == {"measure", "analyses"}
    for number, model in fits(asked.plan, asked.released, asked.selections, rows=asked.rows):
        drawn = model.sample(model.rows, rng=np.random.default_rng(number))
        assert drawn.rows == pytest.approx(1_000, abs=60)


@pytest.mark.parametrize(
    ("domain", "epsilon", "rows"),
    [
        pytest.param(EIGHT, "1/5", 20_000, id="scores tell something"),
        pytest.param(EIGHT, "5", 2_000, id="the joint table has too many cells for the records"),
        pytest.param(Domain(tuple("abcdefghijk"), (2,) * 11), "5", 2_000, id="too many columns"),
        pytest.param(EIGHT, "1/5", None, id="the number of rows is unknown"),
        pytest.param(Domain(("a",), (3,)), "1", 500, id="one column"),
    ],
)
def test_otherwise_the_data_are_looked_at_first(domain, epsilon, rows):
    plan = planned(domain, epsilon, rows)
    assert plan.spec.selector == Auto()
    assert plan.costs["select"] == plan.currency.limit / 20
    assert {table.stage for table in plan.tables} == {"one_way"}


def test_what_is_charged_is_in_the_plan_and_the_same_for_all_files():
    """Files of one value and of evenly spread values; 40 and 500 records."""
    for plan in (planned(EIGHT, "1/5", 500), planned(FIVE, "2", 1_000)):
        domain = plan.spec.schema.domain
        one_value = Dataset(domain, np.zeros((len(domain), 40), np.uint16))
        for data in (one_value, file_of(domain, 500, seed=1)):
            charges = carry_out(plan, MemoryCounter(data)).session.charges
            assert [charge.step.stage for charge in charges] == ["measure"] * len(plan.tables)
            assert sorted(charge.step.cost for charge in charges) == sorted(
                table.cost for table in plan.tables
            )
            assert sum(charge.step.cost for charge in charges) == plan.currency.limit


@pytest.mark.parametrize(
    ("text", "privacy", "schema"),
    [
        pytest.param("", "{epsilon: 1}", SCHEMA.format(about=""), id="rows"),
        pytest.param("one_way: {share: 1/10}\n", "{epsilon: 1}", ABOUT, id="share"),
        pytest.param("measure: {share: 4/5}\n", "{epsilon: 1}", ABOUT, id="measuring share"),
        pytest.param("select: {at_once: never}\n", "{epsilon: 1}", ABOUT, id="never"),
        pytest.param("select: {candidates: all}\n", "{epsilon: 1}", ABOUT, id="option"),
        pytest.param("tables: [{of: [a, b]}]\n", "{epsilon: 1}", ABOUT, id="wanted tables"),
        pytest.param("synthesize: {sets: 0}\n", "{epsilon: 1}", ABOUT, id="no sets"),
        pytest.param("", "{epsilon: 2, delta: 1e-6}", PRIVATE, id="private levels"),
        pytest.param(
            "measure: {noise: gaussian}\n", "{epsilon: 1, delta: 1e-9}", ABOUT, id="noise"
        ),
    ],
)
def test_a_spec_that_states_how_to_measure_is_obeyed(tmp_path, text, privacy, schema):
    usual = plan_of(tmp_path / "a", "", method="auto", schema=ABOUT, privacy="{epsilon: 1}")
    assert usual.spec.selector.at_once == "joint"
    stated = plan_of(tmp_path / "b", text, method="auto", schema=schema, privacy=privacy)
    assert not stated.spec.selector.in_one_step
    assert stated.costs["one_way"] > 0


def test_other_shares_are_kept_and_the_resolved_spec_says_what_was_decided(tmp_path):
    text = "checks: {share: 1/10, tables: [[a, b]]}\n"
    plan = plan_of(tmp_path / "a", text, method="auto", schema=ABOUT, privacy="{epsilon: 2}")
    document = plan.spec.document
    assert (document["select"]["at_once"], document["select"]["share"]) == ("joint", "0")
    assert document["measure"]["share"] == "9/10"
    assert sum(plan.spec.shares.values()) == 1
    again = "select: {at_once: joint}\n" + text
    stated = plan_of(tmp_path / "b", again, method="auto", schema=ABOUT, privacy="{epsilon: 2}")
    assert stated.hash == plan.hash


def test_a_spec_that_is_decided_stays_as_it_is():
    spec = planned(FIVE, "2", 1_000).spec
    assert better_plan(spec) is None


def test_at_once_excludes_wanted_tables_and_large_joint_tables(tmp_path):
    with pytest.raises(BadInput, match="measures no other tables"):
        plan_of(
            *(tmp_path, "tables: [{of: [a, b]}]\nselect: {at_once: columns}\n"),
            method="auto",
            schema=ABOUT,
        )
    with pytest.raises(BadInput, match="4,096 cells"):
        planned(EIGHT, "1", 500, select={"at_once": "joint"})
    with pytest.raises(BadInput, match="10 columns"):
        planned(Domain(tuple("abcdefghijk"), (2,) * 11), "1", 500, select={"at_once": "joint"})


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("at_once", ["columns", "joint"])
def test_the_forecast_is_that_of_the_planned_tables(at_once, noise):
    """Another formula gives nearly the same if sampling is small beside the dependence."""
    rows = 10**6
    plan = planned(FIVE, "1/100", rows, select={"at_once": at_once}, noise=noise)
    found = plan.spec.selector.forecast(
        *(FIVE, rows, plan.currency, plan.spec.privacy.relation),
        one_way=Fraction(0),
        measure=plan.costs["measure"],
    )
    for error, dependence in zip(found, DEPENDENCES, strict=True):
        other = planned_error(FIVE, rows, plan.tables, dependence)
        assert error.two == pytest.approx(other.two, rel=0.02)


CODES = [f"k{at}" for at in range(2000)]


def schema_of(rows, code=None, **others):
    code = code or {"type": "category", "levels": CODES}
    columns = {"code": code, "few": {"type": "category", "levels": ["a", "b"]}} | others
    stated = {} if rows is None else {"rows_about": rows}
    return parse_schema({"version": 1, "title": "t", "columns": columns} | stated)


def named(schema, method="auto"):
    return [*many_levels(schema, registry.find("selection", method)())]


@pytest.mark.parametrize(("rows", "number"), [(19_999, 1), (20_000, 0), (None, 0), (1, 1)])
def test_a_column_is_named_if_it_has_fewer_than_ten_rows_for_each_level(rows, number):
    assert len(named(schema_of(rows))) == number


def test_merged_levels_numbers_and_few_levels_are_not_named():
    merged = {
        "type": "category",
        "levels": {"private": 1500, "rest": "drawn"},
        "groups": {"all": CODES},
    }
    assert not named(schema_of(100, merged))
    assert not named(schema_of(100, {"type": "category", "levels": CODES[:999]}))
    assert not named(schema_of(100, {"type": "integer", "min": 0, "max": 4999, "bins": 5000}))


def test_the_advice_is_a_schema_that_is_accepted(tmp_path):
    """Levels that the schema lists need groups; a code list has its own."""
    (listed,) = named(schema_of(5000))
    assert "`levels: {private: 200, rest: drawn}`" in listed.in_words
    assert "`groups: {codes: [...]}`" in listed.in_words
    levels = {"private": 200, "rest": "drawn"}
    followed = {"type": "category", "levels": levels, "groups": {"codes": CODES}}
    assert not named(schema_of(5000, followed))

    text = "version: 1\ntitle: t\nrows_about: 5000\ncolumns:\n  code: {type: category, codes: c.csv"
    (tmp_path / "c.csv").write_text("code,label\n" + "".join(f"{code},{code}\n" for code in CODES))
    (tmp_path / "s.yaml").write_text(text + "}\n")
    (in_file,) = named(load_schema(tmp_path / "s.yaml"))
    assert "`levels: {private: 200, rest: drawn}`" in in_file.in_words
    assert "groups" not in in_file.in_words
    (tmp_path / "s.yaml").write_text(text + ", levels: {private: 200, rest: drawn}}\n")
    assert not named(load_schema(tmp_path / "s.yaml"))


def test_it_says_with_which_columns_it_is_never_measured():
    town = {"type": "category", "levels": [f"t{at}" for at in range(600)]}
    (found,) = named(schema_of(5000, town=town))
    assert (found.levels, found.rows_per_level, found.never_with) == (2000, 2.5, ("town",))
    assert "Its tables with town are too large and are never measured." in found.in_words
    (alone,) = named(schema_of(5000, town=town), "one_way")
    assert alone.never_with == ()
    assert "never measured" not in alone.in_words
    many = {f"t{at}": town for at in range(8)}
    (found,) = named(schema_of(5000, **many))
    assert "with t0, t1, t2, t3, t4 and 3 more columns are" in found.in_words
