"""What somebody learns from a release that the confidential data refused, and what it costs."""

import contextlib
import json
import shutil

import pytest

from dp_core.bundle.statement.release_json import NOT_COVERED
from dp_core.errors import BadInput, DataRefused, SchemaViolation, StageFailed
from dp_core.schema.reading import expectation_reader
from tasks.confidential import file_work
from tasks.confidential.messages import STOPS
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.support.run_folder import RunFolder
from tasks.validation import expectations
from tasks.validation.suite_judge import SuiteJudge
from tests.confidential_side import raises_inside
from tests.flows.conftest import SCHEMA, as_csv, stopping, survey
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")

LEVELS = ("single", "married", "widowed")


def write_schema(project, *, rules=(), columns=SCHEMA):
    head = columns.partition("impossible:")[0]
    text = "".join(f"{rule}\n" for rule in rules)
    (project.folder / "town.schema.yaml").write_text(
        head + (f"impossible:\n{text}" if text else "")
    )


def refused(project):
    with pytest.raises(SchemaViolation) as caught:
        project.release()
    return caught.value


def test_rules_ask_nothing_that_the_sentence_would_answer(project):
    """Every rule is a question about the data."""
    rules = [
        f'  - {{age: "<{bound}", sex: {sex}, marital: {level}, income: "<{income}"}}'
        for bound in (15, 40)
        for sex in "12"
        for level in LEVELS
        for income in (250, 500, 750)
    ]
    write_schema(project, rules=rules)
    many = refused(project)
    write_schema(project, rules=rules[:1])
    one = refused(project)
    (project.folder / "town.csv").write_text(as_csv([*survey(), ["i", "100", *["?"] * 4]]))
    write_schema(project)
    values = refused(project)
    assert many.message == one.message == values.message
    assert (many.row, many.exit_code) == (one.row, one.exit_code) == (values.row, values.exit_code)
    for word in ("age", "marital", "<15", "single", "impossible", "more"):
        assert word not in many.message.replace(str(project.internal / "message.txt"), "")


def test_every_refusal_is_counted_and_the_fourth_opens_no_data(project, command):
    data = project.folder / "town.csv"
    good = data.read_text()
    data.write_text(good.replace(",single,", ",bachelor,", 1))
    run = ("run", project.spec, "--out", project.out)
    for number in range(3):
        assert command("ledger", "show", "town", "--json").json["refused_attempts"] == number
        assert command(*run, "--json").code == 2
    shown = command("ledger", "show", "town", "--json").json
    assert (shown["refused_attempts"], shown["open_attempts"]) == (3, 0)
    assert shown["spent"]["epsilon"] == shown["reserved"]["epsilon"] == 0

    data.unlink()  # if it were opened, the answer would be that it is missing
    stopped = command(*run)
    assert stopped.code == 3
    assert "`dp-release ledger allow-retry town --by NAME --reason TEXT`" in stopped.err
    assert stopped.err.endswith("(runbook: attempts-refused)\n")

    data.write_text(good)
    allowed = command("ledger", "allow-retry", "town", "--by", "Ana", "--reason", "corrected")
    assert (allowed.code, "allows further attempts" in allowed.out) == (0, True)
    assert command(*run).code == 0
    statement = project.statement()
    shown = command("ledger", "show", "town", "--json").json
    (retry,) = shown["allowed_retries"]
    assert (retry["by"], retry["reason"]) == ("Ana", "corrected")
    said = statement["refusals"]
    assert (said["refused_attempts"], said["open_attempts"]) == (3, 0)
    assert said["allowed_retries"] == [retry["day"]]
    assert "Ana" not in json.dumps(statement)
    assert project.faults() == {}
    assert command("ledger", "verify").code == 0


def test_data_that_are_not_there_are_no_attempt(project):
    (project.folder / "town.csv").unlink()
    with pytest.raises(BadInput) as stopped:
        project.release()
    assert stopped.value.row == "data-not-found"
    assert not isinstance(stopped.value, DataRefused)
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (0, 0)
    assert "examine" not in project.kinds()


