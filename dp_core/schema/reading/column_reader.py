"""Reads one column of a schema: its levels or bins, and its policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from dp_core.errors import similar
from dp_core.schema.bin_edges import MAX_CODES, Scale, empty_bin, exact_text, read_bins
from dp_core.schema.definition import (
    MISSING_LABEL,
    Column,
    DensityWord,
    Kind,
    Level,
    Missing,
    OutOfRange,
    Role,
)
from dp_core.schema.reading.code_list_reader import levels_of_codes, read_code_list, read_grouping
from dp_core.schema.reading.known_totals.calibration_reader import check_weight
from dp_core.schema.reading.private_domain_reader import (
    groups_of_codes,
    is_private,
    levels_by_group,
    with_private_bins,
    with_private_levels,
)
from dp_core.schema.reading.survey_reader import check_design_column
from dp_core.text.documents.decimal_commas import decimal_list, parted
from dp_core.text.documents.likely_meant import labelled, whole_range
from dp_core.text.documents.node import Node, one_of
from dp_core.text.documents.typed_text import shown

KINDS: tuple[Kind, ...] = ("category", "ordinal", "integer", "number", "date")
_MISSING: tuple[Missing, ...] = ("reject", "level")
OUT_OF_RANGE: tuple[OutOfRange, ...] = ("reject", "clip", "missing")
DENSITIES: tuple[DensityWord, ...] = ("fitted", "uniform")
ROLES = ("id", "weight", "stratum", "cluster", "replicate_weight")
UNREAD = ("id", "replicate_weight")
"""Roles of columns that are neither read nor released."""
_MODELLED: tuple[Role, ...] = ("weight", "stratum", "cluster")
_COMMON = ("type", "description", "role", "missing", "missing_values", "out_of_range")
_LEVELLED = ("levels", "groups", "codes", "group", "follows", "map", "within")
_BINNED = ("min", "max", "bins", "edges", "density")
_PRIVATE = r"private(?:\W+([0-9]+))?"
"""A private choice of levels as it is typed without braces."""
COLUMN_EXAMPLE = "{type: integer, min: 0, max: 80}"
_LISTS = ("levels", "missing_values", "edges")
_LISTED = "list them under `levels`, as [low, high] or {1: low, 2: high}"
OTHER_KEYS = {
    **dict.fromkeys(("values", "categories", "enum", "choices", "labels", "codelist"), _LISTED),
    **dict.fromkeys(("range", "between", "limits", "bounds"), "state `min` and `max`"),
    **dict.fromkeys(("breaks", "cuts", "breakpoints"), "write `edges: [0, 10, 20]`"),
    **dict.fromkeys(
        ("optional", "required", "nullable", "allow_missing"),
        "write `missing: level` if values may be missing",
    ),
    **dict.fromkeys(("label", "title", "question", "unit", "units"), "write it in `description`"),
    **dict.fromkeys(("na_values", "na", "null", "nulls"), 'write `missing_values: ["", NA]`'),
    "constant": "only a panel has constant columns; state its waves under `panel`",
    "waves": "only a panel has columns of some waves; state all its waves under `panel`",
    "name": "the column's name is the key in front of the braces",
    "minimum": "write `min`",
    "maximum": "write `max`",
    "precision": "write `decimals`",
    "private": "write `levels: {private: 20}`, or `bins: {private: 12}` for numbers and dates",
    "rest": "write it inside `levels`, as in `levels: {private: 200, rest: drawn}`",
}
_OTHER_KINDS = {
    **dict.fromkeys(
        ("string", "str", "text", "char", "character", "varchar", "object"),
        "write category and list its `levels`, or name the column under `ignore`",
    ),
    **dict.fromkeys(("int", "int32", "int64", "long", "count", "discrete"), "write integer"),
    **dict.fromkeys(
        ("float", "float64", "double", "real", "decimal", "numeric", "continuous", "num"),
        "write number",
    ),
    **dict.fromkeys(
        ("factor", "nominal", "categorical", "enum", "code", "codes", "multinomial"),
        "write category and list its `levels`",
    ),
    **dict.fromkeys(
        ("bool", "boolean", "logical", "binary", "dummy", "flag"),
        "write category with the two texts of the file, such as `levels: [false, true]`",
    ),
    **dict.fromkeys(("ordered", "likert", "rank"), "write ordinal and list its `levels` in order"),
    **dict.fromkeys(("datetime", "timestamp", "time", "day"), "write date"),
    **dict.fromkeys(("id", "identifier", "key"), "give the column `role: id` and no type"),
    "weight": "write `type: number, role: weight`",
    "year": "write integer, or date if the file has days",
}
"""Names of types in other programs, and what to write instead."""


def read_column(
    name: str,
    node: Node,
    missing_values: tuple[str, ...],
    out_of_range: OutOfRange,
    folder: Path | None,
    density: DensityWord = "fitted",
) -> Column:
    """Return a column as the schema defines it.

    Args:
        name: The column's name.
        node: Its definition.
        missing_values: The file's texts for missing, used if the column states none.
        out_of_range: The file's policy, used if the column states none.
        folder: Folder of the schema file, where code lists are found; None for a plain mapping.
        density: The file's density within public bins, used if the column states none.

    Raises:
        BadInput: naming file, line, key and what is expected there.
    """
    if not name.strip():
        raise node.error("a column name must not be blank.")
    all_keys = (*_COMMON, *_LEVELLED, *_BINNED, "decimals", "format")
    _check_cut_count(node)
    keys = node.fields(
        all_keys, required=("type",), example=COLUMN_EXAMPLE, lists=_LISTS, others=OTHER_KEYS
    )
    kind = _read_kind(keys["type"])
    for key in keys:
        if key not in _allowed(kind):
            owners = [other for other in KINDS if key in _allowed(other)]
            raise keys[key].error(
                f"is a key of the type {' or '.join(owners)}, not of {kind};"
                " change the type or remove the key."
            )
    if "map" in keys:
        raise keys["map"].error(
            "maps the levels to those of another column; name that column with `follows`, or with"
            " `within` if each level lies in one of its levels."
        )
    missing = _read_missing(keys.get("missing"))
    if "missing_values" in keys:
        missing_values = keys["missing_values"].texts(example='["", "?"]')
    column = Column(
        name=name,
        kind=kind,
        missing=missing,
        missing_values=missing_values,
        out_of_range=_column_out_of_range(node, keys, kind, missing, out_of_range),
        description=keys["description"].text() if "description" in keys else "",
    )
    if kind == "category" or kind == "ordinal":
        column = _with_levels(column, node, keys, folder)
    else:
        column = _with_bins(column, node, keys, kind)
        column = replace(column, density=_density(keys.get("density"), column, density))
    if "role" in keys:
        column = _with_role(column, keys["role"])
    if max(column.size, column.stored.size) > MAX_CODES:
        size = max(column.size, column.stored.size)
        raise node.error(f"has {size:,} codes; a column has at most {MAX_CODES:,}.")
    return column


def _read_kind(node: Node) -> Kind:
    """Return the type of a column; a type of another program is refused with this one's name."""
    word = node.content.lower() if isinstance(node.content, str) else ""
    if word not in KINDS and word in _OTHER_KINDS:
        raise node.error(f"{shown(node.text())} is not a type here; {_OTHER_KINDS[word]}.")
    return one_of(node, KINDS)


