"""From schema to bundle to verify, for every preset and every kind of guarantee."""

import datetime
import os
import shutil
from fractions import Fraction

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from dp_core.kernel.cost.composition import NOTHING, Amount
from flows.cli.actions.publication_decisions import abandon
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.run.home import home_key
from tests.confidential_side import raises_inside
from tests.flows.conftest import ROWS, as_csv, plainly, stopping, survey
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")

CLIQUES = "select: {cliques: [[age, marital], [sex, income], [moved, income]]}\n"
PURE = "{epsilon: 1, delta: 0}"
APPROXIMATE = "{epsilon: 1, delta: 1e-6}"
QUICK = [  # each method, and every relation, guarantee, mode and kind of file
    ("independent", "add-remove", "split"),
    ("fdh", "replace-one", "split"),
    ("fixed", "replace-one", "shared"),
    ("privsyn", "replace-one", "shared"),
]


def sets_of(project, name):
    """Return the sets in a folder of the project, each of which says of which release it is."""
    folder = project.folder / name / "synthetic"
    found = [pq.read_table(path) for path in sorted(folder.iterdir())]
    assert {table.schema.metadata[b"release"] for table in found} == {name.encode()}
    return found


def assert_obeys_schema(table):
    """Every rule of the schema, asked of the decoded file without our own encoder."""
    assert table.column_names == ["age", "sex", "marital", "income", "moved"]
    kinds = [table.schema.field(name).type for name in table.column_names]
    assert kinds[0] == pa.int64()
    assert kinds[3] == pa.float64()
    assert kinds[4] == pa.date32()
    for row in table.to_pylist():
        assert 0 <= row["age"] <= 99
        assert row["sex"] in ("male", "female")
        assert row["marital"] in ("single", "married", "widowed", None)
        assert row["income"] is None or (
            0 <= row["income"] <= 1000 and round(row["income"], 2) == row["income"]
        )
        assert datetime.date(2000, 1, 1) <= row["moved"] <= datetime.date(2009, 12, 31)
        assert row["age"] >= 15 or row["marital"] not in ("married", "widowed")


def write_data(project, kind):
    """Write the survey anew as CSV, as Parquet of several row groups, or as a glob of files."""
    (project.folder / "town.csv").unlink()
    rows = survey()
    if kind == "csv":
        (project.folder / "town.csv").write_text(as_csv(rows))
        return "town.csv"
    if kind == "glob":
        for number, start in enumerate((0, 150)):
            part = rows[start : start + 150] if number == 0 else rows[start:]
            (project.folder / f"part-{number}.csv").write_text(as_csv(part))
        return "part-*.csv"
    path = project.folder / "text.csv"
    path.write_text(as_csv(rows))
    options = pa.csv.ConvertOptions(
        null_values=["", "NA"], strings_can_be_null=True, column_types={"sex": pa.string()}
    )
    pq.write_table(
        pa.csv.read_csv(path, convert_options=options),
        project.folder / "town.parquet",
        row_group_size=90,
    )
    path.unlink()
    return "town.parquet"


@pytest.mark.parametrize(
    ("method", "extra", "privacy", "neighbours", "mode", "kind"),
    some(
        [
            ("independent", "", PURE, "add-remove", "shared", "csv"),
            ("independent", "", APPROXIMATE, "replace-one", "split", "parquet"),
            ("independent", "", APPROXIMATE, "add-remove", "split", "glob"),
            ("fdh", "", PURE, "add-remove", "shared", "glob"),
            ("fdh", "", PURE, "replace-one", "split", "csv"),
            ("fdh", "", APPROXIMATE, "add-remove", "shared", "parquet"),
            ("fixed", CLIQUES, PURE, "replace-one", "shared", "glob"),
            ("fixed", CLIQUES, APPROXIMATE, "add-remove", "split", "csv"),
            ("privsyn", "", PURE, "add-remove", "split", "csv"),
            ("privsyn", "", PURE, "replace-one", "shared", "parquet"),
            ("privsyn", "", APPROXIMATE, "add-remove", "shared", "glob"),
            ("privsyn", "", APPROXIMATE, "replace-one", "split", "csv"),
        ],
        lambda case: (case[0], case[3], case[4]) in QUICK,
    ),
)
def test_every_preset_goes_from_schema_to_a_bundle_that_verifies(
    project, method, extra, privacy, neighbours, mode, kind
):
    project.open_account("people", neighbours=neighbours)
    project.write_spec(
        extra + f"synthesize: {{sets: 3, mode: {mode}, seed: 4}}\n",
        privacy=privacy.replace("}", f", neighbours: {neighbours}}}"),
        method=method,
        account="people",
        data=write_data(project, kind),
    )

    run = project.release()

    assert project.faults() == {}
    charges = run.ledger.charges(run.ledger.reservation("town"))
    for stage, cost in run.plan.costs.items():
        assert sum((c.cost for c in charges if c.stage == stage), Fraction(0)) == cost
    assert sum(run.plan.costs.values()) == run.plan.currency.limit
    stated = project.statement()["guarantee"]
    # Where nothing was chosen on the way, Gaussian tables are stated by the losses of their noise.
    by_losses = method != "privsyn" and run.plan.currency.kind != "pure"
    assert ("privacy loss distribution" in stated["tightest"]["theorem"]) is by_losses
    assert (stated["tightest"]["epsilon"]["decimal"] < 0.9999) is by_losses
    account = run.ledger.account("people")
    delta = Fraction("1e-6") if run.plan.currency.kind != "pure" else Fraction(0)
    assert account.balance.spent == Amount(Fraction(1), delta)
    assert account.balance.reserved == NOTHING
    tables = project.sets()
    assert len(tables) == 3
    for table in tables:
        assert_obeys_schema(table)
        if neighbours == "replace-one":
            assert table.num_rows == ROWS
    assert len({str(table.to_pydict()) for table in tables}) == 3
    assert not run.folder.confidential.exists()
    assert run.ledger.verify(home_key(run.home, run.ledger)).entries == len(run.ledger.entries())


