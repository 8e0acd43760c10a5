"""The cluster that a spec names. It changes no result, so no plan covers it.

`tasks.support.named_cluster` finds the class, and checks and passes on its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dp_core.text.documents.node import Node

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""A value of an option, as a Python library takes it."""

WAIT = 600
"""Seconds to wait for a worker by default, because a job may wait in a queue."""


@dataclass(frozen=True, slots=True)
class CountingCluster:
    """A cluster to start for the counts and the large sets of a release.

    Attributes:
        cluster: Full name of a cluster class, such as `dask_jobqueue.SLURMCluster`.
        options: Keyword arguments of the class.
        workers: Number of workers to start; None if the options or `adapt` decide.
        adapt: Least and greatest number of workers; the load decides between them. Or None.
        wait: Seconds to wait for a worker.
        places: Places of the values in the file, by dotted key below `dask`, for messages.
    """

    cluster: str
    options: Mapping[str, Plain] = field(default_factory=dict, repr=False)
    workers: int | None = None
    adapt: tuple[int, int] | None = None
    wait: int = WAIT
    places: Mapping[str, Node] = field(default_factory=dict, repr=False, compare=False)

    def place(self, key: str) -> Node:
        """Return the place of a key in the file; of a missing one, a place without a line."""
        return self.places.get(key, Node(None, "release.yaml", 0, f"dask.{key}"))
