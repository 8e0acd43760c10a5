"""Reads one column of a schema: its levels or bins, and its policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dp_core.schema.bin_pieces import MAX_CODES, check_missing, empty_bin, exact_text
from dp_core.schema.column_types.registry import Kind, column_type, words
from dp_core.schema.definition import Column, DensityWord, Level, Missing, OutOfRange, Role
from dp_core.schema.reading.code_list_reader import levels_of_codes, read_code_list, read_grouping
from dp_core.schema.reading.domain_reader import (
    groups_of_codes,
    is_private,
    levels_by_group,
    read_bins,
    with_private_bins,
    with_private_levels,
)
from dp_core.schema.reading.level_reader import check_levels, check_public
from dp_core.text.documents.node import Node, one_of
from dp_core.text.documents.typed_text import quote

_MISSING: tuple[Missing, ...] = ("reject", "level")
OUT_OF_RANGE: tuple[OutOfRange, ...] = ("reject", "clip", "missing")
DENSITIES: tuple[DensityWord, ...] = ("fitted", "uniform")
ROLES = ("id", "weight", "stratum", "cluster", "replicate_weight")
UNREAD = ("id", "replicate_weight")
"""Roles of columns that are neither read nor released."""
_MODELLED: tuple[Role, ...] = ("weight", "stratum", "cluster")
_COMMON = ("type", "description", "role", "missing", "missing_values", "out_of_range")
COLUMN_EXAMPLE = "{type: integer, min: 0, max: 80}"


@dataclass(frozen=True, slots=True)
class Policies:
    """What a schema states once for columns that do not state it themselves.

    Attributes:
        missing_values: Texts for missing.
        out_of_range: What happens to values outside the schema.
        density: Density within public bins.
        folder: Folder of the schema file, where code lists are found; None for a plain mapping.
    """

    missing_values: tuple[str, ...]
    out_of_range: OutOfRange
    density: DensityWord
    folder: Path | None


def read_column(name: str, node: Node, policies: Policies) -> Column:
    """Return a column as the schema defines it.

    Args:
        name: The column's name.
        node: Its definition.
        policies: What holds unless the column states it.

    Raises:
        BadInput: naming file, line, key and what is expected there.
    """
    if not name.strip():
        raise node.error("a column name must not be blank.")
    all_keys = dict.fromkeys(key for kind in words() for key in _allowed_keys(kind))
    keys = node.fields(tuple(all_keys), required=("type",), example=COLUMN_EXAMPLE)
    kind = one_of(keys["type"], words())
    for key in keys:
        if key not in _allowed_keys(kind):
            owners = [other for other in words() if key in _allowed_keys(other)]
            raise keys[key].error(
                f"is a key of the type {' or '.join(owners)}, not of {kind};"
                " change the type or remove the key."
            )
    if "map" in keys:
        raise keys["map"].error(
            "maps the levels to those of another column; name that column with `follows`, or with"
            " `within` if each level lies in one of its levels."
        )
    missing = one_of(keys.get("missing"), _MISSING)
    missing_values = policies.missing_values
    if "missing_values" in keys:
        missing_values = keys["missing_values"].texts(example='["", "?"]')
    column = Column(
        name=name,
        kind=kind,
        missing=missing,
        missing_values=missing_values,
        out_of_range=_column_out_of_range(node, keys, kind, missing, policies.out_of_range),
        description=keys["description"].text() if "description" in keys else "",
    )
    if column.type.levels:
        column = _with_levels(column, node, keys, policies.folder)
    else:
        column = _with_bins(column, node, keys)
        if column.type.continuous:
            check_missing(column.missing_values, column.edges, keys.get("missing_values", node))
        column = replace(column, density=_density(keys.get("density"), column, policies.density))
    if "role" in keys:
        keys["role"].choice(ROLES)
        role = one_of(keys["role"], _MODELLED)
        _check_role(column, role, keys["role"])
        column = replace(column, role=role)
    if max(column.size, column.stored.size) > MAX_CODES:
        size = max(column.size, column.stored.size)
        raise node.error(f"has {size:,} codes; a column has at most {MAX_CODES:,}.")
    return column


def _check_role(column: Column, role: Role, place: Node) -> None:
    """Refuse a column that cannot hold weights, strata or clusters."""
    if role != "weight":
        if not column.levels:
            raise place.error(
                f"a column of {'strata' if role == 'stratum' else 'clusters'} must list its levels;"
                " write `type: category` with `levels`. Or put the column under `ignore` and state"
                " the numbers of strata and clusters under `survey`."
            )
        check_public(place, column, f"it cannot be a {role}")
    elif not column.type.continuous:
        raise place.error("a survey weight is a number; write `type: number`.")
    elif column.missing_code is not None:
        raise place.error("a survey weight cannot be missing; remove `missing: level`.")
    elif column.edges[0] < 0:
        raise place.error("a survey weight is not negative; set `min` to 0 or more.")


def _allowed_keys(kind: Kind) -> tuple[str, ...]:
    return (*_COMMON, *column_type(kind).keys)


def _column_out_of_range(
    node: Node, keys: Mapping[str, Node], kind: Kind, missing: Missing, default: OutOfRange
) -> OutOfRange:
    own = keys.get("out_of_range")
    policy = one_of(own, OUT_OF_RANGE) if own is not None else default
    if policy == "missing" and missing != "level":
        raise node.error(
            "out_of_range: missing needs `missing: level`; add it to this column, or give the"
            " column `out_of_range: reject`."
        )
    if policy == "clip" and column_type(kind).levels:
        if own is not None:
            raise own.error(
                f"{column_type(kind).named} has no nearest level to clip to; write reject or"
                " missing."
            )
        return "reject"
    return policy


def _with_levels(
    column: Column, node: Node, keys: Mapping[str, Node], folder: Path | None
) -> Column:
    private = is_private(keys)
    if private and column.type.ordered:
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
    if not isinstance(node.content, Mapping | tuple):
        node.items(example=example)  # raises, saying what to write
    entries = node.ordered_entries(example=example, bare=True)
    if not entries:
        raise node.error(
            f"no level is listed; list the texts the file may hold, such as {example}."
        )
    levels = ((place, text, place.text()) for text, place in entries.items())
    return check_levels(levels, missing_values)


def _with_bins(column: Column, node: Node, keys: Mapping[str, Node]) -> Column:
    decimals = None
    if "decimals" in keys:
        decimals = keys["decimals"].integer(minimum=0, maximum=15)
    column = replace(
        column,
        decimals=decimals,
        format=_read_format(keys["format"]) if "format" in keys else "",
    )
    if "edges" not in keys and "bins" in keys and isinstance(keys["bins"].content, Mapping):
        return with_private_bins(column, node, keys)
    column = read_bins(column, node, keys)
    if decimals is not None and (empty := empty_bin(column.edges, decimals)):
        raise keys["decimals"].error(
            f"the bin from {exact_text(empty[0])} to {exact_text(empty[1])} contains no number of"
            f" {decimals} decimals; allow more decimals or make fewer bins."
        )
    return column


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
    if sorted(re.findall("%.?", text)) != ["%Y", "%d", "%m"]:
        raise node.error(
            f"{quote(text)} is not a date format; use %d, %m and %Y once each, as in %d.%m.%Y."
        )
    # A column whose format begins with the year also has ISO dates, as programs write days.
    exchanged = text.index("%d") < text.index("%m") or re.search("[0-9]", text)
    if text.startswith("%Y") and exchanged:
        raise node.error(
            f"{quote(text)} reads 2026-02-01 otherwise than programs that write dates mean it;"
            " write the file's dates in another format, such as %Y-%m-%d."
        )
    return text
