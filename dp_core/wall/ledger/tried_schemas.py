"""How many different schemas were tried on the data of a family of accounts in a period.

That data fit a schema is an exact answer, and no epsilon pays for it: a series of releases with a
tiny epsilon and ever tighter bounds would find the largest value of a column. So a reservation
records the hashes of the parts of its schema (`schema` in its body), and a family of accounts may
try only a few different schemas in one period. Which data will be read is not known before they are
opened, and one more row makes another input, so the limit belongs to the family and not to the
input. The data of one family are never used by another one.

A part of a schema is another schema: after the whole was refused, a release with each rule alone
would give further answers. A question desk is an exception, because each question reserves with the
columns that it needs: the desk's schema counts once, when a person opens the desk.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from dp_core.text.canonical import canonical_json, digest
from dp_core.wall.ledger.running_totals import lineage

if TYPE_CHECKING:
    from dp_core.wall.ledger.entries import Entry
    from dp_core.wall.ledger.running_totals import Book

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
        desks: Parts of the schema of each desk that was opened, also in earlier periods.
    """

    period: int = 0
    recent: int = 0
    total: int = 0
    known: frozenset[str] = frozenset()
    desks: tuple[frozenset[str], ...] = ()

    @property
    def is_full(self) -> bool:
        """Whether a person must allow further schemas."""
        return self.recent >= MOST_SCHEMAS

    def is_new(self, parts: Collection[str]) -> bool:
        """Return whether the schema with these parts was not tried and is not part of a desk's."""
        return _hash(parts) not in self.known and not any({*parts} <= desk for desk in self.desks)

    def text(self) -> str:
        """Return the text of its running total."""
        numbers = self.period, self.recent, self.total
        desks = [sorted(desk) for desk in self.desks]
        return canonical_json([*numbers, sorted(self.known), desks]).decode()


def tried_schemas(book: Book, account: str, day: date) -> TriedSchemas:
    """Return the schemas that the family of an account has tried, in the period of a day.

    A day before the latest period belongs to that period, so a clock that was set back gives no
    further schemas.
    """
    text = book.total(_subject(book, account))
    found = TriedSchemas()
    if text is not None:
        period, recent, total, known, desks = json.loads(text)
        desk_parts = tuple(frozenset(parts) for parts in desks)
        found = TriedSchemas(period, recent, total, frozenset(known), desk_parts)
    calendar = lineage(book, account)[-1].calendar
    current = 0 if calendar is None else calendar.index(day)
    if current <= found.period:
        return found
    return replace(found, period=current, recent=0, known=frozenset())


def tried_after(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running total that an entry changes.

    Args:
        entry: Entry of kind `reserve`, `open-desk` or `allow-retry`; it breaks no rule.
        book: The ledger before the entry.
    """
    account, parts = entry.receipt.account, entry.body.get("schema", ())
    before = tried_schemas(book, account, date.fromisoformat(entry.receipt.at))
    if entry.kind == "allow-retry":
        return {_subject(book, account): replace(before, recent=0).text()} if before.total else {}
    if not parts or not before.is_new(parts):
        return {}
    after = replace(before, recent=before.recent + 1, total=before.total + 1)
    if entry.kind == "open-desk":
        after = replace(after, desks=(*before.desks, frozenset(parts)))
    else:
        after = replace(after, known=before.known | {_hash(parts)})
    return {_subject(book, account): after.text()}


def broken_by_schemas(entry: Entry, book: Book) -> str | None:
    """Return how a `reserve` or `open-desk` breaks the limit; None if it does not."""
    parts = entry.body.get("schema", ())
    if not parts:
        return None
    before = tried_schemas(book, entry.receipt.account, date.fromisoformat(entry.receipt.at))
    more = before.is_full and before.is_new(parts)
    return "tries more schemas than are allowed" if more else None


def schemas_stated(book: Book, account: str) -> int:
    """Return how many schemas the family of an account has tried since it was opened."""
    text = book.total(_subject(book, account))
    return 0 if text is None else int(json.loads(text)[2])


def _hash(parts: Collection[str]) -> str:
    return digest(sorted(parts))


def _subject(book: Book, account: str) -> str:
    found = lineage(book, account)
    return f"schemas/{found[-1].name if found else account}"
