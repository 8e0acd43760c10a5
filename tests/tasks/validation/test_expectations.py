import json
import logging
import os
import stat
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.confidential.source import open_source
from dp_core.errors import SchemaViolation
from dp_core.kernel.coding.problems import Problem
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.expectations.suite import rules_of
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tasks.validation.expectations import validate, values_message
from tasks.validation.judged_frames import FileProfile
from tasks.validation.suite_judge import SuiteJudge, load_great_expectations
from tests.full import at_full_size

CANARY = "zq7canary"


def column(name, kind, edges=(0, 5, 81), **options):
    if kind in ("category", "ordinal"):
        return Column(
            name=name, kind=kind, levels=(Level("m", "Male"), Level("f", "Female")), **options
        )
    edges = tuple(Fraction(str(edge)) for edge in edges)
    top = edges[-1] - (kind != "number")
    return Column(name=name, kind=kind, edges=edges, minimum=edges[0], maximum=top, **options)


def schema_of(*columns):
    return Schema(title="t", columns=columns, zeros=StructuralZeros(), document={})


STRICT = schema_of(
    column("age", "integer"),
    column("sex", "category"),
    column("pay", "number", (0, "0.7", 100)),
    column("born", "date", (730000, 730100, 731000)),
)
GOOD = {"age": ["0", "80"], "sex": ["m", "f"], "pay": ["0.5", "100"], "born": ["2000-01-01"] * 2}


def source_of(folder, schema, values, files=1):
    names = list(values)
    rows = list(zip(*values.values(), strict=True))
    for number in range(files):
        lines = [",".join(names), *(",".join(row) for row in rows[number::files])]
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")
    return open_source("*.csv", folder, schema.domain.columns, [])


def refusal(folder, schema, values, **options):
    with pytest.raises(SchemaViolation) as caught:
        validate(source_of(folder, schema, values, **options), schema, folder / "internal")
    assert CANARY not in caught.value.message
    return caught.value.message


def report_in(folder):
    return json.loads((folder / "internal" / "validation.json").read_text())


def test_a_file_that_fits_passes(tmp_path):
    done = []
    source = source_of(tmp_path, STRICT, GOOD)
    summary = validate(source, STRICT, tmp_path / "internal", done.append)
    assert (summary.columns, summary.expectations) == (4, 11)
    assert done[-1] == 1
    report = report_in(tmp_path)
    assert report["passed"]
    assert next(iter(report)) == "confidential"
    assert report["confidential"].startswith("CONFIDENTIAL")
    assert stat.S_IMODE((tmp_path / "internal").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("age", "81", "Column 'age' holds values outside 0 to 80 (rule out_of_range: reject)"),
        ("age", CANARY, "Column 'age' holds values that are not whole numbers"),
        ("age", "", "Column 'age' has missing values (rule missing: reject)"),
        ("sex", CANARY, "Column 'sex' holds texts that are not among its levels"),
        ("sex", "", "Column 'sex' has missing values"),
        ("pay", "100.5", "Column 'pay' holds values outside 0 to 100"),
        ("pay", "-1e400", "Column 'pay' holds values outside 0 to 100"),
        ("pay", CANARY, "Column 'pay' holds values that are not numbers"),
        ("born", "1900-01-01", "Column 'born' holds values outside 1999-09-03 to 2002-05-29"),
        ("born", "2001-02-30", "Column 'born' holds values that are not dates"),
    ],
)
def test_every_broken_rule_is_named_and_counted_inside(tmp_path, name, value, words):
    values = {**GOOD, name: [GOOD[name][0], value]}
    text = refusal(tmp_path, STRICT, values)
    assert text.startswith(words)
    (problem,) = report_in(tmp_path)["problems"]
    assert (problem["column"], problem["rows"], problem["outcome"]) == (name, 1, "refused")


def test_strange_texts_are_kept_for_staff_only(tmp_path):
    refusal(tmp_path, STRICT, {**GOOD, "sex": [CANARY, "m"]})
    assert report_in(tmp_path)["texts_that_are_no_levels"] == {"sex": [CANARY]}


def test_policies_settle_what_they_say(tmp_path):
    schema = schema_of(
        column("age", "integer", out_of_range="clip"),
        column("sex", "category", missing="level", out_of_range="missing"),
    )
    values = {"age": ["-3", "999"], "sex": ["", CANARY]}
    validate(source_of(tmp_path, schema, values), schema, tmp_path / "internal")
    outcomes = {(p["column"], p["rows"], p["outcome"]) for p in report_in(tmp_path)["problems"]}
    assert outcomes == {
        ("age", 2, "settled by the schema"),
        ("sex", 1, "settled by the schema"),
    }


def test_every_partition_has_its_own_counts(tmp_path):
    schema = schema_of(column("age", "integer"))
    refusal(tmp_path, schema, {"age": ["1", "2", "99", "98", "3", "97"]}, files=5)
    partitions = report_in(tmp_path)["partitions"]
    assert [partition["rows"] for partition in partitions] == [2, 1, 1, 1, 1]
    found = [[problem["rows"] for problem in partition["problems"]] for partition in partitions]
    assert found == [[1], [], [1], [1], []]


def test_row_groups_are_judged_together(tmp_path):
    schema = schema_of(column("age", "integer"), column("sex", "category", missing="level"))
    table = pa.table({"age": pa.array([3] * 99 + [81], pa.int32()), "sex": ["m", None] * 50})
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=10)
    source = open_source("d.parquet", tmp_path, schema.domain.columns, [])
    with pytest.raises(SchemaViolation, match="'age' holds values outside"):
        validate(source, schema, tmp_path / "internal")
    assert len(report_in(tmp_path)["partitions"]) == 10


