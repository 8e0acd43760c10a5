"""`dp-release ledger adopt`: a person accepts a restored or copied ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.cli.command_parts import answering, decided, existing_ledger
from flows.cli.commands.ledger_commands import ledger

if TYPE_CHECKING:
    from flows.answers import ledger_answers as answers


@ledger.command("adopt")
@decided
@answering("ledger_views.adopted")
def ledger_adopt(by: str, reason: str) -> answers.AdoptedLedger:
    """Accept a restored ledger, or a clock that jumped.

    This cannot be undone.
    """
    from flows.answers.ledger_answers import AdoptedLedger
    from tasks.run.home import ledger_exists, open_ledger

    if not ledger_exists():
        existing_ledger()  # raises the error of every command that needs a ledger
    found = open_ledger(refuse=False).adopt(by=by, reason=reason)
    return AdoptedLedger(
        ledger=found.ledger,
        head=found.head,
        noted=found.noted,
        behind=found.behind,
        elsewhere=found.elsewhere,
        closed=list(found.closed),
        clock=found.clock,
    )
