"""Starts the cluster that a spec names: any cluster class for Dask, with its options.

The class runs in the confidential process. What it starts, jobs or pods, counts and draws
no noise. Whoever writes the options of such a class can start programs as the user of the release.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from dp_core.errors import BadInput, ReleaseError, StageFailed, nearest
from dp_core.plan.counting_cluster import CountingCluster
from dp_core.text.documents.typed_text import printable, quote
from tasks.support.lazy_packages import complete
from tasks.support.process_environment import LOOPBACK
from tasks.support.scheduler_address import is_encrypted

DASHBOARD = "DP_RELEASE_DASK_DASHBOARD"
"""Environment variable with the address of the dashboard, such as 127.0.0.1:8787."""
OURS = ("asynchronous", "loop")
NEEDED = ("adapt", "close", "scale")
MOST_TEXT = 300
NOWHERE = "127.0.0.1:0"
"""Any free port on this machine: a scheduler always listens, with or without a dashboard."""
NO_PAGES = ("--no-dashboard", "--dashboard-address", NOWHERE)
"""Arguments of a worker's command without which it shows its tasks to the whole network."""

PRIVATE: Mapping[str, object] = {
    # privacy: a spill file would hold exact counts in clear.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    # privacy: scheduler and workers answer `/health` only, unless the operator asks for more.
    "distributed.scheduler.http.routes": ["distributed.http.health"],
    "distributed.worker.http.routes": ["distributed.http.health"],
    "distributed.scheduler.worker-ttl": "2 minutes",
}
PAGES = (
    "distributed.http.scheduler.prometheus",
    "distributed.http.scheduler.info",
    "distributed.http.scheduler.json",
    "distributed.http.health",
    "distributed.http.statics",
)


@contextmanager
def start_cluster(asked: CountingCluster) -> Iterator[Any]:
    """Start a cluster, and close it after the block.

    Args:
        asked: Cluster of the spec.

    Yields:
        The cluster, scaled as the spec says; its workers may come later.

    Raises:
        BadInput: if an option cannot be used, or exact counts would be sent unencrypted.
        StageFailed: if the cluster does not start.
    """
    kind = check_cluster(asked)
    import dask

    submit = getattr(getattr(kind, "job_cls", None), "submit_command", None)
    if submit and shutil.which(command := submit.split()[0]) is None:
        raise StageFailed(
            f"The Dask cluster {asked.cluster} of the spec submits jobs with {command!r}, which is"
            " not on this machine; run the release where jobs are submitted, or remove `dask` from"
            " the spec, and resume.",
            row="dask-not-started",
        )
    shown_at = dashboard()
    routes = {"distributed.scheduler.http.routes": list(PAGES)} if shown_at else {}
    # Workers that are started later read the configuration again, so it holds for the whole block.
    with dask.config.set({**PRIVATE, **routes}):
        try:
            cluster = kind(**_options(kind, asked, shown_at))
        except (TypeError, ValueError) as error:
            raise asked.place("options").error(
                f"{asked.cluster} does not accept these options: {_reason(error)}; correct them."
            ) from None
        except Exception as error:
            raise StageFailed(
                f"The Dask cluster {asked.cluster} of the spec did not start: {_reason(error)};"
                " correct `dask` in the spec, or remove it to count in this process, and resume.",
                internal=repr(error),
                row="dask-not-started",
            ) from None
        try:
            address = str(cluster.scheduler_address)
            if not is_encrypted(address):
                raise BadInput(
                    printable(
                        f"{asked.place('cluster').where}: exact counts would be sent to the Dask"
                        f" scheduler {address!r} unencrypted; add `security: true` and `protocol:"
                        " tls` to the options, or use another class that encrypts."
                    ),
                    row="dask-in-clear",
                )
            _scale(cluster, asked)
            yield cluster
        finally:
            # What the cluster started ends by itself when its scheduler is gone.
            with suppress(Exception):
                cluster.close()


def dashboard() -> str | None:
    """Return the address at which the operator wants Dask's dashboard, None if not at all.

    Raises:
        BadInput: if it is not on this machine, or Bokeh is missing.
    """
    address = os.environ.get(DASHBOARD, "").strip()
    if not address:
        return None
    host, _, port = address.rpartition(":")
    if host not in LOOPBACK or not port.isdigit() or int(port) > 65_535:
        raise BadInput(
            f"{DASHBOARD} is {quote(address)}; the dashboard has no password, so give a port of"
            " this machine, such as 127.0.0.1:8787, and reach it through an SSH tunnel."
        )
    if find_spec("bokeh") is None:
        raise BadInput(
            f"{DASHBOARD} asks for Dask's dashboard, which needs the package bokeh; install it, or"
            " unset the variable."
        )
    return address


