"""Declarations that data are public, and the refusal of those that belong to an account.

`dp-release compare` reads data without protection, because a person declares them public.
"""

from __future__ import annotations

from collections.abc import Collection

from dp_core.errors import BadInput
from tasks.ledger.database.ledger_database import Database
from tasks.ledger.reservation_check import check_comparison


class PublicDeclarations:
    """The declarations that data are public, in one ledger."""

    _database: Database

    def declare_public(self, files: int, *, by: str, reason: str) -> None:
        """Record that a person declares data public; call it before the data are recognised.

        Args:
            files: Number of data files.
            by: Person who declares them public.
            reason: Reason for the declaration.
        """
        with self._database.writing() as book:
            book.append("declare-public", body={"files": files, "by": by, "reason": reason})

    def refuse_known(self, hashes: Collection[str], *, by: str, reason: str) -> None:
        """Refuse data declared public that belong to an account; count a refused attempt.

        Args:
            hashes: Keyed hashes of the data; empty if the ledger has no input.
            by: Person who declared the data public.
            reason: Reason for the declaration.

        Raises:
            BadInput: if any of the data belong to an account. A refused attempt is recorded for
                every such account.
            BudgetRefused: if refused attempts have stopped an account; no data are compared.
            StageFailed: if an account takes no attempt until open ones are over; no data are
                compared.

        Privacy:
            The refusal tells that these data are the confidential ones. So it is recorded before it
            is told, and a stopped account recognises nothing. Which of several files was recognised
            is in the ledger, not in the message.
        """
        with self._database.writing() as book:
            check_comparison(book)
            owners: dict[str, str] = {}
            for one in hashes:
                account = book.account_of(one)
                if account is not None:
                    owners.setdefault(account, one)
            for account, one in owners.items():
                body = {"by": by, "reason": reason}
                book.append("refuse-public", account=account, about=one, body=body)
        if owners:
            raise BadInput(
                f"These data belong to account {_listed(owners)}, so they are confidential and"
                " cannot be used as public data. The ledger counts a refused attempt. Make"
                " a release instead, or use a similar public file.",
                row="public-data-known",
            )


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
