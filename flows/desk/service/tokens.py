"""Tokens of the users of a desk: printed once, kept only as hashes, and valid until a date."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.canonical import canonical_json
from tasks.support.run_folder import disk_errors, write_atomically

FOLDER = "question-service"
"""Folder of the service in the home."""
DAYS = 90
MOST_DAYS = 3650
BYTES = 32
"""Random bytes of a token. Nobody can guess it, so a fast hash is safe."""
MOST_TOKENS = 10
"""Largest number of valid tokens of one user."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token.

    Attributes:
        hash: SHA-256 of the token, in hexadecimal.
        account: Account of the desk.
        user: Who may ask with it.
        created: Day of its creation, UTC.
        expires: First day on which it is no longer valid, UTC.
    """

    hash: str
    account: str
    user: str
    created: date
    expires: date


class UnknownToken(Exception):
    """The token is unknown, has expired, or was revoked."""


def today_utc() -> date:
    """Return the day in UTC."""
    return datetime.now(UTC).date()


class TokenStore:
    """The tokens of a home, in one file of mode 0600.

    Args:
        home: The home.
        today: Returns the current day; by default the day in UTC.
    """

    def __init__(self, home: Path, *, today: Callable[[], date] = today_utc) -> None:
        self._path = home / FOLDER / "tokens.json"
        self._lock = home / FOLDER / "tokens.lock"
        self._today = today

    def issue(self, account: str, user: str, *, days: int = DAYS) -> tuple[str, Token]:
        """Make a token.

        Args:
            account: Account of the desk.
            user: Who may ask with it.
            days: Days for which it is valid, from 1 to `MOST_DAYS`; 90 by default.

        Returns:
            The token itself, which is not stored, and what is kept of it.

        Raises:
            BadInput: if the number of days is out of range, or the user already has `MOST_TOKENS`
                valid tokens.
        """
        if not 1 <= days <= MOST_DAYS:
            raise BadInput(f"--days must be between 1 and {MOST_DAYS}, not {days}.")
        secret, today = secrets.token_urlsafe(BYTES), self._today()
        made = Token(_hash(secret), account, user, today, today + timedelta(days=days))
        with self._hold_lock(fcntl.LOCK_EX):
            valid = self.valid()
            if sum((each.account, each.user) == (account, user) for each in valid) >= MOST_TOKENS:
                raise BadInput(
                    f"{user} has {MOST_TOKENS} valid tokens for account {account!r}; revoke them"
                    f" first: `dp-release desk revoke {account} {user}`."
                )
            self._write([*valid, made])
        return secret, made

    def revoke(self, account: str, user: str) -> int:
        """Revoke all tokens of a user; return how many were valid.

        It waits for admissions that are in progress. After it has returned, no admission succeeds
        with a revoked token.
        """
        with self._hold_lock(fcntl.LOCK_EX):
            valid = self.valid()
            kept = [each for each in valid if (each.account, each.user) != (account, user)]
            self._write(kept)
        return len(valid) - len(kept)

    def valid(self) -> list[Token]:
        """Return the tokens that are valid today."""
        # The file is always replaced as a whole, so reading it needs no lock.
        return [each for each in self._read() if self._today() < each.expires]

    def holder(self, secret: str) -> Token:
        """Return what is kept of a token.

        Raises:
            UnknownToken: if it is not valid.
        """
        return _token_with(self.valid(), secret)

    @contextlib.contextmanager
    def hold(self, secret: str) -> Iterator[Token]:
        """Keep a token from being revoked until the block ends.

        Raises:
            UnknownToken: if it is not valid.
        """
        with self._hold_lock(fcntl.LOCK_SH):
            yield _token_with(self.valid(), secret)

    def _read(self) -> list[Token]:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            days = ("created", "expires")
            return [
                Token(**each | {name: date.fromisoformat(each[name]) for name in days})
                for each in json.loads(text)["tokens"]
            ]
        except (ValueError, KeyError, TypeError):
            raise StageFailed(
                f"The file of tokens {self._path} is damaged. Restore it from a backup, or delete"
                " it and issue new tokens: `dp-release desk token ACCOUNT USER`."
            ) from None

    def _write(self, tokens: list[Token]) -> None:
        rows = [
            asdict(each)
            | {"created": each.created.isoformat(), "expires": each.expires.isoformat()}
            for each in tokens
        ]
        write_atomically(self._path, canonical_json({"version": 1, "tokens": rows}))

    @contextlib.contextmanager
    def _hold_lock(self, kind: int) -> Iterator[None]:
        with disk_errors(self._lock.name):
            self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, kind)
            yield
        finally:
            os.close(handle)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token_with(tokens: list[Token], secret: str) -> Token:
    """Return the token with a secret; the time taken does not depend on which one it is.

    Raises:
        UnknownToken: if there is none.
    """
    digest, found = _hash(secret), None
    for each in tokens:
        if hmac.compare_digest(each.hash, digest):
            found = each
    if found is None:
        raise UnknownToken
    return found
