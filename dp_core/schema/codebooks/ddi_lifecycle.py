"""DDI Lifecycle (3.1 to 3.3): variables with their representations, code lists and categories.

Only what a schema needs is read: names, labels, code lists, ranges, decimals and missing values.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Variable,
    description_of,
    levels_of,
    nonempty,
)
from dp_core.schema.codebooks.safe_xml import Element
from dp_core.schema.column_types.registry import Kind

_ROOTS = frozenset(("DDIInstance", "FragmentInstance"))
_LISTS = ("CodeList", "CodeScheme")


def is_ddi_lifecycle(root: Element) -> bool:
    """Return whether an XML document is a DDI Lifecycle instance."""
    return root.tag in _ROOTS


def read_ddi_lifecycle(root: Element, name: str) -> Codebook:
    """Return the codebook of all variables of an instance.

    Args:
        root: The root element.
        name: Name of its file.

    Raises:
        BadInput: if it has no variable.
    """
    labels = {_id(one): _label(one) for one in root.below("Category")}
    lists = {_id(one): _codes(one, labels) for one in root.below(*_LISTS)}
    variables = tuple(_variable(one, lists) for one in root.below("Variable"))
    if not variables:
        raise BadInput(f"{name} has no variables. Give an instance with a `VariableScheme`.")
    citations = root.below("Citation")
    title = citations[0].words("Title") if citations else ""
    return Codebook(name=name, form="DDI Lifecycle", title=title, variables=variables)


def _id(element: Element) -> str:
    return element.words("ID") or element.attributes.get("id", "")


def _label(element: Element) -> str:
    return element.words("Label") or element.words("CategoryName")


def _codes(element: Element, labels: Mapping[str, str]) -> list[tuple[str, str]]:
    found = []
    for code in element.below("Code"):
        reference = code.first("CategoryReference")
        label = "" if reference is None else labels.get(_id(reference), "")
        found.append((code.words("Value"), label))
    return found


def _variable(element: Element, lists: Mapping[str, list[tuple[str, str]]]) -> Variable:
    name = element.words("VariableName") or element.words("Name") or _id(element)
    representations = [
        one for part in element.all("VariableRepresentation") for one in part.children
    ] + [one for part in element.all("Representation") for one in part.children]
    kind: Kind | None = None
    pairs: list[tuple[str, str]] = []
    absent: list[str] = []
    low = high = None
    decimals = None
    text = False
    role = (
        "weight"
        if any(one.tag in ("WeightingRole", "WeightVariableReference") for one in representations)
        else ""
    )
    for one in representations:
        absent += one.attributes.get("missingValue", "").split()
        match one.tag:
            case "CodeRepresentation":
                reference = one.first("CodeListReference") or one.first("CodeSchemeReference")
                pairs = [] if reference is None else lists.get(_id(reference), [])
                kind = (
                    "ordinal"
                    if "rdinal" in one.attributes.get("classificationLevel", "")
                    else ("category")
                )
            case "NumericRepresentation":
                low = one.words("NumberRange", "Low") or low
                high = one.words("NumberRange", "High") or high
                stated = one.words("NumericTypeCode") or one.attributes.get("type", "")
                places = one.attributes.get("decimalPositions", "")
                whole = "nteger" in stated or "Long" in stated or places == "0"
                kind = "integer" if whole else "number"
                decimals = int(places) if places.isdigit() and kind == "number" else None
            case "DateTimeRepresentation":
                kind = "date"
            case "TextRepresentation":
                text = True
    absent = list(dict.fromkeys(nonempty(absent)))
    return Variable(
        name=name,
        kind="number" if role else kind,
        levels=levels_of(pairs, absent) if not role else (),
        minimum=low,
        maximum=high,
        decimals=decimals,
        missing_values=("", *absent) if absent else None,
        missing=True if absent else None,
        role="weight" if role else "",
        description=description_of(element.words("Label"), element.words("Description")),
        text=text,
    )
