"""A release in memory: the plan and noise of a real one, and no claim to protect anybody."""

from __future__ import annotations

import gc
import json
import weakref
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dp_core as dp
from dp_core.bundle.statement.release_json import IN_MEMORY
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.public_data.memory_release import NOT_PROTECTED
from tests.raising import raising
from tests.specs import SCHEMA, plan_of

ROWS = 600
EXACT = {"epsilon": 1000, "delta": 1e-3}
"""Noise of less than a record."""


def people() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    a = rng.choice(["x", "y"], ROWS, p=[0.3, 0.7])
    b = np.where(a == "x", "r", rng.choice(["r", "s", "t"], ROWS))
    return pd.DataFrame({"a": a, "b": b, "c": rng.choice(["k", "l", "m", "n"], ROWS)})


@pytest.fixture(scope="module")
def made():
    return dp.release(people(), dp.read_schema(SCHEMA), tables=["a, b"], sets=3, **EXACT)


def test_the_plan_is_that_of_a_spec_file_with_the_same_keys(tmp_path):
    text = "tables:\n  - {of: [a, b], weight: 3}\nsynthesize: {sets: 4, seed: 9}\n"
    privacy = "{epsilon: 0.1, delta: 1e-6, neighbours: replace-one}"
    filed = plan_of(tmp_path, text, method="auto", privacy=privacy)
    stated = {
        "privacy": {"epsilon": 0.1, "delta": 1e-6, "neighbours": "replace-one"},
        "tables": [{"of": ["a", "b"], "weight": 3}],
        "synthesize": {"sets": 4, "seed": 9},
    }
    memory = memory_plan(filed.spec.schema, stated)

    assert (memory.tables, memory.costs, memory.currency) == (
        filed.tables,
        filed.costs,
        filed.currency,
    )
    names = ("release", "data", "account")
    both = [
        {key: value for key, value in plan.spec.document.items() if key not in names}
        for plan in (memory, filed)
    ]
    assert both[0] == both[1]


def test_tables_answers_and_sets_are_those_of_the_frame_at_a_very_large_epsilon(made):
    frame = people()
    truth = frame.groupby(["a", "b"]).size()

    answer = made.query("count by a, b").frame.set_index(["a", "b"])["estimate"]
    for group, estimate in answer.items():
        assert abs(estimate - truth.get(group, 0)) < 3
    counted = made.tables["c"].set_index("c")["count"]
    assert np.abs(counted - frame["c"].value_counts().reindex(counted.index)).max() < 3
    for drawn in made.sets:
        assert abs(len(drawn) - ROWS) < 10
        share = drawn.groupby(["a", "b"], observed=False).size() / len(drawn)
        assert np.abs(share - (truth / ROWS).reindex(share.index).fillna(0)).max() < 0.05


def test_it_says_everywhere_that_it_protects_nobody(made, tmp_path):
    assert "protects nobody" in str(made)
    assert "protects nobody" in made._repr_html_()
    assert "protects nobody" in (dp.release.__doc__ or "")
    folder = made.save(tmp_path / "saved")
    for name in (IN_MEMORY, "datapackage.json"):
        assert NOT_PROTECTED in (folder / name).read_text()


def test_what_is_saved_claims_no_account_and_no_guarantee(made, tmp_path):
    folder = made.save(tmp_path / "saved")
    stated = json.loads((folder / IN_MEMORY).read_text())

    assert (stated["ledger"], stated["guarantee"]) == (None, None)
    assert not (folder / "release.json").exists()
    listed = {path for path in stated["files"]}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")} - {IN_MEMORY}
    assert listed == there
    assert stated["method"]["plan"]["spec"]["account"] == "in-memory"
    data = pq.read_table(folder / "synthetic/set-2.parquet").to_pandas()
    pd.testing.assert_frame_equal(data, made.sets[1], check_categorical=False)


def test_a_saved_release_is_not_taken_for_a_bundle(made, tmp_path):
    folder = made.save(tmp_path / "saved")

    with pytest.raises(dp.BadInput, match="made in memory"):
        dp.read_bundle(folder)


def test_nothing_is_written_over_and_nothing_is_left_of_a_failure(made, tmp_path, monkeypatch):
    from dp_core.public_data import memory_release

    folder = made.save(tmp_path / "saved")
    with pytest.raises(dp.BadInput, match="not empty"):
        made.save(folder)

    monkeypatch.setattr(
        memory_release, "write_marginals", raising(OSError(28, "No space left on device"))
    )
    with pytest.raises(dp.ReleaseError, match="disk is full"):
        made.save(tmp_path / "more")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_it_keeps_no_row_of_the_frame():
    from dp_core.confidential.memory_counter import MemoryCounter

    frame = people()
    gone = weakref.ref(frame)
    made = dp.release(frame, SCHEMA, sets=1)
    del frame
    gc.collect()

    assert gone() is None
    assert not any(isinstance(each, MemoryCounter) for each in gc.get_objects())
    assert len(made.sets) == 1


def test_the_noise_has_no_seed():
    first, second = (
        dp.release(people(), SCHEMA, sets=0, epsilon=0.5, seed=3).tables["b"]["count"].tolist()
        + dp.release(people(), SCHEMA, sets=0, epsilon=0.5, seed=3).tables["c"]["count"].tolist()
        for _ in range(2)
    )

    assert first != second  # all seven counts agree once in 10^9


