"""Every release is counted by Dask: on threads, or on the cluster that its spec names."""

import logging
import sys

import pytest

from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tasks.counting import dask_counter
from tests.clusters import Watched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("quick"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LOCAL = "{cluster: tests.clusters.Watched, options: {n_workers: 1, threads_per_worker: 1}}"


@pytest.fixture(autouse=True)
def silent():
    """Dask's threads would write to handlers of a test that is over."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_demo_is_counted_by_dask_in_several_chunks(command, monkeypatch, home):
    from dask import threaded

    asked, run = [], []
    compute, get = dask_counter.compute, threaded.get

    def computed(graph, key, client, leaves, progress):
        asked.append(len(leaves))
        return compute(graph, key, client, leaves, progress)

    def got(graph, key, **options):
        run.append(len(graph))
        return get(graph, key, **options)

    monkeypatch.setattr(dask_counter, "compute", computed)
    monkeypatch.setattr(threaded, "get", got)
    answer = command("demo", "--out", home.parent / "demo")
    assert answer.code == 0, answer.err
    assert run
    assert run == [2 * leaves - 1 for leaves in asked]
    assert asked[0] >= 3


def test_a_release_counts_on_the_cluster_of_its_spec_and_closes_it(project, command, monkeypatch):
    monkeypatch.setattr(Watched, "made", [])
    before = make_plan(load_spec(project.spec)).hash
    project.write_spec(dask=LOCAL)
    assert make_plan(load_spec(project.spec)).hash == before
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 0, answer.err
    (cluster,) = Watched.made
    assert cluster.status.name == "closed"
    assert cluster.seen.keys
    assert len(cluster.seen.clients) == 1
    levels = {
        str(level)
        for column in load_spec(project.spec).schema.columns
        for level in column.levels
        if len(str(level)) > 3
    }
    assert levels
    told = " ".join(cluster.seen.texts)
    assert not [level for level in levels if level in told]
    assert not [level for level in levels if any(level.encode() in t for t in cluster.seen.tasks)]


def test_a_cluster_that_cannot_be_is_refused_before_anything_is_reserved(project, command):
    project.write_spec(dask="{cluster: nowhere_at_all.Cluster}")
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 2
    (kept,) = project.home.rglob("message.txt")
    assert "dask.cluster" in kept.read_text()
    assert project.untouched()


@pytest.mark.runbook("dask-unreachable")
def test_a_running_scheduler_wins_over_the_cluster_of_the_spec(project, command, says, monkeypatch):
    monkeypatch.setattr("tasks.support.dask_cluster.ANSWER", 0.2)
    project.write_spec(dask="{cluster: nowhere_at_all.Cluster}")
    answer = command("run", project.spec, "--out", project.out, "--dask", "tcp://127.0.0.1:1")
    assert answer.code == 4
    says(answer.err.splitlines()[-1])
    assert project.untouched()


def test_without_a_cluster_nothing_of_the_distributed_scheduler_is_imported(project):
    import subprocess

    code = (
        "import sys; from pathlib import Path\n"
        "from flows.engine.settings import prepare\n"
        "prepare(Path(sys.argv[2]))\n"
        "from dp_core.confidential.code_store import CodeStore, StoreWriter\n"
        "from dp_core.kernel.counting.domain import Domain\n"
        "from tasks.counting.dask_counter import DaskCounter\n"
        "import numpy as np\n"
        "domain = Domain(('a', 'b'), (3, 4))\n"
        "with StoreWriter(Path(sys.argv[1]), domain) as writer:\n"
        "    writer.append([np.arange(200_000) % 3, np.arange(200_000) % 4])\n"
        "found = DaskCounter(CodeStore(Path(sys.argv[1]), domain), domain).count([('a', 'b')])\n"
        "assert found['a', 'b'].counts.sum() == 200_000\n"
        "assert 'dask.threaded' in sys.modules\n"
        "print(sorted({'distributed', 'dask.delayed', 'jinja2'} & sys.modules.keys()))\n"
    )
    words = [sys.executable, "-c", code, str(project.home / "codes"), str(project.home)]
    assert subprocess.check_output(words, text=True).strip() == "[]"
