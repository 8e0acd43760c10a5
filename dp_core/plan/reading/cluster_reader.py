"""Reads the section `dask` of a spec: which cluster to start for counting.

Only its form is read here. Whether the class exists, and takes these options, is checked where it
is started, because this package does not know Dask.
"""

from __future__ import annotations

import re

from dp_core.plan.counting_cluster import WAIT, CountingCluster, Plain
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

EXAMPLE = "{cluster: dask_jobqueue.SLURMCluster, options: {cores: 4, memory: 8GB}, workers: 4}"
MOST_WORKERS = 10_000
MOST_SECONDS = 7 * 86_400
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]+\.[0-9]+(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)


def read_cluster(node: Node | None) -> CountingCluster | None:
    """Return the cluster that a spec names, None if it names none.

    Args:
        node: Node `dask` of the spec.

    Raises:
        BadInput: for any mistake, with its place.
    """
    if node is None:
        return None
    keys = node.fields(
        ("cluster", "options", "workers", "adapt", "wait"), required=("cluster",), example=EXAMPLE
    )
    name = keys["cluster"].text(example="dask_jobqueue.SLURMCluster")
    if not _NAME.fullmatch(name):
        raise keys["cluster"].error(
            f"{shown(name)} is not the full name of a class; write the package in front, such as"
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
        options={option: plain(value) for option, value in options.items()},
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


def plain(node: Node) -> Plain:
    """Return a value as a Python library takes it: by its form, a number, a truth value or a text.

    A text in quotes stays a text. Whole numbers that begin with 0, such as 007, are texts.

    Args:
        node: Any value of a document.
    """
    content = node.content
    if content is None:
        return None
    if isinstance(content, tuple):
        return [plain(item) for item in content]
    if not isinstance(content, str):
        return {key: plain(value) for key, value in content.items()}
    if node.quoted:
        return content
    if content in ("true", "false"):
        return content == "true"
    if content in ("null", "~"):
        return None
    if _WHOLE.fullmatch(content):
        return int(content)
    return float(content) if _DECIMAL.fullmatch(content) else content
