"""Draws the pieces of synthetic sets on threads, several at the same time. Public values only.

The sets do not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.processors import threads
from dp_core.methods.reconstruction.reconstructor import LANES
from dp_core.methods.reconstruction.sampling.drawing_progress import Progress, silent, step_of
from dp_core.plan.procedure import SetDrawing, decode_piece, piece_sizes

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.methods.reconstruction.reconstructor import Model
    from dp_core.plan.plan import Plan
    from dp_core.schema.linked.linked_decoding import TwoTables

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Drawn: TypeAlias = "tuple[Dataset, pa.Table | TwoTables]"
"""A piece of a set: its codes, and its values in the schema's labels and units.

A set of linked tables is one piece: its pair rows, and its two tables."""

_DRAWN = 0.95  # part of a piece after which its values are decoded
_STEP = 0.005  # smallest progress of a piece that is reported


@contextmanager
def drawn_pieces(
    plan: Plan,
    models: Mapping[int, Model],
    numbers: Sequence[int],
    *,
    progress: Progress = silent,
) -> Iterator[Iterator[Drawn]]:
    """Draw sets during a block.

    Args:
        plan: Plan of the release, with privately chosen bins and levels.
        models: Models by number of the set; 0 is the shared one.
        numbers: Numbers of the sets, from 1.
        progress: Called with the part of all pieces that is drawn, in the thread that consumes the
            pieces; does nothing by default.

    Yields:
        The pieces of all sets, in the order of the sets and of their positions.
    """

    def parts() -> Iterator[tuple[SetDrawing, int, int]]:
        for number in numbers:
            # Create the drawing only for its own pieces, because it keeps all that was drawn.
            drawing = SetDrawing(plan, models, number)
            yield from ((drawing, number, position) for position in range(len(drawing.sizes)))

    pieces = sum(len(piece_sizes(plan, models, number)) for number in numbers)
    summed = _SummedProgress(pieces, progress)

    def draw(part: tuple[SetDrawing, int, int], listener: Progress) -> Drawn:
        drawing, number, position = part
        piece = drawing.draw(position, step_of(listener, 0.0, _DRAWN))
        drawn: Drawn = piece, decode_piece(plan, piece, number, position)
        listener(1.0)
        return drawn

    def start(part: tuple[SetDrawing, int, int]) -> Callable[[], Drawn]:
        future = pool.submit(draw, part, summed.listener())
        future.add_done_callback(summed.wake)
        return partial(summed.until, future)

    at_once = min(threads(), LANES)
    # The compiled loops release the interpreter lock, so threads help. Each piece has its own
    # generator, so the result does not depend on the order of the threads.
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        try:
            yield ahead(start, parts(), most=min(at_once + 1, LANES))
        except BaseException:
            # After an interrupt, wait for the pieces that are being drawn but for no others.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _SummedProgress:
    """Adds up the progress of all pieces; the thread that waits for a piece reports the sum."""

    def __init__(self, pieces: int, progress: Progress) -> None:
        self._progress = progress
        self._done = [0.0] * pieces
        self._begun = 0
        self._reports: SimpleQueue[tuple[int, float] | None] = SimpleQueue()

    def listener(self) -> Progress:
        """Return the listener of the next piece; its thread may call it."""
        piece, last = self._begun, 0.0
        self._begun += 1

        def hear(done: float) -> None:
            nonlocal last
            if done - last >= _STEP or done >= 1.0:
                last = done
                self._reports.put((piece, done))

        return hear

    def wake(self, _future: object) -> None:
        """Wake the thread that waits, because a piece is finished or has failed."""
        self._reports.put(None)

    def until(self, future: Future[Drawn]) -> Drawn:
        """Wait for a piece, and report the progress of all pieces meanwhile."""
        while not future.done():
            self._pass_on(self._reports.get())
        # Pass on what the finished piece reported last.
        try:
            while True:
                self._pass_on(self._reports.get_nowait())
        except Empty:
            return future.result()

    def _pass_on(self, report: tuple[int, float] | None) -> None:
        if report is not None:
            piece, done = report
            self._done[piece] = done
            self._progress(sum(self._done) / len(self._done))


def ahead(
    start: Callable[[Argument], Callable[[], Result]], arguments: Iterable[Argument], *, most: int
) -> Iterator[Result]:
    """Yield the results of work that is started early, in the order of the arguments.

    Args:
        start: Starts the work on an argument, and returns a function that waits for its result.
        arguments: The arguments; the work starts in their order.
        most: Largest number of results that are started and not yet taken.
    """
    waiting: deque[Callable[[], Result]] = deque()
    for argument in arguments:
        if len(waiting) == most:
            yield waiting.popleft()()
        waiting.append(start(argument))
    while waiting:
        yield waiting.popleft()()
