"""The bundle of a release of households and persons."""

from __future__ import annotations

import json
import re
import shutil
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dp_core as dp
from dp_core.bundle.files.codebook import MARGINALS
from dp_core.bundle.files.linked_sets import codes_of_set, read_linked_set
from dp_core.bundle.files.marginals_file import SHARES, UNIT, read_marginals
from dp_core.bundle.verification.verify import verify
from dp_core.client.household_values import stored_shares
from dp_core.plan.procedure import sample
from dp_core.public_data.memory_release import MemoryRelease
from dp_core.tables.household_rows import to_pair_rows
from tests.dp_core.bundle import recomputed
from tests.dp_core.bundle.conftest import code_of
from tests.dp_core.bundle.forgery import edit_table, failed, put, resealed, statement_of
from tests.linked_release import (
    SCHEMA,
    VACANCIES,
    chain_of,
    frames,
    outcome,
    published_of,
    with_vacant,
    write,
)

S = 12
"""Shares of a household of at most four members."""
HOMES, PEOPLE = "synthetic/set-1/homes.parquet", "synthetic/set-1/people.parquet"


@pytest.fixture(scope="module")
def release():
    made, session = outcome()
    return made, session, published_of(made, session)


@pytest.fixture(scope="module")
def bundle(release, tmp_path_factory):
    made, _, published = release
    return write(tmp_path_factory.mktemp("linked") / "out", made, published)


def test_the_bundle_verifies(bundle):
    found = verify(bundle)
    assert found.passed, found
    sentences = {check.name: check.sentence for check in found.checks}
    assert "every person is linked to a household" in sentences["sets"]


@pytest.fixture(scope="module")
def vacancies(tmp_path_factory):
    """Return the bundle of a release with vacant dwellings, which have no high income."""
    data = with_vacant(frames())
    homes = data["homes"]
    empty = ~homes["home"].isin(data["people"]["home_id"])
    homes.loc[empty & (homes["income"] == 3), "income"] = 1
    schema = {
        **VACANCIES,
        "impossible": [*SCHEMA["impossible"], {"members": "0", "income": ["high"]}],
    }
    made, session = outcome(data, schema=schema)
    return write(tmp_path_factory.mktemp("vacant") / "out", made, published_of(made, session))


def test_a_bundle_with_vacant_dwellings_verifies(vacancies):
    found = verify(vacancies)
    assert found.passed, found
    homes, people = (pq.read_table(vacancies / name).to_pandas() for name in (HOMES, PEOPLE))
    empty = ~homes["home"].isin(people["home_id"])
    assert 60 < empty.sum() < 140
    assert not (homes["income"][empty].astype(str) == "high").any()
    package = json.loads((vacancies / "datapackage.json").read_text())
    described = json.dumps([each["schema"] for each in package["resources"][:2]])
    assert "(no member)" not in described
    assert package["linkedTables"]["other"].endswith("In a household of none, x is '(no member)'.")
    assert "No member: " in (vacancies / "report.html").read_text()


def test_a_rule_about_vacant_dwellings_is_verified(vacancies, tmp_path):
    copy = shutil.copytree(vacancies, tmp_path / "copy")
    people = pq.read_table(copy / PEOPLE)["home_id"].to_pylist()

    def enrich(table):
        homes = table["home"].to_pylist()
        vacant = next(home for home in homes if home not in people)
        income = table["income"].to_pylist()
        income[homes.index(vacant)] = "high"
        return put(table, "income", income)

    edit_table(copy, HOMES, enrich)
    assert "rules" in failed(verify(copy))


def test_counts_are_in_households_and_give_the_committed_shares_back(bundle, release):
    _, session, published = release
    committed = {
        chain_of(*release[:2]).numbers[grant.number]: values
        for results in session._results.values()
        for grant, values in results
    }
    measured = read_marginals(bundle / MARGINALS, published.schema)
    assert len(measured) > 5
    for item in measured:
        assert item.values.dtype == np.float64
        np.testing.assert_array_equal(
            stored_shares(item.values.ravel(), S), committed[item.grant].ravel()
        )
    metadata = pq.read_schema(bundle / MARGINALS).metadata
    assert metadata[UNIT.encode()] == b"household"
    assert metadata[SHARES.encode()] == str(S).encode()


def test_the_noise_is_stated_in_households(bundle):
    events = {
        row["number"]: row["body"]["event"]
        for row in statement_of(bundle)["ledger"]["receipts"]
        if row["kind"] == "charge"
    }
    for item in read_marginals(bundle / MARGINALS):
        assert item.scale == pytest.approx(float(Fraction(events[item.grant]["scale"])) / S)


def test_the_statement_says_who_is_protected_and_what_a_share_is(bundle):
    guarantee = statement_of(bundle)["guarantee"]
    assert (guarantee["unit"], guarantee["max_members"], guarantee["shares"]) == ("household", 4, S)
    assert "with all its members, at most 4" in guarantee["unit_in_words"]
    protects = "one household (identified by home, its persons by home_id; at most 4 persons)"
    assert f"{protects} added or removed" in guarantee["in_words"]


