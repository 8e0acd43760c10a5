"""The cluster that a spec names under `dask`. It changes no result, so no plan covers it.

`tasks.support.named_cluster` finds the class, and checks and passes on its options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""A value of an option, as a Python library takes it."""

EXAMPLE = "{cluster: dask_jobqueue.SLURMCluster, options: {cores: 4, memory: 8GB}, workers: 4}"
MOST_WORKERS = 10_000
MOST_SECONDS = 7 * 86_400
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
WAIT = 600
"""Seconds to wait for a worker by default, because a job may wait in a queue."""


@dataclass(frozen=True, slots=True)
class CountingCluster:
    """A cluster to start for the counts of a release.

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


def read_cluster(node: Node) -> CountingCluster:
    """Return the cluster that a spec names.

    Only its form is read. Whether the class exists, and takes these options, is checked where it is
    started.

    Args:
        node: Node `dask` of the spec.

    Raises:
        BadInput: for any mistake, with its place.
    """
    keys = node.fields(
        ("cluster", "options", "workers", "adapt", "wait"), required=("cluster",), example=EXAMPLE
    )
    name = keys["cluster"].text(example="dask_jobqueue.SLURMCluster")
    if not _NAME.fullmatch(name):
        raise keys["cluster"].error(
            f"{quote(name)} is not the full name of a class; write the package in front, such as"
            " dask_jobqueue.SLURMCluster or distributed.LocalCluster."
        )
    options = keys["options"].entries(example="{cores: 4}") if "options" in keys else {}
    if "workers" in keys and "adapt" in keys:
        raise keys["adapt"].error("`workers` fixes the number that `adapt` changes; keep one.")
    workers = wait = None
    if "workers" in keys:
        workers = keys["workers"].integer(minimum=1, maximum=MOST_WORKERS)
    if "wait" in keys:
        wait = keys["wait"].integer(minimum=1, maximum=MOST_SECONDS)
    return CountingCluster(
        cluster=name,
        options={option: plain_value(value) for option, value in options.items()},
        workers=workers,
        adapt=_read_adapt(keys["adapt"]) if "adapt" in keys else None,
        wait=WAIT if wait is None else wait,
        places={**keys, **{f"options.{option}": value for option, value in options.items()}},
    )


def _read_adapt(node: Node) -> tuple[int, int]:
    keys = node.fields(
        ("minimum", "maximum"), required=("maximum",), example="{minimum: 0, maximum: 10}"
    )
    most = keys["maximum"].integer(minimum=1, maximum=MOST_WORKERS)
    least = keys["minimum"].integer(minimum=0, maximum=most) if "minimum" in keys else 0
    return least, most


def plain_value(node: Node) -> Plain:
    """Return a value as a Python library takes it: by its form, a number, a truth value or a text.

    Numbers and truth values are those of JSON, so that 007 and 01:00:00 are texts. A text in quotes
    stays a text.

    Args:
        node: Any value of a document.
    """
    content = node.content
    if content is None:
        return None
    if isinstance(content, tuple):
        return [plain_value(item) for item in content]
    if not isinstance(content, str):
        return {key: plain_value(value) for key, value in content.items()}
    if node.quoted:
        return content
    if content == "~":
        return None
    try:
        return cast("Plain", json.loads(content, parse_constant=_no_number))
    except ValueError:
        return content


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is a text.")
