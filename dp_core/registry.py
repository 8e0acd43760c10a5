"""Finds methods by name: a method is a module of its family's folder that defines `METHOD`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any, Literal

from dp_core.errors import BadInput, nearest
from dp_core.presets import PRESETS

Family = Literal["selection", "reconstruction", "parametric"]


def available(family: Family) -> tuple[str, ...]:
    """Return the names of the methods of a family, sorted.

    >>> "gum" in available("reconstruction")
    True
    """
    return tuple(name for name in _modules(family) if _method(family, name) is not None)


def find(family: Family, name: str) -> Any:
    """Return the class of a method; its fields are its options.

    Raises:
        BadInput: if there is no such method, naming the nearest; or if it is a preset, saying so.
    """
    # Only the one asked for is imported: all of them take a second.
    method = _method(family, name) if name in _modules(family) else None
    if method is None:
        raise _unknown(family, name)
    return method


def _unknown(family: Family, name: str) -> BadInput:
    preset = PRESETS.get(name.casefold())
    known = available(family)
    # `AIM` is a method as well as a preset.
    if preset is None or name.casefold() in known:
        return BadInput(f"There is no {family} method {name!r}.{nearest(name, known)}")
    own = {
        "selection": preset.select,
        "reconstruction": preset.reconstruct,
        "parametric": preset.synthesize,
    }[family]
    its = f"; its {family} method is {own!r}" if own else f", and has no {family} method"
    return BadInput(
        f"There is no {family} method {name!r}: that is a preset, to be named under `method`{its}."
    )


@cache
def _modules(family: Family) -> tuple[str, ...]:
    package = importlib.import_module(f"dp_core.{family}")
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def _method(family: Family, name: str) -> Any:
    return getattr(importlib.import_module(f"dp_core.{family}.{name}"), "METHOD", None)
