"""A release of noisy tables without synthetic sets, from the spec to the bundle."""

import json
import shutil

import pytest

from dp_core.bundle.files.marginals_file import read_marginals
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.selection.budget.wanted_shares import margins
from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tests.dp_core.bundle.forgery import resealed, statement_of
from tests.flows.corpus import only_read

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

TABLES = "tables: [{of: [sex, age], weight: 3}, {of: [income, sex], prefixes: [income]}]\n"
ONLY = "synthesize: {sets: 0}\n"


@pytest.mark.parametrize(
    ("method", "privacy", "noise"),
    [
        ("fixed", "{epsilon: 1, delta: 1e-6}", "auto"),
        ("fixed", "{epsilon: 1, delta: 1e-6}", "gaussian"),  # measures interactions
        ("fixed", "{epsilon: 1, neighbours: replace-one}", "auto"),
        ("fixed", "{epsilon: 1, delta: 1e-6, neighbours: replace-one}", "gaussian"),
        ("auto", "{epsilon: 1, delta: 1e-6}", "gaussian"),
        ("independent", "{epsilon: 1}", "auto"),
    ],
)
def test_its_bundle_has_tables_and_verifies(project, method, privacy, noise, command):
    replace = "replace-one" in privacy
    if replace:
        project.open_account("other", neighbours="replace-one")
    wanted = TABLES if method != "independent" else ""
    project.write_spec(
        f"{wanted}{ONLY}measure: {{noise: {noise}}}\n",
        method=method,
        privacy=privacy,
        account="other" if replace else "town",
    )
    plan = make_plan(load_spec(project.spec))
    project.release()
    assert project.faults() == {}
    assert sorted(path.name for path in project.out.iterdir()) == [
        "CITATION.cff",
        "datapackage.json",
        "marginals.parquet",
        "registry.yaml",
        "release.json",
        "report.html",
    ]
    stated = project.statement()
    assert (stated["sets"]["m"], stated["sets"]["rows"], stated["inference"]["rule"]) == (
        0,
        [],
        None,
    )
    assert abs(stated["sets"]["records"]["value"] - 400) < (1 if replace else 60)
    described = json.loads((project.out / "datapackage.json").read_text())
    assert [resource["path"] for resource in described["resources"]] == ["marginals.parquet"]
    assert "synthetic" not in json.dumps(described)
    assert "synthetic" not in (project.out / "CITATION.cff").read_text()
    page = (project.out / "report.html").read_text()
    assert "no synthetic sets" in page
    assert "Distance ratio" not in page
    assert "set-1" not in page
    answer = command("status", "town", "--json").json
    assert "synthesize" not in answer["stages_done"] + answer["stages_open"]
    assert answer["state"] == "finished"
    if wanted:
        schema = plan.spec.schema
        pooled = pool(
            schema.domain,
            read_marginals(project.out / "marginals.parquet", schema),
            rows=400.0 if replace else None,
        )
        (told, _) = margins(plan.spec.selector, schema.domain, plan.terms)
        found = pooled.half_width(told.table.of)
        assert found <= told.half_width * (1 + 1e-9)
        if method == "fixed":
            assert found == pytest.approx(told.half_width, rel=1e-9)


def test_a_release_of_one_interaction_is_published(project):
    """With a public number of records, it tells the table of one column."""
    project.open_account("other", neighbours="replace-one")
    project.write_spec(
        f"tables: [{{of: [marital]}}]\n{ONLY}measure: {{noise: gaussian}}\n",
        method="fixed",
        privacy="{epsilon: 1, delta: 1e-6, neighbours: replace-one}",
        account="other",
    )
    plan = make_plan(load_spec(project.spec))
    assert [table.interaction for table in plan.tables] == [True]
    project.release()
    assert project.faults() == {}
    assert "marital" in (project.out / "report.html").read_text()


made = only_read("method: fixed\n" + TABLES + ONLY)


def test_query_answers_and_does_not_refer_to_sets(made, command):
    cells = command("query", made.out, "share by sex, age", "--json").json["cells"]
    assert len(cells) == 6
    assert all(cell["low"] <= cell["estimate"] <= cell["high"] for cell in cells)
    refused = command("query", made.out, "count by marital")
    assert refused.code == 2
    assert "marital" in refused.err
    assert "synthetic" not in refused.err


def test_another_number_of_records_is_found(made, tmp_path):
    copy = shutil.copytree(made.out, tmp_path / "copy")
    document = statement_of(copy)
    document["sets"]["records"]["value"] += 1
    assert {*resealed(copy, document)} == {"checks"}


def test_infer_says_that_there_are_no_sets_and_names_query(made, command):
    answer = command("infer", made.out, "age ~ sex")
    assert answer.code == 2
    assert "no sets" in answer.err
    assert "dp-release query" in answer.err
