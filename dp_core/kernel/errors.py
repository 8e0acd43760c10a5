"""What can go wrong, by what the person at the terminal has to do about it.

Every message is one or two sentences: what is wrong, where, what to do. It never shows a
confidential value or an exact count; such detail goes into `internal`, which is written to the
run's internal folder and shown only on request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

GARBAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RecursionError,
)
"""Exceptions that reading malformed plain values can raise."""


class ReleaseError(Exception):
    """A failure with a sentence for a person and an exit code for a machine.

    Attributes:
        message: One or two sentences without confidential content.
        internal: Detail that may be confidential; never logged, never published.
        row: Heading of `docs/runbook.md` that says what to do; None where the message itself does.
        exit_code: Exit code of the command that ends with this error.
        message_file: File of the internal folder with the error's own message, for which `message`
            stands; None if `message` is its own.
    """

    exit_code = 1
    row: str | None = None
    message_file: Path | None = None

    def __init__(
        self, message: str, *, internal: str | None = None, row: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.internal = internal
        if row is not None:
            self.row = row


class BadInput(ReleaseError):
    """The spec, the schema, the data or the command line is wrong; nothing was spent.

    Attributes:
        faults: The faults of a document (`dp_core.errors.Fault`), by line; empty for other input.
    """

    exit_code = 2
    faults: tuple[Any, ...] = ()


class DataRefused(BadInput):
    """What stopped the release is an answer about the confidential data; the ledger counts it."""


class SchemaViolation(DataRefused):
    """The confidential data do not fit the schema.

    The message names rules and columns: it is for the internal folder, and for the terminal of the
    person who runs the release.
    """


class BudgetRefused(ReleaseError):
    """The ledger refused: not enough left, or the request does not fit the account."""

    exit_code = 3


class StageFailed(ReleaseError):
    """A stage failed for an outside reason; the release can be resumed."""

    exit_code = 4


class LedgerCorrupt(ReleaseError):
    """The ledger's chain does not verify."""

    exit_code = 5