def test_the_statement_lists_both_tables_of_every_set(bundle):
    document = statement_of(bundle)
    names = {f"synthetic/set-{k}/{table}.parquet" for k in (1, 2) for table in ("homes", "people")}
    assert names <= {*document["files"]}
    rows = [pq.read_metadata(bundle / name).num_rows for name in sorted(names)]
    assert document["sets"]["rows"] == rows[::2]
    assert document["sets"]["persons"] == rows[1::2]


def test_the_codebook_has_primary_keys_and_the_foreign_key(bundle):
    package = json.loads((bundle / "datapackage.json").read_text())
    best, homes, people = (package["resources"][at] for at in (0, 2, 3))
    assert best["path"] == "synthetic/best/homes.parquet"
    assert homes["schema"]["primaryKey"] == "home"
    assert people["schema"]["primaryKey"] == ["home_id", "nr"]
    assert people["schema"]["foreignKeys"] == [
        {"fields": "home_id", "reference": {"resource": homes["name"], "fields": "home"}}
    ]
    for resource, name in ((homes, HOMES), (people, PEOPLE)):
        assert resource["path"] == name
        fields = [field["name"] for field in resource["schema"]["fields"]]
        assert fields == pq.read_schema(bundle / name).names
    assert package["linkedTables"]["members"]["bins"][0]["from"] == 1


def test_a_set_that_is_read_gives_the_codes_that_were_drawn(bundle, release):
    made, _, published = release
    rows = codes_of_set(published.schema, read_linked_set(bundle, published.schema, 1))
    pairs = to_pair_rows(published.schema.linked, published.schema.domain, rows)
    np.testing.assert_array_equal(pairs.codes, sample(made.plan, made.models, 1).codes)


def test_a_read_set_is_two_frames_whose_keys_fit(bundle):
    read = dp.read_bundle(bundle)
    homes, people = read.sets[0]["homes"], read.sets[0]["people"]
    assert list(homes.columns) == ["home", "tenure", "income"]
    assert list(people.columns) == ["home_id", "nr", "age", "work"]
    assert homes["home"].is_unique
    assert set(people["home_id"]) == set(homes["home"])
    assert homes["income"].dtype.ordered


def test_a_release_in_memory_has_the_sets_and_the_answers_of_its_bundle(bundle, release):
    memory, read = MemoryRelease(release[0]), dp.read_bundle(bundle)
    for one, other in zip(memory.sets, read.sets, strict=True):
        for table in ("homes", "people"):
            pd.testing.assert_frame_equal(one[table], other[table])
    for question in ("count by tenure", "count by members", "share of work"):
        one, other = memory.query(question), read.query(question)
        assert (one.unit, one.determined) == (other.unit, other.determined)
        pd.testing.assert_frame_equal(one.frame, other.frame)
    pd.testing.assert_frame_equal(memory.infer("age ~ work").frame, read.infer("age ~ work").frame)


def test_noisy_tables_are_frames_of_households(bundle):
    tables = dp.read_bundle(bundle).tables
    whole = [tables[key] for key in tables if key]
    assert whole
    for frame in whole:
        # Every household counts 1 in each table.
        assert frame[frame["table"] == frame["table"][0]]["count"].sum() == pytest.approx(
            400, abs=6 * frame["margin"][0] * len(frame) ** 0.5
        )


