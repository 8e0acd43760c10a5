"""Findings about bundles made with a method that this version of dp-release does not know.

A check that depends on the method is then undecided: no fault was found, but it never counts as
passed, because a forged bundle can name any method.
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
    """The finding of a check that this program cannot decide.

    Attributes:
        sentence: What is unknown, and which version of the program to install.
    """

    sentence: str


def unknown_method(plan: Mapping[str, Any]) -> str:
    """Return the name of an unknown method in a plan; empty if all its methods are known.

    Args:
        plan: Plan of a bundle; it is not trusted.

    Raises:
        Exception: a lookup, type or attribute error if it does not have the form of a plan.
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
    """Return the finding that something cannot be checked, and what to install.

    Args:
        name: Name of the method.
        program: Program that made the release, with its version.
        what: Subject of the sentence: what cannot be checked.
    """
    return Undecided(
        f"The method {name!r:.40} is not known to this dp-release, so {what} cannot be checked."
        f" Install {program}, which made the release, and run `dp-release verify` with it."
    )
