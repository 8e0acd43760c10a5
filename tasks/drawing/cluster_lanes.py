"""Draws the lanes of large sets on the workers of a Dask cluster. Public values only.

A lane is a chain of tasks, each of which takes the lane as the task before it left it. Workers get
the plan and the fitted models, draw and decode pieces, and need no access to the home. If a worker
is lost, Dask draws its lanes again from their first piece, with the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from operator import itemgetter
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from dp_core.kernel.counting.dataset import Dataset
from dp_core.plan.procedure import Lane, SetDrawing, decode_piece
from tasks.support.dask_cluster import outcome, scheduler_lost
from tasks.support.worker_program import (
    Program,
    program,
    require_program,
    require_sources,
    require_versions,
    sources,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from distributed import Client, Future

    from dp_core.methods.reconstruction.reconstructor import Model
    from dp_core.plan.plan import Plan


class ClusterLanes:
    """The lanes of sets on a cluster."""

    def __init__(self, client: Client, plan: Plan, models: Mapping[int, Model]) -> None:
        """Check the workers.

        Args:
            client: Client of the cluster.
            plan: Plan of the release, with privately chosen bins and levels.
            models: Models by number of the set; 0 is the shared one.

        Raises:
            StageFailed: if a worker runs another program, or the scheduler does not answer.
        """
        require_same_program(client)
        self._client = client
        self._plan = plan
        self._models = models
        self._number = 0
        self._lanes: list[Future[Lane]] = []

    def start(self, part: tuple[int, int]) -> Callable[[], tuple[Dataset, pa.Table]]:
        """Start drawing a piece; the pieces of a set must be started in order.

        Args:
            part: Number of the set, and position of the piece in it.

        Returns:
            A function that waits for the piece and returns it.
        """
        number, position = part
        if number != self._number:
            lanes = SetDrawing(self._plan, self._models, number).lanes
            self._lanes = [self._submit(_begin, lane) for lane in lanes]
            self._number = number
        at = position % len(self._lanes)
        both = self._submit(_draw, self._lanes[at], position)
        self._lanes[at] = self._submit(itemgetter(0), both)
        piece = self._submit(itemgetter(1), both)
        return partial(outcome, lambda: piece, self._client)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if not isinstance(work, itemgetter):
            work = partial(work, program())
        # Keys never repeat, because a scheduler would return the earlier result.
        return self._client.submit(work, *arguments, key=f"draw-{token_hex(8)}", pure=False)


def require_same_program(client: Client) -> None:
    """Refuse a cluster with a worker that runs another program.

    Args:
        client: Client of the cluster.

    Raises:
        StageFailed: if there is such a worker, which the message names. Also if the scheduler does
            not answer.
    """
    try:
        answering = require_versions(client, sorted(client.nthreads()))
        told = client.run(sources, workers=answering, on_error="return")
    except OSError as error:
        raise scheduler_lost(error) from None
    for worker, digest in told.items():
        if not isinstance(digest, OSError):  # else the worker has left meanwhile
            require_sources(digest, worker)


def _begin(made_with: Program, lane: Lane) -> Lane:
    require_program(made_with)
    return lane


def _draw(made_with: Program, lane: Lane, position: int) -> tuple[Lane, tuple[Dataset, pa.Table]]:
    require_program(made_with)
    # Dask uses an argument again when it repeats a task, so the lane of before must not change.
    lane = replace(lane, sampler=deepcopy(lane.sampler))
    piece = lane.draw(position)
    return lane, (piece, decode_piece(lane.plan, piece, lane.number, position))