SPOILED = {
    "ragged": lambda path: path.write_text(path.read_text() + "one,field,too,many,in,this,row\n"),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes() + b"i,1,1,\xff,,2001-01-01\n"),
    "another header": lambda path: path.write_text(path.read_text().replace("marital", "x", 1)),
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-14]),
}
"""Ways in which a file cannot be read."""


@pytest.mark.runbook("data-unreadable")
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_data_that_cannot_be_read_are_counted_and_told_alike(project, says, spoil):
    spoil(project.folder / "town.csv")
    with pytest.raises(DataRefused) as stopped:
        project.release()
    says(stopped.value)
    assert (type(stopped.value), stopped.value.row) == (DataRefused, "data-unreadable")
    others = str(project.internal / "message.txt")
    assert stopped.value.message.replace(others, "...") == (
        "The confidential data of release 'town' cannot be read. The ledger counts the refused"
        " attempt; the reason is in .... `dp-release schema check SCHEMA FILE` shows all that is"
        " wrong with a file and is not counted. Nothing was spent."
    )
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (1, 0)
    (verdict,) = project.ledger().entries(kinds=("verdict",))
    assert verdict.body == {"verdict": "unreadable", "counted": True}


def test_a_library_that_fails_on_the_data_is_a_counted_answer_about_them(project, monkeypatch):
    monkeypatch.setitem(file_work.WORK, "validate", raising(ValueError("salary of row 4711")))
    with pytest.raises(DataRefused) as stopped:
        project.release()
    assert stopped.value.row == "data-unreadable"
    assert project.ledger().attempts("town").refused == 1


@pytest.mark.runbook("memory-short")
def test_short_memory_is_no_answer_about_the_data(project, monkeypatch, says):
    with monkeypatch.context() as patch:
        patch.setitem(file_work.WORK, "validate", raising(MemoryError()))
        for _ in range(4):
            with pytest.raises(StageFailed) as stopped:
                project.release()
            says(stopped.value)
    assert stopped.value.row == "memory-short"
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (0, 1)
    project.release()


@pytest.mark.parametrize("stage", ["identify", "validate", "discretize", "count", "check"])
@pytest.mark.parametrize("row", STOPS)
def test_what_stops_a_release_whatever_its_data_keeps_its_row_in_every_stage(
    project, monkeypatch, stage, row
):
    monkeypatch.setitem(file_work.WORK, stage, raising(StageFailed("So it is.", row=row)))
    with pytest.raises(StageFailed) as stopped:
        project.release()
    assert (type(stopped.value), stopped.value.row) == (StageFailed, row)
    assert project.ledger().attempts("town").refused == 0


@pytest.mark.parametrize("kind", [BadInput, DataRefused, SchemaViolation, StageFailed, ValueError])
@pytest.mark.runbook("data-side")
def test_after_the_data_were_found_to_fit_a_failure_is_one_fixed_row(
    project, monkeypatch, says, kind
):
    monkeypatch.setitem(file_work.WORK, "count", raising(kind("salary of row 4711")))
    with pytest.raises(StageFailed) as stopped:
        project.release()
    says(stopped.value)
    assert (type(stopped.value), stopped.value.row) == (StageFailed, "data-side")
    assert "4711" not in stopped.value.message
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (0, 1)


@pytest.mark.parametrize("verdict", ["refused", "unreadable"])
def test_killed_between_the_count_and_the_telling_it_is_counted_once(project, monkeypatch, verdict):
    data = project.folder / "town.csv"
    good = data.read_text()
    spoiled = {"refused": good.replace(",single,", ",bachelor,", 1), "unreadable": ""}
    data.write_text(spoiled[verdict])
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep_message", interrupted)  # what follows the count
        with pytest.raises(KeyboardInterrupt):
            project.release()
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (1, 0)
    if verdict == "refused":
        refused(project)  # told now
    data.write_text(good)
    project.release()
    assert project.ledger().attempts("town").refused == 1
    assert project.faults() == {}


