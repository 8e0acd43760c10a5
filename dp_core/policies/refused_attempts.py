"""Attempts of an account to use its confidential data, and how many of them were refused.

A refusal is an exact answer about the data that no epsilon pays for: an `impossible` rule can ask
any question. That the data cannot be read is one too. So an attempt is recorded (`examine`) before
the data are opened, and its verdict before anybody is told of it. That the data fit is an exact
answer too. So an attempt stays open until the first charge of its release. A crash changes nothing:
the same release continues the attempt, and asks the same question. If the release ends before its
first charge, the attempt counts as refused, because somebody may have seen the answer. So every
answer is counted. A release that has charges opens its data again only if another file was refused
or could not be read. The attempt that then finds the bound file to fit ends at once (`charged` in
the verdict), because the release has paid.

The opening of a question desk is an attempt too. `open-desk` with `examines` is recorded before the
data are opened, and `fits` in a second `open-desk` ends the attempt. If anything else follows for
this desk, such as `close-desk` or an opening under other terms, the attempt counts as refused.

A person may declare public, to compare methods, data that belong to an account. The refusal reveals
that these are the confidential data, so it counts as a refused attempt (`refuse-public`). So does
the refusal of a question desk whose data belong to another account (`refused` in `close-desk`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.running_totals import lineage, other_owner, subtree, use
from dp_core.policies.tried_schemas import schemas_stated, tried_schemas

if TYPE_CHECKING:
    from dp_core.kernel.ledger.entries import Entry
    from dp_core.kernel.ledger.running_totals import Book

MOST_REFUSED = 3
"""Refused attempts of a family of accounts after which a person must allow further ones."""

Verdict = Literal["fits", "refused", "unreadable"]
"""How an attempt ended: the data fit, the data refused, or they could not be read.

The last counts as refused if the entry says `counted`; those of earlier versions do not.
"""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

CHANGING = frozenset(
    (
        "examine",
        "verdict",
        "charge",
        "allow-retry",
        "refuse-public",
        "settle",
        "open-desk",
        "close-desk",
    )
)
"""Kinds of entries that change an account's attempts."""

Examination: TypeAlias = Literal["open", "charged"] | Verdict
"""State of the attempt of one reservation: no verdict yet, the verdict, or charged after `fits`."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts of one account.

    Attributes:
        refused: Number of refused attempts since the account was opened.
        recent: Number of refused attempts since a person last allowed further ones.
        open: Number of attempts under way or interrupted: not refused, and without a charge yet.
        allowed: Days in UTC on which a person allowed further attempts, in order.
        fitted: Number of attempts whose data fit. Those whose release ended before its first
            charge are in `refused` too. A ledger from before they were counted has fewer.
    """

    refused: int = 0
    recent: int = 0
    open: int = 0
    allowed: tuple[str, ...] = ()
    fitted: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a person must allow further attempts."""
        return self.recent >= MOST_REFUSED

    @property
    def is_full(self) -> bool:
        """Whether the open attempts could become as many refusals as are allowed."""
        return self.recent + self.open >= MOST_REFUSED

    def text(self) -> str:
        """Return the text of its running total."""
        values: list[object] = [self.refused, self.recent, self.open, list(self.allowed)]
        if self.fitted:
            # Without any, the text is that of a ledger from before they were counted.
            values.append(self.fitted)
        return canonical_json(values).decode()

    def to_json(self) -> dict[str, object]:
        """Return what a settlement publishes: numbers and days, no names."""
        return {
            "refused": self.refused,
            "open": self.open,
            "fitted": self.fitted,
            "allowed": list(self.allowed),
        }


def attempts_total(account: str) -> str:
    """Return the subject of an account's running total of its attempts."""
    return f"attempts/{account}"


def examination_total(position: int) -> str:
    """Return the subject of a reservation's running total of its attempt."""
    return f"examination/{position}"


def attempts_of(book: Book, account: str) -> Attempts:
    """Return the attempts of an account so far."""
    text = book.total(attempts_total(account))
    if text is None:
        return Attempts()
    refused, recent, unsettled, allowed, *fitted = json.loads(text)
    return Attempts(refused, recent, unsettled, tuple(allowed), *fitted)