def _read_missing(node: Node | None) -> Missing:
    text = None if node is None else node.content
    if node is None or text is None or (isinstance(text, str) and similar(text, _MISSING)):
        return one_of(node, _MISSING)
    raise node.error(
        "says what happens to missing values, reject or level; write level if they may occur, and"
        " list the texts that mean missing under `missing_values`."
    )


def _with_role(column: Column, node: Node) -> Column:
    node.choice(ROLES)
    word = one_of(node, _MODELLED)
    if word == "weight":
        check_weight(column, node)
    else:
        check_design_column(column, node)
    return replace(column, role=word)


def _allowed(kind: Kind) -> tuple[str, ...]:
    if kind in ("category", "ordinal"):
        return _COMMON + _LEVELLED
    own = {"number": ("decimals",), "date": ("format",)}.get(kind, ())
    return (*_COMMON, *_BINNED, *own)


def _column_out_of_range(
    node: Node, keys: Mapping[str, Node], kind: Kind, missing: Missing, default: OutOfRange
) -> OutOfRange:
    levelled = kind in ("category", "ordinal")
    own = keys.get("out_of_range")
    policy = one_of(own, OUT_OF_RANGE) if own is not None else default
    if policy == "missing" and missing != "level":
        raise node.error(
            "out_of_range: missing needs `missing: level`; add it to this column, or give the"
            " column `out_of_range: reject`."
        )
    if policy == "clip" and levelled:
        if own is not None:
            raise own.error(f"a {kind} has no nearest level to clip to; write reject or missing.")
        return "reject"
    return policy


