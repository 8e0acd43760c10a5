"""The gate before publication: a release passes it, waits at it for a person, or ends there."""

from __future__ import annotations

from dp_core.bundle.statement.release_json import file_record
from dp_core.errors import Held, StageFailed, Unpublished
from dp_core.spec.quality_checks import judged
from dp_core.wall.ledger.approval import Cause
from tasks.run.publication_refusals import failed_sentence, waiting_sentence
from tasks.run.release_cleanup import mark_waiting, remove_unpublished
from tasks.run.release_run import Run
from tasks.stages.publish import published_checks
from tasks.stages.synthesize import synthetic_file


def require_approval(run: Run) -> None:
    """Return if the release may be published; hold it back where a person decides first.

    Raises:
        Held: if it waits for a person now.
        Unpublished: if its own thresholds end it.
    """
    if run.reservation.outcome is not None:
        return
    said, verdict = judged(run.spec.thresholds, published_checks(run))
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
    """Raise unless everything is still there that was held: it is published so, or not at all.

    Raises:
        StageFailed: if something is missing or another; nothing of it is made again.
    """
    (entry,) = run.ledger.entries(kinds=("hold",), reservation=run.reservation.position)
    try:
        same = _sets(run) == entry.body["sets"]
    except OSError:
        same = False
    needed = ("measure", "reconstruct", "synthesize", "check")
    if not same or any(run.folder.done(stage) is None for stage in needed):
        name = run.spec.release
        raise StageFailed(
            f"What was held of release {name!r} is missing or was changed in {run.folder.path}, and"
            " it is never made again: restore the folder from a backup, or `dp-release withdraw"
            f" {name}`.",
            row="held-changed",
        )


def _sets(run: Run) -> list[str]:
    """Return the SHA-256 of each synthetic file."""
    numbers = range(1, run.spec.sets + 1)
    return [str(file_record(synthetic_file(run, number))["sha256"]) for number in numbers]
