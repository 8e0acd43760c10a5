"""The closed list of messages between the confidential process and its client.

A request is answered by one reply; before it, any number of notices may come. Everything that is
not on the list, or has other fields, is refused on both sides. A field of a reply depends on the
data only through a charged answer, the number of rows where the relation makes it public, or what
the privacy specification lists as outside epsilon: that the data were refused, or not readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, TypeAlias

from dp_core import errors
from dp_core.errors import ReleaseError
from tasks.confidential.frames import Malformed

VERSION = 1
"""Version of the protocol; both sides have the same."""

Codes: TypeAlias = Literal["stored", "final", "coarse"]
"""The codes that a question is about: as they are stored, with the privately chosen bins and
levels, or in the schema's bins instead of positions on a method's grid."""

Kinds: TypeAlias = tuple[type, ...]
Fields: TypeAlias = Mapping[str, Kinds]

_TEXT, _WHOLE = (str,), (int,)

REQUESTS: Mapping[str, Fields] = {
    # Connects to a Dask cluster, or starts the one of the spec.
    "cluster": {"address": (str, NoneType), "spec": _TEXT},
    # Opens a release whose cost is reserved; its lease stays with the client.
    "open": {
        "protocol": _WHOLE,
        "release": _TEXT,
        "spec": _TEXT,
        "out": _TEXT,
        "reservation": _TEXT,
        "fence": _WHOLE,
    },
    # The work of a stage that reads the file: `file_work.WORK` names them.
    "work": {"stage": _TEXT},
    # Whether the stored codes can be read, so that no stage must write them again.
    "readable": {},
    "grant": {"stage": _TEXT},
    "ask": {"stage": _TEXT, "codes": _TEXT, "request": (dict,)},
    "rows": {"stage": _TEXT, "codes": _TEXT},
    # Judges the sets by the schema's expectations.
    "judge": {},
}
"""What a client may send, by `type`."""

NOTICES: Mapping[str, Fields] = {
    "progress": {"stage": _TEXT, "done": (float, int)},
    "committed": {"batch": _TEXT},
}
"""What the process may send before its reply. Progress comes in tenths of a stage."""

REPLIES: Mapping[str, Fields] = {
    "done": {"as": (bool,)},
    "granted": {"grant": (dict,)},
    # Blocks: the receipts, and the noisy values of each.
    "answer": {},
    "rows": {"rows": (int, NoneType)},
    "judged": {"not_met": (list,)},
    "error": {"kind": _TEXT, "row": (str, NoneType), "sentence": _TEXT},
}
"""How the process ends a request."""

ERRORS: Mapping[str, type[ReleaseError]] = {
    kind.__name__: kind
    for kind in (
        errors.AwaitsApproval,
        errors.BadInput,
        errors.BudgetRefused,
        errors.DataRefused,
        errors.LedgerCorrupt,
        errors.SchemaViolation,
        errors.StageFailed,
    )
}
"""Errors that may cross; any other becomes `StageFailed`."""

MOST_ASKED = 1 << 30
"""Most bytes of a question; its public tables are the largest part."""
MOST_SENTENCE = 4000
"""Most characters of an error's sentence."""


def checked(message: Mapping[str, Any], of: Mapping[str, Fields]) -> str:
    """Return the type of a message, if it is on a list.

    Args:
        message: What arrived.
        of: `REQUESTS`, `NOTICES` or `REPLIES`.

    Raises:
        Malformed: if it is not, or has other fields than the list says, or fields of other types.
    """
    name = message.get("type")
    fields = of.get(name) if isinstance(name, str) else None
    if fields is None or {*message} != {"type", *fields}:
        raise Malformed(f"{name!r:.40} is no message of this protocol, or has other fields.")
    for field, kinds in fields.items():
        # True is a whole number to Python, not to this protocol.
        if type(message[field]) not in kinds:
            raise Malformed(f"The field {field!r} of the message {name!r} has another type.")
    return str(name)


def error_message(error: ReleaseError) -> dict[str, Any]:
    """Return the reply that says how a request failed; `error` must hold no data."""
    kind = type(error).__name__
    return {
        "type": "error",
        "kind": kind if kind in ERRORS else "StageFailed",
        "row": error.row,
        "sentence": error.message[:MOST_SENTENCE],
    }


def error_of(message: Mapping[str, Any]) -> ReleaseError:
    """Return the error of a reply.

    Raises:
        Malformed: if its kind is none of `ERRORS`.
    """
    kind = ERRORS.get(message["kind"])
    if kind is None:
        raise Malformed("An error of an unknown kind.")
    return kind(message["sentence"], row=message["row"])
