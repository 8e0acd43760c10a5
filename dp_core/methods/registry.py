"""Finds methods by name: a method is a module of its family's folder that defines `METHOD`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any, Literal

from dp_core.errors import BadInput, nearest

Family = Literal["selection", "reconstruction", "parametric"]


def available(family: Family) -> tuple[str, ...]:
    """Return the names of the methods of a family, sorted.

    >>> "gum" in available("reconstruction")
    True
    """
    return tuple(name for name in _modules(family) if _method(family, name) is not None)


def find(family: Family, name: str) -> Any:
    """Return the class of a method; its fields are its options.

    Args:
        family: Family of methods, a folder of `dp_core.methods`.
        name: Name of the method, which is the name of its module.

    Raises:
        BadInput: if there is no such method; the message names the most similar one.
    """
    # Import only the requested module: importing all of them takes a second.
    method = _method(family, name) if name in _modules(family) else None
    if method is None:
        raise BadInput(f"There is no {family} method {name!r}.{nearest(name, available(family))}")
    return method


@cache
def _modules(family: Family) -> tuple[str, ...]:
    package = importlib.import_module(f"dp_core.methods.{family}")
    return tuple(
        sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.ispkg)
    )


def _method(family: Family, name: str) -> Any:
    return getattr(importlib.import_module(f"dp_core.methods.{family}.{name}"), "METHOD", None)
