"""`dp-release desk`: opens, shows and closes question desks, for privacy officers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli.command_parts import PATH, CommandGroup, answering, cli, decided, existing_ledger
from flows.cli.completion import ACCOUNT
from flows.cli.missing_packages import require_pipeline

if TYPE_CHECKING:
    from flows.desk.desk_answers import AllDesks, DeskShown


@cli.group("desk", cls=CommandGroup)
def desk() -> None:
    """Answer single questions about a file, and manage who may ask."""


@desk.command("open")
@click.argument("file", type=PATH)
@decided
@answering("question_views.desk")
def open_(file: Path, by: str, reason: str) -> DeskShown:
    """Open a question desk, or apply a change of its file.

    It checks the file, the schema and the accounts, and that the data exist. It opens no data and
    spends nothing. The ledger records who opened it, why, and the hash of its terms.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import open_desk
    from flows.desk.desk_answers import desk_shown

    return desk_shown(open_desk(file, ledger, by=by, reason=reason), ledger)


@desk.command("show")
@click.argument("account", type=ACCOUNT, required=False)
@answering("question_views.shown")
def show(account: str | None) -> DeskShown | AllDesks:
    """Show a desk with its questions, or list all desks.

    It also shows what the account of the desk, and that of each user, has left.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import all_desks, find_desk
    from flows.desk.desk_answers import AllDesks, desk_shown

    if account is None:
        return AllDesks(tuple(desk_shown(each, ledger) for each in all_desks()))
    return desk_shown(find_desk(account), ledger)


@desk.command("close")
@click.argument("account", type=ACCOUNT)
@decided
@answering("question_views.desk")
def close(account: str, by: str, reason: str) -> DeskShown:
    """Close a desk: it takes no new questions.

    Answers can still be read at no cost. The ledger records who closed it, and why.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import close_desk, find_desk
    from flows.desk.desk_answers import desk_shown

    return desk_shown(close_desk(find_desk(account), ledger, by=by, reason=reason), ledger)
