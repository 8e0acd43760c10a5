"""The question desks of a home: opening, finding and closing them.

A desk is a folder in the home, `questions/ACCOUNT`. Its record holds the terms and the schema as
they were when the desk was opened, so a later change of a file has no effect until the desk is
opened again. The data are found through a symbolic link in the folder, so no published spec
contains a path of this machine.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.errors import BadInput, BudgetRefused, DataRefused, StageFailed, similar
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.plan.data_location import PartPlaces, read_data, store_of
from dp_core.plan.question_desk import QuestionDesk, load_desk
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.node import from_plain
from flows.desk import own_process
from tasks.run.declared_public.public_input import file_hashes
from tasks.run.home_folder import home
from tasks.support.run_folder import write_atomically

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger

FOLDER = "questions"
VERSION = 1
_RECORD, _LOCK, _FILES, _ANSWERING = "desk.json", "lock", "files", "answering"
_SCHEMA = "checked.schema.yaml"

Fits = Callable[[Path, str], bool]
"""Returns whether the data of a path or glob fit the schema of a file."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A question desk of a home.

    Attributes:
        folder: Its folder in the home.
        terms: Its terms. The path of the data is relative to the folder.
        file: Path of the desk file when it was opened.
        closed: Whether new questions are refused.
        data: Keyed hash of the data when it was opened, and of each part of them; empty for data
            that are not files of this machine.
    """

    folder: Path
    terms: QuestionDesk
    file: Path
    closed: bool = False
    data: tuple[str, ...] = ()

    @property
    def account(self) -> str:
        """Account of the desk, which is also its name."""
        return self.terms.account

    @property
    def terms_hash(self) -> str:
        """SHA-256 of the terms and the schema as they are kept, as in the ledger's entry."""
        return digest(self.terms.document())

    @property
    def home(self) -> Path:
        """The home."""
        return self.folder.parent.parent

    @contextmanager
    def admission_lock(self) -> Iterator[None]:
        """Keep other processes from admitting questions, so that no question is admitted twice."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def answer_lock(self, asks: str) -> Iterator[None]:
        """Wait until no other process answers a question that measures the same; then keep it so.

        Args:
            asks: Hash of what is measured, `KeptQuestion.asks`.
        """
        folder = self.folder / _ANSWERING
        folder.mkdir(mode=0o700, exist_ok=True)
        with (folder / asks).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def open_desk(
    path: Path, ledger: Ledger, *, by: str, reason: str, fits: Fits | None = None
) -> Desk:
    """Open a question desk, or open it again under other terms; nothing is spent.

    Data files are checked against the whole schema, so that questions about some of their columns
    give no further exact answers, and are not counted as further schemas. The check is an attempt:
    the ledger allows and records it before the data are opened, and its end before it is told.

    Args:
        path: The desk file.
        ledger: The ledger of this home, which records the opening.
        by: Person who opens it.
        reason: Reason for the decision.
        fits: Returns whether data fit a schema; by default it does so in its own process.

    Raises:
        BadInput: for any mistake in the file, if no question could be measured or paid under its
            terms, and if the data files are not there, or do not fit the schema, which counts as a
            refused attempt.
        BudgetRefused: if an account does not exist, is closed, is stopped, may try no further
            schema, or has another neighbouring relation or unit; or if the account of a user is not
            within that of the desk.
        DataRefused: if the data belong to an account of another family; the ledger counts a refused
            attempt.
    """
    terms = load_desk(path)
    _check_accounts(terms, ledger)
    folder = home() / FOLDER / terms.account
    desk = Desk(folder, terms, path.absolute())
    with desk.admission_lock():
        desk = replace(desk, terms=_with_link(terms, folder))
        desk = replace(desk, data=file_hashes(desk.terms.data, folder, ledger))
        data = desk.data[0] if desk.data else None
        record = partial(
            ledger.open_desk, desk.account, desk.terms_hash, terms.schema, by=by, reason=reason
        )
        if data is not None:
            record(examines=data)
            fault = _fault(desk, ledger, fits or own_process.fits_in_own_process)
            if fault is not None:
                ledger.close_desk(desk.account, desk.terms_hash, by=by, reason=reason)
                raise BadInput(
                    f"{fault} The ledger counted a refused attempt, and the desk takes no questions"
                    " until it is opened again."
                )
        # The entry comes before the desk's record, so that no desk is open without one.
        record(fits=data)
        owner = ledger.desk_data_owner(desk.account, desk.data)
        if owner is not None:
            raise DataRefused(
                f"The data of this desk belong to account {owner!r}; open a desk for that account"
                " or one of its family, because another account would give the same people a fresh"
                " budget. The ledger counted a refused attempt, and the desk takes no questions.",
                row="data-of-another-account",
            )
        _keep(desk)
    return desk


def _fault(desk: Desk, ledger: Ledger, fits: Fits) -> str | None:
    """Return why the desk's files do not fit its whole schema; None if they do."""
    schema = desk.folder / _SCHEMA
    write_atomically(schema, canonical_json(dict(desk.terms.schema.document)) + b"\n")
    if not fits(schema, str(desk.folder / str(desk.terms.data))):
        return (
            "The data of this desk do not fit its schema, or cannot be read. `dp-release schema"
            " check SCHEMA FILE` says why. Correct the schema or the file."
        )
    if file_hashes(desk.terms.data, desk.folder, ledger) != desk.data:
        return "The data of this desk changed while they were checked."
    return None


def is_open(desk: Desk, ledger: Ledger) -> bool:
    """Return whether a desk takes questions under its terms, by its record and by the ledger."""
    return not desk.closed and ledger.desk_terms(desk.account) == desk.terms_hash


