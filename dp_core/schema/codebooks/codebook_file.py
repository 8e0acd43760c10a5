"""Opens a codebook of any form that is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import Codebook
from dp_core.schema.codebooks.codebook_table import read_codebook_table, read_plain_json
from dp_core.schema.codebooks.frictionless import read_frictionless
from dp_core.text.documents.strict_yaml import file_start
from dp_core.text.documents.typed_text import printable, utf8_text

MAX_BYTES = 64 * 2**20
FORMS = (
    "a Frictionless Data Package or Table Schema (.json), DDI Codebook (.xml), or a"
    " table with a row per variable or per level (.csv)"
)
_OTHERS = (
    ".yaml",
    ".yml",
    ".xlsx",
    ".xls",
    ".ods",
    ".pdf",
    ".docx",
    ".doc",
    ".sav",
    ".dta",
    ".sas7bdat",
)


def looks_like_codebook(path: Path) -> bool:
    """Return whether a file is a codebook by its name, which ends in .json, .jsonld or .xml."""
    return path.name.lower().endswith((".json", ".jsonld", ".xml"))


def read_codebook(path: Path, data: str = "") -> Codebook:
    """Return what a codebook says.

    Args:
        path: The codebook: JSON, XML or CSV.
        data: Name of the data file, for codebooks of several files; empty by default.

    Raises:
        BadInput: if it cannot be read, or is of another form; the message names the forms.
    """
    name = printable(path.name)
    raw = _read(path, name)
    if name.lower().endswith(_OTHERS) or raw.startswith(b"PAR1"):
        raise BadInput(f"{name} is not a codebook. Export it as {FORMS}.")
    start = raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"<" or raw[:4] in (b"\xff\xfe<\0", b"\xfe\xff\0<"):
        from dp_core.schema.codebooks.ddi import read_ddi

        if (found := read_ddi(raw, name, data)) is None:
            raise BadInput(f"{name} is XML, but not DDI Codebook. Give {FORMS}.")
        return found
    text = _utf8(raw, name)
    if start not in (b"{", b"["):
        return read_codebook_table(text, name)
    document = _json(text, name)
    book = read_frictionless(document, name, data, lambda other: _beside(path, other))
    if (book := book or read_plain_json(document, name)) is None:
        raise BadInput(
            f"{name} has neither `fields` nor `resources` (Frictionless), nor `columns`. Give"
            f" {FORMS}."
        )
    return book


def _beside(path: Path, other: str) -> Any:
    """Load a JSON document that a package names; it must lie in the package's folder or below."""
    here = path.parent.resolve()
    beside = here if "\0" in other else (path.parent / other).resolve()
    if "://" in other or here not in beside.parents:
        raise BadInput(
            f"{path.name} refers to the schema {other!r}, which is not in its folder. Copy it"
            " there."
        )
    return _json(_utf8(_read(beside, beside.name), beside.name), beside.name)


def _json(text: str, name: str) -> Any:
    """Return a JSON document whose numbers are the texts as typed."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"Line {error.lineno} of {name} is not valid JSON ({error.msg}). Check commas, quotes"
            " and brackets."
        ) from None
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply. Give a codebook.") from None


def _utf8(raw: bytes, name: str) -> str:
    """Return the text of a codebook; its error has no row of the runbook, which is about data."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in raw[:4]:
        raise BadInput(f"{name} is not UTF-8 text but UTF-16. Save it as UTF-8.")
    try:
        return utf8_text(raw, name)
    except BadInput as error:
        raise BadInput(error.message) from None


def _read(path: Path, name: str) -> bytes:
    raw = file_start(path, MAX_BYTES + 1, "a codebook")
    if not raw.strip():
        raise BadInput(f"{name} is empty. Give {FORMS}.")
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{name} is larger than {MAX_BYTES // 2**20} MB. Give a codebook, not data.")
    return raw