def test_equal_seed_and_noise_give_equal_sets_and_another_seed_gives_others(project, monkeypatch):
    from dp_core.kernel.mechanisms import additive_noise

    monkeypatch.setattr(additive_noise, "add", lambda exact, _grant: exact + 3)
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        project.write_spec(
            f"synthesize: {{sets: 2, seed: {seed}}}\n",
            release=name,
            method="independent",
            privacy="{epsilon: 0.1, delta: 0}",
        )
        project.release(project.folder / name)

    assert sets_of(project, "one") == sets_of(project, "two")
    assert sets_of(project, "one")[0] != sets_of(project, "three")[0]
    assert sets_of(project, "one")[0] != sets_of(project, "one")[1]


@pytest.mark.parametrize("method", some(["gum", "pgm"], lambda method: method == "pgm"))
def test_sets_drawn_in_pieces_do_not_depend_on_how_many_are_drawn_at_a_time(
    project, monkeypatch, method
):
    from dp_core.kernel.mechanisms import additive_noise
    from dp_core.methods.reconstruction import reconstructor
    from tasks.drawing import drawn_pieces

    monkeypatch.setattr(additive_noise, "add", lambda exact, _grant: exact + 3)
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 5 * 70)
    for name, threads in (("one", 1), ("four", 4)):
        monkeypatch.setattr(drawn_pieces, "threads", lambda threads=threads: threads)
        project.write_spec(
            f"reconstruct: {{method: {method}}}\nsynthesize: {{sets: 2, rows: 500}}\n",
            release=name,
            method="privsyn",
            privacy="{epsilon: 0.1, delta: 0}",
        )
        project.release(project.folder / name)

    assert sets_of(project, "one") == sets_of(project, "four")
    assert sets_of(project, "one")[0] != sets_of(project, "one")[1]
    for path in (project.folder / "one" / "synthetic").iterdir():
        table = pq.read_table(path)
        assert table.num_rows == 500
        assert_obeys_schema(table)


def test_codes_stay_only_when_asked_for_and_counts_never(project):
    from flows.cli.commands.release_commands import run
    from flows.release import carry_out

    carry_out(project.spec, project.out, keep_confidential=True, perform=plainly)
    kept = project.run_folder / "confidential"
    assert (kept / "codes" / "manifest.json").is_file()
    assert {each.name for each in kept.iterdir()} == {"codes", "input"}
    (option,) = (each for each in run.params if each.name == "keep_confidential")
    assert "count" not in option.help


def test_bad_data_gives_the_reservation_back_and_the_name_can_be_used_again(project):
    data = project.folder / "town.csv"
    good = data.read_text()
    data.write_text(good.replace(",single,", ",bachelor,", 1))
    with pytest.raises(BadInput, match=r"do not fit its schema.*Nothing was spent") as stopped:
        project.release()
    told = project.internal / "message.txt"
    assert f"the reason is in {told}." in stopped.value.message
    assert (project.internal / "validation.json").is_file()
    account = project.ledger().account("town")
    assert (account.balance.reserved, account.balance.spent) == (NOTHING, NOTHING)
    assert account.left == account.terms.limit
    assert project.kinds() == ["ledger", "open", "reserve", "settle"]
    assert not project.out.exists()
    assert not (project.run_folder / "confidential").exists()

    data.write_text(good)
    project.release()
    assert project.faults() == {}
    assert project.ledger().account("town").balance.spent.main == 1
    assert not (project.internal / "failure.txt").exists()
    # The receipts do not tell which earlier release broke the schema.
    kinds = [receipt["kind"] for receipt in project.statement()["ledger"]["receipts"]]
    assert kinds[0] == "reserve"
    assert kinds.count("reserve") == kinds.count("settle") == 1


