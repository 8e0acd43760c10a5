"""DDI Codebook (versions 1.2 to 2.6; element names as in 2.5).

Frequencies and summary statistics (`catStat`, `sumStat`) are figures about the data, so they are
not read: a bound is taken from the valid range only.
"""

from __future__ import annotations

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Role,
    Variable,
    days_of,
    description_of,
    levels_of,
    nonempty,
    numbers_of,
)
from dp_core.schema.codebooks.safe_xml import Element
from dp_core.schema.column_types.registry import Kind


def is_ddi_codebook(root: Element) -> bool:
    """Return whether an XML document is a DDI Codebook."""
    return root.tag == "codeBook"


def read_ddi_codebook(root: Element, name: str, data: str) -> Codebook:
    """Return the codebook.

    Args:
        root: The element `codeBook`.
        name: Name of its file.
        data: Name of the data file, by which the variables are chosen if the codebook describes
            several files; empty for all of the first one.

    Raises:
        BadInput: if it has no variable.
    """
    found = root.all("dataDscr", "var")
    wanted = _file(root, data)
    chosen = [one for one in found if wanted in one.attributes.get("files", "").split()]
    variables = tuple(_variable(one) for one in (chosen or found))
    if not variables:
        raise BadInput(
            f"{name} has no variables under `dataDscr`. Give a codebook that lists them."
        )
    return Codebook(
        name=name,
        form="DDI Codebook",
        title=root.words("stdyDscr", "citation", "titlStmt", "titl")
        or root.words("docDscr", "citation", "titlStmt", "titl"),
        description=root.words("stdyDscr", "stdyInfo", "abstract"),
        variables=variables,
    )


def _file(root: Element, data: str) -> str:
    """Return the identifier of the data file's description; empty if none is needed."""
    files = root.all("fileDscr")
    for one in files:
        if data and one.words("fileTxt", "fileName") == data:
            return one.attributes.get("ID", "")
    return files[0].attributes.get("ID", "") if len(files) > 1 else ""


def _variable(var: Element) -> Variable:
    name = var.attributes.get("name") or var.attributes.get("ID", "")
    pairs, absent = [], []
    for category in var.all("catgry"):
        value = category.words("catValu")
        if category.attributes.get("missing", "").upper() in ("Y", "YES", "TRUE"):
            absent.append(value)
        elif value:
            pairs.append((value, category.words("labl")))
    for invalid in var.all("invalrng", "item"):
        absent.append(invalid.attributes.get("VALUE", ""))
    for invalid in var.all("invalrng", "range"):
        ends = {invalid.attributes.get(key, "") for key in ("min", "max")}
        absent += sorted(ends)
    absent = list(dict.fromkeys(nonempty(absent)))
    valid = var.all("valrng", "item")
    if not pairs and valid:
        pairs = [(one.attributes.get("VALUE", ""), "") for one in valid]
    low = high = None
    remarks: tuple[str, ...] = ()
    for one in var.all("valrng", "range"):
        low = one.attributes.get("min") or one.attributes.get("minExclusive") or low
        high = one.attributes.get("max") or one.attributes.get("maxExclusive") or high
        if {"minExclusive", "maxExclusive"} & one.attributes.keys():
            remarks = ("the codebook excludes a bound itself; correct it",)
    kind, text = _kind(var, bool(pairs), low, high)
    decimals = var.attributes.get("dcml", "")
    whole = decimals.isdigit() and int(decimals) == 0
    if kind == "number" and whole:
        kind = "integer"
    unit = var.attributes.get("measUnit", "") or var.words("stdCatgry")
    role: Role = "weight" if var.attributes.get("wgt") else ""
    return Variable(
        name=name,
        kind="number" if role else kind,
        levels=() if role else levels_of(pairs, absent),
        minimum=low,
        maximum=high,
        decimals=int(decimals) if kind == "number" and decimals.isdigit() else None,
        missing_values=("", *absent) if absent else None,
        missing=True if absent else None,
        role=role,
        description=description_of(
            var.words("labl"), var.words("qstn", "qstnLit"), f"Unit: {unit}" if unit else ""
        ),
        text=text,
        remarks=remarks,
    )


def _kind(
    var: Element, levels: bool, low: str | None, high: str | None
) -> tuple[Kind | None, bool]:
    """Return the type of a variable, and whether it is free text."""
    if levels:
        return "ordinal" if var.attributes.get("nature") == "ordinal" else "category", False
    described = var.first("varFormat")
    form = {} if described is None else described.attributes
    if form.get("category") in ("date", "time") or days_of(low, high):
        return "date", False
    if form.get("type") == "character":
        return None, True
    continuous = var.attributes.get("intrvl") == "contin"
    if form.get("type") == "numeric" or continuous or numbers_of(low, high):
        ends = numbers_of(low, high) and "." not in f"{low}{high}"
        return "integer" if ends and not var.attributes.get("dcml") else "number", False
    return None, False
