"""A release that is killed anywhere goes on: nothing is paid twice, or measured unpaid.

With `--full` it is killed at 40 points and at ten random times. With `DP_RELEASE_EXHAUSTIVE=1`
besides, it is killed at every point and at 200 random times, which takes long; `python -m
tests.crashes.matrix` prints the same.
"""

from __future__ import annotations

import pytest

from tests.crashes.harness import ForkServer, Matrix, changed, changing, spread
from tests.crashes.job import Place
from tests.crashes.matrix import (
    kill_as_it_goes_on,
    kill_at_points,
    kill_at_random_times,
    on_postgres,
)
from tests.crashes.points import Point
from tests.full import EXHAUSTIVE, at_full_size, exhaustive
from tests.postgres import PostgresServer

FULL = at_full_size()
WITH_A_GATE = ("published", "withdrawn", "failed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(fork_server: ForkServer) -> ForkServer:
    return fork_server


@pytest.fixture(scope="module")
def matrix(server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """Each kill has a place of its own; how long a release takes is found once."""
    return Matrix(server, tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module")
def points(matrix: Matrix) -> list[Point]:
    return matrix.points()


def assert_nothing_wrong(outcomes, number: int) -> None:
    outcomes = list(outcomes)
    assert sum(outcome.met for outcome in outcomes) == number
    assert not [str(outcome) for outcome in outcomes if outcome.wrong]


def test_a_release_has_at_least_forty_points_with_names_of_their_own(points):
    names = {point.name for point in points}
    assert len(names) >= 40, sorted(names)
    # Of each kind there is one: the ledger's commits, torn and renamed results, locks, the bundle.
    for told in ("commit, before", "commit, after", "write, amid", "fsync, after"):
        assert any(name.endswith(told) for name in names), told
    for module in (
        "tasks.ledger.",
        "tasks.run.home.",
        "dp_core.confidential.code_store.",
        "dp_core.bundle.",
    ):
        assert any(name.startswith(module) for name in names), module


@pytest.mark.parametrize("number", [7, 40])
def test_a_choice_of_points_is_from_all_over_the_run_and_each_has_a_name_of_its_own(points, number):
    chosen = spread(points, number)
    assert len({point.name for point in chosen}) == len(chosen) == number
    places = [points.index(point) for point in chosen]
    assert places == sorted(places)
    assert places[0] < len(points) // number
    assert places[-1] >= len(points) - len(points) // number - 1


def test_a_choice_is_of_points_at_which_the_disk_was_changed(points):
    chosen = changing(points)
    names = {point.name for point in chosen}
    assert len(names) >= 60, sorted(names)
    for told in ("commit, after", "write, amid", "rename, after", "link, after", "unlink, after"):
        assert any(name.endswith(told) for name in names) == any(
            point.name.endswith(told) for point in points
        ), told
    assert not any(told in name for name in names for told in (", before", ".reading:", "fsync"))


def test_a_release_that_is_killed_at_a_point_goes_on(matrix, points):
    number = len(points) if EXHAUSTIVE else 40 if FULL else 4
    chosen = None if EXHAUSTIVE else number
    killed = kill_at_points(matrix, chosen, points=points)
    assert_nothing_wrong(killed, number)


@pytest.mark.full
@pytest.mark.parametrize("kind", WITH_A_GATE)
def test_a_release_that_waits_or_ends_is_killed_there_and_goes_on(server, tmp_path, kind):
    """In the hold, the look and the decision, and between an entry and the files it is about."""
    outcomes = list(
        kill_at_points(Matrix(server, tmp_path, kind=kind), None if EXHAUSTIVE else 2, gate=True)
    )
    assert len(outcomes) >= 2
    assert_nothing_wrong(outcomes, len(outcomes))


def test_a_release_that_the_data_refuse_is_one_attempt_wherever_it_is_killed(server, tmp_path):
    """Between the answer in the internal folder and the entry that counts it, too."""
    matrix = Matrix(server, tmp_path, kind="refused")
    found = matrix.points()
    told = ("write_internal", "Host._failed", "LeasedWriter._writing")
    telling = [
        point
        for point in found
        if point.name.endswith((":replace, after", ":commit, after"))
        and point.caller.endswith(told)
    ]
    # Suite, results, report and message; reservation, attempt, input, verdict and settlement.
    assert len(telling) == 9, telling
    outcomes = [matrix.kill_at(point) for point in (telling if FULL else telling[-3:])]
    outcomes += kill_at_points(matrix, None if EXHAUSTIVE else 20 if FULL else 1, points=found)
    assert_nothing_wrong(outcomes, len(outcomes))


@pytest.mark.full
def test_a_release_that_uses_paid_tables_is_killed_and_goes_on(server, tmp_path):
    """Nothing is paid for it and the data are gone, wherever it is killed."""
    matrix = Matrix(server, tmp_path, kind="reused")
    points = matrix.points()
    number = len(points) if EXHAUSTIVE else 20
    killed = kill_at_points(matrix, None if EXHAUSTIVE else number, points=points)
    assert_nothing_wrong(killed, number)


def test_a_release_of_linked_tables_that_is_killed_goes_on(server, tmp_path):
    matrix = Matrix(server, tmp_path, kind="linked")
    points = matrix.points()
    number = len(points) if EXHAUSTIVE else 20 if FULL else 2
    killed = kill_at_points(matrix, None if EXHAUSTIVE else number, points=points)
    assert_nothing_wrong(killed, number)


@exhaustive
@pytest.mark.full
@pytest.mark.parametrize("kind", WITH_A_GATE)
def test_a_release_with_charged_checks_that_is_killed_anywhere_goes_on(
    server, tmp_path, postgres_server: PostgresServer, kind
):
    matrix = Matrix(server, tmp_path / "all", kind=kind)
    assert_nothing_wrong(kill_at_points(matrix), len(matrix.points()))
    assert_nothing_wrong(kill_at_random_times(matrix, 50), 50)
    kept = Matrix(server, tmp_path / "kept", on_postgres(postgres_server), kind)
    outcomes = list(kill_at_points(kept, gate=True))
    assert_nothing_wrong(outcomes, len(outcomes))


@exhaustive
@pytest.mark.full
def test_a_release_that_is_killed_as_it_goes_on_goes_on(server, tmp_path):
    outcomes = list(kill_as_it_goes_on(Matrix(server, tmp_path)))
    assert outcomes
    assert_nothing_wrong(outcomes, len(outcomes))


def test_a_draw_that_is_killed_twice_is_done_under_the_same_charge(matrix, points):
    drawn = [point for point in points if ":posix_fallocate, after" in point.name]
    assert len(drawn) >= 4  # of the total, the one-way tables, the selection and the others
    outcome = matrix.kill_at(drawn[0], again=drawn[0])
    assert not outcome.wrong
    assert outcome.drawn_again


def test_a_release_that_is_killed_at_any_time_goes_on(matrix):
    number = 200 if EXHAUSTIVE else 10 if FULL else 1
    assert_nothing_wrong(kill_at_random_times(matrix, number), number)


@pytest.mark.full
def test_a_release_on_postgresql_that_is_killed_goes_on(
    server, tmp_path, postgres_server: PostgresServer
):
    matrix = Matrix(server, tmp_path, on_postgres(postgres_server))
    points = matrix.points()
    number = len(points) if EXHAUSTIVE else 10
    killed = kill_at_points(matrix, None if EXHAUSTIVE else number, points=points)
    assert_nothing_wrong(killed, number)
    times = 200 if EXHAUSTIVE else 2
    assert_nothing_wrong(kill_at_random_times(matrix, times), times)


@pytest.mark.full
def test_a_point_that_is_not_met_is_no_kill(matrix):
    outcome = matrix.kill_at(Point("tasks.stages.publish.publish", "no", "before", ""))
    assert not outcome.met
    assert outcome.wrong[0] == "the point was not met"


def test_what_a_crash_must_not_leave_is_seen(server, tmp_path):
    place = Place(tmp_path / "one").prepare()
    # An instrumented release is the same release.
    assert server.ask("record", place).failed is None
    assert server.ask("inspect", place).answer == {"wrong": [], "drawn_again": False}

    kept = place.results()
    name = min(kept)
    (place.noisy / name).write_bytes(kept[name][:-1])
    (place.noisy / f"{name}.tmp").touch()
    (place.out.parent / ".left").touch()
    (place.run_folder / "confidential").resolve().mkdir()
    wrong = server.ask("inspect", place).answer["wrong"]
    assert wrong[1:] == ["confidential files are left", f"files are left: .left, {name}.tmp"]
    assert wrong[0].startswith("noisy results: ")
    assert changed(kept, place) == [f"the stored result {name} was changed"]
    (place.noisy / name).unlink()
    assert changed(kept, place) == [f"the stored result {name} was lost"]
