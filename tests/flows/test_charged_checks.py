"""Charged checks from the spec to the bundle: paid once, published with a receipt, verified."""

import json
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.client.released import tables_of
from dp_core.errors import Held, Unpublished
from dp_core.methods.replicates.posterior import posterior_tables
from flows.cli.actions import publication_decisions
from tests.confidential_side import confidential_run
from tests.dp_core.bundle.forgery import edit_column, rehash
from tests.flows.conftest import plainly
from tests.flows.corpus import lent
from tests.full import some

pytestmark = pytest.mark.usefixtures("quick")
CHECKS = "checks: {share: 0.2, tables: [[sex, age], [marital]]}\n"
BY = {"by": "Ana", "reason": "read it"}


def exact_distances(project, run):
    """Count file and sets by hand, from the confidential codes and the published files."""
    from dp_core.confidential.code_store import CodeStore

    schema = run.spec.schema
    codes = CodeStore(confidential_run(run).codes, schema.domain)
    file = np.concatenate(
        [np.stack([np.asarray(c) for c in codes.read(i)]) for i in range(codes.chunks)], axis=1
    )
    sets = [pq.read_table(project.out / f) for f in project.statement()["files"] if "set-" in f]
    records = project.statement()["sets"]["records"]["value"]
    found = []
    for table in (("sex", "age"), ("marital",)):
        sizes = schema.domain.project(table).sizes
        flat = np.ravel_multi_index(
            [file[schema.domain.columns.index(name)].astype(int) for name in table], sizes
        )
        exact = np.bincount(flat, minlength=int(np.prod(sizes)))
        drawn = np.zeros_like(exact)
        rows = 0
        for one in sets:
            places = []
            for name in table:
                column = schema.column(name)
                values = one.column(name).to_pylist()
                if column.levels:
                    labels = [level.label for level in column.levels]
                    places.append(
                        [column.missing_code if v is None else labels.index(v) for v in values]
                    )
                else:
                    edges = [float(edge) for edge in column.edges[1:-1]]
                    places.append([sum(v >= edge for edge in edges) for v in values])
            drawn += np.bincount(np.ravel_multi_index(places, sizes), minlength=exact.size)
            rows += one.num_rows
        reference = [int(Fraction(2 * records * int(n) + rows, 2 * rows)) for n in drawn]
        found.append(int(np.abs(exact - reference).sum()))
    return found


@pytest.mark.parametrize(
    ("method", "more"),
    some(
        [
            ("privsyn", "synthesize: {sets: 2}\n"),
            ("privsyn", "synthesize: {sets: 2, mode: split}\n"),
            ("modips", "synthesize: {sets: 2}\n"),
        ],
        lambda case: case != ("privsyn", "synthesize: {sets: 2}\n"),
    ),
)
def test_without_noise_they_are_the_distances_and_the_bundle_verifies(
    project, monkeypatch, method, more
):
    from dp_core.kernel.mechanisms import additive_noise

    real = additive_noise.add

    def exactly_for_checks(exact, grant):
        return exact if grant.step.stage == "checks" else real(exact, grant)

    monkeypatch.setattr(additive_noise, "add", exactly_for_checks)
    project.write_spec(CHECKS + more, method=method, privacy="{epsilon: 2, delta: 1e-6}")
    monkeypatch.setattr("flows.release.tidy", lambda _run: None)
    run = project.release()
    assert project.faults() == {}
    charged = project.statement()["checks"]["charged"]
    assert [one["table"] for one in charged] == [["sex", "age"], ["marital"]]
    if method != "modips":  # there the codes are positions on a grid
        assert [one["distance"] for one in charged] == exact_distances(project, run)
    receipts = project.statement()["ledger"]["receipts"]
    paid = [row for row in receipts if row["kind"] == "charge" and row["body"]["stage"] == "checks"]
    assert {one["receipt"] for one in charged} == {paid[0]["number"]}
    assert len(paid) == 1
    for one in charged:
        assert one["interval"][0] <= one["tvd"] <= one["interval"][1]