def _with_levels(
    column: Column, node: Node, keys: Mapping[str, Node], folder: Path | None
) -> Column:
    private = is_private(keys)
    if private and column.kind == "ordinal":
        raise keys["levels"].error(
            "the levels of an ordinal cannot be chosen privately, because the levels that are not"
            " kept would lose their order; write `type: category`, or list the levels."
        )
    if "groups" in keys and "codes" in keys:
        raise keys["groups"].error("the groups follow from the code list; remove `groups`.")
    if "groups" in keys and not private:
        raise keys["groups"].error(
            "`groups` is for levels that are chosen privately; write `levels: {private: 20}` with"
            " the number of levels to keep, or remove `groups`."
        )
    if "codes" not in keys:
        if "group" in keys:
            other = ", or write `groups` and list the levels" if private else ""
            raise keys["group"].error(f"needs a code list; add `codes: FILE.csv`{other}.")
        if not private:
            return replace(column, levels=_read_levels(node, keys, column.missing_values))
        merged, groups = levels_by_group(keys)
        levels = _read_levels(node, {"levels": merged}, column.missing_values)
        return with_private_levels(replace(column, levels=levels), keys, groups)
    if "levels" in keys and not private:
        raise keys["levels"].error("give levels or codes, not both.")
    codes = read_code_list(keys["codes"], folder)
    grouping = read_grouping(keys["group"], codes) if "group" in keys else None
    levels, members = levels_of_codes(keys["codes"], codes, grouping, column.missing_values)
    column = replace(column, levels=levels, stands_for=members, codes=codes, grouping=grouping)
    return with_private_levels(column, keys, groups_of_codes(column, keys)) if private else column


def _read_levels(
    column: Node, keys: Mapping[str, Node], missing_values: tuple[str, ...]
) -> tuple[Level, ...]:
    example = "[low, high] or {1: low, 2: high}"
    if "levels" not in keys:
        raise column.error(
            f"the key 'levels' is missing; list the texts of the file, such as {example}, or name a"
            " code list with `codes: FILE.csv`."
        )
    node = keys["levels"]
    if isinstance(node.content, str) and (typed := re.fullmatch(_PRIVATE, node.content)):
        raise node.error(
            f"write {{private: {typed[1] or 20}}} with the number of levels to keep, and list all"
            " levels under `groups`."
        )
    if not isinstance(node.content, Mapping | tuple):
        node.items(example=example)  # raises, saying what to write
    if isinstance(node.content, Mapping) and _is_set(node.content):
        raise node.error(f"must be a list; write [{', '.join(node.content)}] in brackets.")
    if isinstance(node.content, tuple) and len(node.content) == 1 and not node.content[0].quoted:
        text = node.content[0].content
        if isinstance(text, str) and ";" in text.strip(";"):
            raise node.error(f"separate levels by commas: {parted([text])}.")
        if isinstance(text, str) and (numbers := whole_range(text)):
            raise node.error(
                f"{shown(text)} is one level; write {numbers}, or put it in quotes if the file has"
                " this text."
            )
    entries = node.ordered_entries(example=example, bare=True)
    pairs = [(text, place, place.text()) for text, place in entries.items()]
    if not pairs:
        raise node.error(
            f"no level is listed; list the texts the file may hold, such as {example}."
        )
    labels: dict[str, str] = {}
    for text, place, label in pairs:
        for word in (text, label):
            if word in missing_values:
                raise place.error(
                    f"{shown(word)} is both a level and a missing value; remove the level, or give"
                    " the column its own `missing_values`."
                )
        if not label.strip():
            raise place.error(f'level {shown(text)} needs a label, as in {{"{text}": none}}.')
        if label in labels:
            raise place.error(f"{shown(text)} and {shown(labels[label])} have the same label.")
        if label == MISSING_LABEL:
            raise place.error(
                f"{shown(label)} is reserved for missing values; choose another label."
            )
        labels[label] = text
    if meant := labelled(text for text, _, label in pairs if text == label):
        said = ", ".join(f"{code}: {label}" for code, label in list(meant.items())[:3])
        raise node.error(f"codes with labels are written as a mapping: {{{said}}}.")
    return tuple(Level(text, label) for text, _, label in pairs)