def family(book: Book, account: str) -> list[str]:
    """Return the names of the topmost account above an account, and of all accounts within it.

    Their data are about the same people, so they share the refused attempts that are allowed.
    """
    found = lineage(book, account)
    return subtree(book, found[-1].name if found else account)


def attempts_of_family(book: Book, account: str) -> Attempts:
    """Return the sums of the attempts of the family of an account, without days."""
    found = [attempts_of(book, name) for name in family(book, account)]
    return Attempts(
        refused=sum(one.refused for one in found),
        recent=sum(one.recent for one in found),
        open=sum(one.open for one in found),
        fitted=sum(one.fitted for one in found),
    )


def examination_of(book: Book, reservation: int) -> Examination | None:
    """Return the state of the attempt of a reservation; None if it never opened its data."""
    return cast("Examination | None", book.total(examination_total(reservation)))


def examined_by_desk(book: Book, account: str) -> str | None:
    """Return the terms and the data of an account's desk whose opening is an open attempt."""
    return book.total(_desk_total(account)) or None


def _desk_total(account: str) -> str:
    return f"examination/desk/{account}"


def _examined(entry: Entry, name: str) -> str:
    """Return the terms and the data that an entry examines, or finds to fit; or nothing."""
    return f"{entry.about} {entry.body[name]}" if name in entry.body else ""


def _after_desk(entry: Entry, book: Book, before: Attempts) -> dict[str, str]:
    account = entry.receipt.account
    was, now = examined_by_desk(book, account), _examined(entry, "examines")
    fits = was is not None and was == _examined(entry, "fits")
    # privacy: somebody may have seen the answer of an opening that is not continued.
    refused = int(was not in (None, now) and not fits) + int("refused" in entry.body)
    after = replace(
        before,
        refused=before.refused + refused,
        recent=before.recent + refused,
        open=before.open + bool(now) - bool(was),
        fitted=before.fitted + fits,
    )
    found = {_desk_total(account): now} if now != (was or "") else {}
    return found | ({attempts_total(account): after.text()} if after != before else {})


def attempts_stated(book: Book, account: str) -> dict[str, object]:
    """Return what a settlement states about attempts before it: of its account and of its family.

    The family is stated only if it has other accounts.
    """
    found = attempts_of(book, account).to_json() | _of_family(book, account)
    return {"attempts": found | {"schemas": schemas_stated(book, account)}}


def _of_family(book: Book, account: str) -> dict[str, object]:
    if family(book, account) == [account]:
        return {}
    found = attempts_of_family(book, account).to_json()
    return {"family": {name: found[name] for name in ("refused", "open", "fitted")}}


