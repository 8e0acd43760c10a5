"""Approval before publication: whether a release is published, waits for a person, or ends."""

from __future__ import annotations

from dp_core.bundle.statement.release_json import file_record
from dp_core.errors import Held, StageFailed, Unpublished
from dp_core.plan.quality_checks import verdicts
from dp_core.policies.approval import Cause
from tasks.confidential.public_run import PublicRun
from tasks.run.public_files import synthetic_files
from tasks.run.publication_refusals import failed_sentence, waiting_sentence
from tasks.run.release_cleanup import mark_waiting, remove_unpublished
from tasks.run.release_run import Run
from tasks.stages.publish import published_checks


def require_approval(run: PublicRun) -> None:
    """Return if the release may be published; otherwise record that it waits, or end it.

    Raises:
        Held: if the release awaits approval.
        Unpublished: if its own thresholds ended it.
    """
    if run.reservation.outcome is not None:
        return
    said, verdict = verdicts(run.spec.thresholds, published_checks(run))
    if verdict == "fail":
        run.writer.settle(run.reservation, "failed-thresholds")
        remove_unpublished(run.folder, keep_confidential=run.keep_confidential)
        raise Unpublished(failed_sentence(run.spec.release, said), row="ended-by-thresholds")
    cause: Cause = "after-approval"
    if run.spec.publish != "after-approval":
        if verdict == "publish":
            return
        cause = "thresholds"
    gate = run.writer.await_approval(run.reservation, cause, _sets(run))
    mark_waiting(run.folder, keep_confidential=run.keep_confidential)
    raise Held(waiting_sentence(run.spec.release, gate), row="held")


def require_unchanged(run: Run) -> None:
    """Raise unless the files that await approval are unchanged.

    Raises:
        StageFailed: if a file is missing or was changed, since none of them is made again.
    """
    (entry,) = run.ledger.entries(kinds=("hold",), reservation=run.reservation.position)
    try:
        same = _sets(run) == entry.body["sets"]
    except OSError:
        same = False
    needed = (run.measured_in("measure"), "reconstruct", "synthesize", "check")
    if not same or any(run.has(stage) and run.folder.facts_of(stage) is None for stage in needed):
        name = run.spec.release
        raise StageFailed(
            f"Files of release {name!r}, which awaits approval, are missing or were changed in"
            f" {run.folder.path}, and are never made again. Restore the folder from a backup, or"
            f" `dp-release release withdraw {name}`.",
            row="held-changed",
        )


def _sets(run: Run) -> list[str]:
    """Return the SHA-256 of each synthetic file."""
    files = [file for number in run.spec.set_numbers for file in synthetic_files(run, number)]
    return [str(file_record(file)["sha256"]) for file in files]
