import pickle
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed.versions import get_package_info
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.code_store import CodeStore, RecodedStore, StoreWriter
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.grid import Recoding
from tasks.counting import dask_counter
from tasks.counting.dask_counter import DaskCounter
from tasks.support.dask_cluster import dask_client, workers
from tasks.support.worker_program import PACKAGES
from tests.workers import a_task_for_each_chunk

DOMAIN = Domain(("a", "b", "c", "d"), (2, 5, 300, 40))
AREAS = Domain(("a", "b", "c", "d"), (2, 5, 70_000, 3))
CLIQUES = [(), ("c",), ("b", "a"), ("d", "a", "b"), ("a", "b"), ("c", "d")]


def make_store(folder, rows, chunk_rows, seed=0, domain=DOMAIN):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows).astype(domain.code_type) for size in domain.sizes]
    with StoreWriter(folder, domain, chunk_rows=chunk_rows) as writer:
        writer.append(columns)
    return columns, CodeStore(folder, domain)


def expected(columns, clique, domain=DOMAIN):
    sizes = domain.project(clique).sizes
    counts = np.zeros(sizes, np.int64)
    axes = domain.axes(clique)
    np.add.at(counts, tuple(columns[axis] for axis in axes), 1) if axes else counts.fill(
        len(columns[0])
    )
    return counts


@pytest.fixture(scope="module", autouse=True)
def divided():
    with pytest.MonkeyPatch.context() as patch:
        a_task_for_each_chunk(patch)
        yield


