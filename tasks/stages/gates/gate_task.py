"""The decorator of the ledger's tasks: their names, and errors without data."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from prefect import Task

from dp_core.errors import AwaitsApproval, Held, ReleaseError, Unpublished, without_detail
from tasks.run.stage_failures import unexpected_failure
from tasks.stages.stage_task import quiet_task
from tasks.support.run_folder import RunFolder

PREFIX = "ledger: "
"""Beginning of the names of the ledger's tasks, in Prefect."""

SubjectT = TypeVar("SubjectT", bound="WithFolder")
P = ParamSpec("P")
ResultT = TypeVar("ResultT")


class WithFolder(Protocol):
    """A run, or a release that is about to be opened."""

    @property
    def folder(self) -> RunFolder:
        """The release's folder; the detail of an unexpected error goes there."""


class Waiting:
    """The answer of a gate that did not fail: the release waits for a person, or has ended.

    Attributes:
        error: The reason, without data; the flow raises it.
    """

    def __init__(self, error: ReleaseError) -> None:
        self.error = error


def gate(
    name: str, run_name: str | None = None
) -> Callable[
    [Callable[Concatenate[SubjectT, P], ResultT]],
    Task[Concatenate[SubjectT, P], ResultT | Waiting],
]:
    """Return a decorator that makes a Prefect task of a decision of the ledger.

    The task fails if the ledger refuses. If the release waits for a person, or its own thresholds
    ended it, the task succeeds and returns `Waiting`. Prefect does not cache, persist or retry it.

    Args:
        name: What the ledger does; the name of the task after `PREFIX`.
        run_name: Template of the name of the task run after `PREFIX`, with the task's parameters;
            None for `name`.

    Privacy:
        As for a stage, every error leaves the task as a new `ReleaseError` without cause, context
        or data.
    """

    def decorate(
        work: Callable[Concatenate[SubjectT, P], ResultT],
    ) -> Task[Concatenate[SubjectT, P], ResultT | Waiting]:
        def attempt(
            subject: SubjectT, *given: P.args, **named: P.kwargs
        ) -> ResultT | Waiting | ReleaseError:
            folder = subject.folder
            try:
                return work(subject, *given, **named)
            except (Held, AwaitsApproval, Unpublished) as waiting:
                return Waiting(without_detail(waiting))
            except ReleaseError as error:
                if error.internal:
                    folder.keep_detail(error.internal)
                return without_detail(error)
            except Exception as error:
                return unexpected_failure(f"The ledger's task {name!r}", error, folder)

        @wraps(work)
        def perform(subject: SubjectT, *given: P.args, **named: P.kwargs) -> ResultT | Waiting:
            answer = attempt(subject, *given, **named)
            if isinstance(answer, ReleaseError):
                raise answer
            return answer

        return quiet_task(PREFIX + name, perform, work.__doc__, PREFIX + (run_name or name))

    return decorate
