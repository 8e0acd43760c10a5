"""Exact marginals of a code store, counted with Dask. Confidential side."""

from __future__ import annotations

import itertools
import math
import secrets
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.confidential.code_store import CodeStore
from dp_core.errors import ReleaseError, without_detail
from dp_core.kernel.codes import Codes, code_type
from dp_core.kernel.counting.cell_counts import MOST_CELLS, Axes, TablePlan, count_tables
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.counting.sparse_cells import pack, words
from dp_core.tables.cell_keys import count_keys, unpack
from dp_core.tables.table_plan import parts_of, plan_tables
from tasks.counting.worker_check import require_here, require_workers
from tasks.support.dask_cluster import Graph, compute, workers, workers_of_a_process
from tasks.support.worker_program import Program, program

if TYPE_CHECKING:
    from distributed import Client

Counts = list[NDArray[np.int64]]
Joined: TypeAlias = NDArray[np.int64]
"""Counts of all cliques of a plan in one array, in which form they move between processes."""

KeyCounts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The packed keys of non-empty cells, ascending, shape (cells, words), and their counts."""

LIVE_BYTES = 1 << 28
"""Bytes of 64-bit counts that all tasks of a process may hold together."""
CACHED_BYTES = 1 << 27
"""Bytes of counts that are kept for later calls."""

SECONDS = 1.3e-9
"""Approximate seconds that a core needs to count one row in one table (benchmarks/cluster.py)."""
SECONDS_MOVED = 5e-9
"""Approximate seconds to move one count between processes and add it."""
TASK = 0.15
"""Seconds of counting in a task: a hundred times Dask's own cost of a task."""
LEAST_TASK = 0.01
"""Least seconds of counting in a task."""
MOST_MOVED = 20
"""Least ratio of a task's counting time to the time to move its counts."""
SEVERAL = 4
"""Number of tasks for each thread, if they are then long enough."""
FEW = 4
"""Number of tasks of a short count, if each then takes `FEW_SECONDS` of counting. A short count
gains no time by them, but every file of some thousand rows is divided."""
FEW_SECONDS = 5e-5
"""Least seconds of counting in a task of a short count."""
FEW_CELLS = 1 << 17
"""Most cells of the tables of a short count, because the counts of each task are added."""

Work: TypeAlias = tuple[Callable[..., Any], Callable[..., Any]]
"""The function that counts a part, and the function that joins two results."""


