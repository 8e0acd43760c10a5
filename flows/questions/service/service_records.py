"""What the service itself must remember: keys of repeated requests, and failed attempts.

Both survive a crash. Neither decides about the budget: that is the ledger's part alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from flows.questions.service.desk_port import AdmittedQuestion
from flows.questions.service.tokens import FOLDER

MOST_ATTEMPTS = 3
"""Attempts at one question that fail for outside reasons; then a person has to look."""
KEPT_S = 7 * 24 * 3600.0
MOST_KEYS = 1000
"""Keys that are kept of one user."""
_TABLES = """
CREATE TABLE IF NOT EXISTS keys (
    account TEXT, user TEXT, key TEXT, request TEXT, used REAL, PRIMARY KEY (account, user, key)
);
CREATE TABLE IF NOT EXISTS attempts (
    account TEXT, number INTEGER, attempts INTEGER, reason TEXT, PRIMARY KEY (account, number)
);
"""


class KeyReused(Exception):
    """An idempotency key came with another request before."""


class ServiceRecords:
    """A small database in the home, of mode 0600.

    Args:
        home: The home.
        clock: Returns seconds since 1970; `time.time` by default.
    """

    def __init__(self, home: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = home / FOLDER / "service.db", clock
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        with self._connected() as database:
            database.executescript(_TABLES)

    def claim(self, account: str, user: str, key: str, request: str) -> None:
        """Bind an idempotency key of a user to a request for a week.

        Args:
            account: Account of the desk.
            user: Who sent the key.
            key: The key, as it was sent.
            request: The request in its normal form.

        Raises:
            KeyReused: if the key is bound to another request.
        """
        hashed, digest, now = _digest(key), _digest(request), self._clock()
        with self._connected() as database:
            database.execute("DELETE FROM keys WHERE used < ?", (now - KEPT_S,))
            database.execute(
                "INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?)",
                (account, user, hashed, digest, now),
            )
            (bound,) = database.execute(
                "SELECT request FROM keys WHERE account = ? AND user = ? AND key = ?",
                (account, user, hashed),
            ).fetchone()
            database.execute(
                "DELETE FROM keys WHERE account = ? AND user = ? AND key NOT IN (SELECT key FROM"
                " keys WHERE account = ? AND user = ? ORDER BY used DESC, rowid DESC LIMIT ?)",
                (account, user, account, user, MOST_KEYS),
            )
        if bound != digest:
            raise KeyReused

    def failed(self, account: str, number: int, reason: str) -> int:
        """Count a failed attempt to answer a question; return how many there are now."""
        with self._connected() as database:
            database.execute(
                "INSERT INTO attempts VALUES (?, ?, 1, ?) ON CONFLICT (account, number) DO UPDATE"
                " SET attempts = attempts + 1, reason = excluded.reason",
                (account, number, reason),
            )
            (attempts,) = database.execute(
                "SELECT attempts FROM attempts WHERE account = ? AND number = ?", (account, number)
            ).fetchone()
        return int(attempts)

    def seen(self, questions: Iterable[AdmittedQuestion]) -> list[AdmittedQuestion]:
        """Return questions with the state `failed` where all attempts failed."""
        attempts = self.attempts()
        found = []
        for each in questions:
            number, reason = attempts.get((each.account, each.number), (0, ""))
            over = each.state == "waiting" and number >= MOST_ATTEMPTS
            found.append(replace(each, state="failed", reason=reason) if over else each)
        return found

    def attempts(self) -> dict[tuple[str, int], tuple[int, str]]:
        """Return the failed attempts of each question and the last one's reason."""
        with self._connected() as database:
            rows = database.execute("SELECT account, number, attempts, reason FROM attempts")
            return {
                (account, number): (attempts, reason) for account, number, attempts, reason in rows
            }

    def forget_attempts(self, account: str, number: int) -> None:
        """Let a question be tried again from the start."""
        with self._connected() as database:
            database.execute(
                "DELETE FROM attempts WHERE account = ? AND number = ?", (account, number)
            )

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose changes are one transaction."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as database, database:
            database.execute("PRAGMA synchronous = FULL")
            yield database


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
