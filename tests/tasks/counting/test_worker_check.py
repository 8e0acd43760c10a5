"""A worker that could count otherwise, or another store, is refused in one sentence."""

import numpy as np
import pytest
from distributed.versions import get_package_info

from dp_core.confidential.code_store import CodeStore, StoreWriter
from dp_core.errors import StageFailed
from dp_core.kernel.counting.domain import Domain
from tasks.counting.dask_counter import _add_remotely, _count_remotely
from tasks.counting.worker_check import require_workers
from tasks.support.worker_program import PACKAGES, SOURCES, program

DOMAIN = Domain(("a",), (2,))
WORKER = "tls://10.0.0.2:4000"


@pytest.fixture
def store(tmp_path):
    with StoreWriter(tmp_path / "codes", DOMAIN) as writer:
        writer.append([np.zeros(3, np.uint8)])
    return CodeStore(tmp_path / "codes", DOMAIN)


@pytest.mark.parametrize(
    "work",
    [lambda made: _count_remotely(made, None, None), lambda made: _add_remotely(made, None, None)],
)
@pytest.mark.parametrize("differing", ["numpy", SOURCES, "a package of tomorrow"])
def test_a_task_of_another_program_counts_nothing(work, differing):
    made_with = (*(dict(program()) | {differing: "0"}).items(),)
    with pytest.raises(StageFailed, match="The Dask worker"):
        work(made_with)


def test_a_task_whose_store_is_not_here_counts_nothing(store):
    with StoreWriter(store.folder, DOMAIN) as writer:
        writer.append([np.zeros(3, np.uint8)])
    with pytest.raises(StageFailed, match="cannot read the codes"):
        _count_remotely(program(), store, None)


class Cluster:
    """Stands for a client: its one worker tells our versions, and meets us in its own way."""

    def __init__(self, meets, **other):
        self.packages = {**get_package_info(PACKAGES), **other}
        self.answers = {WORKER: meets}
        self.asked = []

    def nthreads(self):
        return {WORKER: 1}

    def sync(self, _function, _client, workers, _message):
        self.asked += workers
        return {worker: {"packages": self.packages} for worker in workers}

    def run(self, _function, _store, **_options):
        return self.answers


@pytest.mark.runbook("dask-worker-differs")
def test_a_worker_that_cannot_read_its_task_is_refused(store, says):
    with pytest.raises(StageFailed) as refused:
        require_workers(
            Cluster(ModuleNotFoundError("tasks.counting.worker_check")), store, frozenset()
        )
    says(refused.value)


@pytest.mark.parametrize(
    ("met", "said"),
    [
        (("0", True), "has source files of dp-release with the digest 0,"),
        ((dict(program())[SOURCES], False), "cannot read the codes"),
    ],
)
def test_a_worker_with_other_sources_or_another_store_is_refused(store, met, said):
    with pytest.raises(StageFailed) as refused:
        require_workers(Cluster(met), store, frozenset())
    assert f"The Dask worker {WORKER} {said}" in refused.value.message


@pytest.mark.parametrize(
    ("package", "version", "said"),
    [
        ("python", "3.99.0.final.0", "has python 3.99,"),
        ("python", None, "has no python,"),
        ("dp-release", "9.9", "has dp-release 9.9,"),
        ("dp-release", None, "has no dp-release,"),
    ],
)
def test_a_worker_of_another_version_is_refused(store, package, version, said):
    with pytest.raises(StageFailed) as refused:
        require_workers(Cluster(None, **{package: version}), store, frozenset())
    assert f"The Dask worker {WORKER} {said}" in refused.value.message


def test_a_worker_that_was_lost_meanwhile_is_no_reason_to_refuse(store):
    require_workers(Cluster(OSError("gone")), store, frozenset())


def test_a_worker_is_asked_once(store):
    cluster = Cluster((dict(program())[SOURCES], True))
    known = require_workers(cluster, store, frozenset())
    assert require_workers(cluster, store, known) == {WORKER}
    assert cluster.asked == [WORKER]


def test_a_scheduler_that_is_lost_while_workers_are_asked_is_named(store):
    class Gone(Cluster):
        def run(self, *_words, **_options):
            raise OSError("closed")

    with pytest.raises(StageFailed, match="scheduler was lost"):
        require_workers(Gone(None), store, frozenset())
