"""Accounts that pay for some plans only: for approved ones, or for those of core questions.

The input of an account that pays for approved plans is used by other accounts of its family for
approved plans only.
"""

from __future__ import annotations

from typing import Literal

from dp_core.kernel.ledger.account_terms import promise_of
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.running_totals import Book, lineage, other_owner, subtree

Bar = Literal["of another family", "approved plans only"]
"""Why an input that one account used is refused to another one (`barred_by`)."""


def barred_by(book: Book, input_hash: str, account: str, plan: str) -> tuple[str, Bar] | None:
    """Return an earlier account of an input that bars its use by another one, and why; or None.

    Accounts with the same topmost account may use the same input. If one of them, or an account
    above it, pays for approved plans only, the plan of the other must be approved too.

    Args:
        book: The ledger.
        input_hash: Keyed hash of the input, or of a table of it.
        account: Account that would pay for its next use.
        plan: Hash of the plan of that use.

    Privacy:
        The topmost account pays for every release of its family, so its total bounds what all
        releases of the input reveal. Accounts of another family would give it a fresh budget.
    """
    owner = other_owner(book, input_hash, account)
    if owner is not None:
        return owner, "of another family"
    payers = lineage(book, account)
    if book.account_of(input_hash) is None:
        return None
    if not payers or book.approved(plan):
        return None
    names = {charter.name for charter in payers}
    # Not the uses of the input: their number grows with every release.
    for strict in subtree(book, payers[-1].name):
        charter = book.charter(strict)
        if strict in names or charter is None or not charter.approved_only:
            continue
        for user in subtree(book, strict):
            if book.used(input_hash, user):
                return user, "approved plans only"
    return None


def broken_by_plan(entry: Entry, book: Book) -> str | None:
    """Return why a `reserve` or an `input` is not of a plan that its account pays for; or None."""
    if entry.kind == "reserve":
        promise = promise_of(entry.position, entry.receipt)
        strict = any(charter.approved_only for charter in lineage(book, promise.account))
        if strict and not book.approved(promise.plan):
            return "reserves for a plan that was not approved"
        core = any(charter.core_only for charter in lineage(book, promise.account))
        return "may ask more than core questions" if core and promise.extensions else None
    if entry.kind == "input" and entry.reservation is not None:
        paid_by = book.promise(entry.reservation)
        assert paid_by is not None
        barred = barred_by(book, str(entry.about), paid_by.account, paid_by.plan)
        if barred is not None:
            return "is for data of an account whose plans need approval"
    return None
