"""What of a home needs a person, at a glance; for the list of releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from flows.cli.terminal.view_parts import fact, sentence
from tasks.run.verification_note import last_verified


def attention_facts(home: Path, releases: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return which releases need a person and what to do, and when the ledger was verified.

    Args:
        home: Of the releases.
        releases: As `status_facts` gives them.
    """
    found = last_verified(home)
    needs = [
        {"release": release["release"], "do": do}
        for release in releases
        if (do := _do(release)) is not None
    ]
    return {
        "needs": needs,
        "ledger_verified": None
        if found is None
        else {"at": found.at.isoformat(timespec="seconds"), "passed": found.passed},
    }


def _do(release: Mapping[str, Any]) -> str | None:
    """Return what a person has to do about a release, None for nothing."""
    name, outcome = release["release"], release["outcome"]
    if release["holder"]:
        return None
    if outcome == "finished" and str(release["state"]) != "finished":
        return f"dp-release resume {name}"
    if outcome is not None:
        return None
    if release["gate"] is not None:
        return f"somebody decides: dp-release look {name}, then publish or withdraw"
    if release["charges"] and not release["here"]:
        return "resume it in the home that began it, or abandon it"
    stage = release["stages_open"][0] if release["stages_open"] else "publish"
    return f"it stopped before {stage!r} was done: dp-release resume {name}"


def show_attention(console: Console, answer: Mapping[str, Any]) -> None:
    """Print what needs a person, below the list of releases."""
    if answer["needs"]:
        console.print("\n[bold]Needs a person[/bold]")
        for need in answer["needs"]:
            sentence(console, f"{need['release']}: {need['do']}")
    else:
        console.print("\nNo release needs a person.")
    verified = answer["ledger_verified"]
    if verified is None:
        fact(console, "Ledger", "not verified from this home yet; run dp-release ledger verify")
    elif verified["passed"]:
        fact(console, "Ledger", f"verified {verified['at']}")
    else:
        fact(console, "Ledger", f"FAILED verification {verified['at']} (runbook: ledger-changed)")
