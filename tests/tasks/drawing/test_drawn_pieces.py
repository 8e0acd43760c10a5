"""Sets do not depend on the threads that draw their pieces, nor on who listens."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Event, get_ident

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import reconstructor
from dp_core.methods.reconstruction.reconstructor import LANES
from dp_core.plan.procedure import SetDrawing, carry_out, piece_sizes
from tasks.drawing import drawn_pieces as drawing
from tasks.drawing.drawn_pieces import ahead, drawn_pieces
from tests.full import some

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


def drawn(plan, models, **options):
    with drawn_pieces(plan, models, (1, 2), **options) as pieces:
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
    draw = SetDrawing.draw

    def slow(self, position, progress):
        drawn_at.append(position)
        progress(0.5)
        assert heard.wait(60)
        return draw(self, position, progress)

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
    monkeypatch.setattr(SetDrawing, "draw", slow)
    with pytest.raises(KeyboardInterrupt):
        drawn(*made, progress=interrupt)
    assert drawn_at == [0]


def test_a_failure_while_a_piece_is_drawn_ends_the_wait(made, monkeypatch):
    def fail(_self, _position, progress):
        progress(0.5)
        raise StageFailed("lost")

    monkeypatch.setattr(SetDrawing, "draw", fail)
    told = []
    with pytest.raises(StageFailed, match="lost"):
        drawn(*made, progress=told.append)
    assert told


@pytest.mark.usefixtures("in_pieces")
def test_large_sets_are_the_same_on_any_number_of_threads(made, monkeypatch):
    plan, models = made
    monkeypatch.setattr(drawing, "threads", lambda: 1)
    expected = drawn(plan, models)
    assert len(expected) == 2 * len(piece_sizes(plan, models, 1)) > 2 * LANES
    monkeypatch.setattr(drawing, "threads", lambda: 2 * LANES)
    assert same(drawn(plan, models), expected)


def test_a_set_of_one_piece_has_all_its_rows(made):
    (piece, table), _ = drawn(*made)
    assert piece.rows == table.num_rows == ROWS


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
