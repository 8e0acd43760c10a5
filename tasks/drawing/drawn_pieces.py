"""Draws the pieces of synthetic sets, several at the same time. Public values only.

Large sets are drawn on the release's Dask cluster if it has one: a set of more than one piece takes
minutes, and its pieces are drawn in lanes that do not wait for one another. Everything else is
drawn on threads of this process. The sets do not depend on where they are drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from dp_core.spec.procedure import LANES, SetDrawing, decoded, piece_sizes
from dp_core.tables.dataset import Dataset
from tasks.support.processors import threads

if TYPE_CHECKING:
    import pyarrow as pa
    from distributed import Client

    from dp_core.methods.reconstruction.reconstructor import Model
    from dp_core.spec.plan import Plan

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Drawn: TypeAlias = "tuple[Dataset, pa.Table]"
"""A piece of a set: its codes, and its values in the schema's labels and units."""


@contextmanager
def drawn_pieces(
    plan: Plan,
    models: Mapping[int, Model],
    numbers: Sequence[int],
    client: Client | None = None,
) -> Iterator[Iterator[Drawn]]:
    """Draw sets during a block.

    Args:
        plan: Plan of the release, with privately chosen bins and levels.
        models: Models by number of the set; 0 is the shared one.
        numbers: Numbers of the sets, from 1.
        client: Client of a Dask cluster; None (the default) for threads of this process.

    Yields:
        The pieces of all sets, in the order of the sets and of their positions.

    Raises:
        StageFailed: if the cluster is lost, or a worker runs another program.
    """
    if client is not None and any(len(piece_sizes(plan, models, number)) > 1 for number in numbers):
        from tasks.drawing.cluster_lanes import ClusterLanes

        lanes = ClusterLanes(client, plan, models)
        yield ahead(lanes.start, _positions(plan, models, numbers), most=2 * LANES)
        return

    def parts() -> Iterator[tuple[SetDrawing, int, int]]:
        for number in numbers:
            # Create the drawing only for its own pieces, because it keeps all that was drawn.
            drawing = SetDrawing(plan, models, number)
            yield from ((drawing, number, position) for position in range(len(drawing.sizes)))

    def draw(part: tuple[SetDrawing, int, int]) -> Drawn:
        drawing, number, position = part
        piece = drawing.draw(position)
        return piece, decoded(plan, piece, number, position)

    at_once = min(threads(), LANES)
    # The compiled loops release the interpreter lock, so threads help. Each piece has its own
    # generator, so the result does not depend on the order of the threads.
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        yield ahead(
            lambda part: pool.submit(draw, part).result, parts(), most=min(at_once + 1, LANES)
        )


def _positions(
    plan: Plan, models: Mapping[int, Model], numbers: Sequence[int]
) -> Iterator[tuple[int, int]]:
    for number in numbers:
        for position in range(len(piece_sizes(plan, models, number))):
            yield number, position


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
