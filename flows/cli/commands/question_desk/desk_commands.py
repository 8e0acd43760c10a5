"""`dp-release desk`: opens, shows and closes question desks, for privacy officers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli.command_parts import PATH, CommandGroup, answering, cli, decided, existing_ledger
from flows.cli.completion import ACCOUNT
from flows.cli.missing_packages import require_pipeline

if TYPE_CHECKING:
    from dp_core.text.pages.answer import CommandAnswer


@cli.group("desk", cls=CommandGroup)
def desk() -> None:
    """Answer single questions about a file, and manage who may ask."""


@desk.command("open")
@click.argument("file", type=PATH)
@decided
@answering
def open_(file: Path, by: str, reason: str) -> CommandAnswer:
    """Open a question desk, or apply a change of its file.

    It checks the file, the schema and the accounts, and that the data fit the schema, as `schema
    check` does. It spends nothing. The ledger records who opened it, why, and the hash of its
    terms.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import open_desk
    from flows.desk.desk_answers import desk_answer

    return desk_answer(open_desk(file, ledger, by=by, reason=reason), ledger)


@desk.command("show")
@click.argument("account", type=ACCOUNT, required=False)
@answering
def show(account: str | None) -> CommandAnswer:
    """Show a desk with its questions, or list all desks.

    It also shows what the account of the desk, and that of each user, has left.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import find_desk
    from flows.desk.desk_answers import all_desks_answer, desk_answer

    return all_desks_answer(ledger) if account is None else desk_answer(find_desk(account), ledger)


@desk.command("close")
@click.argument("account", type=ACCOUNT)
@decided
@answering
def close(account: str, by: str, reason: str) -> CommandAnswer:
    """Close a desk: it takes no new questions.

    Answers can still be read at no cost. The ledger records who closed it, and why.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import close_desk, find_desk
    from flows.desk.desk_answers import desk_answer

    return desk_answer(close_desk(find_desk(account), ledger, by=by, reason=reason), ledger)