def find_desk(account: str) -> Desk:
    """Return the question desk of an account.

    Raises:
        BadInput: if no desk was opened for it.
        StageFailed: if its record cannot be read.
    """
    known = {path.parent.name: path for path in (home() / FOLDER).glob(f"*/{_RECORD}")}
    if account not in known:
        hint = similar(account, known) or (f" Desks: {', '.join(sorted(known))}." * bool(known))
        raise BadInput(
            f"No question desk is open for {account!r:.60}.{hint} A privacy officer opens one with"
            " `dp-release desk open FILE --by NAME --reason TEXT`.",
            row="no-question-desk",
        )
    return _read(known[account])


def all_desks() -> tuple[Desk, ...]:
    """Return the desks of this home, by account."""
    return tuple(_read(path) for path in sorted((home() / FOLDER).glob(f"*/{_RECORD}")))


def close_desk(desk: Desk, ledger: Ledger, *, by: str, reason: str) -> Desk:
    """Close a desk: new questions are refused. Begun ones can be finished, and answers read.

    Args:
        desk: The desk.
        ledger: The ledger of this home, which records the closing.
        by: Person who closes it.
        reason: Reason for the decision.
    """
    with desk.admission_lock():
        closed = replace(desk, closed=True)
        # The desk is closed first: if the ledger cannot be written, it takes no questions.
        _keep(closed)
        ledger.close_desk(desk.account, desk.terms_hash, by=by, reason=reason)
    return closed


def _check_accounts(terms: QuestionDesk, ledger: Ledger) -> None:
    above = ledger.find_account(terms.account)
    if above is None:
        known = [one.name for one in ledger.accounts()]
        raise BudgetRefused(
            f"There is no account {terms.account!r}.{similar(terms.account, known)} Open it with"
            f" `dp-release ledger open {terms.account} --epsilon E --delta D --by NAME --reason"
            " TEXT`.",
            row="no-account",
        )
    for user, name in (("", terms.account), *terms.users.items()):
        account = ledger.find_account(name)
        whose = f" of user {user!r}" if user else ""
        if account is None or terms.account not in [one.name for one in ledger.lineage(name)]:
            what = "does not exist" if account is None else f"is not within {terms.account!r}"
            raise BudgetRefused(
                f"The account {name!r}{whose} {what}; open one with `dp-release ledger open NAME"
                f" --within {terms.account} --epsilon E --by NAME --reason TEXT`.",
                row="no-account",
            )
        charter, unit = account.charter, terms.schema.unit.word
        if charter.closed:
            raise BudgetRefused(f"The account {name!r}{whose} is closed.", row="account-closed")
        if (charter.neighbours, charter.unit) != (terms.neighbours, unit):
            raise BudgetRefused(
                f"The account {name!r}{whose} is for neighbours {charter.neighbours} and unit"
                f" {charter.unit}; the desk states {terms.neighbours} and {unit}. Change the desk"
                " file, or use another account.",
                row="other-relation",
            )
        total = account.terms.delta
        if terms.delta > total:
            raise BadInput(
                f"The desk states delta {float(terms.delta):g} for each question, but the total"
                f" delta of the account {name!r}{whose} is {float(total):g}; state at most this in"
                " the desk file."
            )


def _with_link(terms: QuestionDesk, folder: Path) -> QuestionDesk:
    """Return the terms with a path to the data that is relative to the desk's folder."""
    if not isinstance(terms.data, str) or store_of(terms.data) is not None:
        return replace(terms, folder=folder)
    named = str(terms.folder / terms.data)
    if not any(map(os.path.isfile, (named, *glob.iglob(named, recursive=True)))):
        raise BadInput(
            f"No file in {terms.folder} matches the desk's data {terms.data!r}; correct the path.",
            row="data-not-found",
        )
    parts = (terms.folder / terms.data).parts
    plain = next((k for k, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    fixed = min(plain, len(parts) - 1)
    target, rest = Path(*parts[:fixed]), Path(*parts[fixed:])
    number, link = 1, folder / _FILES
    while link.is_symlink() and link.readlink() != target:
        number += 1
        link = folder / f"{_FILES}-{number}"
    if not link.is_symlink():
        link.symlink_to(target)
    return replace(terms, data=str(Path(link.name) / rest), folder=folder)


def _keep(desk: Desk) -> None:
    record = {
        "version": VERSION,
        "file": str(desk.file),
        "closed": desk.closed,
        "hashes": list(desk.data),
        **desk.terms.document(),
    }
    write_atomically(desk.folder / _RECORD, canonical_json(record))


def _read(path: Path) -> Desk:
    try:
        record: Mapping[str, Any] = json.loads(path.read_bytes())
        schema = parse_schema(record["schema"])
        place = read_data(from_plain(record["data"], source="data"), schema)
        assert not isinstance(place, PartPlaces)
        terms = QuestionDesk(
            account=record["account"],
            data=place,
            folder=path.parent,
            schema=schema,
            delta=Fraction(record["delta"]),
            neighbours=record["neighbours"],
            largest_epsilon=Fraction(record["largest_epsilon"]),
            answers=record["answers"],
            users=record["users"],
        )
        return Desk(
            path.parent,
            terms,
            Path(record["file"]),
            record["closed"],
            tuple(record.get("hashes", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, BadInput, AssertionError):
        raise StageFailed(
            f"The record of the question desk {path.parent.name!r} ({path}) cannot be read. Restore"
            " it from a backup, or open the desk again with `dp-release desk open FILE --by"
            " NAME --reason TEXT`.",
            row="desk-unreadable",
        ) from None
