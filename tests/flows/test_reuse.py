"""A release that uses the noisy tables of an earlier one: paid once, no data opened, verified."""

import json
from collections import Counter
from fractions import Fraction

import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.cost.composition import NOTHING, Amount
from flows.cli.actions.publication_decisions import abandon
from tests.dp_core.bundle.forgery import edit_column, failed
from tests.flows.conftest import SCHEMA, plainly, stopping
from tests.flows.corpus import Later, lent
from tests.full import some

pytestmark = pytest.mark.usefixtures("quick")

PAID = Amount(Fraction(1), Fraction("1e-6"))
FIRST = """\
method: fixed
select: {cliques: [[age, marital], [sex, income], [moved, income]]}
measure: {noise: gaussian}
synthesize: {sets: 3, seed: 4}
"""


def Second(project):
    """Return the second release of a project, from the tables of the first."""
    return Later(project, "again", measurements="town")


@pytest.fixture
def project(project):
    project.write_spec(FIRST)
    return project


made = lent(FIRST)


@pytest.fixture
def first(made):
    """The first release; its data file and codes are gone."""
    (made.folder / "town.csv").unlink()
    return made


@pytest.fixture
def second(first):
    made = Second(first)
    made.write("reconstruct: {method: pgm}\nsynthesize: {sets: 2, seed: 9}\n")
    return made


def test_sets_are_made_again_without_a_charge_and_without_the_data(first, second):
    before = first.ledger().account("town").balance
    asked = []

    def noting(task, run, *given):
        asked.append(task.name)
        return plainly(task, run, *given)

    run = second.make(noting)

    assert asked == [
        "ledger: reserve",
        *("reuse", "reconstruct", "synthesize", "check"),
        *("ledger: settle", "publish"),
    ]
    ledger = first.ledger()
    assert ledger.account("town").balance == before
    assert (before.spent, before.reserved) == (PAID, NOTHING)
    reservation = ledger.reservation("again")
    assert reservation.outcome == "finished"
    assert not ledger.charges(reservation)
    own = Counter(entry.kind for entry in ledger.entries(release="again"))
    assert own == {"reserve": 1, "settle": 1}
    assert not (run.folder.internal / "utility.json").exists()
    assert not any(run.folder.confidential.glob("*"))
    ledger.verify()
    assert pq.read_table(second.out / "marginals.parquet").equals(
        pq.read_table(first.out / "marginals.parquet")
    )
    ages = [
        pq.read_table(out / "synthetic/set-1.parquet").column("age").to_pylist()
        for out in (first.out, second.out)
    ]
    assert ages[0] != ages[1]


def test_no_cluster_is_started_because_nothing_is_counted(second):
    second.write("synthesize: {sets: 1}\ndask: {cluster: nowhere_at_all.Cluster}\n")
    second.make()
    assert verify(second.out).passed


def test_no_process_that_may_see_data_is_started(second, monkeypatch):
    monkeypatch.setattr("tasks.confidential.connection.connect", None)
    second.write("synthesize: {sets: 1}\n")
    second.make()
    assert verify(second.out).passed


def test_the_bundle_verifies_and_says_whose_the_tables_are(first, second):
    second.make()

    alone = verify(second.out)
    assert not failed(alone)
    (said,) = [check.sentence for check in alone.checks if check.name == "measurements"]
    assert "--measurements" in said
    assert "'town'" in said
    compared = verify(second.out, measurements=first.out)
    assert not failed(compared)
    (said,) = [check.sentence for check in compared.checks if check.name == "measurements"]
    assert "--measurements" not in said
    stated, before = second.statement(), first.statement()
    assert stated["guarantee"] == before["guarantee"]
    assert stated["accounting"] == before["accounting"]
    assert stated["measurements"]["release"] == "town"
    assert stated["measurements"]["receipts"] == before["ledger"]["receipts"]
    assert "epsilon 1," in stated["measurements"]["in_words"]
    assert stated["ledger"]["currency"]["limit"]["exact"] == "0"
    assert stated["measurements"]["in_words"] in (second.out / "report.html").read_text()
    assert [row["kind"] for row in stated["ledger"]["receipts"]] == ["reserve", "settle"]


def test_a_first_result_that_was_changed_is_refused_and_the_release_resumes(first, second):
    public = first.run_folder / "public"
    noisy = sorted((public / "noisy").iterdir())[0]
    for path in (noisy, public / "marginals.parquet"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-40] + bytes(40))
        with pytest.raises(StageFailed) as refused:
            second.make()
        assert refused.value.row == "measurements-unusable"
        path.write_bytes(whole)
    assert not second.out.exists()

    second.make()

    assert verify(second.out, measurements=first.out).passed


@pytest.mark.runbook("measurements-unusable")
def test_other_tables_than_those_committed_are_refused(first, second, says):
    def change(counts):
        counts[7] += 1

    edit_column(first.run_folder / "public/marginals.parquet", "count", change)

    with pytest.raises(StageFailed) as refused:
        second.make()

    says(refused.value)
    assert "marginals.parquet" in refused.value.message


def test_a_number_of_rows_in_a_file_is_not_used_where_it_is_confidential(first, second):
    basics = first.run_folder / "public/stages/basics.json"
    assert json.loads(basics.read_bytes()) == {"rows": None}  # measured under add-remove
    basics.write_text('{"rows": 5}')

    second.make()

    for path in (second.out / "synthetic").iterdir():
        assert pq.read_metadata(path).num_rows > 100


