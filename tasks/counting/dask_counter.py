"""Exact marginals of a code store, counted over Dask. Confidential side."""

from __future__ import annotations

import itertools
import math
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.confidential.code_store import CodeStore
from dp_core.errors import ReleaseError
from dp_core.tables.counting import MOST_CELLS, Axes, TablePlan, count_tables, plan_tables
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.marginal import Marginal
from dp_core.tables.sparse_cells import count_keys, pack, unpack, words
from tasks.counting.worker_check import Program, program, require_here, require_workers
from tasks.support.dask_cluster import compute, workers, workers_of_a_process

if TYPE_CHECKING:
    from distributed import Client

Counts = list[NDArray[np.int64]]
Joined: TypeAlias = NDArray[np.int64]
"""Counts of all cliques of a plan, one after the other: what moves between processes."""

KeyCounts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Packed keys of the cells that hold a record, ascending, shape (cells, words), and counts."""

LIVE_BYTES = 1 << 28
"""Bytes of 64-bit counts that a call may hold in all tasks of a process together."""
CACHED_BYTES = 1 << 27

SECONDS = 1.3e-9
"""About how long a core counts one row in one table (benchmarks/cluster.py)."""
SECONDS_MOVED = 5e-9
"""About how long a count takes to be moved between processes and added."""
TASK = 0.15
"""Seconds of counting in a task: a hundred times what Dask takes to handle one."""
LEAST_TASK = 0.01
MOST_MOVED = 20
"""A task counts this many times longer than its counts take to be moved, or is no task."""
SEVERAL = 4
"""Tasks for each thread, where that leaves them long enough."""

Work: TypeAlias = tuple[Callable[..., Any], Callable[..., Any]]
"""What a task does with its part, and how two results are joined."""


class DaskCounter:
    """Counts cliques of a store; implements `dp_core.tables.marginal.Counter`.

    One task counts some chunks one after the other; the 64-bit count vectors of the tasks are added
    pairwise up a tree: the answer is a sum of integers and does not depend on how the file was cut
    or in which order tasks ran. What was counted is kept, up to `CACHED_BYTES`, and not counted
    again.
    """

    def __init__(self, store: CodeStore, domain: Domain, client: Client | None = None) -> None:
        """Count a store.

        Args:
            store: Complete store of codes.
            domain: Its domain.
            client: Of a cluster whose workers see the store's folder; None: threads of this
                process.
        """
        if store.domain != domain:
            raise ValueError("The store's domain is another one.")
        self._store = store
        self._domain = domain
        self._client = client
        self._checked: frozenset[str] = frozenset()
        self._cached: OrderedDict[Axes, NDArray[np.int64]] = OrderedDict()

    def __repr__(self) -> str:
        return f"DaskCounter({len(self._domain)} columns, confidential)"

    def count(
        self, cliques: Sequence[Clique], progress: Callable[[float], None] | None = None
    ) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique, its axes in the clique's own order.

        Args:
            cliques: Columns of each.
            progress: Told which part is counted, below 1. It hints at the number of records, as
                the time does: for the terminal of whoever makes the release.

        Raises:
            StageFailed: if a worker of the cluster has another program or does not see the store.
            KeyError: if a column is not in the domain.
            ValueError: if a clique repeats a column or has more than 2**31 cells.
        """
        asked = {clique: self._domain.axes(clique) for clique in cliques}
        wanted = {tuple(sorted(axes)) for axes in asked.values()}
        known = {axes: self._cached[axes] for axes in wanted if axes in self._cached}
        groups = self._groups(sorted(wanted - known.keys()))
        for number, group in enumerate(groups):
            plan = plan_tables(self._domain.sizes, tuple(group))
            told = progress and _within(progress, number, len(groups))
            known.update(zip(group, self._count(plan, told), strict=True))
        self._keep(known)
        return {
            clique: Marginal(
                self._domain.project(clique),
                known[tuple(sorted(axes))].transpose([sorted(axes).index(axis) for axis in axes]),
            )
            for clique, axes in asked.items()
        }

    def observed(self, clique: Clique) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return the cells of a clique that hold a record, shape (cells, columns), and counts.

        Only records are visited, chunk by chunk: the clique may have any number of cells. What is
        held grows with the number of cells that hold a record.

        Raises:
            KeyError: if a column is not in the domain.
        """
        axes = self._domain.axes(clique)
        sizes = self._domain.project(clique).sizes
        keys, counts = np.empty((0, len(words(sizes))), np.int64), np.empty(0, np.int64)
        if self._store.chunks:
            # privacy: in this process even with a cluster, whose scheduler shows to whoever asks
            # how large every result is: the number of cells that hold a record.
            keys, counts = self._tree(
                (_observe_chunk, _merge), (axes, sizes), None, self._store.chunks
            )
        return unpack(keys, sizes), counts

    def _groups(self, cliques: Sequence[Axes]) -> list[list[Axes]]:
        """Split cliques so that the counts of all tasks of a process fit `LIVE_BYTES`."""
        room = self._cells_at_once()
        groups: list[list[Axes]] = []
        left = 0
        for axes in sorted(cliques, key=self._cells):
            cells = self._cells(axes)
            if cells > MOST_CELLS:
                names = ", ".join(self._domain.columns[axis] for axis in axes)
                raise ValueError(f"The table of {names} has more than 2**31 cells.")
            if cells > left:
                groups.append([])
                left = room
            groups[-1].append(axes)
            left -= cells
        return groups

    def _cells(self, axes: Axes) -> int:
        return math.prod(self._domain.sizes[axis] for axis in axes)

    def _cells_at_once(self) -> int:
        # Each worker holds a result and its sum; a few more wait on the branches of the tree.
        at_once = 2 * workers_of_a_process(self._client) + max(self._store.chunks, 1).bit_length()
        return LIVE_BYTES // (8 * at_once)

    def _count(self, plan: TablePlan, progress: Callable[[float], None] | None = None) -> Counts:
        """Return the counts of each clique of a plan."""
        if self._store.chunks == 0:
            return plan.project(count_tables([np.empty(0, np.uint8)] * len(plan.sizes), plan))
        tasks = self._tasks(plan)
        if plan.cells > self._cells_at_once() or (tasks == 1 and self._client is None):
            # One enormous table: chunk after chunk, so that there are two of it, not many.
            return plan.project(_count_part(self._store, plan))
        if self._client is None:
            work: Work = (_count_part, _add)
            return plan.project(self._tree(work, (plan,), None, tasks, progress))
        self._checked = require_workers(self._client, self._store, self._checked)
        work = (partial(_count_remotely, program()), partial(_add_remotely, program()))
        return _parted(self._tree(work, (plan,), self._client, tasks, progress), plan)

    def _tasks(self, plan: TablePlan) -> int:
        """Return in how many tasks a count is divided.

        Few, since each costs a millisecond and its counts are moved and added; but several for each
        thread, so that a slow one does not hold up the others.
        """
        seconds = SECONDS * self._store.rows * len(plan.tables)
        moved = SECONDS_MOVED * plan.cells
        several = min(
            SEVERAL * workers(self._client), seconds / max(LEAST_TASK, MOST_MOVED * moved)
        )
        return max(1, min(self._store.chunks, int(max(seconds / TASK, several))))

    def _tree(
        self,
        work: Work,
        asked: tuple[Any, ...],
        client: Client | None,
        tasks: int,
        progress: Callable[[float], None] | None = None,
    ) -> Any:
        """Return what is left when every part's result was joined with another's."""
        from dask import delayed

        leaf, join = (delayed(function, pure=False, traverse=False) for function in work)
        bounds = [self._store.chunks * part // tasks for part in range(tasks + 1)]
        leaves = [
            leaf(self._store.part(first, end), *asked) for first, end in itertools.pairwise(bounds)
        ]
        nodes: list[Any] = leaves
        while len(nodes) > 1:
            pairs = [join(*nodes[place : place + 2]) for place in range(0, len(nodes) - 1, 2)]
            nodes = pairs + nodes[2 * len(pairs) :]
        try:
            found = compute(nodes[0], client, [node.key for node in leaves], progress)
        except ReleaseError:
            raise
        except Exception:
            # Perhaps a worker that came later could not even read its task.
            if client is not None:
                require_workers(client, self._store, frozenset())
            raise
        if isinstance(found, Failure):
            raise RuntimeError(f"A worker of the cluster failed.\n{found.detail}")
        return found

    def _keep(self, known: Mapping[Axes, NDArray[np.int64]]) -> None:
        for axes, counts in known.items():
            counts.flags.writeable = False  # shared with every later caller
            self._cached[axes] = counts
            self._cached.move_to_end(axes)
        held = sum(counts.nbytes for counts in self._cached.values())
        while held > CACHED_BYTES:
            held -= self._cached.popitem(last=False)[1].nbytes


def _within(progress: Callable[[float], None], number: int, passes: int) -> Callable[[float], None]:
    return lambda part: progress((number + part) / passes)


def _count_chunk(store: CodeStore, chunk: int, plan: TablePlan) -> Counts:
    return count_tables(store.read(chunk), plan)


def _count_part(store: CodeStore, plan: TablePlan) -> Counts:
    total = _count_chunk(store, 0, plan)
    for chunk in range(1, store.chunks):
        for counts, more in zip(total, _count_chunk(store, chunk, plan), strict=True):
            counts += more
    return total


def _observe_chunk(store: CodeStore, axes: Axes, sizes: Axes) -> KeyCounts:
    columns = store.read(0)
    return count_keys(pack([columns[axis] for axis in axes], sizes, store.rows))


def _merge(first: KeyCounts, second: KeyCounts) -> KeyCounts:
    keys, counts = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    return count_keys(keys, counts)


def _add(first: Counts, second: Counts) -> Counts:
    return [np.asarray(one + other) for one, other in zip(first, second, strict=True)]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong on a worker of a cluster. Confidential.

    Attributes:
        detail: Its traceback, which may quote what it was about.

    Privacy:
        It is returned, never raised: a worker writes what is raised into its log, and the
        scheduler shows it to whoever asks.
    """

    detail: str = field(repr=False)


