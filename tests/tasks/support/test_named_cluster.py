"""Clusters that a spec names are started with its options, checked, scaled and closed."""

import gc
import http.client
import logging
import pickle
import pickletools
import re
import shutil
import time
import urllib.error
import urllib.request
import warnings

import dask
import numpy as np
import psutil
import pytest

from dp_core.confidential.code_store import CodeStore, StoreWriter
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.counting_cluster import CountingCluster
from dp_core.text.documents.node import Node
from tasks.counting.dask_counter import DaskCounter
from tasks.counting.worker_check import require_workers
from tasks.support import named_cluster
from tasks.support.dask_cluster import dask_client, workers
from tasks.support.scheduler_address import check_address
from tests.clusters import Elsewhere, Seen
from tests.full import at_full_size, some
from tests.workers import SECONDS, a_task_for_each_chunk

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # dask-jobqueue leaves its certificates' files and its jobs' pipes to the collector, and Dask's
    # own `__del__` fails for a cluster that was never made.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DOMAIN = Domain(("a", "b"), (3, 200))
ROWS = 1_234_567
"""So many that all counts have six digits, which no port has."""
LOCAL = "distributed.LocalCluster"
JOBS = "dask_jobqueue.local.LocalCluster"
ELSEWHERE = "tests.clusters.Elsewhere"
ANY_OPTIONS = "tests.clusters.AnyOptions"


@pytest.fixture(autouse=True)
def silent():
    """Dask's threads would write to handlers of a test that is over."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", autouse=True)
def collected():
    """What these tests leave to the collector is not found in the next module's."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("home") / "codes"
    with StoreWriter(folder, DOMAIN) as writer:
        writer.append([rng.integers(0, size, ROWS) for size in DOMAIN.sizes])
    return CodeStore(folder, DOMAIN)


def asked(cluster, *, workers=None, adapt=None, **options):
    places = {
        "cluster": Node(cluster, "town.yaml", 8, "dask.cluster"),
        **{f"options.{name}": Node("", "town.yaml", 9, f"dask.options.{name}") for name in options},
    }
    return CountingCluster(cluster, options, workers, adapt, wait=SECONDS, places=places)


def assert_exact(store, client):
    cliques = [(), ("a",), ("b", "a")]
    found = DaskCounter(store, DOMAIN, client).count(cliques)
    for clique, marginal in DaskCounter(store, DOMAIN).count(cliques).items():
        assert np.array_equal(found[clique].counts, marginal.counts)


@pytest.mark.parametrize(
    ("cluster", "place", "said"),
    [
        (asked("nowhere_at_all.Cluster"), "line 8, dask.cluster", "'nowhere_at_all' is not inst"),
        (asked("distributed.nowhere.Cluster"), "line 8, dask.cluster", "cannot be imported"),
        (asked("distributed.LocalClutser"), "line 8, dask.cluster", "mean 'LocalCluster'"),
        (asked("pathlib.Path"), "line 8, dask.cluster", "not a class of clusters"),
        (asked("os.system"), "line 8, dask.cluster", "not a class of clusters"),
        (asked(LOCAL, worker=2), "line 9, dask.options.worker", "no option 'worker'"),
        (asked(JOBS, processs=2), "line 9, dask.options.processs", "mean 'processes'"),
        (asked(LOCAL, asynchronous=True), "line 9, dask.options.asynchronous", "set by dp-rel"),
        (asked(LOCAL, dashboard_address=":1"), "dask.options.dashboard_address", "operator"),
        (
            asked(JOBS, cores=1, memory="1GB", security=True),
            "line 9, dask.options.security",
            "shared_temp_directory",
        ),
    ],
    ids=lambda value: value.cluster if isinstance(value, CountingCluster) else "",
)
def test_a_cluster_that_cannot_be_is_refused_at_its_place_before_it_is_started(
    cluster, place, said
):
    with pytest.raises(BadInput) as refused:
        named_cluster.check_cluster(cluster)
    assert place in refused.value.message
    assert said in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "cluster",
    [
        asked(LOCAL, n_workers=2, host="127.0.0.1", nthreads=1, lifetime="1 hour"),
        asked(JOBS, cores=4, memory="4 GB", job_extra_directives=["--x"], interface="lo"),
        asked("dask_jobqueue.SLURMCluster", cores=4, memory="4GB", queue="q", walltime="1:00:00"),
        asked(ANY_OPTIONS, image="dp-release", worker_cores=4),
    ],
)
def test_options_of_the_class_its_bases_and_what_it_starts_are_accepted(cluster):
    named_cluster.check_cluster(cluster)


