"""What many tests share: small domains, a counter of a dataset in memory, a fresh home."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before NumPy is imported: the threads of its algebra wait for one another by spinning, which took
# a quarter of the time where every core has a test of its own.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

import numpy as np
import pytest
from hypothesis import settings

from dp_core.errors import ReleaseError
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from tasks.support.run_folder import kept_message, with_row
from tests.databases import survey_database
from tests.full import ask_for_all, at_full_size
from tests.kept_connections import connections_are_kept, new_connections
from tests.kept_results import results_are_kept
from tests.postgres import ledger_url, postgres_cluster, postgres_server, postgres_url
from tests.prefect_tables import with_prefects_tables
from tests.quick_ledgers import ledgers_are_quick
from tests.trusted_core import TESTS as CORE_TESTS
from tests.trusted_core import audited

ROOT = Path(__file__).parents[1]
LEFT_OUT = pytest.StashKey[tuple[Path, ...]]()
"""Folders whose tests are left out."""

if TYPE_CHECKING:
    from tests.crashes.harness import ForkServer

__all__ = [
    "connections_are_kept",
    "ledger_url",
    "ledgers_are_quick",
    "new_connections",
    "postgres_cluster",
    "postgres_server",
    "postgres_url",
    "results_are_kept",
    "survey_database",
    "with_prefects_tables",
]

# Set before any test imports them: no usage data, nothing persisted.
os.environ.update(
    DO_NOT_TRACK="1",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    GX_ANALYTICS_ENABLED="false",
    PREFECT_RESULTS_PERSIST_BY_DEFAULT="false",
    PREFECT_LOGGING_TO_API_ENABLED="false",
    # A flow that a test calls starts a server in this process; Prefect waits 20 s by default.
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="300",
)
# Tests use loopback only, so no proxy of this machine is for them.
for proxy in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[proxy]
# A commit waits for the disk, which took a tenth of the time, and no test cuts the power.
MEMORY = Path("/dev/shm")
if (
    "TMPDIR" not in os.environ
    and os.access(MEMORY, os.W_OK | os.X_OK)
    and shutil.disk_usage(MEMORY).free > 4 << 30
):
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # which pytest has asked for already
# The notes of ledgers whose tests name no folder for them must not fill the user's.
os.environ["DP_RELEASE_STATE"] = tempfile.mkdtemp(prefix="dp-release-state-")
atexit.register(shutil.rmtree, os.environ["DP_RELEASE_STATE"], ignore_errors=True)
# A shell ignores Ctrl-C for what it starts in the background, and processes inherit that; tests of
# interruptions would then wait for what never ends.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)
# What is made while tests are collected stays: to search it for garbage took a quarter of the time.
gc.disable()

HEAVY = (
    "tests/crashes/test_kill_matrix.py",
    "tests/flows/test_database_gone.py",
    "tests/distributions/test_whole_audit.py",
    "tests/deployments/test_site.py",
    "tests/test_tutorial_notebook.py",
    "tests/flows/test_leak_fence.py",
    "tests/flows/test_prefect.py",
    "tests/flows/releases/test_resume.py",
    "tests/flows/cli/test_cli.py",
    "tests/flows/cli/test_infer.py",
    "tests/flows/test_wall.py",
    "tests/deployments/test_alerts.py",
    "tests/flows/monitoring/test_runbook.py",
    "tests/tasks/counting/test_worker_loss.py",
    "tests/flows/test_declared_analyses.py",
    "tests/flows/test_private_domain.py",
    "tests/flows/engine/test_network_fence.py",
    "tests/tasks/ledger/test_release_writer.py",
    "tests/flows/comparison/test_cell_processes.py",
    "tests/flows/test_internal_inference.py",
    "tests/test_tutorial.py",
    "tests/flows/test_release.py",
    "tests/flows/cli/test_ledger_commands.py",
    "tests/dp_core/accounts/test_loss_distribution.py",
    "tests/flows/test_charged_checks.py",
    "tests/flows/test_database_release.py",
    "tests/test_vectors.py",
    "tests/flows/test_refusals.py",
    "tests/tasks/ledger/test_damage.py",
    "tests/flows/releases/test_approval.py",
    "tests/dp_core/audit/test_audit_run.py",
)
"""Files that take most, the longest first: the last to begin decides when the suite ends."""
FORKING = (
    "tests/crashes/test_kill_matrix.py",
    "tests/flows/test_database_gone.py",
)
"""Files that use `fork_server`, which one process then starts, and not each."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full`, which `make test-all` gives."""
    parser.addoption(
        "--full",
        action="store_true",
        help="run the tests marked `full` as well, and the others at their full size",
    )
    parser.addoption(
        "--unless-audited",
        action="store_true",
        help="leave out the tests of the trusted core if they passed for what it is now",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let test modules and Hypothesis know at which size they run."""
    ask_for_all(config.getoption("--full"))
    number = 50 if at_full_size() else 20
    settings.register_profile("ci", derandomize=True, deadline=None, max_examples=number)
    settings.load_profile("ci")
    config.stash[LEFT_OUT] = ()
    if config.getoption("--unless-audited") and audited():
        config.stash[LEFT_OUT] = tuple(ROOT / folder for folder in CORE_TESTS)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say that tests are left out."""
    if not config.stash[LEFT_OUT]:
        return None
    return (
        "The trusted core, and what else they test, is unchanged since `make test-all` passed"
        f" (tests/audited.txt), so these tests are left out: {', '.join(CORE_TESTS)}."
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of a trusted core that is unchanged."""
    return collection_path in config.stash[LEFT_OUT] or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file to one process, and files that share what is dear to the same."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return FORKING[0] if file in FORKING else file

    return Together(config, log)


def runs_with_full_only(item: pytest.Item) -> bool:
    """Return whether a test is left out of `make test`."""
    if item.get_closest_marker("full"):
        return True
    found = getattr(item, "callspec", None)
    asked = found is not None and found.params.get("ledger_url") == "postgresql"
    return asked and item.get_closest_marker("any_database") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for `--full` only, unless it is given; begin with the heavy files."""
    if not at_full_size():
        left_out = {item for item in items if runs_with_full_only(item)}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    place = {ROOT / name: number for number, name in enumerate(HEAVY)}
    if gone := [str(path) for path in place if not path.is_file()]:
        raise pytest.UsageError(f"HEAVY in tests/conftest.py names a file that is gone: {gone}")
    items.sort(key=lambda item: place.get(item.path, len(HEAVY)))


def pytest_collection_finish() -> None:
    """Search less for garbage, and not among the modules and tests that stay.

    To look through them again and again took a tenth of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@dataclass
class DatasetCounter:
    """Counts marginals of a dataset in memory, and remembers what was asked."""

    data: Dataset
    asked: list[Clique]

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        self.asked += cliques
        found = {}
        for clique in cliques:
            domain = self.data.domain.project(clique)
            flat = np.zeros(self.data.rows, dtype=np.int64)
            for column, size in zip(domain.columns, domain.sizes, strict=True):
                flat = flat * size + self.data.column(column)
            counts = np.bincount(flat, minlength=domain.size()).reshape(domain.sizes)
            found[clique] = Marginal(domain, counts.astype(np.int64))
        return found


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A process that has imported everything, for whom a test kills; it takes 15 s of CPU."""
    from tests.crashes.harness import ForkServer

    with ForkServer() as started:
        yield started


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home with no ledger in it."""
    place = tmp_path / "home"
    monkeypatch.setenv("DP_RELEASE_HOME", str(place))
    monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DP_RELEASE_MACHINE", "of the tests")
    monkeypatch.delenv("DP_RELEASE_LEDGER", raising=False)
    return place


FIXED = tuple(f"(runbook: {row})" for row in ("data-do-not-fit", "data-side", "data-unreadable"))
"""How a sentence ends that stands for one of the process that reads the data."""


@pytest.fixture
def says(request: pytest.FixtureRequest) -> Iterator[Callable[[ReleaseError | str], None]]:
    """Return a check that an error or a command's last line names the test's row. Use it.

    Where the process that reads the data told a fixed row, the message that it kept names the
    test's.
    """
    marker = request.node.get_closest_marker("runbook")
    assert marker is not None, "Name the row: @pytest.mark.runbook('row')."
    heard = []

    def check(failure: ReleaseError | str) -> None:
        heard.append(failure)
        if isinstance(failure, ReleaseError):
            failure = with_row(failure.message, failure.row)
        told = failure.rstrip()
        kept = re.search(r" is in (\S+message\.txt)", told)
        if kept and told.endswith(FIXED) and not told.endswith(f"(runbook: {marker.args[0]})"):
            told = kept_message(Path(kept[1])) or ""
        assert told.endswith(f"(runbook: {marker.args[0]})"), failure

    yield check
    assert heard, "What was provoked was not compared with the runbook."


@pytest.fixture(scope="session", autouse=True)
def data_in_this_process() -> Iterator[None]:
    """Let releases read their data in the process of the test, which patches what they use."""
    from tasks.confidential import connection

    def connect(_plan: Any, _dask: Any) -> Any:
        from tests.confidential_side import InThisProcess

        return InThisProcess()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "connect", connect)
        yield
