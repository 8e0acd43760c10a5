"""What all flows have in common that a worker starts and nobody watches.

The command line makes the settings of `flows.engine.settings` before Prefect is imported. A flow
that a worker starts finds Prefect imported, so it can only look whether its operator made them.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect.runtime import flow_run
from prefect.states import State

from dp_core.errors import BadInput, ReleaseError, StageFailed
from flows.engine.settings import DEFAULTS, QUIET, prepare
from flows.releases.attempts import Attempts, Begun
from tasks.run.home import home
from tasks.support.run_folder import where_kept

Work = Callable[[Begun], "State[Any] | None"]


def unattended(flow: str, work: Work) -> State[Any] | None:
    """Do the work of a flow run; remember in the home who does it, and how it ended.

    Args:
        flow: Name of the flow.
        work: All that it does; what it returns is the run's state in Prefect.

    Raises:
        ReleaseError: what went wrong, in one sentence and without data.
    """
    run = str(flow_run.id or uuid4())
    failure: ReleaseError
    try:
        require_quiet(home())
        with Attempts(home()).going_on(run, flow) as begun:
            return work(begun)
    except ReleaseError as error:
        failure = error.without_detail()
    except Exception as error:
        kept = Attempts(home()).keep_detail(run, traceback.format_exc())
        failure = StageFailed(
            f"The run of {flow} stopped ({type(error).__name__}); the detail {where_kept(kept)}."
            " Nothing is lost: run it again when the cause is mended.",
            row="run-stopped",
        )
    # privacy: raised where nothing is being handled; Prefect keeps what leaves a flow, with causes.
    raise failure


def require_quiet(home: Path) -> None:
    """Refuse to go on where Prefect would store results, or tell others of runs; make the rest.

    Raises:
        BadInput: naming the setting.

    Privacy:
        What a task returns or raises, or a library or a defect says in a log, would be kept where
        many may read it. Prefect reads its settings when it is imported, so that here they can
        only be looked at.
    """
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    tells = os.environ.get("DO_NOT_TRACK", "").lower() not in ("1", "true", "yes")
    for what, name, wrong in (
        (
            "store results",
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT",
            settings.results.persist_by_default,
        ),
        (
            "store results",
            "PREFECT_TASKS_DEFAULT_PERSIST_RESULT",
            settings.tasks.default_persist_result,
        ),
        ("keep logs of runs", "PREFECT_LOGGING_TO_API_ENABLED", settings.logging.to_api.enabled),
        ("send usage data", "DO_NOT_TRACK", tells),
    ):
        if wrong:
            value = {**QUIET, **DEFAULTS}[name]
            raise BadInput(
                f"Prefect is set to {what} ({name}); set it to {value} for the worker and its runs,"
                " then run this again.",
                row="results-stored",
            )
    prepare(home)
