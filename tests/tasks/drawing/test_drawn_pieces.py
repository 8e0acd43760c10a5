"""Sets do not depend on where their pieces are drawn, nor on workers that are lost meanwhile."""

import itertools
import os
import pickletools
import signal
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Event, get_ident

import numpy as np
import pytest
from distributed import WorkerPlugin
from distributed.protocol import pickle as wire

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import reconstructor
from dp_core.methods.reconstruction.reconstructor import LANES
from dp_core.plan import procedure
from dp_core.plan.procedure import SetDrawing, carry_out, piece_sizes
from tasks.drawing import cluster_lanes
from tasks.drawing import drawn_pieces as drawing
from tasks.drawing.cluster_lanes import _begin, _draw
from tasks.drawing.drawn_pieces import ahead, drawn_pieces
from tasks.support.dask_cluster import dask_client
from tasks.support.worker_program import SOURCES, program
from tests.full import some
from tests.workers import local_cluster

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))
ROWS = 1000
OF_A_PIECE = 150


@pytest.fixture(
    scope="module",
    params=some(["privsyn", "independent"], lambda method: method == "privsyn"),
)
def made(request):
    codes = np.random.default_rng(0).integers(0, 2, (3, 900)).astype(np.uint16)
    plan = trial_plan(DOMAIN, request.param, Fraction(5), Fraction(1, 10**6), sets=2, rows=ROWS)
    outcome = carry_out(plan, MemoryCounter(Dataset(DOMAIN, codes)))
    return outcome.plan, outcome.models


@pytest.fixture
def in_pieces(monkeypatch):
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", len(DOMAIN) * OF_A_PIECE)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with (
        local_cluster(tmp_path_factory.mktemp("cluster"), 2) as cluster,
        dask_client(cluster.scheduler_address) as client,
    ):
        yield client


