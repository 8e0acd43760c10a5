"""`dp-release ledger adopt`: a person accepts a restored or copied ledger."""

from __future__ import annotations

from dp_core.text.pages.answer import CommandAnswer, known
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Block, Fact, Sentence
from flows.cli.command_parts import answering, decided, existing_ledger
from flows.cli.commands.ledger_commands import ledger


@ledger.command("adopt")
@decided
@answering
def ledger_adopt(by: str, reason: str) -> CommandAnswer:
    """Accept a restored ledger, or a clock that jumped.

    This cannot be undone.
    """
    from tasks.run.home import ledger_exists, open_ledger

    if not ledger_exists():
        existing_ledger()  # raises the error of every command that needs a ledger
    found = open_ledger(refuse=False).adopt(by=by, reason=reason)
    page: list[Block] = [Sentence(f"This ledger is adopted, at entry {found.head:,}.")]
    if found.behind is None:
        page.append(Fact("Missing", "an unknown number of entries"))
    elif found.behind:
        page.append(Fact("Missing", f"{plural(found.behind, 'entry')}, up to {found.noted:,}"))
    if found.elsewhere is not None:
        place = f"{found.elsewhere}; the ledger now records its present place"
        page.append(Fact("Place", place))
    if found.closed:
        page.append(Fact("Closed", f"{', '.join(found.closed)}: closed before, and closed again"))
    last = (
        "Every later release states this adoption. Never use another copy of the ledger again."
        if found.clock is None
        else f"The clock of this machine, {found.clock} ahead, is accepted."
    )
    names = ("ledger", "head", "noted", "behind", "elsewhere", "closed")
    values = {name: getattr(found, name) for name in names} | known(clock=found.clock)
    return CommandAnswer(values, (*page, Sentence(last)))