def judged(schema, partitions):
    """Return the problems that Great Expectations finds in profiles."""
    rules = rules_of(schema)
    profile = FileProfile(schema, rules)
    for partition in partitions:
        profile.add(partition)
    failed = SuiteJudge("test", rules).judge("profile", *profile.frame({}))
    return {(rules[number].about, rules[number].problem) for number in failed}


@given(
    st.fixed_dictionaries(
        {
            "age": st.sampled_from(["0", "80", "81", "-1", "x", "", "7.0"]),
            "sex": st.sampled_from(["m", "f", "x", ""]),
            "pay": st.sampled_from(["0", "100", "100.0001", "x", "inf", ""]),
            "born": st.sampled_from(["2000-01-01", "1800-01-01", "x", ""]),
        }
    )
)
@settings(deadline=None, max_examples=12 if at_full_size() else 5)
def test_the_suite_fails_exactly_where_there_are_problems(values):
    profiles = []
    for one in STRICT.columns:
        profile = Profile()
        Profiler(one).add(profile, pa.array([values[one.name]]))
        profiles.append(profile)
    found = {
        (one.name, problem)
        for one, profile in zip(STRICT.columns, profiles, strict=True)
        for problem in profile.problems
    }
    fitting = [Profile(rows=1) for _ in profiles]
    assert judged(STRICT, [fitting, profiles, fitting]) == found


def test_a_value_that_equals_a_bound_in_the_files_own_precision_passes():
    schema = schema_of(column("pay", "number", ("0.7", "0.9")))
    for kind in (pa.float32(), pa.float64()):
        profile = Profile()
        Profiler(schema.columns[0]).add(profile, pa.array([0.7, 0.9], kind))
        assert judged(schema, [[profile]]) == set()
        assert not profile.problems


def test_whole_numbers_that_binary64_cannot_hold_are_judged_exactly():
    schema = schema_of(column("age", "integer", (0, 5, 2**60)))
    for value, found in ((2**60 - 1, set()), (2**60, {("age", Problem.RANGE)})):
        profile = Profile()
        Profiler(schema.columns[0]).add(profile, pa.array([value]))
        assert judged(schema, [[profile]]) == found


def test_a_stored_day_that_is_no_date_is_found():
    schema = schema_of(column("born", "date", (730000, 3652060)))  # to the last day of 9999
    profile = Profile()
    Profiler(schema.columns[0]).add(profile, pa.array([3_000_000], pa.int32()).cast(pa.date32()))
    assert {name for name, _ in judged(schema, [[profile]])} == {"born"}


def test_texts_that_only_the_dictionary_has_are_not_in_the_file():
    profile = Profile()
    indices = pa.array([0, 0, None], pa.int8())
    values = pa.DictionaryArray.from_arrays(indices, pa.array(["m", CANARY]))
    Profiler(column("sex", "category")).add(profile, values)
    assert profile.texts == {"m"}
    assert dict(profile.problems) == {Problem.MISSING: 1}


def test_profiles_stay_small_however_many_texts_there_are():
    profile = Profile()
    Profiler(column("sex", "category")).add(profile, pa.array([f"t{i}" for i in range(5000)]))
    assert len(profile.texts) == 20
    assert profile.problems[Problem.LEVEL] == 5000


def test_great_expectations_sends_nothing_and_logs_nothing(monkeypatch, caplog, capfd):
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "true")
    caplog.set_level(logging.DEBUG)
    load_great_expectations()
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"
    assert judged(STRICT, [[Profile() for _ in STRICT.columns]]) == set()
    logging.getLogger("great_expectations.some.module").error(CANARY)
    assert not [record for record in caplog.records if record.name.startswith("great")]
    assert capfd.readouterr().err == ""  # no progress bars


def test_what_the_library_says_when_it_fails_goes_nowhere():
    judge = SuiteJudge("test", rules_of(schema_of(column("age", "integer"))))
    with pytest.raises(RuntimeError, match="could not judge") as caught:
        judge.judge("profile", {"age": [CANARY], "age: rows that are not whole numbers": [0]}, 1)
    assert CANARY not in str(caught.value)
    assert judge.results == []


def test_a_rule_that_was_not_judged_is_an_error(monkeypatch):
    from great_expectations.core.expectation_suite import ExpectationSuite

    rules = rules_of(schema_of(column("age", "integer")))
    judge = SuiteJudge("test", rules)
    monkeypatch.setattr(ExpectationSuite, "expectation_configurations", [])
    with pytest.raises(RuntimeError, match="did not judge every rule"):
        judge.judge("profile", {rule.kwargs["column"]: [0] for rule in rules}, 1)


def test_the_message_names_no_change_that_the_schema_refuses_and_exact_bounds():
    top = 2**53 + 1
    schema = schema_of(
        column("w", "number", (0, 1), role="weight"),
        column("big", "integer", (0, top + 1)),
        column("part", "number", (0, "1234567.891234")),
    )
    for problem in (Problem.MISSING, Problem.TYPE):
        assert values_message(schema, [("w", problem)]).endswith("; correct the file.")
    for name, problem, words in (
        ("w", Problem.RANGE, "or set out_of_range to clip."),
        ("big", Problem.RANGE, f"outside 0 to {top} "),
        ("part", Problem.RANGE, "outside 0 to 1234567.891234 "),
    ):
        assert words in values_message(schema, [(name, problem)])
