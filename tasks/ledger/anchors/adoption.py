"""Adoption: a person accepts a ledger that its anchor refuses, or a clock that jumped ahead."""

from __future__ import annotations

from dataclasses import dataclass

from dp_core.accounts.ledger_position import entries_behind
from dp_core.errors import BadInput
from tasks.ledger.anchors.anchor_notes import require_writable
from tasks.ledger.anchors.ledger_anchor import LedgerAnchor
from tasks.ledger.anchors.machine_clock import in_words
from tasks.ledger.database.ledger_database import Database


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an adoption recorded.

    Attributes:
        ledger: Identifier of the ledger.
        noted: Position of the newest noted entry; None without a note.
        head: Position of the ledger's last entry before the adoption.
        behind: Number of noted entries that the ledger lacks; None if it is unknown.
        elsewhere: How its place differs from the recorded one; None if it does not.
        closed: Names of the accounts that were closed again, because a note says that they were
            closed before.
        clock: How far the clock jumped ahead, in words, if only this was accepted; otherwise None.
    """

    ledger: str
    noted: int | None
    head: int
    behind: int | None
    elsewhere: str | None
    closed: tuple[str, ...]
    clock: str | None


def adopt(database: Database, anchor: LedgerAnchor, *, by: str, reason: str) -> Adopted:
    """Accept a ledger that its anchor refuses, by an entry of kind `adopt`.

    The notes move to the ledger, so that the same user's original is refused from then on. Accounts
    that a note knows as closed are closed again. What the missing entries spent stays unknown.

    Args:
        database: Database of the ledger.
        anchor: Anchor that refuses it.
        by: Person who decides.
        reason: Reason for the decision.

    Raises:
        BadInput: if the anchor does not refuse the ledger, or the state folder cannot be written.
    """
    require_writable(anchor.state)
    with database.writing(anchored=False) as book:
        found = anchor.compare(book, anchor.read(book.identity(), damaged=True))
        if not found.is_older_or_elsewhere and not found.jump:
            raise BadInput(
                "The ledger has every noted entry and is where it was made or adopted, and the"
                " clock did not jump ahead, so there is nothing to adopt."
            )
        head, link = book.head().position, book.head().link
        newest = found.newest
        noted = None if newest is None else newest.position
        behind: int | None = 0
        if found.missing or newest is None:
            behind = entries_behind(head, noted)
        open_again = tuple(
            name
            for name in sorted(found.closed)
            if (charter := book.charter(name)) is not None and not charter.closed
        )
        who = {"by": by, "reason": reason}
        book.append(
            "adopt",
            body={
                "from": newest and {"position": newest.position, "link": newest.link},
                "to": {"position": head, "link": link},
                "behind": behind,
                "place": book.store.place(),
                "elsewhere": found.elsewhere,
                "replaced": list(found.replaced),
                "closed": list(open_again),
                # The ledger itself was not restored or copied, so no statement has this adoption.
                **({} if found.is_older_or_elsewhere else {"clock": found.jump}),
                **who,
            },
        )
        for name in open_again:
            book.append("close", account=name, body=who)
    anchor.adopt(found, book)
    return Adopted(
        ledger=found.identity,
        noted=noted,
        head=head,
        behind=behind,
        elsewhere=found.elsewhere,
        closed=open_again,
        clock=None if found.is_older_or_elsewhere else in_words(found.jump),
    )
