"""How looks and decisions look on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from flows.cli.terminal.view_parts import fact, left_of, sentence


def looked(console: Console, answer: Mapping[str, Any]) -> None:
    """Print that a look is on record, and where to look."""
    name, times = answer["release"], len(answer["looks"])
    so_far = "the first" if times == 1 else f"number {times}"
    sentence(
        console,
        f"The look at {name} by {answer['by']} on {answer['day']} is on record; it is {so_far}.",
    )
    console.print(f"Staff    {answer['internal']} (confidential comparison)", soft_wrap=True)
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
        " report stays, for looking through `dp-release look`.",
    )
