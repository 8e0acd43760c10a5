"""What all flows share that a Prefect worker starts without a person.

The command line makes the settings of `flows.engine.settings` before Prefect is imported. In a
worker Prefect is already imported, so a flow can only check that the operator made them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect.runtime import flow_run
from prefect.states import State

from dp_core.errors import ReleaseError, StageFailed
from flows.engine.settings import prepare, require_quiet_settings
from flows.releases.run_records import Begun, RunRecords
from tasks.run.home import home
from tasks.support.run_folder import where_kept

Work = Callable[[Begun], "State[Any] | None"]


def do_unattended(flow: str, work: Work) -> State[Any] | None:
    """Do the work of a flow run, and record its process and its end in the home.

    Args:
        flow: Name of the flow.
        work: All that the flow does. It returns the run's final state in Prefect, None for the
            default.

    Raises:
        ReleaseError: if the work failed; the error holds no data.
    """
    run = str(flow_run.id or uuid4())
    failure: ReleaseError
    try:
        require_quiet(home())
        with RunRecords(home()).going_on(run, flow) as begun:
            return work(begun)
    except ReleaseError as error:
        failure = error.without_detail()
    except Exception as error:
        kept = RunRecords(home()).keep_detail(run, traceback.format_exc())
        failure = StageFailed(
            f"The run of {flow} stopped ({type(error).__name__}); the detail {where_kept(kept)}."
            " Nothing is lost: repair the cause, then run it again.",
            row="run-stopped",
        )
    # privacy: raise outside the `except` blocks, because Prefect stores an error with its causes.
    raise failure


def require_quiet(home: Path) -> None:
    """Refuse to start if Prefect would store results or other logs, or send usage data.

    Then make the settings that can still be made.

    Args:
        home: The home.

    Raises:
        BadInput: if a setting is wrong; the message names it.

    Privacy:
        Many people can read what Prefect stores. Results could hold what a task returns, and the
        logs of other libraries what they read. The log of a run holds Prefect's lines and those of
        `flows.monitoring.run_log`: public values, and errors without data. Prefect reads its
        settings when it is imported, so here they can only be checked.
    """
    from prefect.settings import get_current_settings

    require_quiet_settings(get_current_settings())
    prepare(home)