@pytest.mark.parametrize(
    "cluster",
    [
        asked(LOCAL, n_workers="many"),
        asked(LOCAL, security={"tls_ca_fil": "ca.pem"}),
        asked(JOBS, cores=1, memory="lots"),
        asked(JOBS, cores=1),
    ],
)
def test_a_value_that_only_the_start_can_judge_is_bad_input(cluster):
    with (
        pytest.raises(BadInput, match=r"dask\.options: .* does not accept"),
        dask_client(None, cluster),
    ):
        pass


@pytest.mark.runbook("dask-not-started")
def test_a_cluster_that_does_not_start_is_a_failed_stage(says):
    cluster = asked(LOCAL, host="nowhere.invalid", n_workers=0)
    with pytest.raises(StageFailed, match="did not start") as failed, dask_client(None, cluster):
        pass
    says(failed.value)


@pytest.mark.runbook("dask-in-clear")
def test_a_cluster_to_which_counts_would_go_in_clear_is_closed_unused(says, monkeypatch):
    monkeypatch.setattr(Elsewhere, "closed", False)
    with (
        pytest.raises(BadInput, match=r"line 8, .*unencrypted") as refused,
        dask_client(None, asked(ELSEWHERE, workers=3)),
    ):
        pass
    says(refused.value)
    assert Elsewhere.closed


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "",
        "tls://localhost",
        "tls://localhost:port",
        "tls://localhost:99999",
        "tls://:1",
        "tls://[::1",
        "http://127.0.0.1:8786",
    ],
)
def test_a_text_that_is_no_address_is_refused_before_anything_starts(address):
    with pytest.raises(BadInput, match="is not the address of a Dask scheduler"):
        check_address(address)


def test_a_worker_elsewhere_without_tls_is_refused_behind_a_tunnel_too(store):
    class Tunnel:
        def nthreads(self):
            return {"tcp://10.0.0.2:4000": 1}

    with pytest.raises(StageFailed, match=r"10\.0\.0\.2:4000 unencrypted"):
        require_workers(Tunnel(), store, frozenset())


@pytest.mark.slow
def test_workers_come_for_a_count_and_leave_after_it(store, monkeypatch):
    a_task_for_each_chunk(monkeypatch)
    cluster = asked(LOCAL, n_workers=0, threads_per_worker=1, adapt=(0, 2))
    # How often Dask looks whether workers are idle; it lets them go at the third time.
    often = dask.config.set({"distributed.adaptive.interval": "200 ms"})
    with often, dask_client(None, cluster) as client:
        assert client.nthreads() == {}
        assert workers(client) == 2
        assert_exact(store, client)
        until = time.monotonic() + SECONDS
        while client.nthreads():
            assert time.monotonic() < until, "the workers stay"
            time.sleep(0.05)
        if at_full_size():  # and they come again
            assert_exact(store, client)


@pytest.mark.slow
def test_jobs_of_a_queue_count_under_tls(store, tmp_path, monkeypatch):
    a_task_for_each_chunk(monkeypatch)
    cluster = asked(
        JOBS,
        cores=1,
        processes=1,
        memory="1GB",
        security=True,
        shared_temp_directory=str(tmp_path),
        local_directory=str(tmp_path / "dask"),
        workers=1,
    )
    with dask_client(None, cluster) as client:
        assert client.scheduler.address.startswith("tls://")
        assert_exact(store, client)
        assert all(worker.startswith("tls://") for worker in client.nthreads())


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", some([{}, {"worker_extra_args": ["--dashboard"]}], lambda given: bool(given))
)
def test_workers_of_jobs_have_no_dashboard(tmp_path, given):
    before = set(psutil.Process().children(recursive=True))
    cluster = asked(
        JOBS,
        cores=1,
        processes=1,
        memory="1GB",
        local_directory=str(tmp_path / "dask"),
        security=True,
        shared_temp_directory=str(tmp_path),
        workers=1,
        **given,
    )
    with dask_client(None, cluster) as client:
        client.wait_for_workers(1, timeout=SECONDS)
        jobs = set(psutil.Process().children(recursive=True)) - before
        ports = {
            each.laddr
            for job in jobs
            for each in job.net_connections("inet")
            if each.status == psutil.CONN_LISTEN
        }
        answers = {each: page(each.port, "status")[0] for each in ports}
        assert 404 in answers.values(), "a worker listens, to say that it is there"
        assert 200 not in answers.values()
        assert {each.ip for each, code in answers.items() if code is not None} == {"127.0.0.1"}


