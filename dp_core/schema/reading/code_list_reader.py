"""Reads code lists and maps: CSV files beside the schema, or their copy in its document."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from dp_core.errors import BadInput, nearest
from dp_core.schema.bin_pieces import MAX_CODES
from dp_core.schema.code_list import (
    Code,
    CodeList,
    Grouping,
    group_texts,
    unique_labels,
    unplaced_code,
)
from dp_core.schema.definition import Level
from dp_core.schema.reading.level_reader import check_levels
from dp_core.text.documents.node import Node, in_place
from dp_core.text.documents.strict_yaml import file_start
from dp_core.text.documents.typed_text import printable, quote, utf8_text

MOST_BYTES = 64 * 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_EXAMPLE = "naics.csv"


def read_code_list(node: Node, folder: Path | None) -> CodeList:
    """Return the code list that `codes` names, or that a schema's document contains.

    Args:
        node: The name of a CSV file with the columns `code`, `label` and, if there is a hierarchy,
            `parent`; or, in a document, its content.
        folder: Folder of the schema file; None for a plain mapping, where a name is refused.

    Raises:
        BadInput: naming the file and the line.
    """
    if isinstance(node.content, Mapping):
        stored = node.fields(("sha256", "csv"), required=("sha256", "csv"))
        sha256, text, name = stored["sha256"].text(), stored["csv"].text(), node.where
        if not _SHA256.fullmatch(sha256):
            raise stored["sha256"].error("is not a SHA-256 hash in hexadecimal.")
    else:
        raw, name = _bytes(node, folder, "code list")
        sha256, text = hashlib.sha256(raw).hexdigest(), utf8_text(raw, name)
    return _code_list(text, sha256, name)


def code_list_document(codes: CodeList) -> dict[str, str]:
    """Return the content of a code list as `read_code_list` reads it, as one text for speed."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["code", "label", "parent"])
    writer.writerows([code.text, code.label, code.parent] for code in codes.codes)
    return {"sha256": codes.sha256, "csv": written.getvalue()}


def read_grouping(node: Node, codes: CodeList) -> Grouping:
    """Return the rule `group` of a column with a code list.

    Raises:
        BadInput: if the list lacks the depth or a code to keep, or a code is above the groups.
    """
    if isinstance(node.content, Mapping):
        keys = node.fields(
            ("depth", "keep"), required=("depth",), example="{depth: 2, keep: [5415]}"
        )
        place = keys["depth"]
        keep = keys["keep"].texts(example="[5415]") if "keep" in keys else ()
    else:
        place, keep = node, ()
    if not codes.has_parents:
        raise node.error(
            "groups need a hierarchy; add a column `parent` to the code list, or remove `group`."
        )
    grouping = Grouping(place.integer(minimum=1, maximum=codes.deepest), keep)
    known = codes.lines()
    for text in keep:
        if text not in known:
            raise node.error(f"keep: {quote(text)} is not in the code list.{nearest(text, known)}")
    left = unplaced_code(codes, grouping)
    if left is not None:
        raise node.error(
            f"code {quote(left)} is at depth {codes.depth(left)}, above the groups at depth"
            f" {grouping.depth}; add it to `keep`, or give it a parent."
        )
    return grouping


def levels_of_codes(
    node: Node, codes: CodeList, grouping: Grouping | None, missing_values: Sequence[str]
) -> tuple[tuple[Level, ...], tuple[tuple[str, ...], ...]]:
    """Return the levels that the codes become, and the codes of each level.

    Raises:
        BadInput: if there are too many levels, or a text or label has two meanings.
    """
    members: dict[str, list[str]] = {}
    for text, group in group_texts(codes, grouping).items():
        if group is not None:
            members.setdefault(group, []).append(text)
    if len(members) > MAX_CODES:
        raise node.error(
            f"the code list has {len(members):,} levels, and a column has at most {MAX_CODES:,};"
            " merge them with `group`."
        )
    order = [code for code in codes.codes if code.text in members]
    for text in missing_values:
        if text in codes.lines():
            raise node.error(
                f"{quote(text)} is both a code of the code list and a missing value; give the"
                " column its own `missing_values`."
            )
    labels = zip(order, unique_labels(order), strict=True)
    levels = check_levels(((node, code.text, label) for code, label in labels), missing_values)
    return levels, tuple(tuple(members[code.text]) for code in order)


