"""Reads `questions.yaml`: checks the terms of a question desk and fills in every default."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from dp_core.errors import BadInput
from dp_core.plan.data_location import OnePlace, PartPlaces
from dp_core.plan.desk.question_desk import ANSWERS, QuestionDesk
from dp_core.plan.reading.data_reader import read_data, read_path
from dp_core.schema.definition import Schema
from dp_core.schema.privacy import Neighbours
from dp_core.schema.reading.schema_file import check_version, load_schema
from dp_core.text.documents.faults import Faults, top_keys
from dp_core.text.documents.node import Node, one_of
from dp_core.text.documents.strict_yaml import load
from dp_core.text.documents.typed_text import shown
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
_NEIGHBOURS: tuple[Neighbours, ...] = ("add-remove", "replace-one")


def load_desk(path: Path) -> QuestionDesk:
    """Return the question desk that a file describes, with its schema; does not open the data.

    Args:
        path: The desk file.

    Raises:
        BadInput: for any mistake, with its file, line and key, and what is expected there.
    """
    root = load(path, advice=HOW_TO_WRITE).root
    return read_desk(root, path.absolute().parent)


def read_desk(root: Node, folder: Path) -> QuestionDesk:
    """Return the question desk that the top value of a file describes.

    Args:
        root: The top value.
        folder: Folder to which the paths in it are relative.

    Raises:
        BadInput: for any fault; those of single keys and of the schema are listed together.
    """
    faults = Faults(root.source, each=bool(root.line))
    of = faults.of
    entries = root.entries(example="`version: 1`, `account: ...`, `data: ...`")
    if "release" in entries or "columns" in entries:
        kind = "a release spec" if "release" in entries else "a schema"
        raise BadInput(f"{root.source}: is {kind}, not a question desk. {HOW_TO_WRITE}")
    keys = top_keys(root, faults, _KEYS, required=_REQUIRED)
    if "version" in keys:
        of(None, check_version, keys["version"], VERSION)
    account = of("", _read_account, keys["account"]) if "account" in keys else ""
    schema = of(None, _read_schema, keys["schema"], folder) if "schema" in keys else None
    place = of("", _read_place, keys["data"], schema) if "data" in keys else ""
    privacy = of(None, _read_privacy, keys["privacy"]) if "privacy" in keys else None
    largest = (
        of(None, keys["largest_epsilon"].fraction, above=0, maximum=MAX_EPSILON)
        if "largest_epsilon" in keys
        else None
    )
    answers = of(ANSWERS[0], one_of, keys.get("answers"), ANSWERS)
    users = of({}, _read_users, keys["users"], account) if "users" in keys else {}
    faults.stop()
    assert schema is not None
    assert privacy is not None
    assert largest is not None
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


def _read_account(node: Node) -> str:
    try:
        return check_name(node.text(example="rand"), what="account")
    except BadInput as error:
        raise node.error(error.message) from None


def _read_schema(node: Node, folder: Path) -> Schema:
    path = folder / read_path(node)
    try:
        schema = load_schema(path)
    except BadInput as error:
        # A wrong path is a mistake in this file; any other error is in the schema.
        if path.is_file():
            raise
        raise node.error(error.message) from None
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
    return delta, one_of(keys.get("neighbours"), _NEIGHBOURS)


def _read_users(node: Node, account: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, place in node.entries(example=_USERS).items():
        try:
            check_name(name, what="desk user")
        except BadInput as error:
            raise place.error(error.message) from None
        own = place.fields(("account",), required=("account",), example="{account: rand-anna}")
        found[name] = _read_account(own["account"])
        if found[name] == account:
            raise own["account"].error(
                f"is the account of the desk itself; open another one for {shown(name)} with"
                f" `dp-release ledger open {account}-{name} --within {account} ...`. Its total is"
                " the user's allowance."
            )
    if not found:
        raise node.error(f"is empty; name the users, as in {_USERS}, or remove this key.")
    return found