def test_an_expectation_that_cannot_be_judged_is_no_attempt(project, monkeypatch):
    """The trial uses the library; only the check at reading is left out."""
    monkeypatch.setattr(expectations, "SuiteJudge", SuiteJudge)
    monkeypatch.setitem(expectation_reader._PLAIN, "regex", lambda node: node.text())
    own = 'expectations:\n  - expect_column_values_to_match_regex: {column: sex, regex: "("}\n'
    for _ in range(4):
        write_schema(project, columns=f"{SCHEMA.partition('impossible:')[0]}{own}")
        with raises_inside(BadInput, match="cannot judge expect_column_values_to_match_regex"):
            project.release()
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (0, 0)
    write_schema(project)
    project.release()


def test_a_file_without_a_row_is_an_answer_about_its_rows(project):
    data = project.folder / "town.csv"
    data.write_text(data.read_text().splitlines()[0] + "\n")
    with pytest.raises(BadInput):
        project.release()
    assert project.ledger().attempts("town").refused == 1


def test_a_run_that_is_killed_before_its_verdict_has_not_asked_for_nothing(project, monkeypatch):
    """The internal folder tells the answer before the verdict is written."""
    data = project.folder / "town.csv"
    data.write_text(data.read_text().replace(",single,", ",bachelor,", 1))
    with monkeypatch.context() as patch:
        patch.setattr(ChargingWriter, "judge", interrupted)
        for _ in range(4):  # a crash that repeats is the same attempt
            with pytest.raises(KeyboardInterrupt):
                project.release()
    assert (project.internal / "validation.json").exists()
    ledger = project.ledger()
    found = ledger.attempts("town")
    assert (found.refused, found.open) == (0, 1)
    refused(project)
    found = ledger.attempts("town")
    assert (found.refused, found.open) == (1, 0)


interrupted = raising(KeyboardInterrupt)


@pytest.mark.parametrize("fits", [True, False])
def test_a_verdict_that_cannot_be_recorded_does_not_make_the_data_unreadable(
    project, monkeypatch, fits
):
    """Whoever locks the state folder for a moment would have the answer uncounted."""
    data = project.folder / "town.csv"
    if not fits:
        data.write_text(data.read_text().replace(",single,", ",bachelor,", 1))
    judge = ChargingWriter.judge

    def locked(writer, reservation, verdict):
        if verdict in ("fits", "refused"):
            raise BadInput("The state folder cannot be written.", row="state-folder")
        judge(writer, reservation, verdict)

    with monkeypatch.context() as patch:
        patch.setattr(ChargingWriter, "judge", locked)
        with raises_inside(StageFailed, match="state folder"):
            project.release()
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (0, 1)
    with contextlib.nullcontext() if fits else pytest.raises(SchemaViolation):
        project.release()
    assert project.ledger().attempts("town").refused == (not fits)


# -- what the statement says about clip and missing


CLIP = SCHEMA.replace("ignore:", "out_of_range: clip\nignore:")
SETTLED = (
    SCHEMA.replace("40, 100]}", "40, 100], missing: level}")
    .replace("2: female}}", "2: female}, missing: level}")
    .replace("2010-01-01]}", "2010-01-01], missing: level}")
    .replace("ignore:", "out_of_range: missing\nignore:")
)


