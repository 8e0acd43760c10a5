"""`dp-release verify`: anyone's check of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli.command_parts import PATH, answering, cli

if TYPE_CHECKING:
    from dp_core.bundle.verification.verify import Verification


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
@answering
def verify(folder: Path, keys: tuple[Path, ...], measurements: Path | None) -> Verification:
    """Check a bundle: files, receipts and privacy arithmetic."""
    from dp_core.bundle.verification.verify import verify as check
    from dp_core.wall.ledger.signatures import read_public

    trusted = [read_public(key) for key in keys]
    return check(folder, trusted=trusted, measurements=measurements)
