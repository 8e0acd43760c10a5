"""The terminal views of looks and withdrawals."""

from __future__ import annotations

from rich.console import Console

from flows.answers.release_answers import EndedRelease, RecordedLook
from flows.cli.terminal.view_parts import fact, left_of, sentence


def looked(console: Console, answer: RecordedLook) -> None:
    """Print that a look is recorded, and where the report is."""
    name, times = answer.release, len(answer.looks)
    sentence(
        console,
        f"Recorded: {answer.by} looked at {name} on {answer.day} (look number {times}).",
    )
    console.print(f"Internal {answer.internal} (confidential, for staff)", soft_wrap=True)
    if answer.outcome is None:
        words = "--by NAME --reason TEXT"
        fact(console, "Decide", f"dp-release publish {name} {words}")
        fact(console, "or", f"dp-release withdraw {name} {words}")


def withdrawn(console: Console, answer: EndedRelease) -> None:
    """Print what a withdrawn release spent."""
    word = "epsilon" if answer.spent.rho is None else "rho"
    left = left_of(answer.account, answer.left, answer.above)
    sentence(
        console,
        f"Release {answer.release!r} is withdrawn: {word} {getattr(answer.spent, word):.6g} stays"
        f" spent, its name stays used, and {left}. Its sets are deleted; its internal report"
        " remains and can be read with `dp-release look`.",
    )
