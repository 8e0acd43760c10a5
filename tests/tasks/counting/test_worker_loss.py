"""Dask repeats what a lost worker had finished; counts may be repeated, a draw may not.

The workers are real processes on this machine, killed while they count.
"""

from contextlib import contextmanager
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.code_store import CodeStore, StoreWriter
from dp_core.errors import StageFailed
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms import additive_noise
from tasks.counting.dask_counter import DaskCounter
from tasks.support import dask_cluster as cluster_module
from tests.full import some
from tests.workers import a_task_for_each_chunk, can_draw, meanwhile, trapped_cluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DOMAIN = Domain(("a", "b", "c"), (3, 7, 20))
CLIQUES = [(), ("a",), ("c", "b"), ("a", "b")]
CHUNKS = 8


@pytest.fixture(autouse=True)
def divided(monkeypatch):
    a_task_for_each_chunk(monkeypatch)


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(7)
    with StoreWriter(tmp_path / "codes", DOMAIN, chunk_rows=100) as writer:
        writer.append([rng.integers(0, size, 100 * CHUNKS - 30) for size in DOMAIN.sizes])
    store = CodeStore(tmp_path / "codes", DOMAIN)
    assert store.chunks == CHUNKS
    return store


@pytest.fixture
def trapped(tmp_path):
    return partial(trapped_cluster, tmp_path)


@contextmanager
def drawn_and_stored(monkeypatch, stored=None):
    """Record every draw and its noise by step; with `stored` noise, add that and draw none."""
    drawn = {}
    with monkeypatch.context() as patch:

        def perturb(exact, grant, original=additive_noise.add):
            name = grant.step.name
            assert name not in drawn, "drawn twice"
            noisy = original(exact, grant) if stored is None else exact + stored[name]
            drawn[name] = noisy - exact
            return noisy

        patch.setattr(additive_noise, "add", perturb)
        yield drawn


def measured(store, client):
    """Return the noisy tables of a curator over a store, and its session."""
    session = MemorySession(Currency("pure", Fraction(4)), "add-remove")
    curator = Curator(Kernel(DOMAIN, DaskCounter(store, DOMAIN, client), session))
    found = curator.measure("measure", CLIQUES, [Fraction(1)] * len(CLIQUES))
    return [measurement.values for measurement in found], session


def same(left, right):
    return all(map(np.array_equal, left, right))


@pytest.mark.parametrize(("workers", "at"), some([(1, 5), (2, 2)], lambda case: case == (2, 2)))
def test_a_worker_lost_in_mid_count_changes_no_released_value_and_draws_nothing_twice(
    store, trapped, monkeypatch, workers, at
):
    with drawn_and_stored(monkeypatch) as stored:
        undisturbed, session = measured(store, None)
    assert len(stored) == len(CLIQUES)
    with trapped(workers, at=at) as killer:

        def kill():
            killer.kill(killer.held(workers)[0])
            killer.go()

        with meanwhile(kill), drawn_and_stored(monkeypatch, stored) as drawn:
            values, disturbed_session = measured(store, killer.client)
        again = {chunk for chunk, times in killer.begun().items() if times > 1}
        assert set(killer.begun()) == set(range(CHUNKS))
        if workers == 1:
            # Nobody else had them: everything it had begun was begun again, also what was finished.
            assert again == killer.begun_by(killer.killed[0])
            assert len(again) == at
        else:
            assert again
        assert set(killer.client.run(can_draw).values()) == {()}
    # With the same noise: the counts are the same.
    assert same(values, undisturbed)
    assert drawn.keys() == stored.keys()
    assert disturbed_session.charges == session.charges


@pytest.mark.runbook("dask-no-worker")
def test_a_cluster_that_loses_all_workers_ends_the_count_with_one_sentence(
    store, trapped, monkeypatch, says
):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)
    monkeypatch.setattr(cluster_module, "LOOK", 0.1)
    with trapped(2, at=1) as killer:

        def kill():
            killer.no_more_workers()
            for pid in killer.held(2):
                killer.kill(pid)

        with (
            meanwhile(kill),
            drawn_and_stored(monkeypatch) as drawn,
            pytest.raises(StageFailed, match=r"no worker for .* resume the release") as raised,
        ):
            measured(store, killer.client)
    says(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert drawn == {}


@pytest.mark.full
@pytest.mark.runbook("dask-workers-died")
def test_a_part_that_kills_every_worker_ends_the_count_with_one_sentence(store, trapped, says):
    import dask

    # Dask gives a part up when more workers than these died of it.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        trapped(1, at=1) as killer,
    ):

        def kill():
            killer.kill(killer.held(1)[0])
            killer.go()

        with (
            meanwhile(kill),
            pytest.raises(StageFailed, match=r"Every Dask worker .* died") as failed,
        ):
            DaskCounter(store, DOMAIN, killer.client).count(CLIQUES)
    says(failed.value)


@pytest.mark.runbook("dask-lost")
def test_a_lost_scheduler_ends_the_count_with_one_sentence(store, trapped, says, monkeypatch):
    import dask

    monkeypatch.setattr(cluster_module, "LOOK", 0.05)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1 s"}),
        trapped(1, at=1) as killer,
    ):

        def end():
            killer.held(1)
            killer.cluster.close()

        with meanwhile(end), pytest.raises(StageFailed, match="scheduler was lost") as failed:
            DaskCounter(store, DOMAIN, killer.client).count(CLIQUES)
    says(failed.value)
