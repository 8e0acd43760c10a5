"""Suggests the file or folder that a path probably meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dp_core.errors import similar

_OTHER_KIND = {".release.": ".schema.", ".schema.": ".release."}
"""Part of the name of a kind of file, and that of a kind that can never replace it."""


def similar_path(path: Path, wanted: Callable[[Path], bool] = Path.exists) -> str:
    """Return ` Did you mean 'x'?` for what lies beside a path under the most similar name.

    The names must be similar before their first dot as well, and a schema is not suggested for a
    spec.

    Args:
        path: A path that names nothing.
        wanted: Whether a path may be suggested; by default any.

    Returns:
        The question; nothing if no name is similar or the folder cannot be read.
    """
    try:
        beside = [each.name for each in path.parent.iterdir() if wanted(each)]
    except OSError:
        return ""
    unlike = [other for own, other in _OTHER_KIND.items() if own in path.name]
    known = [
        name
        for name in beside
        if similar(_head(path.name), [_head(name)]) and not any(kind in name for kind in unlike)
    ]
    return similar(path.name, known)


def _head(name: str) -> str:
    return name.partition(".")[0] or name