def check_cluster(asked: CountingCluster) -> type:
    """Return the class of a cluster that can be started as the spec says; nothing is started.

    Args:
        asked: Cluster of the spec.

    Raises:
        BadInput: if the class does not exist here, has no such option, or an option is not for the
            spec to set. The message names the place in the spec. The class judges the values itself
            when it starts.
    """
    complete("dask")
    kind = _class(asked)
    known = _known_options(kind)
    for name in asked.options:
        if name in OURS:
            raise asked.place(f"options.{name}").error("is set by dp-release; remove it.")
        if name == "dashboard_address":
            raise asked.place(f"options.{name}").error(
                f"the operator of this machine decides about the dashboard, with {DASHBOARD};"
                " remove it."
            )
        if known and name not in known:
            raise asked.place(f"options.{name}").error(
                f"{asked.cluster} has no option {quote(name)}.{nearest(name, sorted(known))}"
            )
    if hasattr(kind, "job_cls") and asked.options.get("security") is True:
        # Without the folder dask-jobqueue writes private keys into the working folder.
        folder = asked.options.get("shared_temp_directory")
        if not (folder or _of_site(kind, "shared-temp-directory")):
            raise asked.place("options.security").error(
                "certificates that are made for one release reach the jobs as files; name a folder"
                " that all nodes see under options.shared_temp_directory."
            )
    return kind


def _class(asked: CountingCluster) -> type:
    module, _, name = asked.cluster.rpartition(".")
    place = asked.place("cluster")
    try:
        holder = import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name == package:
            raise place.error(
                f"the package {package!r} is not installed here; install it in the environment of"
                " dp-release, or correct the name."
            ) from None
        raise place.error(
            f"{module} cannot be imported: {_reason(error)}; install what it needs, or correct the"
            " name."
        ) from None
    except Exception as error:
        raise place.error(f"{module} cannot be imported: {_reason(error)}.") from None
    found = getattr(holder, name, None)
    if found is None:
        classes = [key for key in vars(holder) if "Cluster" in key]
        raise place.error(f"{module} has no class {name}.{nearest(name, classes)}")
    if not isinstance(found, type) or not all(callable(getattr(found, n, None)) for n in NEEDED):
        raise place.error(
            f"{asked.cluster} is not a class of clusters: it cannot be started, scaled and closed."
            " Name one such as distributed.LocalCluster or dask_jobqueue.SLURMCluster."
        )
    return found


def _known_options(kind: Any) -> set[str]:
    """Return the options of a class of jobs or of local workers; empty for a class of others."""
    from distributed import LocalCluster, Nanny, Worker

    if hasattr(kind, "job_cls"):
        return _arguments(kind) | _arguments(kind.job_cls)
    if issubclass(kind, LocalCluster):
        return _arguments(kind) | _arguments(Nanny) | _arguments(Worker)
    return set()


def _arguments(kind: type) -> set[str]:
    """Return the names of the arguments of a class and of the bases to which it passes others."""
    from distributed import SpecCluster

    # Clusters give `SpecCluster`, and the bases of that, what they make themselves.
    own = takewhile(lambda base: base is not SpecCluster, kind.__mro__[:-1])
    bases = [base for base in own if "__init__" in vars(base)]
    return {name for base in bases for name in inspect.signature(base).parameters}


def _of_site(kind: Any, option: str) -> Any:
    """Return an option of a class of jobs in the site's configuration; None if there is none."""
    import dask

    return dask.config.get(f"jobqueue.{kind.job_cls.config_name}.{option}", None)


def _options(kind: type, asked: CountingCluster, shown_at: str | None) -> dict[str, Any]:
    """Return the keyword arguments, with what this program decides."""
    from distributed import Security

    options: dict[str, Any] = dict(asked.options)
    if isinstance(options.get("security"), dict):
        options["security"] = Security(**{"require_encryption": True, **options["security"]})
    known, of_jobs = _arguments(kind), hasattr(kind, "job_cls")
    for name in ("scheduler_kwargs", "scheduler_options"):
        if name in known:
            options[name] = {
                **(options.get(name) or (of_jobs and _of_site(kind, "scheduler-options")) or {}),
                "dashboard": shown_at is not None,
                "dashboard_address": shown_at or NOWHERE,
            }
    if of_jobs:
        # A job's worker is a process elsewhere, which `PRIVATE` does not reach.
        extra = options.get("worker_extra_args", options.get("extra"))
        if extra is None:
            extra = _of_site(kind, "worker-extra-args")
        # privacy: by default its dashboard is open to the whole network. The last argument wins.
        options["worker_extra_args"] = [*(extra or ()), *NO_PAGES]
    if "quiet" in known:
        options.setdefault("quiet", True)  # standard output belongs to our answer
    return options


def _scale(cluster: Any, asked: CountingCluster) -> None:
    """Ask the cluster for the workers that the spec names."""
    try:
        if asked.adapt is not None:
            least, most = asked.adapt
            cluster.adapt(minimum=least, maximum=most)
        elif asked.workers is not None:
            cluster.scale(asked.workers)
    except ReleaseError:
        raise
    except Exception as error:
        raise StageFailed(
            f"The Dask cluster {asked.cluster} of the spec could not be scaled: {_reason(error)};"
            " correct `dask` in the spec, or remove it to count in this process, and resume.",
            internal=repr(error),
            row="dask-not-started",
        ) from None


def _reason(error: Exception) -> str:
    """Return the first line of what caused an error, without its full stop."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return printable(lines[0][:MOST_TEXT]).rstrip(".;: ")