released = lent(CHECKS + "synthesize: {sets: 2}\n")


def reseal(project, change):
    document = project.statement()
    change(document)
    rehash(project.out, document)


def test_a_figure_that_was_not_paid_for_is_found(released):
    original = (released.out / "release.json").read_bytes()

    def lie(**changes):
        def change(document):
            document["checks"]["charged"][0].update(changes)

        return change

    # A fixed figure may be the true one by chance.
    true = json.loads(original)["checks"]["charged"][0]
    for change in (
        lie(tvd=true["tvd"] + 0.1),
        lie(interval=[true["interval"][0], true["interval"][1] + 0.01]),
        lie(distance=true["distance"] + 1),
        lie(receipt=2),
        lie(table=["income"]),
        lambda d: d["checks"]["charged"].pop(),
        lambda d: d["checks"].update(charged=[]),
        lambda d: d["checks"].update(internal=[]),
        lambda d: d["checks"]["public"].append({"figure": "tvd_to_the_data", "value": 0.01}),
        lambda d: d["checks"]["public"][0].update(figure="tvd_to_the_data"),
        lambda d: d["checks"]["public"][1].update(exact=0.0123),
        lambda d: d["sets"]["records"].update(value=d["sets"]["records"]["value"] + 40),
    ):
        (released.out / "release.json").write_bytes(original)
        reseal(released, change)
        assert "checks" in released.faults()


@pytest.mark.parametrize("checks", some(["", CHECKS], lambda checks: checks == ""))
def test_a_changed_public_figure_is_found_whether_or_not_it_decided(project, checks):
    project.write_spec(checks)
    project.release()
    assert project.faults() == {}
    original = (project.out / "release.json").read_bytes()
    assert project.statement()["checks"]["public"][-1]["figure"] == "fit"

    def told(place, value):
        (project.out / "release.json").write_bytes(original)
        reseal(project, lambda document: document["checks"]["public"][place].update(value=value))
        assert project.faults().keys() == {"checks"}, value
        return project.faults()["checks"]

    for place, figure in enumerate(project.statement()["checks"]["public"]):
        assert repr(figure["figure"]) in told(place, figure["value"] + 0.001)
    for place, value in ((0, "nan"), (0, "1"), (1, "nan"), (1, None)):
        assert told(place, value)


def test_other_sets_than_those_that_were_checked_are_found(released):
    def swap(ages):
        # Of one age, whoever they are: reversed, say, they may be as many in each cell as before.
        ages[:] = [ages[0]] * len(ages)

    edit_column(released.out / "synthetic/set-1.parquet", "age", swap)
    (wrong,) = [check for check in verify(released.out).failures if check.name == "checks"]
    assert "Receipt" in wrong.sentence


def test_it_is_asked_once_whatever_is_interrupted(project):
    project.write_spec(CHECKS)

    class Interrupted(BaseException): ...

    def perform(stage, run, *given):
        answer = plainly(stage, run, *given)
        if stage.name == "check":
            run.folder.forget("check")
            raise Interrupted
        return answer

    for _ in range(2):
        with pytest.raises(Interrupted):
            project.release(perform=perform)
    project.release()
    assert project.faults() == {}
    stages = [row["body"].get("stage") for row in project.statement()["ledger"]["receipts"]]
    assert stages.count("checks") == 1


# -- thresholds


def test_a_release_beyond_its_threshold_waits_for_a_person(project):
    project.write_spec(
        "checks: {share: 0.2, tables: [[sex, age]], thresholds:"
        " [{figure: mean_tvd, hold: 0.0001}, {figure: fit, fail: 0.9}]}\n"
    )
    with pytest.raises(Held, match="beyond a threshold"):
        project.release()
    publication_decisions.publish(project.home, project.ledger(), "town", out=None, **BY)
    assert project.faults() == {}
    decision = project.statement()["decision"]
    assert (decision["mode"], decision["cause"]) == ("at-once", "thresholds")
    assert [one["verdict"] for one in decision["thresholds"]] == ["hold", "publish"]
    told = (project.out / "report.html").read_text()
    assert "exceeded a threshold" in told
    # A lie about a public figure that could have decided is found as well.
    reseal(project, lambda d: d["checks"]["public"][-1].update(value=0.5))
    assert {"checks", "decision"} <= project.faults().keys()


