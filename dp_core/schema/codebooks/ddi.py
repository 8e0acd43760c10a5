"""DDI Codebook in XML (1.2 to 2.6; element names as in 2.5).

Frequencies and summary statistics (`catStat`, `sumStat`) are figures about the data, so they are
not read: a bound is taken from the valid range only. A document type declaration is refused: an
entity can expand to gigabytes or name a file, and nothing is loaded.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Variable,
    days_of,
    description_of,
    nonempty,
    numbers_of,
)
from dp_core.schema.codebooks.codebook_table import variable_of

MAX_DEPTH = 200
MAX_ELEMENTS = 1_000_000


def read_ddi(raw: bytes, name: str, data: str) -> Codebook | None:
    """Return the codebook of a DDI document; None if the XML is no DDI Codebook.

    Args:
        raw: The document.
        name: Name of its file.
        data: Name of the data file, by which the variables are chosen if the document describes
            several files; empty for all of the first one.

    Raises:
        BadInput: if it is not XML, has a document type or an encoding that is not read, is nested
            deeper than `MAX_DEPTH`, has more than `MAX_ELEMENTS` elements, or no variable.
    """
    root = _xml_root(raw, name)
    if root.tag != "codeBook":
        return None
    found = root.findall("dataDscr/var")
    files = root.findall("fileDscr")
    named = [one for one in files if data and _words(one, "fileTxt/fileName") == data]
    # The variables of a single file need no name of it.
    described = named or (files if len(files) > 1 else [])
    wanted = described[0].get("ID", "") if described else ""
    chosen = [one for one in found if wanted in one.get("files", "").split()]
    if not found:
        raise BadInput(
            f"{name} has no variables under `dataDscr`. Give a codebook that lists them."
        )
    return Codebook(
        name=name,
        form="DDI Codebook",
        title=_words(root, "stdyDscr/citation/titlStmt/titl")
        or _words(root, "docDscr/citation/titlStmt/titl"),
        description=_words(root, "stdyDscr/stdyInfo/abstract"),
        variables=tuple(map(_of_codebook, chosen or found)),
    )


class _Builder(ElementTree.TreeBuilder):
    """Builds elements without their namespaces, within limits."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._depth, self._number = name, 0, 0

    def start(self, tag: str, attributes: dict[str, str]) -> Any:
        self._depth, self._number = self._depth + 1, self._number + 1
        if self._number > MAX_ELEMENTS:
            raise BadInput(
                f"{self._name} has more than {MAX_ELEMENTS:,} elements. Give a smaller codebook."
            )
        if self._depth > MAX_DEPTH:
            raise BadInput(f"{self._name} is nested deeper than {MAX_DEPTH} elements.")
        return super().start(_local(tag), {_local(key): text for key, text in attributes.items()})

    def end(self, tag: str) -> Any:
        self._depth -= 1
        return super().end(_local(tag))

    def doctype(self, *_what: object) -> None:
        raise BadInput(
            f"{self._name} has a document type (<!DOCTYPE ...>), which is not read because it can"
            " load other files. Remove that line."
        )


def _xml_root(raw: bytes, name: str) -> Element:
    parser = ElementTree.XMLParser(target=_Builder(name))
    try:
        parser.feed(raw)
        return parser.close()
    except (LookupError, ValueError):  # Python would have to read the declared encoding
        raise BadInput(f"{name} has an encoding that is not read. Save it as UTF-8.") from None
    except ElementTree.ParseError as error:
        raise BadInput(
            f"Line {error.position[0]} of {name} is not valid XML ({error.msg}). Export it again."
        ) from None


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _words(element: Element, path: str) -> str:
    """Return the text of the first element at a path, with all elements in it, on one line."""
    found = element.find(path)
    return "" if found is None else " ".join(" ".join(found.itertext()).split())


def _of_codebook(var: Element) -> Variable:
    pairs, absent = [], []
    for category in var.findall("catgry"):
        value = _words(category, "catValu")
        if category.get("missing", "").upper() in ("Y", "YES", "TRUE"):
            absent.append(value)
        elif value:
            pairs.append((value, _words(category, "labl")))
    absent += [one.get("VALUE", "") for one in var.findall("invalrng/item")]
    for invalid in var.findall("invalrng/range"):
        absent += sorted({invalid.get(key, "") for key in ("min", "max")})
    pairs = pairs or [(one.get("VALUE", ""), "") for one in var.findall("valrng/item")]
    low = high = ""
    remarks = []
    for one in var.findall("valrng/range"):
        low = one.get("min") or one.get("minExclusive") or low
        high = one.get("max") or one.get("maxExclusive") or high
        if {"minExclusive", "maxExclusive"} & one.attrib.keys():
            remarks = ["the codebook excludes a bound itself; correct it"]
    if sparse := _few_labelled(var, pairs):
        remarks.append(
            f"the codebook says numeric, but only {' and '.join(sparse)} have labels: if other"
            " values occur, write `type: integer` with min and max"
        )
    if told := _instructed(var, {text for text, _ in pairs} | {*absent}):
        remarks.append(
            f"the codebook's coding instructions say {'; '.join(told)}: list what means missing"
            " under `missing_values`"
        )
    cells = {
        "type": "number" if var.get("wgt") else _type(var, bool(pairs), low, high),
        "role": "weight" if var.get("wgt") else "",
        "min": low,
        "max": high,
        "decimals": var.get("dcml", ""),
        "unit": var.get("measUnit", "") or _words(var, "stdCatgry"),
        "label": description_of(_words(var, "labl"), _words(var, "qstn/qstnLit")),
    }
    name, absent = var.get("name", "") or var.get("ID", ""), list(dict.fromkeys(nonempty(absent)))
    return variable_of(name, cells, [] if var.get("wgt") else pairs, absent, remarks=remarks)


def _few_labelled(var: Element, pairs: list[tuple[str, str]]) -> list[str]:
    """Return the labelled codes of a numeric variable if they are few and far from each other."""
    described = var.find("varFormat")
    codes = [int(text) for text, _ in pairs if re.fullmatch(r"-?[0-9]{1,18}", text)]
    if described is None or described.get("type") != "numeric" or not 1 < len(pairs) <= 3:
        return []
    apart = len(codes) == len(pairs) and max(codes) - min(codes) > 10
    return [text for text, _ in pairs] if apart else []


def _instructed(var: Element, known: set[str]) -> list[str]:
    """Return the lines `CODE = LABEL` of the coding instructions about codes not in a list."""
    element = var.find("codInstr")
    lines = "" if element is None else "\n".join(element.itertext())
    found = re.findall(r"^\s*(-?[0-9.]+)\s*=\s*(\S.*?)\s*$", lines, re.MULTILINE)
    return [f"{code} = {label}" for code, label in found[:9] if code not in known]


def _type(var: Element, levels: bool, low: str, high: str) -> str:
    """Return the type of a variable in the words of a codebook that is a table."""
    if levels:
        return "ordinal" if var.get("nature") == "ordinal" else "category"
    described = var.find("varFormat")
    form = {} if described is None else described.attrib
    if form.get("category") in ("date", "time") or days_of(low, high):
        return "date"
    if form.get("type") == "character":
        return "text"
    decimals = var.get("dcml", "")
    if decimals.isdigit() and int(decimals) == 0:
        return "integer"
    if form.get("type") == "numeric" or var.get("intrvl") == "contin" or numbers_of(low, high):
        whole = numbers_of(low, high) and "." not in f"{low}{high}" and not decimals
        return "integer" if whole else "number"
    return ""