def _with_bins(column: Column, node: Node, keys: Mapping[str, Node], scale: Scale) -> Column:
    decimals = None
    if "decimals" in keys:
        if found := re.fullmatch(r"0?[.,](0*1)", str(keys["decimals"].content)):
            raise keys["decimals"].error(
                f"is a number of digits after the decimal point; write {len(found[1])}."
            )
        decimals = keys["decimals"].integer(minimum=0, maximum=15)
    column = replace(
        column,
        decimals=decimals,
        format=_read_format(keys["format"]) if "format" in keys else "",
    )
    if "bins" in keys and isinstance(keys["bins"].content, tuple):
        raise keys["bins"].error("is a number of bins; write a list of edges under `edges`.")
    _check_bin_count(keys.get("bins"), scale)
    if "edges" in keys:
        _check_edges(keys["edges"], scale)
    if "edges" in keys and isinstance(count := keys["edges"].content, str) and count.isdigit():
        raise keys["edges"].error(
            f"is a list of bin edges; for {count} bins of equal width write `bins: {count}`."
        )
    if "edges" not in keys and "bins" in keys and isinstance(keys["bins"].content, Mapping):
        return with_private_bins(column, node, keys, scale)
    bins = read_bins(node, keys, scale)
    if decimals is not None and (empty := empty_bin(bins.edges, decimals)):
        raise keys["decimals"].error(
            f"the bin from {exact_text(empty[0])} to {exact_text(empty[1])} contains no number of"
            f" {decimals} decimals; allow more decimals or make fewer bins."
        )
    return replace(column, edges=bins.edges, minimum=bins.minimum, maximum=bins.maximum)


def _is_set(entries: Mapping[str, Node]) -> bool:
    """Return whether `{a, b}` was written: keys on one line, and none with a value."""
    lines = {value.line for value in entries.values()}
    return len(entries) > 1 and len(lines) == 1 and all(v.content is None for v in entries.values())


def _check_edges(node: Node, scale: Scale) -> None:
    """Refuse edges that decimal commas or semicolons divide in the wrong places."""
    if not isinstance(node.content, tuple):
        return
    texts = [str(item.content) for item in node.content]
    if any(";" in text for text in texts):
        raise node.error(f"separate values by commas: {parted(texts)}.")
    if scale == "number" and (meant := decimal_list(texts)):
        raise node.error(f"edges must increase; if these commas are decimal commas, write {meant}.")


def _check_cut_count(node: Node) -> None:
    """Refuse `bins: 0,5` in braces, where the comma ends the value."""
    entries = node.entries(example=COLUMN_EXAMPLE)
    for (key, value), (rest, nothing) in pairwise(entries.items()):
        if key != "bins" or nothing.content is not None:
            continue
        if re.fullmatch(r"[0-9]+\s*[-–]\s*[0-9]+", rest):
            raise value.error("is a number of bins; write a list of edges under `edges`.")
        if rest.isdecimal() and len(rest) != 3:
            text = f"{value.content},{rest}"
            _check_bin_count(replace(value, content=text), "number")


def _check_bin_count(node: Node | None, scale: Scale) -> None:
    """Refuse a decimal number, probably the width of a bin, as the number of bins."""
    text = node.content if node is not None else None
    if node is None or not isinstance(text, str) or scale == "date":
        return
    if re.fullmatch(r"[0-9]*[.,][0-9]+", text) and not re.search("[.,]0+$", text):
        raise node.error(
            f"{shown(text)} is not a number of bins; write a whole number, or a list of edges under"
            " `edges`."
        )


def _density(own: Node | None, column: Column, default: DensityWord) -> DensityWord:
    if column.choice is None:
        return default if own is None else one_of(own, DENSITIES)
    if own is not None:
        raise own.error(
            "bins that are chosen privately have a density of their own, from the noisy counts that"
            " choose them; remove `density`, or state `edges`."
        )
    return "fitted"


def _read_format(node: Node) -> str:
    text = node.name()
    if "%y" in text:
        raise node.error("%y has no century; the file needs years of four digits, %Y.")
    if sorted(re.findall("%.?", text)) != ["%Y", "%d", "%m"]:
        meant = text
        for part, letters in (("%Y", "[Yy]{4}"), ("%m", "[Mm]{2}"), ("%d", "[Dd]{2}")):
            meant = re.sub(letters, part, meant, count=1)
        if sorted(re.findall("%.?", meant)) == ["%Y", "%d", "%m"]:
            raise node.error(f'{shown(text)} is not a date format here; write "{meant}".')
        raise node.error(
            f"{shown(text)} is not a date format; use %d, %m and %Y once each, as in %d.%m.%Y."
        )
    return text
