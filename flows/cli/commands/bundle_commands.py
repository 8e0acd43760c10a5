"""`dp-release verify`: anyone's check of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.display.answer import Answer
from dp_core.errors import BadInput
from flows.cli.command_parts import PATH, answering, cli

if TYPE_CHECKING:
    from rich.console import Console

    from dp_core.bundle.verification.verify import Verification


@dataclass(frozen=True, slots=True)
class BundleCheck(Answer):
    """All checks of a bundle, and whether it passed them."""

    found: Verification

    @property
    def exit_code(self) -> int:
        """0 if it passed, 1 if a check failed, 2 if only undecided checks remain."""
        if self.found.passed:
            return 0
        return BadInput.exit_code if self.found.undecided else 1

    def to_json(self) -> Any:
        """Return the checks; `decided` is false if this version cannot decide one."""
        checks = [
            {
                "name": check.name,
                "passed": check.passed,
                "decided": check.decided,
                "detail": check.sentence,
            }
            for check in self.found.checks
        ]
        return {"folder": self.found.folder, "passed": self.found.passed, "checks": checks}


def _print(console: Console, answer: BundleCheck) -> None:
    from rich.markup import escape

    found = answer.found
    for check in found.checks:
        failed = "[red]FAIL[/red]" if check.decided else "[yellow]?[/yellow]   "
        mark = "[green]ok[/green]  " if check.passed else failed
        # Details quote the bundle, which is not trusted.
        console.print(f"{mark} {check.name}: {escape(check.sentence)}")
    verdict = "verifies" if found.passed else "does NOT verify"
    if found.undecided:
        verdict = "CANNOT be verified with this version of dp-release"
    console.print(f"The bundle {escape(str(found.folder))} {verdict}.", soft_wrap=True)


@cli.command()
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=PATH,
    help="Public key that must have signed the ledger; repeatable.",
)
@click.option(
    "--measurements",
    metavar="DIR",
    type=PATH,
    help="Bundle of the release whose noisy tables DIR uses.",
)
@answering(_print)
def verify(folder: Path, keys: tuple[Path, ...], measurements: Path | None) -> BundleCheck:
    """Check a bundle: files, receipts and privacy arithmetic."""
    from dp_core.bundle.verification.verify import verify as check
    from dp_core.wall.ledger.signatures import read_public

    trusted = [read_public(key) for key in keys]
    return BundleCheck(check(folder, trusted=trusted, measurements=measurements))
