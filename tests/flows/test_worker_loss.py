"""A release that counts on a cluster which loses workers: paid once, drawn once, or resumed."""

from contextlib import contextmanager

import pytest

from dp_core.confidential.code_store import StoreWriter
from dp_core.wall.noise import granted_noise
from tasks.support import dask_cluster as cluster_module
from tests.flows.conftest import assert_charged_once
from tests.workers import a_task_for_each_chunk, meanwhile, trapped_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("quick"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def chunks(monkeypatch):
    """Cut the survey into chunks of fifty rows, and counts into tasks of one."""
    a_task_for_each_chunk(monkeypatch)
    monkeypatch.setitem(StoreWriter.__init__.__kwdefaults__, "chunk_rows", 50)


@pytest.fixture
def forgetful(monkeypatch):
    """Count anew whenever a result is drawn, as a release does that was resumed."""
    from tasks.counting.dask_counter import DaskCounter

    monkeypatch.setattr(DaskCounter, "_keep", lambda *_: None)


@contextmanager
def draws(monkeypatch):
    """Record the exact counts that went into every draw, by stage and step."""
    seen = {}
    with monkeypatch.context() as patch:

        def perturb(exact, grant, original=granted_noise.add):
            key = (grant.step.stage, grant.step.name)
            assert key not in seen, "drawn twice"
            seen[key] = exact.copy()
            return original(exact, grant)

        patch.setattr(granted_noise, "add", perturb)
        yield seen


@pytest.mark.full
@pytest.mark.runbook("dask-no-worker")
@pytest.mark.usefixtures("chunks", "forgetful")
def test_a_release_whose_workers_are_all_lost_is_resumed_and_pays_no_second_time(
    project, command, monkeypatch, tmp_path, says
):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)
    monkeypatch.setattr(cluster_module, "LOOK", 0.1)
    with trapped_cluster(tmp_path, 1, at=12) as killer:

        def kill():
            killer.no_more_workers()
            killer.kill(killer.held(1)[0])

        with meanwhile(kill), draws(monkeypatch) as drawn:
            address = killer.cluster.scheduler_address
            answer = command("run", project.spec, "--out", project.out, "--dask", address)
    assert answer.code == 4
    says(answer.err.splitlines()[-1])
    assert "Traceback" not in answer.err
    assert drawn == {}
    before = [kind for kind in project.kinds() if kind == "charge"]
    assert before

    answer = command("resume", "town")
    assert (answer.code, "Traceback" in answer.err) == (0, False), answer.err
    assert_charged_once(project)
    assert project.redraws() == 1
