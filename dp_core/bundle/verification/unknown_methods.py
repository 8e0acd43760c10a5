"""What this program cannot tell of a bundle: it was made by a method that is not known here.

Such a check is neither passed nor a fault that was found. Whoever forges a bundle may name any
method, so it never counts as passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dp_core.errors import BadInput
from dp_core.methods import registry
from dp_core.methods.registry import Family


@dataclass(frozen=True, slots=True)
class Undecided:
    """The finding of a check that this program cannot make.

    Attributes:
        sentence: What it does not know, and which program does.
    """

    sentence: str


def unknown_method(plan: Mapping[str, Any]) -> str:
    """Return the name of the plan's method that is not known here; empty where all are.

    Args:
        plan: Of a bundle; it is not trusted.

    Raises:
        Exception: a lookup, type or attribute error if it has not the shape of a plan.
    """
    spec = plan["spec"]
    named: list[tuple[Family, str | None]] = [("parametric", spec["synthesize"].get("method"))]
    if named[0][1] is None:
        named = [
            ("selection", spec["select"]["method"]),
            ("reconstruction", spec["reconstruct"]["method"]),
        ]
    for family, name in named:
        try:
            registry.find(family, str(name))
        except BadInput:
            return str(name)
    return ""


def undecided_by_method(name: str, program: str, what: str) -> Undecided:
    """Return that something of a release cannot be checked, and what to do.

    Args:
        name: Of the method.
        program: That made the release, with its version.
        what: What cannot be checked.
    """
    return Undecided(
        f"The method {name!r:.40} is not known to this dp-release, so {what} cannot be checked"
        f" here; install {program}, which made the release, and verify with that."
    )