@given(rows=st.integers(0, 300), chunk_rows=st.integers(20, 400), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_counts_do_not_depend_on_how_the_file_was_cut(tmp_path_factory, rows, chunk_rows, seed):
    columns, store = make_store(tmp_path_factory.mktemp("s") / "s", rows, chunk_rows, seed)
    marginals = DaskCounter(store, DOMAIN).count(CLIQUES)
    assert list(marginals) == CLIQUES
    for clique, marginal in marginals.items():
        assert marginal.domain == DOMAIN.project(clique)
        assert np.array_equal(marginal.counts, expected(columns, clique))


def test_a_store_in_coarser_codes_is_counted_whole(tmp_path):
    columns, store = make_store(tmp_path / "s", 300, 100)
    coarse = Domain(DOMAIN.columns, (2, 5, 30, 40))
    recoding = Recoding(coarse, {"c": np.arange(300, dtype=np.uint16) // 10})
    counted = DaskCounter(RecodedStore(store, recoding), coarse).count([("c",), ("a", "b")])
    assert np.array_equal(counted["c",].counts, np.bincount(columns[2] // 10, minlength=30))
    assert np.array_equal(counted["a", "b"].counts, expected(columns, ("a", "b")))


def test_what_was_counted_is_not_counted_again(tmp_path, monkeypatch):
    columns, store = make_store(tmp_path / "s", 500, 100)
    counter = DaskCounter(store, DOMAIN)
    counter.count(CLIQUES)
    monkeypatch.setattr(counter, "_count", None)
    again = counter.count([("a", "d", "b"), ("c",)])
    assert np.array_equal(again["a", "d", "b"].counts, expected(columns, ("a", "d", "b")))


def test_a_caller_cannot_change_what_the_next_one_gets(tmp_path):
    _, store = make_store(tmp_path / "s", 50, 100)
    counts = DaskCounter(store, DOMAIN).count([("a",)])[("a",)].counts
    with pytest.raises(ValueError, match="read-only"):
        counts[0] = 7


@pytest.mark.parametrize("live", [8 * 4 * 1000, 8])
def test_little_memory_gives_the_same_counts_in_more_passes(tmp_path, monkeypatch, live):
    columns, store = make_store(tmp_path / "s", 500, 100)
    monkeypatch.setattr(dask_counter, "LIVE_BYTES", live)
    monkeypatch.setattr(dask_counter, "CACHED_BYTES", 1000)
    counter = DaskCounter(store, DOMAIN)
    assert len(counter._groups([(0,), (1,), (0, 2), (2, 3)])) > 1
    for clique, marginal in counter.count(CLIQUES).items():
        assert np.array_equal(marginal.counts, expected(columns, clique))
    assert sum(counts.nbytes for counts in counter._cached.values()) <= 1000


@pytest.mark.parametrize("domain", [DOMAIN, AREAS])
def test_a_running_cluster_gives_the_same_counts(tmp_path, domain):
    class Cluster:
        """Stands for a distributed client: the graph survives pickling, as on the wire."""

        def nthreads(self):
            return {"tcp://127.0.0.1:1": 3}

        def sync(self, _function, *_words):
            return {}  # no worker answers in time

        def run(self, _function, *_words, **_options):
            return {}

        def get(self, graph, key, sync):
            assert not sync
            self.value = dask.get(pickle.loads(pickle.dumps(graph)), key)
            return self

        def add_done_callback(self, call):
            call(self)

        def result(self):
            return self.value

    columns, store = make_store(tmp_path / "s", 500, 100, domain=domain)
    counter = DaskCounter(store, domain, Cluster())
    assert workers(Cluster()) == 3
    for clique, marginal in counter.count(CLIQUES).items():
        assert np.array_equal(marginal.counts, expected(columns, clique, domain))


@pytest.mark.runbook("dask-worker-differs")
def test_a_worker_that_could_not_read_its_task_is_named_when_a_count_fails(tmp_path, says):
    class Cluster:
        """Its worker is replaced, at the same address, by one without dp-release."""

        def __init__(self):
            self.packages = get_package_info(PACKAGES)

        def nthreads(self):
            return {"tls://10.0.0.2:4000": 1}

        def sync(self, _function, _client, workers, _message):
            return {worker: {"packages": self.packages} for worker in workers}

        def run(self, _function, *_words, **_options):
            return {}

        def get(self, _graph, _key, **_options):
            self.packages = {**self.packages, "dp-release": None}
            raise ModuleNotFoundError("No module named 'tasks'")

    _, store = make_store(tmp_path / "s", 500, 100)
    with pytest.raises(StageFailed) as failed:
        DaskCounter(store, DOMAIN, Cluster()).count([("a",)])
    says(failed.value)
    assert "tls://10.0.0.2:4000" in failed.value.message


@pytest.mark.parametrize(
    ("tasks", "rows"),
    [(1, [480]), (2, [200, 280]), (3, [100, 180, 200]), (5, [80, 100, 100, 100, 100])],
)
def test_counts_do_not_depend_on_how_many_tasks_there_are(tmp_path, monkeypatch, tasks, rows):
    columns, store = make_store(tmp_path / "s", 480, 100)
    counted, count_part = [], dask_counter._count_part

    def noted(part, plan):
        counted.append(part.rows)
        return count_part(part, plan)

    monkeypatch.setattr(dask_counter, "_count_part", noted)
    monkeypatch.setattr(DaskCounter, "_tasks", lambda *_: tasks)
    for clique, marginal in DaskCounter(store, DOMAIN).count(CLIQUES).items():
        assert np.array_equal(marginal.counts, expected(columns, clique))
    assert sorted(counted) == rows


@pytest.mark.parametrize(
    ("rows", "chunks", "tables", "cells", "tasks"),
    [
        (10**5, 1, 1, 100, 1),  # a millisecond in all
        (10**8, 191, 1, 10**5, 8),  # .13 s: several for each of two threads
        (10**8, 191, 1, 10**7, 1),  # moving the counts would take longer than counting
        (2 * 10**7, 39, 42, 2 * 10**5, 8),
        (10**9, 1908, 42, 2 * 10**5, 364),  # 55 s
        (10**9, 1908, 4200, 2 * 10**5, 1908),  # no more than there are chunks
        # A small file is divided into a few tasks unless its tables are large.
        (13_583, 7, 14, 10**5, 4),
        (13_583, 7, 3, 10**4, 1),
        (13_583, 7, 67, 10**6, 1),
    ],
)
def test_tasks_are_long_beside_what_dask_takes_and_several_for_each_thread(
    monkeypatch, rows, chunks, tables, cells, tasks
):
    monkeypatch.setattr(dask_counter, "TASK", 0.15)
    monkeypatch.setattr(dask_counter, "workers", lambda _: 2)
    store = SimpleNamespace(domain=DOMAIN, rows=rows, chunks=chunks)
    plan = SimpleNamespace(tables=[()] * tables, cells=cells)
    assert DaskCounter(store, DOMAIN)._tasks(plan) == tasks


def test_progress_is_told_and_never_says_that_all_is_done(tmp_path, monkeypatch):
    _, store = make_store(tmp_path / "s", 500, 100)
    monkeypatch.setattr(dask_counter, "LIVE_BYTES", 8 * 4 * 10_000)
    told = []
    DaskCounter(store, DOMAIN).count(CLIQUES, told.append)
    assert len(told) >= 4
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] < 1


def test_impossible_requests_are_refused(tmp_path):
    _, store = make_store(tmp_path / "s", 5, 100)
    counter = DaskCounter(store, DOMAIN)
    with pytest.raises(KeyError):
        counter.count([("a", "nothing")])
    with pytest.raises(ValueError, match="repeat"):
        counter.count([("a", "a")])
    with pytest.raises(ValueError, match="another"):
        DaskCounter(store, Domain(("a",), (2,)))


def test_a_table_of_too_many_cells_is_refused_by_name(tmp_path):
    domain = Domain(("left", "right"), (65_536, 65_536))
    with StoreWriter(tmp_path / "s", domain) as writer:
        writer.append([np.zeros(1, np.uint16)] * 2)
    with pytest.raises(ValueError, match="left, right"):
        DaskCounter(CodeStore(tmp_path / "s", domain), domain).count([("left", "right")])


def test_exact_counts_do_not_travel_in_clear():
    with pytest.raises(BadInput, match="tls"), dask_client("tcp://example.org:8786"):
        pass


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scheduler_that_does_not_answer_is_a_failed_stage(monkeypatch):
    import distributed

    def refuse(*_args, **_options):
        raise OSError("Timed out during handshake")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(StageFailed, match="does not answer"), dask_client("tcp://127.0.0.1:1"):
        pass


WIDE = Domain(tuple("abcdefgh"), (300, 400, 500, 600, 700, 800, 900, 1000))
"""8.5e21 cells, which need two words."""


def _seen(columns, domain, clique):
    rows = np.stack([columns[axis] for axis in domain.axes(clique)], axis=1)
    return np.unique(rows, axis=0, return_counts=True)


@given(rows=st.integers(0, 300), chunk_rows=st.integers(20, 400), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_observed_cells_do_not_depend_on_how_the_file_was_cut(
    tmp_path_factory, rows, chunk_rows, seed
):
    columns, store = make_store(tmp_path_factory.mktemp("s") / "s", rows, chunk_rows, seed)
    counter = DaskCounter(store, DOMAIN)
    counter.count([("a", "b"), ("c",)])  # these are kept, in both orders of their columns
    for clique in (("c",), ("b", "a"), ("a", "b"), ("b", "d"), ("d", "a", "c", "b")):
        cells, counts = counter.observed(clique)
        expected_cells, expected_counts = _seen(columns, DOMAIN, clique)
        assert cells.dtype == np.uint16
        np.testing.assert_array_equal(cells, expected_cells)
        np.testing.assert_array_equal(counts, expected_counts)


def test_a_domain_of_any_size_is_counted_where_records_are(tmp_path):
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 3, 5000).astype(np.uint16) * (size // 3) for size in WIDE.sizes]
    with StoreWriter(tmp_path / "s", WIDE, chunk_rows=700) as writer:
        writer.append(columns)
    counter = DaskCounter(CodeStore(tmp_path / "s", WIDE), WIDE)
    for clique in (WIDE.columns, WIDE.columns[::-1]):
        cells, counts = counter.observed(clique)
        expected_cells, expected_counts = _seen(columns, WIDE, clique)
        np.testing.assert_array_equal(cells, expected_cells)
        np.testing.assert_array_equal(counts, expected_counts)
    assert counts.sum() == 5000


def test_cells_are_looked_for_in_this_process_even_with_a_cluster(tmp_path):
    # A scheduler shows the size of every result, which would be the number of these cells.
    columns, store = make_store(tmp_path / "s", 50, 10)

    class NoClient:
        def __getattr__(self, name):
            raise AssertionError(f"the cluster was asked to {name}")

    counter = DaskCounter(store, DOMAIN, NoClient())
    cells, _ = counter.observed(DOMAIN.columns)
    expected, _ = _seen(columns, DOMAIN, DOMAIN.columns)
    np.testing.assert_array_equal(cells, expected)


def test_the_last_of_70000_areas_is_counted_as_itself_by_every_counter(tmp_path):
    columns, _ = make_store(tmp_path / "s", 500, 100, domain=AREAS)
    areas = columns[2]
    areas[:] = np.where(areas % 2, 69_999, areas % 5 + 4463)  # 69,999 has the 16 bits of 4463
    data = Dataset(AREAS, np.array(columns))
    with StoreWriter(tmp_path / "s", AREAS, chunk_rows=100) as writer:
        writer.append(columns)
    stored = CodeStore(tmp_path / "s", AREAS)
    for counter in (DaskCounter(stored, AREAS), MemoryCounter(data)):
        found = counter.count([("c",)])["c",].counts
        assert found[69_999] == (areas == 69_999).sum() > 0
        assert found[4463] == (areas == 4463).sum() > 0
        assert found[4463:4468].sum() + found[69_999] == 500
        cells, counts = counter.observed(("c", "a"))
        assert cells.max() == 69_999
        assert counts[cells[:, 0] == 69_999].sum() == found[69_999]
