"""A release of noisy tables without synthetic sets, from the spec to the bundle."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest

import dp_core as dp
from benchmarks.trial import trial_plan
from dp_core.analysis.planned.plan_values import wanted_margins
from dp_core.bundle.files.marginals_file import read_marginals
from dp_core.bundle.verification.verify import verify
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import Held
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.selection.budget.wanted_shares import margins
from dp_core.methods.selection.budget.workload import WantedTable
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import carry_out
from dp_core.plan.reading.spec_file import load_spec
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from flows.answers.plan_answers import plan_answer
from tests.dp_core.bundle.forgery import failed, reseal, statement_of
from tests.flows.corpus import only_read
from tests.full import some

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

TABLES = "tables: [{of: [sex, age], weight: 3}, {of: [income, sex], prefixes: [income]}]\n"
ONLY = "synthesize: {sets: 0}\n"


class Stopped(Exception):
    """What stops a release from outside."""


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


def test_infer_says_that_there_are_no_sets_and_names_query(made, command):
    answer = command("infer", made.out, "age ~ sex")
    assert answer.code == 2
    assert "no sets" in answer.err
    assert "dp-release query" in answer.err


def test_query_answers_and_does_not_refer_to_sets(made, command):
    cells = command("query", made.out, "share by sex, age", "--json").json["cells"]
    assert len(cells) == 6
    assert all(cell["low"] <= cell["estimate"] <= cell["high"] for cell in cells)
    refused = command("query", made.out, "count by marital")
    assert refused.code == 2
    assert "marital" in refused.err
    assert "synthetic" not in refused.err


def test_the_library_says_that_there_are_no_sets(made):
    bundle = dp.read_bundle(made.out)

    assert len(bundle.sets) == 0
    with pytest.raises(IndexError, match="no sets"):
        bundle.sets[0]
    with pytest.raises(dp.BadInput, match="no sets"):
        bundle.infer("age ~ sex")
    assert bundle.query("share by sex, age").determined
    for each in (bundle, bundle.sets, bundle.statement):
        assert "no sets" in " ".join(str(each).split())


def test_another_number_of_records_is_found(made, tmp_path):
    copy = shutil.copytree(made.out, tmp_path / "copy")
    document = statement_of(copy)
    document["sets"]["records"]["value"] += 1
    reseal(copy, document)
    assert {*failed(verify(copy))} == {"checks"}


@pytest.mark.parametrize(
    ("method", "stage"),
    some(
        [
            (method, stage)
            for method in ("fixed", "auto")
            for stage in ("select", "measure", "publish")
        ],
        lambda case: case in [("auto", "measure"), ("fixed", "publish")],
    ),
)
def test_it_goes_on_where_it_stopped_and_pays_once(project, method, stage):
    project.write_spec(TABLES + ONLY, method=method)
    done = []

    def interrupted(task, *given):
        if task.name == stage:
            raise Stopped
        done.append(task.name)
        return task.fn(*given)

    with pytest.raises(Stopped):
        project.release(perform=interrupted)
    assert not {"reconstruct", "synthesize", "check"} & {*done}
    charges = project.kinds().count("charge")
    project.release()
    assert (project.kinds().count("charge") == charges) == (stage == "publish")
    assert not project.redraws()
    assert project.faults() == {}
    # Of 2; the release took what its plan says.
    assert project.ledger().account("town").left.main == 1


def test_after_approval_it_waits_and_is_published_unchanged(project, command):
    project.write_spec(TABLES + ONLY + "publish: after-approval\n", method="fixed")
    with pytest.raises(Held):
        project.release()
    answer = command("release", "publish", "town", "--by", "officer", "--reason", "seen")
    assert answer.code == 0, answer.err
    assert project.faults() == {}


def test_with_measurements_for_each_set_the_margin_is_that_of_all_together():
    domain = Domain(tuple("abc"), (2, 3, 4))
    wanted = (WantedTable(of=("a", "b")), WantedTable(of=("c",)))
    plan = trial_plan(
        domain, "fixed", Fraction(1), sets=4, mode="split", select={"workload": wanted}
    )
    codes = np.random.default_rng(1).integers(0, 2, (3, 500)).astype(np.uint16)
    outcome = carry_out(plan, MemoryCounter(Dataset(domain, codes)))
    pooled = pool(domain, outcome.released)
    for told in wanted_margins(plan):
        assert pooled.half_width(told["columns"]) == pytest.approx(told["within"], rel=0.06)


def test_the_plan_says_if_other_noise_serves_the_wanted_tables_much_better(project):
    many = "".join(f"  c{number}: {{type: category, levels: [x, y]}}\n" for number in range(20))
    (project.folder / "town.schema.yaml").write_text(
        f"version: 1\ntitle: Many\nrows_about: 5000\ncolumns:\n{many}"
    )
    found = []
    for method in ("auto", "fixed"):
        project.write_spec("tables: [{of: [c1, c2]}]\n", method=method)
        found.append(plan_answer(make_plan(load_spec(project.spec)), None))
    assert found[0]["wanted_by_other_noise"]["noise"] == "laplace"
    assert found[0]["wanted_by_other_noise"]["times"] > 1.5
    assert "wanted_by_other_noise" not in found[1].values  # it takes that kind by itself


def test_the_plan_shows_the_margin_of_every_wanted_table(project, command):
    project.write_spec(TABLES + ONLY, method="fixed")
    first, second = command("plan", project.spec, "--json").json["wanted"]
    assert (first["columns"], first["weight"]) == (["age", "sex"], "3")
    assert (second["columns"], second["prefixes"]) == (["sex", "income"], ["income"])
    assert first["within_points"] == pytest.approx(100 * first["within"] / 400, rel=0.06)
    shown = command("plan", project.spec)
    assert "age x sex" in shown.out
    assert "prefixes of income" in shown.out
    assert project.untouched()
