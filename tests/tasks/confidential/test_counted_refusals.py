"""A refusal by the data is counted before it is told, and told without what it names."""

import traceback
from types import SimpleNamespace

import pytest

from dp_core.errors import BadInput, DataRefused, SchemaViolation, StageFailed
from tasks.confidential.counted_refusals import attempt
from tasks.support.run_folder import RunFolder

CANARY = "salary-of-row-4711"


@pytest.fixture
def run(tmp_path):
    """What an attempt needs of a run, and the verdicts that it recorded."""
    folder = RunFolder(tmp_path, "first", "a" * 64)
    folder.begin(spec=tmp_path / "spec.yaml", out=tmp_path / "out")
    verdicts = []
    return SimpleNamespace(
        folder=folder,
        spec=SimpleNamespace(release="first"),
        writer=SimpleNamespace(require=lambda: None),
        judge=verdicts.append,
        verdicts=verdicts,
    )


def failure_of(run, error):
    """Return the error of an attempt whose work fails with one that holds a value."""

    def work():
        confidential = CANARY
        try:
            raise KeyError(confidential)
        except KeyError as cause:
            raise error from cause

    failure = attempt("validate", work, run)
    assert failure.__cause__ is failure.__context__ is failure.__traceback__ is None
    assert CANARY not in "".join(traceback.format_exception(failure)) + repr(vars(failure))
    return failure


def test_a_refusal_by_the_data_is_counted_and_told_without_what_it_names(run):
    named = SchemaViolation(f"Column {CANARY!r} has missing values.", internal="7 rows")
    other = SchemaViolation("The file breaks the rule {age: '<15'}.", internal="8 rows")
    failures = [failure_of(run, named)]
    assert CANARY in (run.folder.internal / "refusal.txt").read_text()
    assert "7 rows" not in (run.folder.internal / "refusal.txt").read_text()
    assert "7 rows" in (run.folder.internal / "failure.txt").read_text()
    failures.append(failure_of(run, other))
    assert failures[0].message == failures[1].message
    assert {failure.row for failure in failures} == {"data-do-not-fit"}
    assert str(run.folder.path / "internal" / "refusal.txt") in failures[0].message
    assert run.verdicts == ["refused", "refused"]


def test_a_refusal_of_the_whole_file_is_counted_and_told_as_it_is(run):
    failure = failure_of(run, DataRefused("The file has no row.", internal=CANARY))
    assert type(failure) is DataRefused
    assert failure.message == "The file has no row."
    assert run.verdicts == ["refused"]


def test_a_refusal_that_the_ledger_could_not_count_is_not_told(run):
    def gone(_):
        raise StageFailed("The ledger does not answer.")

    run.judge = gone
    failure = failure_of(run, SchemaViolation(f"Column {CANARY!r} has missing values."))
    assert failure.message == "The ledger does not answer."
    assert not (run.folder.internal / "refusal.txt").exists()


@pytest.mark.parametrize("error", [BadInput("Correct the file."), ValueError(CANARY)])
def test_what_is_no_refusal_is_not_counted(run, error):
    assert not isinstance(failure_of(run, error), DataRefused)
    assert run.verdicts == []