class Killed(WorkerPlugin):
    """Kills the first worker that begins the piece at a position; the others go on."""

    name = "killed"

    def __init__(self, file, at):
        self.file, self.at = str(file), at

    def setup(self, worker):
        del worker
        self.draw = draw = procedure.Lane.draw
        file, at = self.file, self.at

        def dying(lane, position):
            if position == at:
                try:
                    os.close(os.open(file, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            return draw(lane, position)

        procedure.Lane.draw = dying

    def teardown(self, worker):
        del worker
        procedure.Lane.draw = self.draw


def drawn(plan, models, client=None, numbers=(1, 2), **options):
    with drawn_pieces(plan, models, numbers, client, **options) as pieces:
        return list(pieces)


def same(found, expected):
    return len(found) == len(expected) and all(
        np.array_equal(piece.codes, other.codes) and table.equals(same_table)
        for (piece, table), (other, same_table) in zip(found, expected, strict=True)
    )


def rises_to_the_end(told):
    return told[-1] == 1 and all(one <= other for one, other in itertools.pairwise(told))


@pytest.mark.parametrize("method", ["privsyn", "pgm", "average"])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("pieces", [False, True])
def test_progress_rises_while_a_piece_is_drawn_and_changes_no_record(
    monkeypatch, method, threads, pieces
):
    options = {} if method == "privsyn" else {"reconstruct": {"method": method}}
    codes = np.random.default_rng(0).integers(0, 2, (3, 900)).astype(np.uint16)
    plan = trial_plan(
        DOMAIN, "privsyn", Fraction(5), Fraction(1, 10**6), sets=2, rows=ROWS, **options
    )
    outcome = carry_out(plan, MemoryCounter(Dataset(DOMAIN, codes)))
    monkeypatch.setattr(drawing, "threads", lambda: threads)
    if pieces:
        monkeypatch.setattr(reconstructor, "_PIECE_VALUES", len(DOMAIN) * OF_A_PIECE)
    expected = drawn(outcome.plan, outcome.models)
    told, by = [], set()

    def listen(done):
        told.append(done)
        by.add(get_ident())

    assert same(drawn(outcome.plan, outcome.models, progress=listen), expected)
    assert rises_to_the_end(told)
    assert len(told) >= 8 * len(expected)
    assert by == {get_ident()}  # the run's listener is not made for other threads


def test_an_interrupt_while_a_piece_is_drawn_begins_no_other_piece(made, monkeypatch):
    drawn_at, heard = [], Event()
    draw = procedure.Lane.draw

    def slow(lane, position):
        drawn_at.append(position)
        lane.sampler.progress(0.5)
        assert heard.wait(60)
        return draw(lane, position)

    def interrupt(done):
        del done
        raise KeyboardInterrupt

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            heard.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr(drawing, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(drawing, "threads", lambda: 1)
    monkeypatch.setattr(procedure.Lane, "draw", slow)
    with pytest.raises(KeyboardInterrupt):
        drawn(*made, progress=interrupt)
    assert drawn_at == [0]


def test_a_failure_while_a_piece_is_drawn_ends_the_wait(made, monkeypatch):
    def fail(lane, position):
        del position
        lane.sampler.progress(0.5)
        raise StageFailed("lost")

    monkeypatch.setattr(procedure.Lane, "draw", fail)
    told = []
    with pytest.raises(StageFailed, match="lost"):
        drawn(*made, progress=told.append)
    assert told


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("in_pieces")
def test_large_sets_are_the_same_on_a_cluster_even_if_a_worker_dies(made, client, tmp_path):
    plan, models = made
    expected = drawn(plan, models)
    assert len(expected) == 2 * len(piece_sizes(plan, models, 1)) > 2 * LANES
    told = []
    assert same(drawn(plan, models, client, progress=told.append), expected)
    assert len(told) == len(expected)
    assert rises_to_the_end(told)
    # The lane of this piece has drawn one before, which has to be drawn again.
    client.register_plugin(Killed(tmp_path / "dead", at=LANES + 1))
    assert same(drawn(plan, models, client), expected)
    assert (tmp_path / "dead").exists()
    client.unregister_worker_plugin("killed")


class Untouched:
    """A client that must not be asked for anything."""

    def __getattr__(self, name):
        raise AssertionError(name)


def test_a_set_of_one_piece_is_drawn_by_the_process_that_makes_the_release(made):
    plan, models = made
    (piece, table), _ = drawn(plan, models, Untouched())
    assert piece.rows == table.num_rows == ROWS


class Recorder:
    """A client that keeps each task as it would be sent, and does it at once."""

    def __init__(self):
        self.sent = []

    def submit(self, work, *arguments, **options):
        assert set(options) == {"key", "pure"}
        assert options["key"].removeprefix("draw-").isalnum()  # keys are shown to everybody
        self.sent += [work, *arguments]
        return work(*arguments)


def modules_in(value):
    """Return the modules of the classes and functions that a pickled value names."""
    strings, found = [], set()
    for code, argument, _ in pickletools.genops(wire.dumps(value)):
        if code.name == "GLOBAL":
            found.add(argument.split()[0])
        elif code.name == "STACK_GLOBAL":
            # Names may also be fetched from the memo, so all strings count as modules.
            found.update(strings)
        if isinstance(argument, str):
            strings.append(argument)
    return {each for each in found if each.startswith(("dp_core.", "tasks.", "flows."))}


CONFIDENTIAL = (
    "dp_core.confidential",
    "dp_core.kernel.counting.marginal",
    "dp_core.kernel.kernel",
    "dp_core.kernel.ledger",
    "tasks.counting",
    "tasks.run",
)


@pytest.mark.usefixtures("in_pieces")
def test_nothing_that_holds_the_file_is_sent_to_a_worker(made, monkeypatch):
    plan, models = made
    client = Recorder()
    monkeypatch.setattr(cluster_lanes, "require_same_program", lambda _: None)
    monkeypatch.setattr(cluster_lanes, "outcome", lambda start, _: start())
    assert same(drawn(plan, models, client), drawn(plan, models))
    sent = set().union(*map(modules_in, client.sent))
    assert {"dp_core.plan.plan", "tasks.drawing.cluster_lanes"} <= sent
    assert not [each for each in sent if each.startswith(CONFIDENTIAL)]
    counter = MemoryCounter(Dataset(DOMAIN, np.zeros((3, 1), np.uint16)))
    assert "dp_core.confidential.memory_counter" in modules_in(counter)  # it would be found


@pytest.mark.usefixtures("in_pieces")
def test_no_piece_is_drawn_before_the_workers_are_checked(made, monkeypatch):
    plan, models = made
    client = Recorder()

    def refuse(asked):
        assert asked is client
        raise StageFailed("another program")

    monkeypatch.setattr(cluster_lanes, "require_same_program", refuse)
    with pytest.raises(StageFailed, match="another program"):
        drawn(plan, models, client)
    assert not client.sent


def test_a_task_of_another_program_draws_nothing(made):
    plan, models = made
    (lane,) = SetDrawing(plan, models, 1).lanes
    other = (*(dict(program()) | {SOURCES: "0"}).items(),)
    for work in (lambda: _begin(other, lane), lambda: _draw(other, lane, 0)):
        with pytest.raises(StageFailed, match="source files of dp-release with the digest"):
            work()


@pytest.mark.usefixtures("in_pieces")
def test_a_repeated_task_draws_the_same_piece_and_leaves_its_argument_as_it_was(made):
    plan, models = made
    lane = SetDrawing(plan, models, 1).lanes[0]
    lane, _ = _draw(program(), lane, 0)
    (_, (first, _)), (_, (again, _)) = (_draw(program(), lane, LANES) for _ in range(2))
    assert np.array_equal(first.codes, again.codes)


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_results_come_in_order_and_no_more_are_started_than_allowed(most):
    started, taken = [], []

    def start(number):
        started.append(number)
        assert len(started) - len(taken) <= most
        return lambda: number * 10

    for result in ahead(start, range(8), most=most):
        taken.append(result)
    assert taken == [10 * number for number in range(8)]