def attempts_after(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals that an entry changes: attempts, and state of its own attempt.

    Args:
        entry: An entry that breaks no rule.
        book: The ledger before the entry.
    """
    if entry.kind not in CHANGING:
        return {}
    account, place = entry.receipt.account, entry.reservation
    before = attempts_of(book, account)
    if entry.kind == "allow-retry":
        allowed = (*before.allowed, entry.receipt.at)
        return {attempts_total(account): replace(before, recent=0, allowed=allowed).text()}
    if entry.kind in ("open-desk", "close-desk"):
        return _after_desk(entry, book, before)
    if entry.kind == "refuse-public":
        after = replace(before, refused=before.refused + 1, recent=before.recent + 1)
        return {attempts_total(account): after.text()}
    assert place is not None
    was = examination_of(book, place)
    fitted = before.fitted
    state: Examination
    if entry.kind == "examine":
        # After `fits` the attempt of this release is open already.
        state, open_now = "open", before.open + int(was != "fits")
    elif entry.kind == "verdict" and entry.body["verdict"] == "fits":
        paid = entry.body.get("charged") is True
        state, open_now = ("charged", before.open - 1) if paid else ("fits", before.open)
        fitted += int(entry.body.get("counted") is True)
    elif was not in ("open", "fits"):
        return {}
    elif entry.kind == "charge":
        state, open_now = "charged", before.open - 1
    else:
        # privacy: if a release ends before its first charge, its answer would otherwise be free.
        # Questions that the data fit, one after the other, find the largest value of a column.
        state = entry.body["verdict"] if entry.kind == "verdict" else "refused"
        open_now = before.open - 1
    unreadable = state == "unreadable" and entry.body.get("counted") is True
    counted = int(state == "refused" or unreadable)
    refused, recent = before.refused + counted, before.recent + counted
    after = Attempts(refused, recent, open_now, before.allowed, fitted)
    return {attempts_total(account): after.text(), examination_total(place): state}


def broken_by_attempts(entry: Entry, book: Book) -> str | None:
    """Return how an entry breaks the rules of attempts; None if it does not.

    Args:
        entry: Any entry.
        book: The ledger before the entry.
    """
    if entry.kind not in CHANGING:
        return None
    attempts = attempts_of(book, entry.receipt.account)
    state = None if entry.reservation is None else examination_of(book, entry.reservation)
    match entry.kind:
        case "allow-retry":
            account, day = entry.receipt.account, date.fromisoformat(entry.receipt.at)
            stopped = attempts.recent and attempts_of_family(book, account).is_full
            stopped = stopped or tried_schemas(book, account, day).is_full
            return None if stopped else "allows attempts that nothing had stopped"
        case "refuse-public":
            if book.account_of(str(entry.about)) != entry.receipt.account:
                return "refuses data that do not belong to its account"
            stopped = attempts_of_family(book, entry.receipt.account).is_full
            return "recognises data of an account that was stopped" if stopped else None
        case "open-desk":
            account, examined = entry.receipt.account, _examined(entry, "examines")
            begins = examined not in ("", examined_by_desk(book, account))
            full = begins and attempts_of_family(book, account).is_full
            return "opens data of a desk although its account was stopped" if full else None
        case "close-desk":
            if "refused" not in entry.body:
                return None
            if other_owner(book, str(entry.body["refused"]), entry.receipt.account) is None:
                return "refuses data of a desk that belong to no other account"
            stopped = attempts_of_family(book, entry.receipt.account).is_full
            return "recognises data for an account that was stopped" if stopped else None
        case "examine":
            # The limit of the family is checked before an entry is written: an earlier version
            # limited each account only, and its entries must stay valid.
            # A release that has charged is not kept from its data by the open attempts of others.
            full = attempts.is_stopped if state == "charged" else attempts.is_full
            stopped = full and state != "fits"
            return "opens data although too many attempts were refused" if stopped else None
        case "verdict":
            if state != "open":
                return "judges data that were not opened, or were judged"
            if entry.body["verdict"] not in VERDICTS:
                return "states an unknown verdict"
            return _broken_by_early_end(entry, book)
        case "charge":
            return (
                "charges before its data were found to fit"
                if state not in (None, "fits", "charged")
                else None
            )
        case "settle":
            return _broken_by_end(entry, book)
        case _:
            return None


def _broken_by_early_end(entry: Entry, book: Book) -> str | None:
    """Return whether a verdict ends its attempt although its release has not charged.

    Privacy:
        Before the first charge the answer that the data fit would otherwise be free.
    """
    if "charged" not in entry.body:
        return None  # before the first charge, or written by an earlier version
    assert entry.reservation is not None
    charged = use(book, entry.reservation).tally.charges > 0
    right = entry.body["charged"] is True and entry.body["verdict"] == "fits" and charged
    return None if right else "ends an attempt without a charge of its release"


def _broken_by_end(entry: Entry, book: Book) -> str | None:
    account = entry.receipt.account
    if "attempts" not in entry.body and book.total(attempts_total(account)) is None:
        return None  # written before attempts were counted
    stated, found = entry.body.get("attempts"), attempts_of(book, account)
    right = found.to_json()
    if isinstance(stated, dict) and "fitted" not in stated and not found.fitted:
        del right["fitted"]  # written before they were counted
    if isinstance(stated, dict) and "family" in stated:  # not written before families were stated
        right |= _of_family(book, account)
    if isinstance(stated, dict) and "schemas" in stated:  # not counted by earlier versions
        right["schemas"] = schemas_stated(book, account)
    same = stated == right
    return None if same else "states other refused attempts than the ledger recorded"
