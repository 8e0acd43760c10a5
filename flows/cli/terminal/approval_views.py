"""How looks and decisions look on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from flows.cli.terminal.view_parts import fact, left_of, sentence


def looked(console: Console, answer: Mapping[str, Any]) -> None:
    """Print that a look is on record, and where to look."""
    name, times = answer["release"], len(answer["looks"])
    sentence(
        console,
        f"Recorded: {answer['by']} looked at {name} on {answer['day']} (look number {times}).",
    )
    console.print(f"Internal {answer['internal']} (confidential, for staff)", soft_wrap=True)
    if answer["outcome"] is None:
        words = "--by NAME --reason TEXT"
        fact(console, "Decide", f"dp-release publish {name} {words}")
        fact(console, "or", f"dp-release withdraw {name} {words}")


def withdrawn(console: Console, answer: Mapping[str, Any]) -> None:
    """Print what stays spent of a withdrawn release."""
    word = "rho" if "rho" in answer["spent"] else "epsilon"
    sentence(
        console,
        f"Release {answer['release']!r} is withdrawn: {word} {answer['spent'][word]:.6g} stays"
        f" spent, its name stays used, and {left_of(answer)}. Its sets are deleted; its internal"
        " report remains and can be read with `dp-release look`.",
    )