class DaskCounter:
    """Counts cliques of a store; implements `dp_core.kernel.counting.marginal.Counter`.

    Each task counts some chunks in sequence. The 64-bit counts of the tasks are added in pairs, as
    a tree. They are integers, so the sum does not depend on how the file was divided or in which
    order the tasks ran. Up to `CACHED_BYTES` of counts are kept and not counted again. A store of
    any size is counted in this way.

    Privacy:
        Names and parameters of tasks hold no value of the file, no count and no number of rows.
    """

    def __init__(
        self,
        store: CodeStore,
        domain: Domain,
        client: Client | None = None,
        *,
        cached_bytes: int | None = None,
    ) -> None:
        """Create a counter of a store.

        Args:
            store: Complete store of codes.
            domain: Domain of the store.
            client: Client of a cluster whose workers can read the store's folder; None (the
                default) for threads of this process.
            cached_bytes: Bytes of counts that are kept for later calls; `CACHED_BYTES` by default.

        Raises:
            ValueError: if the store has another domain.
        """
        if store.domain != domain:
            raise ValueError("The store's domain is another one.")
        self._store = store
        self._domain = domain
        self._client = client
        self._checked: frozenset[str] = frozenset()
        self._cached: OrderedDict[Axes, NDArray[np.int64]] = OrderedDict()
        self._room = CACHED_BYTES if cached_bytes is None else cached_bytes

    def __repr__(self) -> str:
        return f"DaskCounter({len(self._domain)} columns, confidential)"

    def count(
        self, cliques: Sequence[Clique], progress: Callable[[float], None] | None = None
    ) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique, its axes in the clique's own order.

        Args:
            cliques: Cliques to count.
            progress: Called with the part that is counted, below 1. Like the duration, it hints at
                the number of records, so show it only to the person who makes the release.

        Raises:
            StageFailed: if a worker of the cluster has another version of the program, or cannot
                read the store.
            KeyError: if a column is not in the domain.
            ValueError: if a clique repeats a column or has more than 2**31 cells.
        """
        asked = {clique: self._domain.axes(clique) for clique in cliques}
        wanted = {tuple(sorted(axes)) for axes in asked.values()}
        known = {axes: self._cached[axes] for axes in wanted if axes in self._cached}
        groups = self._groups(sorted(wanted - known.keys()))
        plans = [plan_tables(self._domain.sizes, tuple(group)) for group in groups]
        # The joint tables of a plan can have many times the cells of its cliques.
        parts = [part for plan in plans for part in parts_of(plan, self._cells_at_once())]
        done, cells = 0, sum(part.cells for part in parts)
        for part in parts:
            told = progress and _within(progress, done / cells, part.cells / cells)
            known.update(zip(part.cliques, self._count(part, told), strict=True))
            done += part.cells
            if progress is not None and done < cells:
                progress(done / cells)
        self._keep(known)
        return {
            clique: Marginal(
                self._domain.project(clique),
                known[tuple(sorted(axes))].transpose([sorted(axes).index(axis) for axis in axes]),
            )
            for clique, axes in asked.items()
        }

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        """Return the non-empty cells of a clique, shape (cells, columns), and their counts.

        The clique may have any number of cells, because only records are visited, chunk by chunk.
        Memory grows with the number of non-empty cells.

        Args:
            clique: The clique.

        Raises:
            KeyError: if a column is not in the domain.
        """
        axes = self._domain.axes(clique)
        sizes = self._domain.project(clique).sizes
        if tuple(sorted(axes)) in self._cached:
            table = self.count([clique])[clique].counts
            cells = np.argwhere(table)
            return cells.astype(code_type(*sizes)), table[tuple(cells.T)]
        keys, counts = np.empty((0, len(words(sizes))), np.int64), np.empty(0, np.int64)
        if self._store.chunks:
            # privacy: count in this process even with a cluster. A scheduler shows the size of
            # each result to everybody, and here the size reveals the number of non-empty cells.
            keys, counts = self._tree(
                (partial(_observe_chunk, axes=axes, sizes=sizes), _merge), None, self._store.chunks
            )
        return unpack(keys, sizes), counts

    def _groups(self, cliques: Sequence[Axes]) -> list[list[Axes]]:
        """Divide cliques into groups, so that the counts of a process fit in `LIVE_BYTES`."""
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
        # Each worker holds a result and a sum, and a few more wait in the tree.
        at_once = 2 * workers_of_a_process(self._client) + max(self._store.chunks, 1).bit_length()
        return LIVE_BYTES // (8 * at_once)

    def _count(self, plan: TablePlan, progress: Callable[[float], None] | None = None) -> Counts:
        """Return the counts of each clique of a plan."""
        # One very large table: count chunk after chunk in one task here, so that only two copies
        # exist.
        alone = plan.cells > self._cells_at_once()
        tasks = 1 if alone else self._tasks(plan)
        if alone or self._client is None:
            work: Work = (partial(_count_part, plan=plan), _add)
            return plan.project(self._tree(work, None, tasks, progress))
        self._checked = require_workers(self._client, self._store, self._checked)
        work = (
            partial(_count_remotely, program(), plan=plan),
            partial(_add_remotely, program()),
        )
        return _parted(self._tree(work, self._client, tasks, progress), plan)

    def _tasks(self, plan: TablePlan) -> int:
        """Return the number of tasks of a count.

        Few tasks are better, because each costs a millisecond and its counts must be moved and
        added. Several for each thread are better, because then one slow task delays less.
        """
        seconds = SECONDS * self._store.rows * len(plan.tables)
        moved = SECONDS_MOVED * plan.cells
        several = min(
            SEVERAL * workers(self._client), seconds / max(LEAST_TASK, MOST_MOVED * moved)
        )
        few = min(FEW, seconds / FEW_SECONDS) if plan.cells <= FEW_CELLS else 1
        return max(1, min(self._store.chunks, int(max(seconds / TASK, several, few))))

    def _tree(
        self,
        work: Work,
        client: Client | None,
        tasks: int,
        progress: Callable[[float], None] | None = None,
    ) -> Any:
        """Return the joined result of all parts.

        Args:
            work: The function that counts a part, and the one that joins two results.
            client: Client of a cluster; None for threads of this process.
            tasks: Number of parts.
            progress: Called with the part that is counted, below 1.
        """
        graph, leaves, root = self._graph(work, tasks)
        try:
            found = compute(graph, root, client, leaves, progress)
        except ReleaseError:
            raise
        except Exception:
            # A worker that joined later may be unable to read its task; if so, name that worker.
            if client is not None:
                require_workers(client, self._store, frozenset())
            raise
        if isinstance(found, Failure):
            raise RuntimeError(f"A worker of the cluster failed.\n{found.detail}")
        return found

    def _graph(self, work: Work, tasks: int) -> tuple[Graph, list[str], str]:
        """Return a Dask graph, the keys of the tasks that count, and the key of the result."""
        leaf, join = work
        # privacy: scheduler, pages and logs show the keys, so they name nothing of the data.
        # Keys are never repeated, because a scheduler would return the earlier result.
        count = secrets.token_hex(8)
        bounds = [self._store.chunks * part // tasks for part in range(tasks + 1)]
        graph: Graph = {
            f"count-{part}-{count}": (leaf, self._store.part(*edges))
            for part, edges in enumerate(itertools.pairwise(bounds))
        }
        leaves = nodes = list(graph)
        while len(nodes) > 1:
            first, second, *rest = nodes
            key = f"add-{len(graph) - tasks}-{count}"
            graph[key] = (join, first, second)
            nodes = [*rest, key]
        return graph, leaves, nodes[0]

    def _keep(self, known: Mapping[Axes, NDArray[np.int64]]) -> None:
        for axes, counts in known.items():
            counts.flags.writeable = False  # shared with every later caller
            self._cached[axes] = counts
            self._cached.move_to_end(axes)
        held = sum(counts.nbytes for counts in self._cached.values())
        while held > self._room:
            held -= self._cached.popitem(last=False)[1].nbytes


def _within(
    progress: Callable[[float], None], start: float, share: float
) -> Callable[[float], None]:
    return lambda part: progress(start + share * part)


def _count_chunk(store: CodeStore, chunk: int, plan: TablePlan) -> Counts:
    return count_tables(store.read(chunk), plan)


def _count_part(store: CodeStore, plan: TablePlan) -> Counts:
    store = store.joined()
    if store.chunks == 0:
        return count_tables([np.empty(0, np.uint8)] * len(plan.sizes), plan)
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
    """An error on a worker of a cluster. Confidential.

    Attributes:
        detail: Traceback, which may quote data.

    Privacy:
        It is returned, not raised: a worker writes raised errors to its log, and the scheduler
        shows them to everybody.
    """

    detail: str = field(repr=False)


def _count_remotely(made_with: Program, store: CodeStore, plan: TablePlan) -> Joined | Failure:
    found: Joined | Failure = _sheltered(_count_if_here, made_with, store, plan)
    return found


def _count_if_here(made_with: Program, store: CodeStore, plan: TablePlan) -> Joined:
    require_here(made_with, store)
    counts = _count_part(store, plan)
    # Project here, because the marginals have far fewer cells than the joint tables. Send one
    # array, which is a hundred times faster than hundreds of arrays.
    return np.concatenate([marginal.ravel() for marginal in plan.project(counts)])


def _parted(joined: Joined, plan: TablePlan) -> Counts:
    """Split the joined counts of a cluster into the marginals of the plan's cliques."""
    shapes = [[plan.sizes[axis] for axis in clique] for clique in plan.cliques]
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
    parts = np.split(joined, ends[:-1])
    # Copy the parts: a view would keep the whole array in memory.
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


def _sheltered(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of work on a worker, or a `Failure` if it raises an unexpected error."""
    try:
        return work(*arguments)
    except ReleaseError as error:
        failure = without_detail(error)
    except Exception:
        return Failure(traceback.format_exc())
    # Raise outside the `except` block, so that no original error is pickled with this one.
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
    # Make a new array, because a cluster may use the arguments again when it repeats a task.
    return first + second