def _count_remotely(made_with: Program, store: CodeStore, plan: TablePlan) -> Joined | Failure:
    found: Joined | Failure = _sheltered(_count_if_here, made_with, store, plan)
    return found


def _count_if_here(made_with: Program, store: CodeStore, plan: TablePlan) -> Joined:
    require_here(made_with, store)
    counts = _count_part(store, plan)
    # Joint tables stay here: what is asked of them is a fraction of their cells. To send hundreds
    # of arrays takes a hundred times as long as to send them as one.
    return np.concatenate([marginal.ravel() for marginal in plan.project(counts)])


def _parted(joined: Joined, plan: TablePlan) -> Counts:
    """Return the marginal of each clique of what a cluster counted."""
    shapes = [[plan.sizes[axis] for axis in clique] for clique in plan.cliques]
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
    parts = np.split(joined, ends[:-1])
    # Copies: whatever is kept of them would keep the whole.
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


def _sheltered(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of work on a worker, or what is left of its failure."""
    try:
        return work(*arguments)
    except ReleaseError as error:
        failure = error.without_detail()
    except Exception:
        return Failure(traceback.format_exc())
    # Here nothing is being handled that would be pickled along.
    raise failure


def _add_remotely(
    made_with: Program, first: Joined | Failure, second: Joined | Failure
) -> Joined | Failure:
    for part in (first, second):
        if isinstance(part, Failure):
            return part
    found: Joined | Failure = _sheltered(_add_if_same, made_with, first, second)
    return found


def _add_if_same(made_with: Program, first: Joined, second: Joined) -> Joined:
    require_here(made_with, None)
    # A new array: on a cluster an argument may be used again when a task is repeated.
    return first + second
