"""`verify` compares with the schema what codebook and report say of areas, rules and totals."""

from __future__ import annotations

import pytest

from dp_core.bundle.verification.verify import verify
from tests import linked_release
from tests.dp_core.bundle.forgery import failed, resealed, statement_of
from tests.dp_core.bundle.test_member_rules import published_with_fit
from tests.dp_core.bundle.test_nested_households import frames, stated

MEMBERS = "at most two age >= 65"
IMPOSSIBLE = {"members": "1", "age": "<18"}


def obedient():
    """Return both tables; no child lives alone, and two members at most are old."""
    found = frames()
    people = found["people"]
    old = (people["age"] >= 65).groupby(people["home_id"]).cumsum() > 2
    people.loc[old, "age"] = 40
    size = people.groupby("home_id")["nr"].transform("size")
    people.loc[(size == 1) & (people["age"] < 18), "age"] = 40
    return found


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    schema = stated() | {
        "rules": [MEMBERS],
        "impossible": [IMPOSSIBLE],
        "totals": [{"county": {"a": "200", "b": "300"}, "source": "Census, <Table 3>"}],
    }
    made, session = linked_release.outcome(obedient(), schema=schema)
    published = published_with_fit(made, session)
    return linked_release.write(tmp_path_factory.mktemp("facts") / "out", made, published)


def test_a_release_with_areas_rules_and_totals_verifies(bundle):
    assert not failed(verify(bundle))


@pytest.mark.parametrize(
    ("name", "said", "instead", "where"),
    [
        ("datapackage.json", '"b1": "b"', '"b1": "a"', "'resources'"),
        ("datapackage.json", MEMBERS, "at most one age >= 65", "'rules'"),
        ("datapackage.json", "together 500", "together 600", "'publicTotals'"),
        ("datapackage.json", "Census, ", "Our count, ", "'publicTotals'"),
        ("report.html", "at most two age &gt;= 65", "at most one", "rules or public totals"),
        ("report.html", "members: 1, age: &lt;18", "members: 1", "rules or public totals"),
        ("report.html", "together 500", "together 600", "rules or public totals"),
        ("report.html", "were not compared with", "agree with", "rules or public totals"),
    ],
)
def test_a_changed_map_rule_or_total_is_found(broken, name, said, instead, where):
    path = broken / name
    assert said in path.read_text()
    path.write_text(path.read_text().replace(said, instead))

    found = resealed(broken, statement_of(broken))
    assert [*found] == ["copies"]
    assert found["copies"].startswith(f"{name} does not agree with release.json in ")
    assert where in found["copies"]


@pytest.mark.parametrize("content", ["[]", "{", '{"title": 3}'])
def test_a_codebook_that_is_not_a_codebook_is_found(broken, content):
    (broken / "datapackage.json").write_text(content)

    assert "datapackage.json" in resealed(broken, statement_of(broken))["copies"]
