"""Settings of the libraries around us, made before they are imported: silent, local, forgetful."""

from __future__ import annotations

import os
import resource
from pathlib import Path

QUIET = {
    # No usage data leaves this machine.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "GX_ANALYTICS_ENABLED": "false",
    # privacy: Prefect stores results where many may read them; ours are in the run's folder.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
    # privacy: Dask's dashboard and spill files show data.
    "DASK_DISTRIBUTED__DASHBOARD__LINK": "",
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "30s",
}

DEFAULTS = {
    # The local server's first start migrates its database, which can take long on a busy machine.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
}


def prepare(home: Path, *, verbose: bool = False) -> None:
    """Set the environment; what an operator set for the second group is kept.

    Privacy:
        A crash of a library must not write this process's memory, which holds rows and exact
        counts, into the working folder.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ.update(QUIET)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PREFECT_HOME", str(home / "prefect"))
    if verbose:
        os.environ["PREFECT_LOGGING_LEVEL"] = "INFO"