STAGES = ("ledger: reserve", "reuse", "synthesize", "publish")


@pytest.mark.parametrize("stage", some(STAGES, lambda stage: stage in ("reuse", "synthesize")))
def test_a_release_that_stopped_goes_on(first, second, stage):
    with pytest.raises(KeyboardInterrupt):
        second.make(stopping(stage))
    assert not second.out.exists()

    second.make()

    assert verify(second.out, measurements=first.out).passed
    assert first.ledger().account("town").balance.spent == PAID
    first.ledger().verify()


def test_an_unfinished_reuse_is_abandoned_at_no_cost(first, second):
    with pytest.raises(KeyboardInterrupt):
        second.make(stopping("synthesize"))

    abandon(first.home, first.ledger(), "again")

    assert first.ledger().account("town").balance.spent == PAID
    with pytest.raises(BadInput, match="again"):
        second.make()


def unusable(second, **changes):
    """Return the refusal of a spec; nothing is reserved for it."""
    text = changes.pop("text", "")
    second.write(text, **changes)
    with pytest.raises(BadInput) as refused:
        second.make()
    assert second.project.ledger().reservation("again") is None
    return refused.value.message


def test_what_contradicts_the_measurements_is_refused_with_its_place(first, second):
    other = SCHEMA.replace("rows_about: 400", "rows_about: 500")
    (first.folder / "other.schema.yaml").write_text(other)
    first.open_account("other")
    for named, changes in {
        "there is no release 'nothing'": {"measurements": "nothing"},
        "account": {"account": "other"},
        "schema": {"schema": "other.schema.yaml"},
        "privacy.epsilon": {"privacy": "{epsilon: 2}"},
        "data": {"data": "other.csv"},
        "method": {"method": "privsyn"},
        "select.cliques": {"select": "{cliques: [[age, sex]]}"},
        "one_way.share": {"one_way": "{share: 0.3}"},
        "checks.share": {"checks": "{share: 0.1}"},
        "checks.formulas": {"checks": "{formulas: [income ~ age]}"},
        "worst_tvd": {"checks": "{thresholds: [{figure: worst_tvd, hold: 0.1}]}"},
        "synthesize.mode": {"synthesize": "{mode: split, sets: 3}"},
    }.items():
        message = unusable(second, **changes)
        assert named in message, message
        assert "line" in message
        assert "\n" not in message


def test_a_release_that_itself_uses_tables_is_refused_in_favour_of_its_root(first, second):
    second.make()
    third = Second(first)
    third.spec = first.folder / "third.yaml"
    third.write(release="third", measurements="again")

    with pytest.raises(BadInput, match="name 'town'"):
        third.make()


def test_only_a_published_release_is_used(project):
    second = Second(project)
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("reconstruct"))
    assert "is not finished" in unusable(second)

    abandon(project.home, project.ledger(), "town")

    assert "abandoned" in unusable(second)


def test_the_commands_say_that_nothing_is_paid_and_whose_the_tables_are(first, second, command):
    planned = command("plan", second.spec)
    assert planned.code == 0, planned.err
    assert "Costs nothing: uses the tables of town" in planned.out
    answer = command("plan", second.spec, "--json").json
    assert (answer["measurements"], answer["limit"], answer["stages"]) == ("town", "0", [])
    assert answer["more_such_releases"] is None
    assert command("ledger", "forecast", second.spec).code == 2

    made = command("run", second.spec, "--out", second.out)
    assert made.code == 0, made.err
    assert "--measurements" in made.out
    shown = command("ledger", "show", "town", "--json").json
    used = {release["release"]: release for release in shown["releases"]}
    assert used["again"]["measurements"] == "town"
    assert used["again"]["epsilon"] == 0
    assert "tables of town" in command("ledger", "show", "town").out
    assert "tables of town" in command("status").out
    assert "uses the tables of town" in command("status", "again").out
    status = command("status", "again", "--json").json
    assert status["stages_done"] == ["reuse", "reconstruct", "synthesize", "check", "publish"]
    assert command("ledger", "verify").code == 0
    assert command("verify", second.out, "--measurements", first.out).code == 0
    assert command("verify", second.out, "--measurements", second.out).code == 1
    assert command("verify", second.out, "--measurements", first.home).code == 2
    compared = ("infer", second.out, "income ~ age", "--against-confidential")
    assert "opened no data" in command(*compared).err

    second.write(release="third", measurements="nothing")
    refused = command("run", second.spec, "--out", first.folder / "third")
    assert refused.code == 2
    assert refused.err.rstrip().endswith("(runbook: measurements-unusable)")


@pytest.mark.parametrize("changed", some([True, False], lambda changed: changed))
def test_without_its_plan_in_the_folder_the_one_in_the_bundle_is_used(first, second, changed):
    """Runs of earlier versions have no such file; the ledger's hash decides."""
    plan = first.run_folder / "public/plan.json"
    whole = plan.read_bytes()
    assert b'"seed":4' in whole
    plan.write_bytes(whole.replace(b'"seed":4', b'"seed":5')) if changed else plan.unlink()

    assert second.make().plan.spec.measurements.plan == json.loads(whole)

    (first.out / "release.json").unlink()
    second.write(release="third")
    with pytest.raises(BadInput, match="plan of release 'town'"):
        second.make()
