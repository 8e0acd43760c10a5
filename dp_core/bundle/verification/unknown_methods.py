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
    parametric = spec["synthesize"].get("method")
    if parametric is not None:
        return _unknown("parametric", parametric)
    unknown = _unknown("reconstruction", spec["reconstruct"]["method"])
    return _unknown("selection", spec["select"]["method"]) or unknown


def unknown_selection(plan: Mapping[str, Any]) -> str:
    """Return the name of an unknown selection, which may or may not use the data; else empty.

    It is looked up in its family: a parametric method may have the name of a selection.
    """
    spec = plan["spec"]
    return _unknown("selection", spec["select"]["method"]) if "select" in spec else ""


def _unknown(family: Family, name: object) -> str:
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
