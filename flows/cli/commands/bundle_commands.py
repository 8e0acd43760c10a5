"""`dp-release verify`: anyone's check of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli.command_parts import answering, cli

if TYPE_CHECKING:
    from flows.answers.bundle_answers import BundleCheck


@cli.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Public key that must have signed the ledger; repeatable.",
)
@answering("release_views.verified")
def verify(folder: Path, keys: tuple[Path, ...]) -> BundleCheck:
    """Check a bundle: files, receipts and privacy arithmetic."""
    from dp_core.bundle.verification.verify import verify as check
    from dp_core.wall.ledger.signatures import read_public
    from flows.answers.bundle_answers import bundle_check

    found = check(folder, trusted=[read_public(key) for key in keys])
    return bundle_check(str(folder), found)