def hidden(store):
    """Return confidential texts and numbers of a store: rows, and counts that are no code."""
    marginal = DaskCounter(store, DOMAIN).count([("a",)])[("a",)]
    return {ROWS, *marginal.counts.tolist(), *(chunk.rows for chunk in store.ranges)}


def shown(text):
    """Return the whole numbers of a text that are no part of another number."""
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    return set(map(int, re.findall(r"(?<![\w.])\d+(?![\w.])", plain)))


def numbers(task):
    """Return every whole number in a pickle of a task."""
    return {value for _, value, _ in pickletools.genops(task) if isinstance(value, int)}


@pytest.mark.slow
def test_the_scheduler_sees_no_confidential_value(store, monkeypatch):
    a_task_for_each_chunk(monkeypatch)
    with dask_client(None, asked(LOCAL, n_workers=1, threads_per_worker=1)) as client:
        seen = Seen()
        client.cluster.scheduler.add_plugin(seen)
        assert_exact(store, client)
        assert len(seen.keys) == 2 * store.chunks - 1
        assert all(key.startswith(("count-", "add-")) for key in seen.keys)
        secret = hidden(store)
        assert len(secret) >= 4
        for task in seen.tasks:
            assert not secret & numbers(task)
        assert not secret & shown(" ".join([*seen.keys, *seen.texts]))


def test_a_number_of_rows_would_be_found(store):
    assert shown(f"rows: {ROWS:,}; ") == {ROWS}
    assert hidden(store) & numbers(pickle.dumps(store.ranges))


def page(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""
    except (OSError, http.client.HTTPException):  # the port speaks another protocol
        return None, ""


PAGES = ("info/main/workers.html", "json/counts.json", "metrics", "status", "individual-progress")


@pytest.mark.slow
def test_without_the_operator_s_wish_the_scheduler_has_no_pages(monkeypatch):
    monkeypatch.delenv(named_cluster.DASHBOARD, raising=False)
    with dask_client(None, asked(LOCAL, n_workers=1, threads_per_worker=1)) as client:
        port = client.cluster.scheduler.http_server.port
        assert page(port, "health")[0] == 200
        assert {name: page(port, name)[0] for name in PAGES} == dict.fromkeys(PAGES, 404)


@pytest.mark.slow
def test_the_dashboard_shows_no_confidential_value(store, monkeypatch):
    monkeypatch.setenv(named_cluster.DASHBOARD, "127.0.0.1:0")
    a_task_for_each_chunk(monkeypatch)
    with dask_client(None, asked(LOCAL, n_workers=1, threads_per_worker=1)) as client:
        server = client.cluster.scheduler.http_server
        assert server.address == "127.0.0.1"
        assert_exact(store, client)
        worker = next(iter(client.nthreads())).replace("://", "%3A%2F%2F").replace(":", "%3A")
        for name in (*PAGES, f"info/worker/{worker}.html"):
            code, text = page(server.port, name)
            assert code == 200, name
            assert not hidden(store) & shown(text), name


@pytest.mark.parametrize("address", ["0.0.0.0:8787", ":8787", "8787", "127.0.0.1:http"])
def test_a_dashboard_for_other_machines_is_refused(monkeypatch, address):
    monkeypatch.setenv(named_cluster.DASHBOARD, address)
    with pytest.raises(BadInput, match="no password"):
        named_cluster.dashboard()


def test_a_queue_without_its_command_is_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    cluster = asked("dask_jobqueue.SLURMCluster", cores=1, memory="1GB")
    with pytest.raises(StageFailed, match="'sbatch'"), dask_client(None, cluster):
        pass