def test_abandoning_gives_back_what_was_not_charged_and_keeps_the_name(project):
    project.write_spec(privacy=PURE)
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("select"))
    settled = abandon(project.home, project.ledger(), "town")
    assert settled["outcome"] == "abandoned"
    account = project.ledger().account("town")
    assert account.balance.reserved == NOTHING
    assert 0 < account.balance.spent.main < 1
    assert not (project.run_folder / "confidential").exists()
    with pytest.raises(BadInput, match="abandoned"):
        project.release()
    with pytest.raises(BadInput, match="abandoned already"):
        abandon(project.home, project.ledger(), "town")


def test_abandoning_counts_a_result_that_was_stored_and_not_committed_as_seen(project, monkeypatch):
    """A process that is killed between the two leaves a file that anyone there can read."""

    project.write_spec("measure: {noise: gaussian}\n", method="privsyn")
    with monkeypatch.context() as patch:
        patch.setattr(ChargingWriter, "commit", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            project.release()
    abandon(project.home, project.ledger(), "town")
    account = project.ledger().account("town")
    assert account.balance.spent == Amount(Fraction(1), Fraction("1e-6"))


def test_a_ledger_put_back_from_a_backup_gives_no_second_draw(project):
    backup = (project.home / "ledger.db").read_bytes()
    project.release()
    noisy = project.run_folder / "public/noisy"
    kept = {path.name: path.read_bytes() for path in noisy.iterdir()}
    (project.home / "ledger.db").write_bytes(backup)

    with pytest.raises(LedgerCorrupt, match="older than"):
        project.release(project.folder / "second")
    # Even where somebody deletes the note, results without a charge stop the release.
    (project.home / "ledger.head").unlink()
    shutil.rmtree(os.environ["DP_RELEASE_STATE"])
    with pytest.raises(LedgerCorrupt, match="Restore the newest copy of the ledger"):
        project.release(project.folder / "second")
    assert {path.name: path.read_bytes() for path in noisy.iterdir()} == kept
    assert project.untouched()


def test_another_home_with_the_same_ledger_and_key_gives_no_second_draw(
    project, monkeypatch, tmp_path
):
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{project.home / 'ledger.db'}")
    with monkeypatch.context() as patch:
        patch.setattr(ChargingWriter, "commit", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            project.release()
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(project.home / "input.key", other)
    monkeypatch.setenv("DP_RELEASE_HOME", str(other))

    with pytest.raises(StageFailed) as error:
        project.release()
    assert error.value.row == "other-home"
    assert project.redraws() == 0
    assert not list(other.rglob("*.noise"))
    monkeypatch.setenv("DP_RELEASE_HOME", str(project.home))
    project.release()
    assert project.faults() == {}


def _in_two_files(project):
    """Divide the data into two files, and return a spec's pattern for both."""
    rows = pd.read_csv(project.folder / "town.csv", dtype=str, keep_default_na=False)
    for number in (1, 2):
        rows.iloc[number - 1 :: 2].to_csv(project.folder / f"part-{number}.csv", index=False)
    return "part-*.csv"


def test_one_of_several_files_is_refused_in_another_account_alone_and_beside_new_ones(project):
    project.write_spec(data=_in_two_files(project))
    project.release()
    project.open_account("other")
    project.write_spec(data="part-2.csv", release="town2", account="other")
    with raises_inside(BadInput, match=r"belongs to account 'town' .*fresh budget"):
        project.release(project.folder / "second")
    rows = pd.read_csv(project.folder / "part-1.csv", dtype=str, keep_default_na=False)
    rows.iloc[::-1].to_csv(project.folder / "part-1.csv", index=False)
    project.write_spec(data="part-*.csv", release="town3", account="other")
    with raises_inside(BadInput, match=r"belongs to account 'town' .*fresh budget"):
        project.release(project.folder / "third")
    (project.folder / "part-2.csv").unlink()
    project.write_spec(data="part-*.csv", release="town4", account="other")
    project.release(project.folder / "fourth")
    project.ledger().verify()


def test_the_file_may_be_moved_while_the_run_folder_stays(project):
    # A rename of the data's folder is no change of the data.
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("measure"))
    moved = project.folder.parent / "moved"
    shutil.move(project.folder, moved)
    project.folder = moved
    project.release()
    assert project.faults() == {}
