"""The closed list of messages between the confidential process and its client.

A request is answered by one reply; before it, any number of notices may come. Everything that is
not on the list, or has other fields, is refused on both sides. A field of a reply depends on the
data only through a charged answer, the number of rows where the relation makes it public, or what
the privacy specification lists as outside epsilon: that the data were refused, or not readable.
No text of an error crosses. What fails before the data may be open (`BEFORE_DATA`) is told by its
kind and its row of the runbook. Later, such a row could be an answer about the data that nobody
counted. So a request then fails with a verdict that the ledger has counted, with a row of `STOPS`,
or with `data-side`. Both sides refuse any other reply. The process itself writes its standard error
to a file of the internal folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args

from dp_core import errors
from dp_core.errors import BadInput, DataRefused, ReleaseError, SchemaViolation
from tasks.confidential.frames import Malformed
from tasks.run.stage_table import STAGE_NAMES
from tasks.support.run_folder import RunFolder, where_kept

VERSION = 1
"""Version of the protocol; both sides have the same."""

Codes: TypeAlias = Literal["stored", "final", "coarse"]
"""The codes that a question is about: as they are stored, with the privately chosen bins and
levels, or in the schema's bins instead of positions on a method's grid."""

Kinds: TypeAlias = tuple[type | str | int | None, ...]
"""What a field may be: of one of these types, or one of these values."""
Fields: TypeAlias = Mapping[str, Kinds]

_TEXT, _WHOLE = (str,), (int,)

ERRORS: Mapping[str, type[ReleaseError]] = {
    kind.__name__: kind
    for kind in (
        errors.AwaitsApproval,
        errors.BadInput,
        errors.BudgetRefused,
        errors.LedgerCorrupt,
        errors.StageFailed,
    )
}
"""Kinds of error that a reply may name; any other is told as `StageFailed`."""
_ROWS = """
    account-closed at-work attempts-open attempts-refused budget-used-up bundle-not-handed-over
    charged-otherwise clock-jumped clock-off codes-damaged columns-differ committed-result-gone
    dask-in-clear dask-lost dask-no-worker dask-not-started dask-unreachable dask-worker-differs
    dask-worker-sees-nothing dask-workers-died data-being-written data-changed data-damaged
    data-do-not-fit data-empty data-not-found data-of-another-account data-side data-unreadable
    database-lost database-right database-silent database-values database-variable disk-full
    drawn-too-often ended-by-thresholds entry-refused environment head-damaged held held-changed
    input-key-gone input-key-other key-of-the-ledger ledger-changed ledger-copied ledger-damaged
    ledger-lost ledger-not-opened ledger-older ledger-replaced ledger-silent ledger-unreachable
    ledger-url links-gone measurements-unusable memory-short name-used newer-ledger no-account
    no-ledger no-such-release not-held not-written nothing-kept other-home other-relation
    output-not-empty output-unusable plan-changed public-data-known public-key reservation-gone
    result-damaged result-not-as-stored result-of-stage-gone result-without-charge right-missing
    schemas-tried set-gone stage-failed state-folder table-not-found tables-to-be-made
    taken-over waits-for-approval
"""
ROWS = frozenset(_ROWS.split())
"""Rows of the runbook that an error may name: those of `dp_core` and `tasks`."""

FAILURES = ("BudgetRefused", "LedgerCorrupt", "StageFailed")
"""Kinds of failure once the data may be open: of the ledger, or of the machine."""
_STOPS = """
    attempts-open attempts-refused database-silent disk-full entry-refused head-damaged
    ledger-changed ledger-damaged ledger-older ledger-not-opened ledger-silent ledger-unreachable
    memory-short not-written schemas-tried state-folder taken-over