FORGERIES = {
    "a person without a household": (
        PEOPLE,
        lambda t: put(t, "home_id", [10**6, *t["home_id"].to_pylist()[1:]]),
        "sets",
    ),
    "a repeated household": (
        HOMES,
        lambda t: put(t, "home", [2, *t["home"].to_pylist()[1:]]),
        "sets",
    ),
    "a repeated person": (
        PEOPLE,
        lambda t: pa.concat_tables([t.slice(0, 1), t.slice(0, t.num_rows - 1)]),
        "sets",
    ),
    "a household without persons": (
        PEOPLE,
        lambda t: t.filter(pc.not_equal(t["home_id"], 1)),
        "sets",
    ),
    "a household with five persons": (
        PEOPLE,
        lambda t: pa.concat_tables(
            [
                t.filter(pc.not_equal(t["home_id"], 1)),
                put(put(t.slice(0, 5), "home_id", [1] * 5), "nr", range(1, 6)),
            ]
        ),
        "sets",
    ),
    "a person too many": (
        PEOPLE,
        lambda t: pa.concat_tables(
            [t, put(t.slice(0, 1), "nr", [9])]
            if t["home_id"].to_pylist().count(1) < 4
            else [t, put(put(t.slice(0, 1), "nr", [9]), "home_id", [2])]
        ),
        "sets",
    ),
    "a child that is employed": (
        PEOPLE,
        lambda t: put(
            put(t, "age", [7, *t["age"].to_pylist()[1:]]),
            "work",
            ["employed", *t["work"].to_pylist()[1:]],
        ),
        "rules",
    ),
    "a count with one share more": (
        MARGINALS,
        lambda t: put(t, "count", [t["count"][0].as_py() + 1 / S, *t["count"].to_pylist()[1:]]),
        "tables",
    ),
    "a count that is no whole number of shares": (
        MARGINALS,
        lambda t: put(t, "count", [t["count"][0].as_py() + 0.01, *t["count"].to_pylist()[1:]]),
        "tables",
    ),
    "a count that is not finite": (
        MARGINALS,
        lambda t: put(t, "count", [float("inf"), *t["count"].to_pylist()[1:]]),
        "tables",
    ),
    "less noise": (
        MARGINALS,
        lambda t: put(t, "scale", [value / 2 for value in t["scale"].to_pylist()]),
        "tables",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_changed_table_does_not_verify(broken, name):
    file, edit, check = FORGERIES[name]
    edit_table(broken, file, edit)
    said = failed(verify(broken))[check]
    assert file != MARGINALS or (MARGINALS in said and "release.json" not in said)


@pytest.mark.parametrize(
    "stated",
    [
        {UNIT: "household", SHARES: "6"},
        {UNIT: "row", SHARES: str(S)},
        {SHARES: str(S)},
        {UNIT: "household"},
    ],
)
def test_noisy_tables_that_state_another_unit_do_not_verify(broken, stated):
    path = broken / MARGINALS
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(stated), path)
    assert "unit of the schema" in resealed(broken, statement_of(broken))["tables"]


@pytest.mark.parametrize(
    ("section", "key", "value", "check", "words"),
    [
        ("guarantee", "max_members", 3, "guarantee", ""),
        ("guarantee", "max_members", 10, "guarantee", ""),
        ("guarantee", "unit", "row", "guarantee", ""),
        ("guarantee", "shares", 6, "wording", "guarantee.shares"),
        ("guarantee", "unit_in_words", "Nobody.", "wording", "guarantee.unit_in_words"),
        ("sets", "persons", [1, 1], "sets", PEOPLE),
    ],
)
def test_another_unit_than_was_reserved_does_not_verify(broken, section, key, value, check, words):
    document = statement_of(broken)
    document[section][key] = value
    assert words in resealed(broken, document)[check]


def test_a_key_that_is_too_large_is_named(broken):
    large = pa.array([2**64 - 1], pa.uint64())
    edit_table(broken, PEOPLE, lambda t: t.slice(0, 1).set_column(0, "home_id", large))
    assert "home_id" in failed(verify(broken))["sets"]


def test_what_is_not_covered_is_said_of_households(bundle):
    said = " ".join(statement_of(bundle)["guarantee"]["not_covered"])
    assert "household" in said
    assert "person's row" not in said
    assert "identifier of its person" not in said


def test_the_report_is_in_households_and_names_the_other_member(bundle):
    page = (bundle / "report.html").read_text()
    shown = re.sub(r"<(?:pre|code)\b.*?</(?:pre|code)>", "", page, flags=re.DOTALL)
    assert "other member’s age" in shown
    assert "other.age" not in shown
    assert "homes and people" in shown
    assert "percent of the households" in shown
    assert "percent of the records" not in shown


def test_the_examples_in_the_report_run_on_the_households(bundle, release, monkeypatch, capsys):
    code = code_of(release[2])
    assert "synthetic/set-{k}/homes.parquet" in code.python
    monkeypatch.chdir(bundle)
    exec(code.python, {})
    exec(code.python_table, {})
    assert "95 % interval" in capsys.readouterr().out


def test_a_release_of_a_public_number_of_households_verifies_without_this_program_too(tmp_path):
    stages = {"select": {"basis": "tables"}}
    made, session = outcome(neighbours="replace-one", stages=stages)
    folder = write(tmp_path / "out", made, published_of(made, session))
    assert verify(folder).passed, verify(folder)
    assert statement_of(folder)["sets"]["records"] == {"value": 400, "how": "public"}
    epsilon, _ = recomputed.recompute(folder)
    assert epsilon == pytest.approx(4, abs=1e-6)


def test_tables_only_have_no_sets(tmp_path):
    made, session = outcome(sets=0)
    folder = write(tmp_path / "out", made, published_of(made, session))
    assert verify(folder).passed, verify(folder)
    assert statement_of(folder)["sets"]["persons"] == []


@pytest.mark.parametrize(("most", "kind"), [(1, "int64"), (2, "double")])
def test_households_of_few_members_verify(tmp_path, most, kind):
    schema = {**SCHEMA, "unit": {"table": "homes", "max_members": str(most)}}
    data = frames()
    data["people"] = data["people"][data["people"]["nr"] <= most].reset_index(drop=True)
    made, session = outcome(data, schema=schema)
    folder = write(tmp_path / "out", made, published_of(made, session))
    assert verify(folder).passed, verify(folder)
    assert str(pq.read_schema(folder / MARGINALS).field("count").type) == kind