@pytest.mark.parametrize("ignored", [False, True])
def test_sets_that_ignore_the_measured_interactions_are_stopped(project, monkeypatch, ignored):
    rng = np.random.default_rng(3)
    names = [f"q{number}" for number in range(6)]
    answers = rng.normal(size=(3000, 1)) + rng.normal(0, 1.1, (3000, 6)) > 0
    rows = [",".join(names), *(",".join(map(str, row)) for row in answers.astype(int))]
    (project.folder / "town.csv").write_text("\n".join(rows) + "\n")
    columns = "".join(f"  {name}: {{type: category, levels: [0, 1]}}\n" for name in names)
    (project.folder / "town.schema.yaml").write_text(
        f"version: 1\ntitle: Six questions\nunit: row\nrows_about: 3000\ncolumns:\n{columns}"
    )
    # What is ignored comes to .045, and differs by less than .001 from one run to the next.
    project.write_spec(
        "select: {at_once: never}\nsynthesize: {sets: 1}\n"
        "checks: {thresholds: [{figure: fit, fail: 0.02}]}\n"
    )
    if not ignored:
        project.release()
        assert project.faults() == {}
        report = (project.out / "report.html").read_text()
        assert 'id="beyond"' in report
        return
    pool = posterior_tables.pool
    monkeypatch.setattr(
        posterior_tables,
        "pool",
        lambda domain, found, **more: pool(domain, tables_of(found), **more),
    )
    with pytest.raises(Unpublished, match=r"fit is 0\.\d+, above"):
        project.release()


@pytest.mark.runbook("ended-by-thresholds")
def test_a_release_that_fails_its_threshold_ends_unpublished(project, command, says):
    worst = "thresholds: [{figure: worst_tvd, fail: 0.0001}]"
    project.write_spec(f"checks: {{share: 0.2, tables: [[sex, age]], {worst}}}\n")
    with pytest.raises(Unpublished, match=r"worst_tvd is 0\.\d+, above"):
        project.release()
    assert not project.out.exists()
    assert not (project.run_folder / "public/synthetic").exists()
    assert project.kinds()[-1] == "settle"
    assert project.ledger().account("town").balance.spent.main == 1
    project.ledger().verify()
    assert "ended unpublished" in command("status", "town").out
    again = command("run", project.spec, "--out", project.out)
    # As its own run said, which may have been killed before it could.
    assert again.code == 7
    says(again.err)
    assert command("release", "look", "town", "--by", "Ana", "--reason", "why").code == 0


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ("{tables: [[sex]]}", "share: 0.05"),
        ("{share: 0.1, tables: [[sex, town]]}", "'town' is not a column"),
        ("{share: 0.1, tables: [[sex, age], [age, sex]]}", "listed twice"),
        ("{thresholds: [{figure: worst_tvd, hold: 0.1}]}", "share: 0.05"),
        ("{thresholds: [{figure: utility, hold: 0.1}]}", "'utility'"),
        ("{thresholds: [{figure: fit}]}", "needs `hold` or `fail`"),
        ("{thresholds: [{figure: fit, hold: 0.2, fail: 0.1}]}", "lower hold"),
        ("{share: 0.0001, tables: [[sex]]}", "checks.share"),
    ],
)
def test_mistakes_cost_nothing_and_say_what_to_do(project, command, checks, words):
    project.write_spec(f"checks: {checks}\n")
    said = command("run", project.spec, "--out", project.out)
    assert said.code == 2
    assert words in said.err
    assert project.untouched()