def read_table(
    node: Node, folder: Path | None, columns: Sequence[str], what: str
) -> list[tuple[int, tuple[str, ...], str]]:
    """Return the rows of a CSV file beside the schema: line, the wanted columns, the file's name.

    Raises:
        BadInput: naming the file and the line.
    """
    raw, name = _bytes(node, folder, what)
    return [(line, cells, name) for line, cells in _rows(utf8_text(raw, name), name, columns, ())]


def read_pairs(node: Node, folder: Path | None, names: tuple[str, str]) -> dict[str, Node]:
    """Return a map from values of one column to nodes with the values of another.

    Args:
        node: A mapping, or the name of a CSV file whose header names both columns.
        folder: Folder of the schema file; None for a plain mapping.
        names: Names of the source and of the dependent column.

    Raises:
        BadInput: naming the file and the line.
    """
    if not isinstance(node.content, str):
        return dict(node.ordered_entries(example="{farming: primary, mining: primary}"))
    found: dict[str, Node] = {}
    for line, (text, value), name in read_table(node, folder, names, "map"):
        if text in found:
            raise _at(name, line, f"{quote(text)} is mapped twice; remove one line.")
        found[text] = Node(value, name, line)
    return found


@lru_cache(maxsize=8)  # several columns may share a list, and every stage reads it
def _code_list(text: str, sha256: str, name: str) -> CodeList:
    lines: dict[str, int] = {}
    found: list[Code] = []
    for line, (code, label, parent) in _rows(text, name, ("code", "label"), ("parent",)):
        if not code.strip():
            raise _at(name, line, "the code is empty; fill it in or remove the line.")
        if code in lines:
            first = lines[code]
            raise _at(name, line, f"code {quote(code)} is given twice, first on line {first}.")
        lines[code] = line
        found.append(Code(code, label if label.strip() else code, parent))
    if not found:
        raise BadInput(f"{name}: lists no code; add a line for each code.")
    for one in found:
        if one.parent and one.parent not in lines:
            raise _at(
                name,
                lines[one.text],
                f"the parent {quote(one.parent)} of code {quote(one.text)} is not in the list;"
                " add it.",
            )
    codes = CodeList(tuple(found), sha256)
    try:
        codes.lines()
    except ValueError as error:
        above = str(error)
        message = f"code {quote(above)} is its own ancestor; correct the column `parent`."
        raise _at(name, lines[above], message) from None
    return codes


def _rows(
    text: str, name: str, required: Sequence[str], optional: Sequence[str]
) -> list[tuple[int, tuple[str, ...]]]:
    """Return line numbers and the wanted columns of a CSV text; other columns are not read."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise BadInput(f"{name}: is empty; its first line must name the columns.")
        for column in required:
            if column not in header:
                hint = "; separate the columns by commas" if len(header) == 1 else ""
                raise BadInput(
                    f"{name}: the first line must name the columns"
                    f" {' and '.join(required)}; there is no {quote(column)}{hint}."
                )
        wanted = [*required, *optional]
        for column in wanted:
            if header.count(column) > 1:
                raise BadInput(f"{name}: two columns are named {quote(column)}; rename one.")
        places = [header.index(column) if column in header else None for column in wanted]
        found = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise _at(
                    name,
                    reader.line_num,
                    f"has {len(row)} values, but the header has {len(header)}; put quotes around a"
                    " text with a comma.",
                )
            cells = tuple("" if place is None else row[place] for place in places)
            found.append((reader.line_num, cells))
    except csv.Error:
        raise _at(name, reader.line_num, "is not valid CSV; check the quotes.") from None
    return found


def _bytes(node: Node, folder: Path | None, what: str) -> tuple[bytes, str]:
    text = node.text(example=_EXAMPLE)
    if not text.strip() or "\0" in text:
        raise node.error(f"is blank; write the name of a CSV file, such as {_EXAMPLE}.")
    if folder is None:
        raise node.error(
            f"names a file, but this schema was not read from a file, so there is no folder to look"
            f" in; load the schema file to read the {what}."
        )
    path, relative = folder / text, "Its path is relative to the schema's folder."
    raw = in_place(node, file_start, path, MOST_BYTES + 1, "a CSV file", (".csv",), relative)
    if len(raw) > MOST_BYTES:
        raise node.error(
            f"the {what} {quote(text)} is larger than {MOST_BYTES // 2**20} MB; check that"
            " it is not a data file."
        )
    return raw, printable(path.name)


def _at(name: str, line: int, message: str) -> BadInput:
    return BadInput(printable(f"{name}, line {line}: {message}"))
