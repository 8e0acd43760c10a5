"""What the service itself must remember: counts of questions, and outcomes.

All of it survives a crash. None of it decides about the budget: only the ledger does.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from flows.desk.service.tokens import FOLDER

State = Literal["waiting", "running", "awaiting approval", "answered", "refused", "failed"]
STATES: tuple[State, ...] = get_args(State)
OPEN: tuple[State, ...] = ("waiting", "running", "awaiting approval")
"""States of questions that are neither answered nor refused nor failed."""
ENDED = "Its release ended without an answer; ask the privacy officer for the reason."
MOST_ATTEMPTS = 3
"""Failed attempts at one question (for outside reasons) after which a person has to look."""
FILE = "service.db"
DAY_S = 24 * 3600.0
_TABLES = """
CREATE TABLE IF NOT EXISTS taken (account TEXT, number INTEGER, PRIMARY KEY (account, number));
CREATE TABLE IF NOT EXISTS admissions (account TEXT, user TEXT, at REAL);
CREATE TABLE IF NOT EXISTS outcomes (
    account TEXT, number INTEGER, state TEXT, reason TEXT, failures INTEGER, ended INTEGER,
    PRIMARY KEY (account, number)
);
"""


@dataclass(frozen=True, slots=True)
class AdmittedQuestion:
    """A question that a desk admitted.

    Attributes:
        account: Account of the desk.
        number: Number of the question at this desk.
        user: Who asked.
        question: The question as it was understood.
        epsilon: Epsilon of its release, as text.
        state: Its state.
        reason: Why it was refused or failed, in one public sentence; empty otherwise.
    """

    account: str
    number: int
    user: str
    question: str
    epsilon: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt to answer a question.

    Attributes:
        state: State of the question; `interrupted` if the attempt is to be repeated.
        reason: Why it was refused or failed, in one public sentence; empty otherwise.
        cost: Epsilon that was paid, as text.
        row: Heading in `docs/runbook.md` that says what to do, for the log; empty for none.
    """

    state: State | Literal["interrupted"]
    reason: str = ""
    cost: str = "0"
    row: str = ""


class ServiceRecords:
    """A small database in the home, of mode 0600.

    Args:
        home: The home.
    """

    def __init__(self, home: Path) -> None:
        self._path, self._clock = home / FOLDER / FILE, time.time
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        with self._transaction() as database:
            database.executescript(_TABLES)

    @staticmethod
    def exist(home: Path) -> bool:
        """Return whether a service was ever started in a home."""
        return (home / FOLDER / FILE).is_file()

    def take(self, account: str, number: int) -> None:
        """Record that the service answers a question, because it was asked here.

        Args:
            account: Account of the desk.
            number: Number of the question.
        """
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO taken VALUES (?, ?)", (account, number))

    def taken_questions(self) -> frozenset[tuple[str, int]]:
        """Return account and number of each question that the service answers."""
        with self._transaction() as database:
            return frozenset(database.execute("SELECT account, number FROM taken").fetchall())

    def count_admission(self, account: str, user: str) -> None:
        """Count one new question of a user."""
        now = self._clock()
        with self._transaction() as database:
            database.execute("DELETE FROM admissions WHERE at <= ?", (now - DAY_S,))
            database.execute("INSERT INTO admissions VALUES (?, ?, ?)", (account, user, now))

    def admissions(self, account: str, user: str) -> int:
        """Return how many new questions a user asked in the last 24 hours."""
        with self._transaction() as database:
            (number,) = database.execute(
                "SELECT COUNT(*) FROM admissions WHERE account = ? AND user = ? AND at > ?",
                (account, user, self._clock() - DAY_S),
            ).fetchone()
        return int(number)

    def keep_outcome(self, account: str, number: int, outcome: Outcome) -> int:
        """Store the outcome of an attempt to answer a question.

        Args:
            account: Account of the desk.
            number: Number of the question.
            outcome: Outcome of the attempt.

        Returns:
            How many attempts failed since the question was last asked.
        """
        failed, ended = int(outcome.state == "failed"), int(outcome.state in ("failed", "refused"))
        with self._transaction() as database:
            database.execute(
                "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (account, number) DO"
                " UPDATE SET state = excluded.state, reason = excluded.reason,"
                " failures = failures + excluded.failures, ended = ended + excluded.ended",
                (account, number, outcome.state, outcome.reason, failed, ended),
            )
            (failures,) = database.execute(
                "SELECT failures FROM outcomes WHERE account = ? AND number = ?", (account, number)
            ).fetchone()
        return int(failures)

    def ended_attempts(self, account: str, number: int) -> int:
        """Return how many attempts at a question have failed or were refused so far."""
        with self._transaction() as database:
            row = database.execute(
                "SELECT ended FROM outcomes WHERE account = ? AND number = ?", (account, number)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def forget_outcome(self, account: str, number: int) -> None:
        """Let a question be tried again, as if no attempt had failed."""
        with self._transaction() as database:
            database.execute(
                "UPDATE outcomes SET state = 'waiting', reason = '', failures = 0 WHERE account = ?"
                " AND number = ?",
                (account, number),
            )

    def with_outcomes(self, questions: Iterable[AdmittedQuestion]) -> list[AdmittedQuestion]:
        """Return questions, with the states of those that wait changed by their last attempts.

        A question has failed after `MOST_ATTEMPTS` failed attempts; until then it waits.
        """
        with self._transaction() as database:
            rows = database.execute("SELECT account, number, state, reason, failures FROM outcomes")
            outcomes = {(row[0], row[1]): row[2:] for row in rows}
        found = []
        for each in questions:
            kept = outcomes.get((each.account, each.number))
            if kept is not None and each.state == "waiting":
                state, reason, failures = kept
                if state != "failed" or failures >= MOST_ATTEMPTS:
                    found.append(replace(each, state=state, reason=reason))
                    continue
            found.append(each)
        return found

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose changes are one transaction."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as database, database:
            database.execute("PRAGMA synchronous = FULL")
            yield database
