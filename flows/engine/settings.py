"""Settings of Prefect, Dask and Great Expectations, made before those libraries are imported.

They send no usage data, store no results, and use a local server unless the operator names one.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput, StageFailed
from flows.engine.site_settings import (
    place_of_setting,
    require_dask_configuration,
    require_usable_values,
)
from tasks.support.lazy_packages import LazyPackages
from tasks.support.process_environment import correct_environment, require_assertions

if TYPE_CHECKING:
    from prefect.settings import Settings

QUIET = {
    # No usage data leaves this machine.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "GX_ANALYTICS_ENABLED": "false",
    # privacy: many people may read results that Prefect stores; ours are in the run's folder.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
    # privacy: Dask's dashboard and spill files show data.
    "DASK_DISTRIBUTED__DASHBOARD__LINK": "",
    "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "30s",
    # Jobs of a queue inherit the environment.
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "['distributed.http.health']",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "false",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "false",
}

OTHER_LOGS = "PREFECT_LOGGING_EXTRA_LOGGERS"
"""Variable that makes Prefect keep the logs of other libraries; it must not be set.

privacy: the log of a run holds Prefect's own lines and ours, but other libraries may log what they
read.
"""

DEFAULTS = {
    # The local server's first start migrates its database, which can take long on a busy machine.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_CLI_PROMPT": "false",
}

SPARED = (
    # Prefect needs one function of it, to serialise a flow's parameters.
    LazyPackages(["fastapi"], {}),
    # Numba checks that a BLAS is present, but our loops use none.
    LazyPackages(["scipy.linalg"], {}),
    # Counting uses its scheduler of threads, and none of its collections.
    LazyPackages(["dask"], {}),
)
"""Packages that are imported only when they are used; each import takes .03 to .25 seconds."""


def prepare(home: Path, *, verbose: bool = False) -> None:
    """Set the environment variables of the libraries, and defer imports that are rarely needed.

    The variables in `QUIET` are always set; those in `DEFAULTS` only if the operator has not set
    them.

    Args:
        home: The home; Prefect's files go to its subfolder `prefect` unless PREFECT_HOME is set.
        verbose: Show Prefect's log at level INFO; False by default.

    Raises:
        BadInput: if Python leaves out assertions, or a variable or file of the site cannot be used.

    Privacy:
        Core dumps are switched off.
        A crash of a library must not write this process's memory, which holds rows and exact
        counts, into the working folder.
    """
    correct_environment()
    require_assertions()
    _give_folders(home)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ.update(QUIET)
    os.environ.pop(OTHER_LOGS, None)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PREFECT_HOME", str(home / "prefect"))
    if verbose:
        os.environ["PREFECT_LOGGING_LEVEL"] = "INFO"
        os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "INFO"
    for packages in SPARED:
        packages.install()
    require_usable_values()
    require_dask_configuration()


def require_quiet_settings(settings: Settings) -> None:
    """Refuse settings of Prefect under which others could read what a run stores, logs or sends.

    A file, or a variable in small letters, can set them too.

    Raises:
        BadInput: if there is one; the message names the variable or the file.
    """
    tells = os.environ.get("DO_NOT_TRACK", "").lower() not in ("1", "true", "yes")
    results, tasks = "PREFECT_RESULTS_PERSIST_BY_DEFAULT", "PREFECT_TASKS_DEFAULT_PERSIST_RESULT"
    for what, name, wrong in (
        ("store results", results, settings.results.persist_by_default),
        ("store results", tasks, settings.tasks.default_persist_result),
        ("keep the logs of other libraries", OTHER_LOGS, settings.logging.extra_loggers),
        ("send usage data", "DO_NOT_TRACK", tells),
    ):
        if wrong:
            raise BadInput(
                f"Prefect is set to {what} ({place_of_setting(name)}); set it to"
                f" {QUIET.get(name, 'nothing')}, for a worker and its runs too, then run this"
                " again.",
                row="results-stored",
            )


def _give_folders(home: Path) -> None:
    """Let libraries use the home if the user has no home folder, or cannot write to it.

    Prefect does not start without a home folder of the user. Numba keeps compiled loops beside
    their source files or in the user's cache, and does not compile if it can write to neither.
    """
    try:
        cache = Path.home() / ".cache" / "numba"
    except RuntimeError:
        os.environ["HOME"] = str(home)
        cache = home / ".cache" / "numba"
    there = next(path for path in (cache, *cache.parents) if path.exists())
    if not os.access(there, os.W_OK) and not os.access(Path(__file__).parent, os.W_OK):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(home / "compiled"))


ROOM = 8 * 2**20
"""Free bytes that Prefect's own server needs to start, for its tables and SQLite's journal."""


def require_room(home: Path) -> None:
    """Refuse to start if Prefect's own server cannot write its database.

    Prefect itself would report the problem by printing its whole log. If PREFECT_API_URL names a
    server, nothing is checked.

    Args:
        home: The home; Prefect's files are in its subfolder `prefect` unless PREFECT_HOME is set.

    Raises:
        StageFailed: if the folder cannot be written, or its disk is full.
    """
    folder = Path(os.environ.get("PREFECT_HOME") or home / "prefect").expanduser()
    if os.environ.get("PREFECT_API_URL"):
        return
    next_step = "resume, or run the same again; nothing is lost."
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(folder).free
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = 0
        else:
            raise StageFailed(
                f"{folder} could not be written ({os.strerror(error.errno or errno.EIO)})."
                " Prefect's own server keeps its database there; check the folder, then"
                f" {next_step}",
                row="not-written",
            ) from None
    if free < ROOM:
        raise StageFailed(
            f"The disk is full: {folder} has {free // 2**20} MB left, and Prefect's own server"
            f" needs {ROOM // 2**20} MB there. Free some space, then {next_step}",
            row="disk-full",
        )
