"""Releases whose bins and levels are chosen privately, from the file to the bundle."""

import contextlib
import json
import shutil

import pyarrow.parquet as pq
import pytest

from dp_core import read_bundle
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from tests.dp_core.bundle.forgery import resealed, statement_of
from tests.flows.conftest import SCHEMA, make_project
from tests.flows.releases.test_resume import fail_at, noisy
from tests.full import some

pytestmark = pytest.mark.usefixtures("quick")

PRIVATE = (
    SCHEMA.replace("min: 0, max: 1000, bins: 4", "min: 0, max: 1000, bins: {private: 5}")
    .replace(
        "{type: category, levels: {1: male, 2: female}}", "{type: category, levels: ['1', '2']}"
    )
    .replace(
        "levels: [single, married, widowed], missing: level",
        "missing: level, levels: {private: 1}, groups: {alone: [single, widowed], two: [married]}",
    )
    .replace('impossible:\n  - {age: "<15", marital: [married, widowed]}\n', "")
)
DRAWN = PRIVATE.replace("levels: {private: 1}", "levels: {private: 1, rest: drawn}")
METHODS = {
    "privsyn": "method: privsyn\nsynthesize: {sets: 2}\n",
    "modips": "method: modips\nsynthesize: {sets: 2}\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function that gives the project of a finished release, one for each method."""
    found = {}
    patch = pytest.MonkeyPatch()

    def project(method):
        if method not in found:
            folder = tmp_path_factory.mktemp(method)
            patch.setenv("DP_RELEASE_HOME", str(folder / "home"))
            schema = DRAWN if method == "drawn" else PRIVATE
            spec = METHODS["privsyn" if method == "drawn" else method]
            found[method] = private_project(folder, spec, schema)
            found[method].release()
        return found[method]

    yield project
    patch.undo()


def private_project(folder, text, schema=PRIVATE):
    project = make_project(folder / "work", folder / "home")
    (project.folder / "town.schema.yaml").write_text(schema)
    project.write_spec(text)
    return project


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    return private_project(tmp_path, METHODS["privsyn"])


@pytest.mark.parametrize("method", METHODS)
def test_a_bundle_states_what_was_chosen_and_anyone_makes_it_again(made, method):
    out = made(method).out
    found = verify(out)
    assert found.passed, found.failures
    assert "domain" in [check.name for check in found.checks]
    income, marital = statement_of(out)["method"]["domain"][::-1]
    assert (income["column"], marital["column"]) == ("income", "marital")
    assert len(income["edges"]) == 6
    assert marital["levels"][1:] == ["other alone", "other two"]
    assert marital["levels"][0] in ("single", "married", "widowed")


@pytest.mark.parametrize("method", METHODS)
def test_sets_and_codebook_are_of_the_chosen_bins_and_levels(made, method):
    out = made(method).out
    marital, income = statement_of(out)["method"]["domain"]
    package = json.loads((out / "datapackage.json").read_bytes())
    fields = {each["name"]: each for each in package["resources"][0]["schema"]["fields"]}
    assert [each["label"] for each in fields["marital"]["levels"]] == marital["levels"]
    froms = [each["from"] for each in fields["income"]["bins"]]
    assert froms == [float(edge) for edge in income["edges"][:-1]]
    assert fields["income"]["within_bin"].startswith("piecewise uniform")
    assert "method.domain" in fields["income"]["within_bin"]
    assert "method.domain" not in fields["age"]["within_bin"]
    drawn = pq.read_table(out / "synthetic" / "set-1.parquet")
    assert {*drawn["marital"].to_pylist()} <= {*marital["levels"], None}
    pay = [value for value in drawn["income"].to_pylist() if value is not None]
    assert 0 <= min(pay) <= max(pay) <= 1000


def test_levels_that_are_drawn_again_are_in_the_sets_and_their_groups_in_the_tables(made):
    out = made("drawn").out
    found = verify(out)
    assert found.passed, found.failures
    entry = statement_of(out)["method"]["domain"][0]
    assert entry["column"] == "marital"
    # The only level of "two" is its group's code, and one of the others is kept.
    assert entry["levels"][0] in ("single", "widowed")
    assert entry["levels"][1:] == ["other alone", "other two"]
    assert entry["within"]["from"][0] == 0
    drawn = pq.read_table(out / "synthetic" / "set-1.parquet")["marital"]
    assert {*drawn.to_pylist()} <= {"single", "married", "widowed", None}
    assert "married" in drawn.to_pylist()
    package = json.loads((out / "datapackage.json").read_bytes())
    fields = {each["name"]: each for each in package["resources"][0]["schema"]["fields"]}
    assert [each["label"] for each in fields["marital"]["groups"]] == entry["levels"][1:]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "The sets have all levels again" in page
    assert "A level that is not listed" not in page
    bundle = read_bundle(out)
    shares = bundle.query("count by marital").frame
    assert {*entry["levels"]} <= {*shares["marital"]}
    assert bundle.sets[0]["marital"].dtype.categories.tolist() == ["single", "widowed", "married"]
    # Noise decides whether the pair was measured, and well enough for an answer.
    with contextlib.suppress(BadInput):
        assert bundle.infer("age ~ marital").coefficients


def heavier(method):
    weights = method["densities"][0]["bins"][0]["millionths"]
    weights[0], weights[1] = weights[0] + 100, weights[1] - 100


LIES = {
    # Of levels that are drawn again.
    "drawn": [
        lambda method: method["domain"][0]["within"]["thousandths"].__setitem__(0, 10**6),
        lambda method: method["domain"][0]["within"]["from"].append(2),
        lambda method: method["domain"][0].pop("within"),
    ],
    "privsyn": [
        lambda method: method["domain"][1]["codes"].__setitem__(0, 7),
        lambda method: method["domain"][1]["edges"].__setitem__(1, "0.5"),
        lambda method: method["domain"][1]["within"]["thousandths"].__setitem__(0, 10**6),
        lambda method: method["domain"][1]["within"]["from"].pop(),
        lambda method: method["domain"][1].pop("within"),
        lambda method: method["domain"][0]["levels"].__setitem__(0, "another"),
        lambda method: method["domain"].pop(),
        lambda method: method["domain"].append(method["domain"][0]),
        lambda method: method["domain"][0].__setitem__("codes", "0"),
        lambda method: method.pop("domain"),
        # Of the density within bins.
        heavier,
        lambda method: method["densities"][0]["bins"].pop(),
        lambda method: method["densities"].clear(),
        lambda method: method["densities"][0]["bins"][0]["from"].__setitem__(1, "0.5"),
        lambda method: method["densities"].append(method["densities"][0]),
    ],
    # A release on a grid states no densities.
    "modips": [
        lambda method: method.update(densities=[]),
        lambda method: method.update(densities=[{"column": "age", "bins": []}]),
    ],
}
"""Changes of what a statement says of the method, by the release."""


@pytest.mark.parametrize("method", LIES)
def test_another_choice_or_density_than_the_noisy_answers_make_does_not_verify(
    made, tmp_path, method
):
    out = shutil.copytree(made(method).out, tmp_path / "forged")
    for place, lie in enumerate(LIES[method]):
        document = statement_of(made(method).out)
        assert ("densities" in document["method"]) == (method != "modips")
        lie(document["method"])
        assert resealed(out, document), place


STAGES = ("domain", "measure", "publish")


@pytest.mark.parametrize("after", some([False, True], lambda after: after), ids=str)
def test_a_release_goes_on_with_the_same_choice(project, after):
    """One release fails in each of these stages in turn."""
    measured = {}
    for name in STAGES:
        fail_at(project, name, after=after)
        if (project.run_folder / "public/noisy").exists():
            found = noisy(project)
            assert {each: found[each] for each in measured} == measured
            measured = found

    project.release()

    assert project.faults() == {}
    assert measured
    assert {each: noisy(project)[each] for each in measured} == measured
    held = project.ledger().reservation("town")
    charges = project.ledger().charges(held)
    assert sum(charge.cost for charge in charges) == held.currency.limit
    assert len({(charge.stage, charge.step) for charge in charges}) == len(charges)
    assert project.redraws() == 0


def test_a_comparison_does_not_choose(project, command):
    answer = command(
        *("compare", project.spec, "--public-data", "--by", "me", "--reason", "test"),
        *("--out", project.folder / "comparison"),
    )
    assert answer.code == 2
    assert "privately" in answer.err
