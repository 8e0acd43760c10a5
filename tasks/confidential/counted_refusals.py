"""Attempts at work on the data: if the data refuse, the ledger counts it before anybody is told."""

from __future__ import annotations

from collections.abc import Callable

from dp_core.errors import DataRefused, ReleaseError, SchemaViolation, without_detail
from tasks.confidential.confidential_run import ConfidentialRun
from tasks.run import stage_failures
from tasks.run.stage_failures import ReportedFailure, Result, keep_detail
from tasks.support.run_folder import where_kept


def attempt(name: str, work: Callable[[], Result], run: ConfidentialRun) -> Result | ReleaseError:
    """Return what `stage_failures.attempt` does; a refusal by the data is counted first.

    Args:
        name: Public name of the stage.
        work: The work.
        run: The run; its writer records the verdict.
    """

    def counted() -> Result:
        try:
            return work()
        except DataRefused as refused:
            raise ReportedFailure(_refusal(name, run, refused)) from None

    return stage_failures.attempt(name, counted, run)


def _refusal(name: str, run: ConfidentialRun, refused: DataRefused) -> ReleaseError:
    """Return the error by which others learn that the confidential data refused.

    Privacy:
        The refusal is an answer about the data. So the ledger counts it before anybody is told, and
        the sentence that Prefect and the log keep names no rule and no column.
    """
    try:
        run.judge("refused")
    except ReleaseError as error:
        # It was not counted, so it is not told: the next attempt finds it again.
        return without_detail(error)
    keep_detail(name, run, refused.internal or "")
    if not isinstance(refused, SchemaViolation):
        return without_detail(refused)
    kept = run.folder.keep_refusal(refused.message)
    return SchemaViolation(
        f"The confidential data of release {run.spec.release!r} do not fit its schema. The ledger"
        f" counts the refused attempt; what does not fit {where_kept(kept)}. `dp-release schema"
        " check SCHEMA FILE` shows all of it and is not counted.",
        row="data-do-not-fit",
    )
