"""The anchor of a ledger: what is noted at every write, and what is refused.

A ledger that is ahead of its notes is accepted: a process may have been killed between its commit
and its note. A ledger that lacks a noted entry, or is not at the place where it was made or
adopted, is refused until a person adopts it.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from dp_core.errors import LedgerCorrupt, ReleaseError
from dp_core.kernel.canonical import canonical_json
from tasks.ledger.anchors.anchor_notes import (
    HEAD,
    Note,
    locked,
    read_notes,
    require_writable,
    write_notes,
)
from tasks.ledger.anchors.machine_clock import LIMIT_S, clock_now, in_words, latest, offset_of
from tasks.ledger.database.ledger_place import difference, is_same_site, site_of, sqlite_file
from tasks.ledger.database.ledger_store import Place
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.leases import boot_id

Files = Mapping[Path, Mapping[str, Note] | None]
"""The notes by file and ledger; None for a damaged file."""

ADOPT = "`dp-release ledger adopt --by NAME --reason TEXT`"


@dataclass(frozen=True, slots=True)
class Findings:
    """A ledger compared with its notes and with the places recorded for it.

    Attributes:
        identity: Identifier of the ledger.
        now: Its present place.
        recorded: The place that the ledger itself records; empty if an earlier program made it.
        noted: The notes of the ledger, by the path of their file.
        missing: Paths of the notes whose entry the ledger lacks.
        elsewhere: How the present place differs from a recorded one; None if it does not.
        replaced: Identifiers of other ledgers that the home noted under the same URL.
        damaged: Whether a note cannot be read.
        is_noted: Whether both notes have the ledger's last entry.
        closed: Names of the accounts that are closed in the ledger or in a note.
        clock: The clock of this machine, as a note has it.
        before: The latest noted clock of the same boot; None without one.
    """

    identity: str
    now: Place
    recorded: Place
    noted: dict[Path, Note]
    missing: tuple[Path, ...]
    elsewhere: str | None
    replaced: tuple[str, ...]
    damaged: bool
    is_noted: bool
    closed: frozenset[str]
    clock: Place
    before: Place | None

    @property
    def jump(self) -> int:
        """Seconds by which the clock jumped ahead since the last note; 0 if it did not."""
        if self.before is None:
            return 0
        ahead = offset_of(self.clock) - offset_of(self.before)
        return ahead if ahead > LIMIT_S else 0

    @property
    def is_older_or_elsewhere(self) -> bool:
        """Whether the ledger is refused until a person adopts it, whatever the clock is."""
        return bool(self.missing or self.replaced or self.damaged or self.elsewhere)

    @property
    def newest(self) -> Note | None:
        """The missing note with the highest position, otherwise the newest note; None without."""
        some = self.missing or tuple(self.noted)
        return max(
            (self.noted[path] for path in some), key=lambda note: note.position, default=None
        )


class LedgerAnchor:
    """The notes of one ledger, in its home and in the state folder."""

    def __init__(self, home: Path, state: Path, url: str) -> None:
        """Use the notes in two folders; nothing is read or written yet.

        Args:
            home: Folder of the home.
            state: Folder outside the home.
            url: SQLAlchemy URL of the ledger.
        """
        self.home = home
        self.state = state
        self._url = sa.make_url(url)
        self._place_in_cluster: Place | None = None

    # -- the methods that the database calls

    def check_new(self, place: Place | None = None) -> None:
        """Refuse to make a ledger where a note records an earlier one that is gone.

        A damaged note of another ledger is passed over.

        Args:
            place: Place of the empty database; None (the default) for an SQLite file that does not
                exist yet.

        Raises:
            LedgerCorrupt: if a note in the state folder or the home knows a ledger at this site.
        """
        file = sqlite_file(self._url)
        now = place if file is None else site_of(file)
        if now is None:
            return
        for path in (*self._notes_outside(), self.home / HEAD):
            notes: Mapping[str, Note] = {}
            with suppress(LedgerCorrupt):
                notes = read_notes(path)
            for note in notes.values():
                if is_same_site(note.lives, now, same_url=note.place == self._at()):
                    self._refuse_new(path, note)

    def _refuse_new(self, path: Path, note: Note) -> None:
        file = sqlite_file(self._url)
        what = f"The ledger {file}" if file is not None else "The ledger in this database"
        other = (
            "set DP_RELEASE_HOME or DP_RELEASE_LEDGER to another folder"
            if file is not None
            else "set DP_RELEASE_LEDGER to another database"
        )
        raise LedgerCorrupt(
            f"{what} is gone: the note {path} knows its entry {note.position}, and a new ledger"
            " would allow its budget to be spent again. Restore it from a backup, then let the"
            f" privacy officer accept it: {ADOPT}. For other data, {other}.",
            row="ledger-lost",
        )

    def _notes_outside(self) -> list[Path]:
        """Return the files of notes in the state folder."""
        with suppress(OSError):
            return sorted(self.state.glob("*.json"))
        return []

    def check(self, book: Transaction) -> Callable[[Transaction], None]:
        """Refuse a ledger that is older than a note, a copy, or in the place of another one.

        Args:
            book: The ledger, inside a write transaction.

        Returns:
            Function that notes the head of a transaction after its commit.

        Raises:
            BadInput: if the state folder cannot be written.
            LedgerCorrupt: if the ledger is refused, a note is damaged, or the clock jumped ahead.
        """
        require_writable(self.state)
        # Nobody writes to the ledger while this transaction has the lock.
        found = self.compare(book, self.read(book.identity()))
        self._refuse(found)
        if found.jump:
            raise LedgerCorrupt(
                f"The clock of this machine jumped ahead by {in_words(found.jump)} since the last"
                " entry, which would open later periods of accounts. Set it right, or let the"
                f" privacy officer accept it if the new time is true: {ADOPT}.",
                row="clock-jumped",
            )
        return partial(self._after_commit, found)

    # -- opening, adopting and showing

    def open(self, book: Transaction, files: Files) -> None:
        """Check a ledger as `check` does, and note its head if it is ahead of a note.

        Commands that only read also work if no note can be written.

        Args:
            book: The ledger, inside a transaction.
            files: The notes, read before the transaction began.

        Raises:
            LedgerCorrupt: if the ledger is refused, or a note is damaged.
        """
        found = self.compare(book, files)
        self._refuse(found)
        if found.is_noted:
            return
        with suppress(ReleaseError, OSError):
            require_writable(self.state)
            # A command that only reads makes no home.
            self._note_head(found, book, homes=self.home.is_dir())

    def _after_commit(self, found: Findings, book: Transaction) -> None:
        # A charge that an earlier process could not note is noted before its result is drawn.
        if book.has_appended or not found.is_noted:
            self._note_head(found, book)

    def adopt(self, found: Findings, book: Transaction) -> None:
        """Replace the notes by the head of a ledger that a person adopted, after its commit."""
        self._note_head(found, book, adopted=True)

    def read(self, identity: str, *, damaged: bool = False) -> Files:
        """Read the notes.

        Args:
            identity: Identifier of the ledger.
            damaged: Whether damaged notes are accepted, as for an adoption; False by default.

        Raises:
            LedgerCorrupt: if a note is damaged.
        """
        files: dict[Path, Mapping[str, Note] | None] = {}
        for path in (self.home / HEAD, self.outside(identity)):
            try:
                files[path] = read_notes(path)
            except LedgerCorrupt:
                if not damaged:
                    raise
                files[path] = None
        return files

    def compare(self, book: Transaction, files: Files) -> Findings:
        """Compare a ledger with its notes and its recorded places.

        Args:
            book: The ledger, inside a transaction.
            files: The notes. They must be read before a read transaction begins; otherwise a later
                write of another process is noted there and missing in the transaction.
        """
        identity, head = book.identity(), book.head().position
        read = {path: notes or {} for path, notes in files.items()}
        noted = {path: notes[identity] for path, notes in read.items() if identity in notes}
        missing = tuple(
            path for path, note in noted.items() if not book.has_link(note.position, note.link)
        )
        replaced = tuple(
            name
            for name, note in read[self.home / HEAD].items()
            if name != identity and note.place == self._at()
        )
        closed = {name for note in noted.values() for name in note.closed}
        is_noted = [note.position for note in noted.values()] == [head, head]
        if not is_noted:
            closed |= {entry.receipt.account for entry in book.find(kinds=("close",))}
        now = self._place(book)
        since, recorded = book.place()
        # A note from before the latest adoption has the place from before it.
        later = [note.lives for note in noted.values() if note.position >= since]
        places = [recorded, *later]
        clock = clock_now()
        elsewhere = next(filter(None, (_difference(place, now) for place in places)), None)
        return Findings(
            identity=identity,
            now=now,
            recorded=recorded,
            noted=noted,
            missing=missing,
            elsewhere=elsewhere,
            replaced=() if noted else replaced,
            damaged=None in files.values(),
            is_noted=is_noted,
            closed=frozenset(closed),
            clock=clock,
            before=latest(clock, (note.clock for note in noted.values())),
        )

    def outside(self, identity: str) -> Path:
        """Return the path of a ledger's note in the state folder."""
        return self.state / f"{_checked(identity)}.json"

    def _refuse(self, found: Findings) -> None:
        if found.missing:
            raise LedgerCorrupt(
                f"The ledger is older than the note {found.missing[0]}, or was changed, so budget"
                " that was spent could be spent again. Restore its newest copy. Only if there is"
                f" none, the privacy officer may accept this one: {ADOPT}.",
                row="ledger-older",
            )
        if found.replaced:
            raise LedgerCorrupt(
                f"This is not the ledger that {self.home / HEAD} noted at its place, so budget that"
                " was spent could be spent again. Restore the earlier ledger. Only if it will"
                f" never be used again, the privacy officer may accept this one: {ADOPT}.",
                row="ledger-replaced",
            )
        if found.elsewhere is not None:
            raise LedgerCorrupt(
                f"This ledger is a copy ({found.elsewhere}), and the original could spend the same"
                " budget again. Use the original. If it will never be used again, the privacy"
                f" officer may accept this one: {ADOPT}.",
                row="ledger-copied",
            )

    def _note_head(
        self, found: Findings, book: Transaction, *, adopted: bool = False, homes: bool = True
    ) -> None:
        """Note the head of a transaction in the files, unless a later one is noted.

        Args:
            found: The ledger at the beginning of the transaction.
            book: The transaction, after its commit.
            adopted: Replace later and damaged notes too; by default not.
            homes: Whether to write the note in the home; True by default.
        """
        position, link = book.head().position, book.head().link
        closed = tuple(sorted(found.closed | book.closed))
        clock = found.clock
        if (
            found.before
            and not adopted
            and (found.jump or offset_of(clock) < offset_of(found.before))
        ):
            clock = found.before  # a reader accepts no jump, and a clock set back may be set right
        note = Note(position, link, self._at(), found.now, closed, clock)
        outside = self.outside(found.identity)
        with locked(outside):
            for path in (outside, self.home / HEAD) if homes else (outside,):
                try:
                    notes = read_notes(path)
                except LedgerCorrupt:
                    if not adopted:
                        raise
                    notes = {}
                noted = notes.get(found.identity)
                if noted == note or (noted and noted.position > position and not adopted):
                    continue
                if adopted:
                    notes = {name: old for name, old in notes.items() if old.place != self._at()}
                write_notes(path, {**notes, found.identity: note})

    def _place(self, book: Transaction) -> Place:
        """Return the present place, for SQLite with the site, the device number and the boot."""
        file = sqlite_file(self._url)
        if file is None:
            # A long process asks the server once; each opening of a ledger asks again.
            if self._place_in_cluster is None:
                self._place_in_cluster = book.store.place()
            return self._place_in_cluster
        found = book.store.place()
        found |= site_of(file)
        with suppress(OSError):
            return {**found, "device": file.stat().st_dev, "boot": boot_id()}
        return found

    def _at(self) -> str:
        """Return a hash of the ledger's URL without user and password."""
        url = self._url
        place = [url.get_backend_name(), url.host, url.port, url.database]
        query = {name: value for name, value in url.query.items() if name in ("host", "port")}
        return hashlib.sha256(canonical_json([*place, query])).hexdigest()


def _difference(recorded: Place, now: Place) -> str | None:
    """Return how a place differs from a recorded one; None if it is the same.

    A copy on another device can have the same inode number. Device numbers change at a reboot and
    when a network file system is mounted again. So another number means a copy only if it was read
    in the same boot and the earlier device is still mounted.
    """
    clause = difference(recorded, now)
    if clause is not None or recorded.get("boot") is None:
        return clause
    before, after = recorded.get("device"), now.get("device")
    if recorded["boot"] != now.get("boot") or before == after or not isinstance(before, int):
        return None
    return "it is on another device than its original" if _is_mounted(before) else None


def _is_mounted(device: int) -> bool:
    """Return whether a device is mounted now; False if this is not known."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError, IndexError, UnicodeDecodeError):
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return any(line.split()[2] == number for line in lines)
    return False


def _checked(identity: str) -> str:
    """Return the identifier of a ledger, which becomes the name of a file.

    Raises:
        LedgerCorrupt: if it is not one that this program makes.
    """
    try:
        return str(uuid.UUID(identity))
    except ValueError:
        raise LedgerCorrupt("Entry 1 (ledger) was changed.", row="ledger-changed") from None