@pytest.mark.parametrize(
    "kind", ["unknown level", "unreadable number", "missing value", "broken rule"]
)
def test_clip_does_not_avoid_a_refusal_and_missing_levels_do_for_values_of_the_type(project, kind):
    rows = survey()
    extra = {
        "unknown level": ["i", "30", "1", "bachelor", "7", "2001-01-11"],
        "unreadable number": ["i", "young", "1", "single", "7", "2001-01-11"],
        "missing value": ["i", "", "1", "single", "7", "2001-01-11"],
        "broken rule": ["i", "3", "1", "married", "7", "2001-01-11"],
    }[kind]
    (project.folder / "town.csv").write_text(as_csv([*rows, extra]))
    (project.folder / "town.schema.yaml").write_text(CLIP)
    refused(project)
    (project.folder / "town.schema.yaml").write_text(SETTLED)
    if kind == "unreadable number":
        refused(project)
        return

    class Enough(Exception):
        pass

    with pytest.raises(Enough):
        project.release(perform=stopping("count", Enough))
    said = NOT_COVERED[0]
    assert "clip does not avoid this" in said
    assert "missing, with a missing level in every column, settles every value of" in said


def test_a_refused_run_and_the_next_plan_say_how_many_attempts_were_refused(
    project, command, monkeypatch
):
    data = project.folder / "town.csv"
    data.write_text(data.read_text().replace(",single,", ",bachelor,", 1))
    run = ("run", project.spec, "--out", project.out)
    assert "attempts on account" not in command("plan", project.spec).out
    hidden = command(*run)
    assert (hidden.code, len(hidden.err.splitlines()[-1].split("attempts on account"))) == (2, 1)
    assert "`dp-release schema check SCHEMA FILE` shows all that is wrong" in hidden.err
    monkeypatch.setattr("flows.cli.arguments.on_terminal", lambda _stream: True)
    shown = command(*run)
    assert "2 of 3 attempts on account 'town' (with its family) were refused" in shown.err
    planned = command("plan", project.spec)
    text = " ".join(planned.out.split())
    assert (planned.code, "2 of 3 attempts on account 'town'" in text) == (0, True)
    assert command("plan", project.spec, "--json").json["refused_attempts"] == 2
    command(*run)
    stopped = command("plan", project.spec)
    assert (stopped.code, "enough for" in stopped.out) == (3, False)
    assert "ledger allow-retry town" in stopped.out


def test_status_of_a_stopped_release_says_who_must_act_before_it_can_be_resumed(project, command):
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("measure"))
    assert "stopped" not in command("status", "town", "--json").json

    data = project.folder / "town.csv"
    good = data.read_text()
    data.write_text(good.replace(",single,", ",bachelor,", 1))
    text = project.spec.read_text()
    project.write_spec(release="second")
    second = project.spec.rename(project.folder / "second.release.yaml")
    project.spec.write_text(text)
    for _ in range(3):
        assert command("run", second, "--out", project.folder / "second").code == 2
    data.write_text(good)

    allow = "dp-release ledger allow-retry town --by NAME --reason TEXT"
    assert command("resume", "town").code == 3
    shown = command("status", "town", "--json").json
    assert allow in shown["stopped"]
    (need,) = (one for one in command("status", "--json").json["needs"] if one["release"] == "town")
    assert need["do"].index(allow) < need["do"].index("`dp-release resume town`")
    assert allow in " ".join(command("status", "town").out.split())
    # The releases that were refused: their names can be used again, but not yet.
    assert allow in " ".join(command("status", "second").out.split())
    assert allow in " ".join(command("ledger", "show", "town").out.split())

    command("ledger", "allow-retry", "town", "--by", "Ana", "--reason", "corrected")
    assert "stopped" not in command("status", "town", "--json").json
    assert command("resume", "town").code == 0


@pytest.mark.parametrize("way", ["copy", "link"])
def test_a_file_that_is_read_under_two_names_is_refused_and_counted(project, command, way):
    """Whoever is in it would be counted twice, and be protected half as much as stated."""
    town, other = project.folder / "town.csv", project.folder / "town-latest.csv"
    other.symlink_to(town) if way == "link" else shutil.copyfile(town, other)
    project.write_spec(data="town*.csv")
    refused(project)
    assert "have the same rows" in (project.internal / "message.txt").read_text()
    assert "charge" not in project.kinds()
    assert command("ledger", "show", "town", "--json").json["refused_attempts"] == 1