"""
STOPS = tuple(_STOPS.split())
"""Rows of such a failure that tell of the machine, the ledger or the network; any other has the row
`data-side`. What `memory-short` and `schemas-tried` tell of the data is outside epsilon."""

REQUESTS: Mapping[str, Fields] = {
    # Connects to a Dask cluster, or starts the one of the spec.
    "cluster": {"release": _TEXT, "address": (str, NoneType), "spec": _TEXT},
    # Opens a release whose cost is reserved; its lease stays with the client.
    "open": {
        "protocol": _WHOLE,
        "release": _TEXT,
        "spec": _TEXT,
        "out": _TEXT,
        "reservation": _TEXT,
        "fence": _WHOLE,
    },
    # Finds the data, without opening them.
    "find": {},
    # The work of a stage that reads the file: `file_work.WORK` names them.
    "work": {"stage": _TEXT},
    # Whether the stored codes can be read, so that no stage must write them again.
    "readable": {},
    "grant": {"stage": _TEXT},
    "ask": {"stage": _TEXT, "codes": get_args(Codes), "request": (dict,)},
    "rows": {"stage": _TEXT, "codes": get_args(Codes)},
}
"""What a client may send, by `type`."""
BEFORE_DATA = frozenset(("cluster", "open", "find"))
"""Requests that open no data; how they fail depends on spec, schema, addresses and the ledger."""

NOTICES: Mapping[str, Fields] = {
    # Of a stage, or of the reading of what is elsewhere.
    "progress": {"stage": (*STAGE_NAMES, "copy", "snapshot"), "tenth": tuple(range(1, 11))},
    # The client looks the batch up in the ledger.
    "committed": {"batch": _TEXT},
}
"""What the process may send before its reply. Progress comes in tenths of a stage."""

REPLIES: Mapping[str, Fields] = {
    "done": {"as": (bool,)},
    # Blocks: the receipts, and the noisy values of each.
    "answer": {},
    # A number only if the relation makes it public.
    "rows": {"rows": (int, NoneType)},
    # The error's own message is `kept` in the internal folder, unless it could not be written.
    "error": {"kind": tuple(ERRORS), "row": (None, *sorted(ROWS)), "kept": (bool,)},
    # The ledger has counted it.
    "verdict": {"verdict": ("refused", "unreadable"), "kept": (bool,)},
    "failed": {"kind": FAILURES, "row": ("data-side", *STOPS), "kept": (bool,)},
}
"""How the process ends a request: `error` only one of `BEFORE_DATA`, the last two any other."""

MOST_ASKED = 1 << 30
"""Most bytes of a question; its public tables are the largest part."""


def checked(message: Mapping[str, Any], of: Mapping[str, Fields]) -> str:
    """Return the type of a message, if it is on a list.

    Args:
        message: What arrived.
        of: `REQUESTS`, `NOTICES` or `REPLIES`.

    Raises:
        Malformed: if it is not, or has other fields than the list says, or other types or values.
    """
    name = message.get("type")
    fields = of.get(name) if isinstance(name, str) else None
    if fields is None or {*message} != {"type", *fields}:
        raise Malformed(f"{name!r:.40} is no message of this protocol, or has other fields.")
    for field, kinds in fields.items():
        # True is a whole number to Python, not to this protocol.
        told = message[field]
        if type(told) not in kinds and not any(
            told == each and type(told) is type(each) for each in kinds
        ):
            raise Malformed(f"The message {name!r} has another {field!r} than it may have.")
    return str(name)


def checked_reply(reply: Mapping[str, Any], request: str) -> str:
    """Return the type of a reply, if it is on the list and may answer a request.

    Args:
        reply: What the process answered.
        request: Type of the request.

    Raises:
        Malformed: if it is not, or may not.
    """
    name = checked(reply, REPLIES)
    if name in (("verdict", "failed") if request in BEFORE_DATA else ("error",)):
        raise Malformed(f"{name!r} is no answer to {request!r:.40}.")
    return name


def is_about_data(error: Exception) -> bool:
    """Return whether the ledger must count a failure, because the data may have caused it."""
    if isinstance(error, MemoryError):
        return False
    return not isinstance(error, ReleaseError) or (
        isinstance(error, BadInput) and error.row not in STOPS
    )


def failure_message(error: ReleaseError, *, kept: bool) -> dict[str, Any]:
    """Return the reply that says how a request failed once the data may be open.

    Args:
        error: The error.
        kept: Whether its message is kept in the internal folder.
    """
    row = "data-side"
    if error.row in STOPS:
        row = str(error.row)
    return {"type": "failed", "kind": _kind(error, FAILURES), "row": row, "kept": kept}


def error_message(error: ReleaseError, *, kept: bool) -> dict[str, Any]:
    """Return the reply that says how a request of `BEFORE_DATA` failed.

    Args:
        error: The error. Its message does not cross: whoever made it has read the data.
        kept: Whether the message is kept in the internal folder.
    """
    row = error.row if error.row in ROWS else None
    return {"type": "error", "kind": _kind(error, ERRORS), "row": row, "kept": kept}


def _kind(error: ReleaseError, known: Iterable[str]) -> str:
    return next((each for each in known if isinstance(error, ERRORS[each])), "StageFailed")


_ENDS: Mapping[str, tuple[str, str]] = {
    "AwaitsApproval": ("waits for the approval of its plan", "Approve it, then {go_on}."),
    "BadInput": (
        "was refused",
        "Correct what the message names, then give the same command again.",
    ),
    "BudgetRefused": ("was refused by the ledger", "Ask the account's owner, then {go_on}."),
    "LedgerCorrupt": (
        "cannot continue: the ledger is damaged",
        "Stop all jobs, keep a copy of everything, and call the privacy officer.",
    ),
    "StageFailed": ("failed", "Remove the cause, then {go_on}."),
}
"""By kind of error, what became of a stage or release, and what to do."""
_VERDICTS = {
    "refused": "do not fit its schema, have changed, or belong to another account",
    "unreadable": "cannot be read",
}
"""What a verdict says of the data."""


def error_of(message: Mapping[str, Any], folder: RunFolder, stage: str | None) -> ReleaseError:
    """Return the error of a reply, with a fixed sentence for its verdict, or its kind and row.

    Args:
        message: The reply, which `checked` has accepted.
        folder: Folder of the release, where the process keeps the error's own message.
        stage: Stage that the request was about; None for none.
    """
    release, kept = folder.release, folder.message_file if message["kept"] else None
    error: ReleaseError
    if message["type"] == "verdict":
        refused = message["verdict"] == "refused"
        sentence = (
            f"The confidential data of release {release!r} {_VERDICTS[message['verdict']]}. The"
            f" ledger counts the refused attempt; the reason {where_kept(kept)}. `dp-release schema"
            " check SCHEMA FILE` shows all that is wrong with a file and is not counted."
        )
        if refused:
            error = SchemaViolation(sentence, row="data-do-not-fit")
        else:
            error = DataRefused(sentence, row="data-unreadable")
    else:
        kind, row, begun = message["kind"], message["row"], folder.exists()
        what = (
            f"Release {release!r}" if stage is None else f"Stage {stage!r} of release {release!r}"
        )
        ended, do = _ENDS[kind]
        why = f" ({row})" if row else ""  # Prefect's state of a task has no other place for it
        shown = f"; `dp-release status {release}` shows it at a terminal" if kept and begun else ""
        go_on = f"type `dp-release resume {release}`" if begun else "give the same command again"
        sentence = (
            f"{what} {ended}{why}. The message {where_kept(kept)}{shown}. {do.format(go_on=go_on)}"
        )
        error = ERRORS[kind](sentence, row=row)
    error.message_file = kept
    return error
