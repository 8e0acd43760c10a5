"""What goes wrong around the stages: one sentence for a person, the detail for staff."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from dp_core.errors import ReleaseError, StageFailed
from tasks.places import home
from tasks.stores.artifacts import RunFolder


def stopped_outside(release: str, error: Exception) -> StageFailed:
    """Return the sentence about a failure outside the stages; to be raised `from None`.

    Args:
        release: The release it stopped; the detail goes to its internal folder.
        error: Being handled.
    """
    file = RunFolder(home(), release).keep_detail(traceback.format_exc())
    return StageFailed(
        f"The release stopped outside its stages ({type(error).__name__}); the detail is in {file}."
        f" Nothing is lost: `dp-release resume {release}` goes on."
    )


def without_data(release: str, work: Callable[[], object]) -> ReleaseError | None:
    """Do the work of a flow; return what stopped it as a new error that holds no data.

    Args:
        release: Its name.
        work: All that the flow does.

    Privacy:
        As of a stage (`tasks.stage`): Prefect logs and stores what leaves a flow, with its text,
        its attributes, its causes and what was being handled when it was raised. So it is made
        anew, and the caller raises it where nothing is being handled.
    """
    try:
        work()
    except ReleaseError as error:
        if error.internal:
            RunFolder(home(), release).keep_detail(error.internal)
        return type(error)(error.message)
    except Exception as error:
        return stopped_outside(release, error)
    return None
