"""How many different schemas were tried on the data of a family of accounts in a period.

That data fit a schema is an exact answer, and no epsilon pays for it: a series of releases with a
tiny epsilon and ever tighter bounds would find the largest value of a column. So a reservation
records the hashes of the parts of its schema (`schema` in its body), and a family of accounts may
try only a few different schemas in one period. Which data will be read is not known before they are
opened, and one more row makes another input, so the limit belongs to the family and not to the
input. The data of one family are never used by another one.

A part of a schema is another schema: after the whole was refused, a release with each rule alone
would give further answers. But if data fit the whole, that they fit a part follows and is no new
answer. When a person opens a question desk, the program checks its data against its whole schema
and records that they fit (`fits` in the body, the keyed hash of the data). So the desk's schema
counts once, and questions with some of its columns do not count. This does not depend on who
reserves, or for what: a reservation of such a part is counted when it is bound to other data.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from dp_core.kernel.canonical import canonical_json, digest
from dp_core.kernel.ledger.running_totals import lineage
from dp_core.policies.budget_periods import calendar_of

if TYPE_CHECKING:
    from dp_core.kernel.ledger.entries import Entry
    from dp_core.kernel.ledger.running_totals import Book

MOST_SCHEMAS = 10
"""Different schemas that a family of accounts may try in one period unless a person allows more."""


@dataclass(frozen=True, slots=True)
class TriedSchemas:
    """The schemas that were tried on the data of a family of accounts.

    Attributes:
        period: Index of the period of the topmost account; 0 if it has no periods.
        recent: Number in this period since a person last allowed further ones.
        total: Number since the topmost account was opened.
        known: Hash of each schema that was tried in this period.
        fitting: Keyed hash of the data of each desk that fitted its schema when it was opened, and
            the parts of this schema; also in earlier periods.
    """

    period: int = 0
    recent: int = 0
    total: int = 0
    known: frozenset[str] = frozenset()
    fitting: tuple[tuple[str, frozenset[str]], ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether a person must allow further schemas."""
        return self.recent >= MOST_SCHEMAS

    def is_new(self, parts: Collection[str], data: str | None = None) -> bool:
        """Return whether a schema was not tried, and its verdict does not follow from another one.

        Args:
            parts: Parts of the schema.
            data: Keyed hash of the data. If None (the default), they are not known yet, and may be
                any data that fit a schema with these parts.
        """
        implied = any(data in (None, known) and {*parts} <= whole for known, whole in self.fitting)
        return not implied and _hash(parts) not in self.known

    def text(self) -> str:
        """Return the text of its running total."""
        numbers = self.period, self.recent, self.total
        fitting = [[data, sorted(whole)] for data, whole in self.fitting]
        return canonical_json([*numbers, sorted(self.known), fitting]).decode()


def tried_schemas(book: Book, account: str, day: date) -> TriedSchemas:
    """Return the schemas that the family of an account has tried, in the period of a day.

    A day before the latest period belongs to that period, so a clock that was set back gives no
    further schemas.
    """
    text = book.total(_subject(book, account))
    found = TriedSchemas()
    if text is not None:
        period, recent, total, known, fitting = json.loads(text)
        fitted = tuple((data, frozenset(whole)) for data, whole in fitting)
        found = TriedSchemas(period, recent, total, frozenset(known), fitted)
    calendar = calendar_of(lineage(book, account)[-1])
    current = 0 if calendar is None else calendar.index(day)
    if current <= found.period:
        return found
    return replace(found, period=current, recent=0, known=frozenset())


def tried_after(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals that an entry changes.

    Args:
        entry: An entry that breaks no rule.
        book: The ledger before the entry.
    """
    if entry.kind not in ("reserve", "open-desk", "input", "allow-retry"):
        return {}
    subject = _subject(book, entry.receipt.account)
    before = _before(entry, book)
    if entry.kind == "allow-retry":
        return {subject: replace(before, recent=0).text()} if before.total else {}
    parts = _parts_of(entry, book)
    after = before
    if parts and before.is_new(parts, _data_of(entry)):
        known = before.known | {_hash(parts)}
        after = replace(before, recent=before.recent + 1, total=before.total + 1, known=known)
    data = str(entry.body.get("fits", ""))
    if data and (data, frozenset(parts)) not in before.fitting:
        after = replace(after, fitting=(*after.fitting, (data, frozenset(parts))))
    found = {subject: after.text()} if after != before else {}
    if entry.kind == "reserve" and parts and _hash(parts) not in after.known:
        # Counted with its input, unless these are the data that fit.
        found[_reserved(entry.position)] = canonical_json(sorted(parts)).decode()
    return found


def broken_by_schemas(entry: Entry, book: Book) -> str | None:
    """Return how a `reserve`, `open-desk` or `input` breaks the limit; None if it does not."""
    if entry.kind not in ("reserve", "open-desk", "input"):
        return None
    parts = _parts_of(entry, book)
    if not parts:
        return None
    before = _before(entry, book)
    more = before.is_full and before.is_new(parts, _data_of(entry))
    return "tries more schemas than are allowed" if more else None


def parts_to_count(book: Book, reservation: int) -> Collection[str]:
    """Return the parts of a schema that counts unless its data fit a desk's; empty for others.

    Args:
        book: The ledger.
        reservation: Position of the reservation.
    """
    text = book.total(_reserved(reservation))
    return () if text is None else json.loads(text)


def _before(entry: Entry, book: Book) -> TriedSchemas:
    return tried_schemas(book, entry.receipt.account, date.fromisoformat(entry.receipt.at))


def _parts_of(entry: Entry, book: Book) -> Collection[str]:
    if entry.kind != "input":
        parts: Collection[str] = entry.body.get("schema", ())
        return parts
    # An input of several parts comes after them, and is the one that is compared.
    if entry.reservation is None or "table" in entry.body:
        return ()
    return parts_to_count(book, entry.reservation)


def _data_of(entry: Entry) -> str | None:
    """Return the hash of the data whose verdict an entry precedes; None if they are not known."""
    if entry.kind == "reserve":
        return None
    body = entry.body
    return str(entry.about if entry.kind == "input" else body.get("fits", body.get("examines", "")))


def schemas_stated(book: Book, account: str) -> int:
    """Return how many schemas the family of an account has tried since it was opened."""
    text = book.total(_subject(book, account))
    return 0 if text is None else int(json.loads(text)[2])


def _hash(parts: Collection[str]) -> str:
    return digest(sorted(parts))


def _subject(book: Book, account: str) -> str:
    found = lineage(book, account)
    return f"schemas/{found[-1].name if found else account}"


def _reserved(reservation: int) -> str:
    return f"schema of {reservation}"
