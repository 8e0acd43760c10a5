"""Workers as an operator starts them, each on a host of its own: lost, slow, wrong, blind."""

import shutil
import time
from pathlib import Path

import numpy as np
import pytest

import dp_core
from dp_core.confidential.code_store import CodeStore, StoreWriter
from dp_core.errors import StageFailed
from dp_core.kernel.counting.domain import Domain
from tasks.counting.dask_counter import DaskCounter
from tests.processes import SECONDS, processes
from tests.workers import Trap, a_task_for_each_chunk, meanwhile

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DOMAIN = Domain(("a", "b", "c"), (3, 7, 20))
CLIQUES = [(), ("a",), ("c", "b"), ("a", "b")]
CHUNKS = 12
GOOD = (1, 2)
"""Hosts of two workers that are there for all tests; on a third are those that are not as they."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("home") / "codes"
    with StoreWriter(folder, DOMAIN, chunk_rows=100) as writer:
        writer.append([rng.integers(0, size, 100 * CHUNKS - 30) for size in DOMAIN.sizes])
    return CodeStore(folder, DOMAIN)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with processes(tmp_path_factory.mktemp("cluster"), 3) as (cluster, client):
        for host in GOOD:
            cluster.start_worker(host)
        client.wait_for_workers(len(GOOD), timeout=SECONDS)
        yield cluster, client


@pytest.fixture(autouse=True)
def divided(monkeypatch):
    a_task_for_each_chunk(monkeypatch)


def workers_come(client, number):
    client.wait_for_workers(number, timeout=SECONDS)


def workers_go(cluster, client, process):
    cluster.end(process)
    until = time.monotonic() + SECONDS
    while len(client.nthreads()) > len(GOOD):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def other(running):
    """Start a worker on the third host, for one test."""
    cluster, client = running
    started = []

    def start(**how):
        started.append(cluster.start_worker(3, **how))
        return started[-1]

    yield start
    for process in started:
        workers_go(cluster, client, process)


def without_dp_release(folder):
    """Return an environment in which dp-release is not installed."""
    (folder / "sitecustomize.py").write_text(
        "import importlib.metadata as m, sys\n"
        "ours, version = ('dp_core', 'tasks', 'flows'), m.version\n"
        "class Gone:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ours:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "def told(name):\n"
        "    if name == 'dp-release':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "m.version = told\n"
    )
    return {"PYTHONPATH": str(folder)}


def other_sources(folder):
    """Return an environment in which dp-release of the same version counts every row twice."""
    for package in ("dp_core", "tasks", "tests"):
        source = Path(dp_core.__file__).parents[1] / package
        shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "dp_core" / "counting.py").open("a") as file:
        file.write(
            "\n_once = count_tables\n"
            "def count_tables(*words):\n"
            "    return [2 * counts for counts in _once(*words)]\n"
        )
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def may_mount(running):
    if not running[0].hosts.separate:
        pytest.skip("to hide a folder from a process takes the right to mount")


@pytest.fixture
def nothing_is_counted(monkeypatch):
    monkeypatch.setattr(
        "tasks.counting.dask_counter.compute", lambda *_: pytest.fail("It was counted.")
    )


def counted(store, client):
    return DaskCounter(store, DOMAIN, client).count(CLIQUES)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (without_dp_release, "has no dp-release"),
        (other_sources, "has source files of dp-release"),
    ],
    ids=["none", "other sources"],
)
@pytest.mark.runbook("dask-worker-differs")
@pytest.mark.usefixtures("nothing_is_counted")
def test_a_worker_of_another_version_is_refused_before_it_counts(
    store, running, other, tmp_path, says, environment, said
):
    cluster, client = running
    other(environment=environment(tmp_path))
    workers_come(client, 3)
    with pytest.raises(StageFailed) as refused:
        counted(store, client)
    says(refused.value)
    assert f"The Dask worker tls://{cluster.hosts.address(3)}:" in refused.value.message
    assert said in refused.value.message


@pytest.mark.runbook("dask-worker-sees-nothing")
@pytest.mark.usefixtures("may_mount", "nothing_is_counted")
def test_a_worker_that_does_not_see_the_storage_is_refused(store, running, other, says):
    _, client = running
    hidden = f'mount -t tmpfs none {store.folder.parent} && exec "$@"'
    other(before=("unshare", "--mount", "sh", "-c", hidden, "sh"))
    workers_come(client, 3)
    with pytest.raises(StageFailed) as refused:
        counted(store, client)
    says(refused.value)
    assert str(store.folder) in refused.value.message


@pytest.fixture
def trap(running, tmp_path):
    """Give a folder, and what holds every worker that is there at its first chunk from then on."""
    _, client = running
    folder = tmp_path / "trap"
    folder.mkdir()
    yield folder, lambda: client.run(Trap(folder, at=1).setup, None)
    (folder / "go").touch()


def held(folder, workers):
    until = time.monotonic() + SECONDS
    while len(found := list(folder.glob("held-*"))) < workers:
        assert time.monotonic() < until
        time.sleep(0.01)
    return [int(path.name.split("-")[1]) for path in found]


def test_a_worker_of_another_version_that_joins_in_mid_count_counts_nothing(
    store, running, other, tmp_path, trap
):
    cluster, client = running
    folder, writer = trap
    writer()
    wrong = tmp_path / "wrong"
    wrong.mkdir()

    def join():
        held(folder, len(GOOD))
        other(environment=other_sources(wrong))

    # The others are held, so only the one that came can end the count: by its refusal.
    with meanwhile(join), pytest.raises(StageFailed, match="has source files of") as refused:
        counted(store, client)
    assert f"The Dask worker tls://{cluster.hosts.address(3)}:" in refused.value.message
