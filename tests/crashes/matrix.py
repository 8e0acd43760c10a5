"""The whole kill matrix as a command, which prints a table.

    python -m tests.crashes.matrix --all --random 200

kills a release at every point that was found and at 200 random times, and ends with 1 if anything
was lost, repeated or left behind after one of them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crashes.harness import ForkServer, Matrix, Outcome, Url, changing, in_the_home, spread
from tests.crashes.job import KINDS
from tests.crashes.points import Point

if TYPE_CHECKING:
    from tests.postgres import PostgresServer

SEED = 3
"""Of the random delays; the noise has none."""
CHECKED = "tasks.confidential."
"""Room of what the stage before the gate writes last: the comparison with the file."""
TWICE = 3
"""Every so many kills the process that goes on is killed as well."""


def kill_at_points(
    matrix: Matrix,
    number: int | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    gate: bool = False,
    points: Sequence[Point] | None = None,
) -> Iterator[Outcome]:
    """Kill at so many points of a release, spread over their names, or at every one.

    Of so many, each is one where the disk is not as it was at the point before.

    Args:
        matrix: Of one kind of release.
        number: How many points; None for all.
        tell: Is told what points there are.
        gate: Only at those from the gate on: hold, look, decision, and what follows it.
        points: All points of a release, if they are known.
    """
    points = list(points or matrix.points())
    if gate:
        points = from_the_gate(points)
    names = Counter(point.name for point in points)
    tell(f"{len(points)} points with {len(names)} names:")
    for name, count in names.items():
        tell(f"  {count:4d}  {name}")
    chosen = points if number is None else spread(changing(points), number)
    longest = matrix.duration()
    draw = random.Random(SEED)
    for count, point in enumerate(chosen):
        again = draw.uniform(0, longest)
        yield matrix.kill_at(point, again=None if count % TWICE else again)


def from_the_gate(points: Sequence[Point]) -> list[Point]:
    """Return the points after the sets were checked: where a release waits, or ends."""
    checked = [number for number, point in enumerate(points) if CHECKED in point.caller]
    return list(points[checked[-1] + 1 :])


def kill_as_it_goes_on(
    matrix: Matrix, *, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Outcome]:
    """Kill twice, the second time where only a release that was killed before ever comes."""
    found = matrix.recoveries(matrix.points())
    tell(f"{len(found)} points with names that are met only as a killed release goes on:")
    for first, second in found:
        tell(f"        {second.name}")
        yield matrix.kill_at(first, again=second)


def kill_at_random_times(matrix: Matrix, number: int) -> Iterator[Outcome]:
    """Kill at random times of a release until so many were under way; every third twice."""
    longest = matrix.duration()
    draw = random.Random(SEED)
    met = 0
    while met < number:
        delay, again = draw.uniform(0, longest), draw.uniform(0, longest)
        outcome = matrix.kill_after(delay, again=None if met % TWICE else again)
        met += outcome.met
        yield outcome


def main() -> int:
    """Run what is asked for; return the number to end with."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="every point, not a choice of 40")
    parser.add_argument("--gate", action="store_true", help="only points from the gate on")
    parser.add_argument("--points", type=int, default=40, help="how many points otherwise")
    parser.add_argument("--random", type=int, default=0, help="kills at random times")
    parser.add_argument("--kind", choices=list(KINDS), default="plain", help="how it is to end")
    parser.add_argument("--postgres", action="store_true", help="not SQLite; it is started here")
    parser.add_argument("--folder", type=Path, help="where to work; what fails is left there")
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="kill-matrix-"))
    failed = 0
    with ExitStack() as stack:
        url: Url = in_the_home
        if asked.postgres:
            from tests.postgres import PostgresServer

            url = on_postgres(stack.enter_context(PostgresServer()))
        server = stack.enter_context(ForkServer())
        matrix = Matrix(server, folder / asked.kind, url, asked.kind)
        if asked.all or asked.points:
            failed += _show(
                "at points",
                lambda: kill_at_points(
                    matrix, None if asked.all else asked.points, tell=_say, gate=asked.gate
                ),
            )
        if asked.all and not asked.gate:
            failed += _show("as it goes on", lambda: kill_as_it_goes_on(matrix, tell=_say))
        if asked.random:
            failed += _show("at random times", lambda: kill_at_random_times(matrix, asked.random))
    return 1 if failed else 0


def on_postgres(server: PostgresServer) -> Url:
    """Give every release a fresh database, and drop the one before."""
    given: list[str] = []

    def give() -> str:
        while given:
            server.drop_database(given.pop())
        given.append(server.create_database())
        return given[-1]

    return give


def _show(what: str, kill: Callable[[], Iterable[Outcome]]) -> int:
    """Print what becomes of some kills; return how many went wrong."""
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for outcome in kill():
        outcomes.append(outcome)
        if outcome.wrong:
            _say(f"WRONG {outcome}")
    seconds = time.monotonic() - began
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    _say(
        f"{what}: {len(outcomes)} kills, {sum(outcome.met for outcome in outcomes)} of a release"
        f" under way, after {sum(outcome.drawn_again for outcome in outcomes)} of them noise was"
        f" drawn again, {wrong} went wrong; {seconds:.0f} s"
    )
    return wrong


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
