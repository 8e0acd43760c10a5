"""Rules that count members of a household: what a bundle states, and what `verify` finds."""

from __future__ import annotations

import copy
import dataclasses
import json

import pandas as pd
import pyarrow as pa
import pytest

from dp_core.bundle.quality.table_fit import check_fit, comparable, ruled_tables
from dp_core.bundle.verification.verify import verify
from dp_core.plan.procedure import sample
from dp_core.plan.quality_checks import countable
from tests.dp_core.bundle.forgery import edit_table, failed, resealed, statement_of
from tests.linked_release import SCHEMA, frames, outcome, published_of, write
from tests.measured import tally_sets

FIRST, ADULT = "exactly one first == yes", "at least one age >= 18"
IF = "if first == yes then age >= 18"
RULES = [FIRST, "at most two age >= 65", ADULT, IF]
PEOPLE = "synthetic/set-1/people.parquet"


def ruled_schema(*rules):
    """Return the schema with a column of persons that is `yes` for one member, and rules."""
    schema = copy.deepcopy({**SCHEMA, "rules": [*rules]})
    levels = {"1": "yes", "2": "no"}
    schema["tables"]["people"]["columns"]["first"] = {"type": "category", "levels": levels}
    return schema


def ruled_frames():
    data = frames()
    people = data["people"]
    people["first"] = (people["nr"] != 1) + 1
    old = (people["age"] >= 65).groupby(people["home_id"]).cumsum() > 2
    people.loc[old, "age"] = 40
    people.loc[(people["nr"] == 1) & (people["age"] < 18), "age"] = 40
    return data


def published_with_fit(made, session):
    """Return what is published of a release, with the fit of the tables that rules name."""
    published = published_of(made, session)
    schema = published.schema
    domain = countable(schema)
    measured = comparable(published.released, domain)
    data = [[sample(made.plan, made.models, number)] for number in (1, 2)]
    tallies = tally_sets(schema.domain, published.released, data)
    fits = check_fit(measured, tallies, records=published.records)
    return dataclasses.replace(published, ruled=ruled_tables(schema, fits))


@pytest.fixture(scope="module", params=["posterior", "shared"])
def bundle(request, tmp_path_factory):
    schema = ruled_schema(*RULES)
    made, session = outcome(ruled_frames(), schema=schema, epsilon="1", mode=request.param)
    published = published_with_fit(made, session)
    return write(tmp_path_factory.mktemp("counted") / "out", made, published)


def change(folder, edit):
    """Replace the persons of the first set by what `edit` makes of them."""

    def edited(table):
        frame = edit(table.to_pandas())
        return pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False)

    edit_table(folder, PEOPLE, edited)


def test_every_household_of_every_set_obeys_the_rules_and_the_bundle_verifies(bundle):
    found = verify(bundle)

    assert failed(found) == {}
    (said,) = (check.sentence for check in found.checks if check.name == "rules")
    assert said == "Every row and household of the sets obeys the 5 rules of the schema."
    for number in (1, 2):
        people = pd.read_parquet(bundle / f"synthetic/set-{number}/people.parquet")
        home = people["home_id"]
        assert ((people["first"] == "yes").groupby(home).sum() == 1).all()
        assert ((people["age"] >= 65).groupby(home).sum() <= 2).all()
        assert ((people["age"] >= 18).groupby(home).sum() >= 1).all()
        assert (people.loc[people["first"] == "yes", "age"] >= 18).all()


def test_the_statement_the_codebook_and_the_report_list_the_rules(bundle):
    stated = statement_of(bundle)["sets"]["rules"]

    assert stated["hold_in_every_row"] == [IF]
    assert stated["hold_in_every_household"] == RULES[:3]
    assert stated["tables"] > 0
    codebook = json.loads((bundle / "datapackage.json").read_bytes())
    assert FIRST in json.dumps(codebook)
    report = (bundle / "report.html").read_text()
    assert "These rules about the members hold in every synthetic household" in report
    assert f"<code>{FIRST}</code>" in report


def two_first(people):
    home = people["home_id"]
    large = home == home.value_counts().idxmax()
    people["first"] = people["first"].where(~large, "yes")
    people["age"] = people["age"].where(~large, 40)
    return people


def nobody_first(people):
    people["first"] = people["first"].where(people["home_id"] != 1, "no")
    return people


def children_alone(people):
    young = people["home_id"] == 1
    people["age"] = people["age"].where(~young, 5)
    people["work"] = people["work"].where(~young, "not employed")
    return people


@pytest.mark.parametrize(
    ("edit", "rule"), [(two_first, FIRST), (nobody_first, FIRST), (children_alone, ADULT)]
)
def test_a_household_that_breaks_a_rule_does_not_verify(broken, edit, rule):
    change(broken, edit)

    said = failed(verify(broken))["rules"]
    assert f"Set 1 has households that break the rule {rule}." in said


def test_a_rule_that_the_statement_leaves_out_does_not_verify(broken):
    document = statement_of(broken)
    document["sets"]["rules"]["hold_in_every_household"].pop()
    assert "sets.rules" in resealed(broken, document)["wording"]


def test_another_distance_from_the_tables_of_the_rules_does_not_verify(broken):
    document = statement_of(broken)
    document["sets"]["rules"]["mean_tvd_to_noisy"] += 0.01
    assert "sets.rules.mean_tvd_to_noisy" in resealed(broken, document)["rules"]


def test_a_schema_whose_only_rule_counts_members_verifies(tmp_path):
    schema = {key: value for key, value in ruled_schema(FIRST).items() if key != "impossible"}
    made, session = outcome(ruled_frames(), schema=schema)
    folder = write(tmp_path / "out", made, published_with_fit(made, session))

    found = verify(folder)
    assert failed(found) == {}
    (said,) = (check.sentence for check in found.checks if check.name == "rules")
    assert said == "Every row and household of the sets obeys the rule of the schema."
    change(folder, nobody_first)
    assert "break the rule" in failed(verify(folder))["rules"]
