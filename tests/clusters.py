"""Cluster classes that a spec names in tests, and what a scheduler sees of their counts."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

from distributed import LocalCluster, SchedulerPlugin


class Elsewhere:
    """A cluster whose scheduler is on another machine, without TLS."""

    scheduler_address = "tcp://10.0.0.1:8786"
    closed = False

    def close(self) -> None:
        type(self).closed = True

    def scale(self, n: int) -> None:
        raise AssertionError(f"{n} workers were asked for")

    def adapt(self, **_limits: int) -> None:
        raise AssertionError("workers were asked for")


class AnyOptions(Elsewhere):
    """Takes any option, as a gateway does."""

    def __init__(self, **options: Any) -> None:
        self.options = options


class Seen(SchedulerPlugin):
    """Keeps who became a client of a scheduler, and what it is told of every graph."""

    name = "seen"

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.texts: list[str] = []
        self.tasks: list[bytes] = []
        self.clients: list[str] = []

    def add_client(self, scheduler: Any, client: str) -> None:
        del scheduler
        self.clients.append(client)

    def update_graph(self, scheduler: Any, *, keys: Any, annotations: Any, **more: Any) -> None:
        self.texts += [repr(keys), repr(annotations), repr(more)]
        for key, task in scheduler.tasks.items():
            self.keys.add(str(key))
            self.texts += [repr(task), repr(task.run_spec), repr(task.annotations)]
            self.tasks.append(pickle.dumps(task.run_spec))


class Watched(LocalCluster):
    """A local cluster whose scheduler is watched; all that were made are kept."""

    made: ClassVar[list[Any]] = []

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen = Seen()
        self.scheduler.add_plugin(self.seen)
        self.made.append(self)
