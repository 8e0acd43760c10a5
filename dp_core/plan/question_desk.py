"""A question desk: the terms under which questions about a file are answered, and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput
from dp_core.kernel.privacy import Neighbours
from dp_core.plan.data_location import DatabaseTable, OnePlace, PartPlaces, read_data
from dp_core.plan.reading.spec_file import NEIGHBOURS, read_name, read_schema
from dp_core.plan.release_spec import PUBLISH, Publish
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import check_version
from dp_core.text.documents.faults import Faults, top_keys
from dp_core.text.documents.node import Node, in_place, one_of
from dp_core.text.documents.strict_yaml import load
from dp_core.text.documents.typed_text import quote
from dp_core.text.names import check_name

VERSION = 1
"""Version of the format of desk files."""
HOW_TO_WRITE = (
    "Write one: `version: 1`, `account: NAME`, `data: FILE`, `schema: FILE`, `privacy: {delta:"
    " 1e-9}` and `largest_epsilon: 0.5`, each on its own line (docs/questions.md)."
)
"""Advice for a person who names a desk file that does not exist."""
MAX_EPSILON = 100

_KEYS = ("version", "account", "data", "schema", "privacy", "largest_epsilon", "answers", "users")
_REQUIRED = ("version", "account", "data", "schema", "privacy", "largest_epsilon")
_PRIVACY = "{delta: 1.0e-9, neighbours: add-remove}"
_USERS = "{anna: {account: rand-anna}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDesk:
    """The terms under which questions about a file are answered.

    Attributes:
        account: Ledger account of the desk, which pays for every question.
        data: Path or glob of CSV or Parquet files, relative to `folder`; a URL; or a table.
        folder: Folder of the desk's file.
        schema: Schema of the whole file.
        delta: Delta of each question; 0 for pure differential privacy.
        neighbours: Neighbouring relation.
        largest_epsilon: Largest epsilon of one question.
        answers: Whether a person must approve each answer; `at-once` by default.
        users: Account of each user, within that of the desk; empty (the default) if the desk has no
            users, so that its own account alone pays.
    """

    account: str
    data: OnePlace
    folder: Path
    schema: Schema
    delta: Fraction
    neighbours: Neighbours
    largest_epsilon: Fraction
    answers: Publish = "at-once"
    users: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Return the desk as plain JSON values, for its record in the home."""
        place = self.data.document() if isinstance(self.data, DatabaseTable) else self.data
        return {
            "account": self.account,
            "data": place,
            "schema": dict(self.schema.document),
            "delta": str(self.delta),
            "neighbours": self.neighbours,
            "largest_epsilon": str(self.largest_epsilon),
            "answers": self.answers,
            "users": dict(self.users),
        }


def load_desk(path: Path) -> QuestionDesk:
    """Return the question desk that a file describes, with its schema; does not open the data.

    Args:
        path: The desk file.

    Raises:
        BadInput: for any mistake, with its file, line and key, and what is expected there. Those of
            single keys and of the schema are listed together.
    """
    root, folder = load(path, advice=HOW_TO_WRITE).root, path.absolute().parent
    faults = Faults(root.source, each=bool(root.line))
    entries = root.entries(example="`version: 1`, `account: ...`, `data: ...`")
    if "release" in entries or "columns" in entries:
        kind = "a release spec" if "release" in entries else "a schema"
        raise BadInput(f"{root.source}: is {kind}, not a question desk. {HOW_TO_WRITE}")
    keys = top_keys(root, faults, _KEYS, required=_REQUIRED)

    def of(otherwise: Any, key: str, reader: Callable[..., Any], *more: object) -> Any:
        return faults.of(otherwise, reader, keys[key], *more) if key in keys else otherwise

    of(None, "version", check_version, VERSION)
    account = of("", "account", read_name, "account")
    schema = of(None, "schema", _read_schema, folder)
    place = of("", "data", _read_place, schema)
    privacy = of(None, "privacy", _read_privacy)
    largest = of(None, "largest_epsilon", Node.epsilon, MAX_EPSILON)
    answers = of(PUBLISH[0], "answers", one_of, PUBLISH)
    users = of({}, "users", _read_users, account)
    faults.stop()
    return QuestionDesk(
        account=account,
        data=place,
        folder=folder,
        schema=schema,
        delta=privacy[0],
        neighbours=privacy[1],
        largest_epsilon=largest,
        answers=answers,
        users=users,
    )


def _read_schema(node: Node, folder: Path) -> Schema:
    schema = read_schema(node, folder)
    if schema.linked is not None:
        raise node.error(
            "has linked tables, about which a desk cannot answer questions yet; make a release."
        )
    return schema


def _read_place(node: Node, schema: Schema | None) -> OnePlace:
    place = read_data(node, schema)
    if isinstance(place, PartPlaces):  # the schema has no linked tables
        raise node.error(
            "names a file for each wave, about which a desk cannot answer questions yet; put the"
            " rows of all waves into one file, and name its column `wave` under `panel`."
        )
    return place


def _read_privacy(node: Node) -> tuple[Fraction, Neighbours]:
    keys = node.entries(example=_PRIVACY)
    if "epsilon" in keys:
        raise keys["epsilon"].error(
            "each question states its own epsilon; write the limit for one question as"
            " `largest_epsilon`, and remove this key."
        )
    keys = node.fields(("delta", "neighbours"), required=("delta",), example=_PRIVACY)
    delta = keys["delta"].fraction(minimum=0, below=1)
    return delta, one_of(keys.get("neighbours"), NEIGHBOURS)


def _read_users(node: Node, account: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, place in node.entries(example=_USERS).items():
        in_place(place, check_name, name, what="desk user")
        own = place.fields(("account",), required=("account",), example="{account: rand-anna}")
        found[name] = read_name(own["account"], "account")
        if found[name] == account:
            raise own["account"].error(
                f"is the account of the desk itself; open another one for {quote(name)} with"
                f" `dp-release ledger open {account}-{name} --within {account} ...`. Its total is"
                " the user's allowance."
            )
    if not found:
        raise node.error(f"is empty; name the users, as in {_USERS}, or remove this key.")
    return found