def test_a_release_of_tables_only_has_no_sets():
    made = dp.release(people(), SCHEMA, sets=0, delta=0)

    assert len(made.sets) == 0
    assert made.query("count by c").determined
    with pytest.raises(dp.BadInput, match="no sets"):
        made.infer("a ~ c")


def test_whole_numbers_of_a_set_stay_whole_beside_missing_ones():
    schema = {"type": "integer", "min": "0", "max": str(10**17), "bins": "4", "missing": "level"}
    columns = {"debt": schema, "age": schema | {"max": "99", "missing": "reject"}}
    document = {"version": "1", "title": "t", "columns": columns}
    debt = pd.array([1, None, 10**17 - 1] * 200, dtype="Int64")
    frame = pd.DataFrame({"debt": debt, "age": [1, 2, 3] * 200})
    made = dp.release(frame, document, **EXACT)

    data = made.sets[0]
    assert (data["debt"].dtype, data["age"].dtype) == (pd.Int64Dtype(), np.int64)
    assert 0 < data["debt"].isna().sum() < len(data)
    assert ".0" not in data.to_csv()
    # Floats of this size are even.
    assert {value % 2 for value in data["debt"].dropna().tolist()} == {0, 1}


def test_a_public_number_of_rows_is_exact():
    made = dp.release(people(), SCHEMA, neighbours="replace-one", sets=2)

    assert [len(each) for each in made.sets] == [ROWS, ROWS]
    assert made.query("count").frame["estimate"].tolist() == [ROWS]


@pytest.mark.parametrize("method", ["privbayes", "multinomial-dirichlet", "independent"])
def test_other_methods_take_their_options(method):
    stages = {"total": {"share": "1/8"}} if method == "independent" else {}
    made = dp.release(people(), SCHEMA, method=method, sets=2, mode="split", stages=stages, **EXACT)

    spec = made.plan.to_json()["spec"]
    assert spec["method"] == method
    assert method != "independent" or spec["total"]["share"] == "1/8"
    assert {*made.sets[1]["b"].unique()} <= {"r", "s", "t"}
    assert made.query("share by b").frame["estimate"].between(0, 1).all()


def test_weights_are_calibrated_to_public_totals():
    schema = SCHEMA + "  w: {type: number, min: 0, max: 10, bins: 5, role: weight}\n"
    schema += "calibrate:\n  - {a: {x: 1000, y: 3000}}\n"
    made = dp.release(people().assign(w=2.5), schema, sets=2, **EXACT)

    for drawn in made.sets:
        totals = drawn.groupby("a", observed=False)["w"].sum()
        assert np.allclose(totals, [1000, 3000])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epsilon": 0}, "privacy.epsilon: '0' must be from 1e-12 to 1,000"),
        ({"epsilon": True}, "privacy.epsilon: 'true' is not a number"),
        ({"delta": 1}, "privacy.delta: must be less than 1"),
        ({"method": "autoo"}, "Did you mean 'auto'"),
        ({"sets": 1.5}, "synthesize.sets: '1.5' is not a whole number"),
        ({"tables": ["a, d"]}, "there is no column 'd'"),
        ({"analyses": {"formulas": ["a ~ b"], "shar": 0.1}}, "Did you mean 'share'"),
        ({"stages": {"selct": {}}}, "Did you mean 'select'"),
        ({"stages": {"select": 0.1}}, "must be a dictionary"),
        ({"stages": {"checks": {"share": 0.1}}}, "there is no 'checks'"),
        ({"stages": {"synthesize": {"sets": 3}}, "sets": 2}, "give sets as an argument"),
        ({"stages": {"select": {"shar": 0.1}}}, "Did you mean 'share'"),
    ],
)
def test_a_wrong_argument_is_named(options, says):
    with pytest.raises(dp.BadInput) as raised:
        dp.release(people(), SCHEMA, **options)

    assert says in raised.value.message


@pytest.mark.parametrize("given", [["a ~ b"], {"formulas": ["a ~ b"], "share": 0.6}])
def test_declared_analyses_may_have_a_share(given):
    made = dp.release(people(), SCHEMA, sets=2, analyses=given)
    share = Fraction(3, 5) if isinstance(given, dict) else Fraction(3, 10)
    assert made._outcome.plan.spec.shares["analyses"] == share
    assert made.infer("a ~ b").answered_from == "declared"


def test_the_schema_may_be_text_a_path_a_dictionary_or_a_schema(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SCHEMA)
    read = dp.read_schema(path)

    for schema in (SCHEMA, path, str(path), dict(read.document), read):
        assert dp.read_schema(schema).names == ("a", "b", "c")
    with pytest.raises(TypeError, match="not from int"):
        dp.read_schema(5)  # type: ignore[arg-type]


def test_the_schema_prints_its_columns():
    schema = dp.read_schema(SCHEMA)

    assert repr(schema) == "Schema('Small survey': a, b, c)"
    assert "protects one row; about 1,000 rows" in str(schema)
    assert schema.frame["codes"].tolist() == [2, 3, 4]
    assert "<table>" in schema._repr_html_()
