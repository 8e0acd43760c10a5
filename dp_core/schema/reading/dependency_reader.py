"""Reads columns that a public map ties to others: `follows` and `within`.

A dependent column (`follows`) has a `map` of levels or the `edges` of a number. A column of smaller
areas (`within`) has a `map` of its levels to those of a column of larger areas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from dp_core.errors import nearest
from dp_core.schema.definition import Column, DependentColumn, Schema
from dp_core.schema.reading.code_list_reader import read_pairs
from dp_core.schema.reading.level_reader import (
    check_public,
    code_texts,
    level_names,
    missing_code,
    read_level,
)
from dp_core.tables.nested_columns import NestedColumns
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

KEYS = ("follows", "map", "edges")
"""Keys of a dependent column besides those of its type."""


PLACE = ("within", "map")
"""Keys of a column that lies within another, besides those of its type."""


def in_order(dependents: Mapping[str, Node], known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the dependent columns, each after its source.

    Args:
        dependents: Definitions of the dependent columns, by name.
        known: Names of the other columns.

    Raises:
        BadInput: if a source does not exist, or columns depend on one another in a circle.
    """
    sources: dict[str, str] = {}
    for name, node in dependents.items():
        place = node.entries()["follows"]
        source = place.text(example="industry")
        if source not in dependents and source not in known:
            raise place.error(
                f"there is no column {quote(source)} that this one could follow."
                f"{nearest(source, [*known, *dependents])}"
            )
        sources[name] = source
    done: list[str] = []
    for name, node in dependents.items():
        line: list[str] = []
        while name in sources and name not in done:
            if name in line:
                raise node.entries()["follows"].error(
                    f"{quote(name)} follows itself through"
                    f" {' and '.join(quote(one) for one in line)}; remove one `follows`."
                )
            line.append(name)
            name = sources[name]
        done += reversed(line)
    return tuple(done)


def read_dependent(
    column: Column, node: Node, source: Column, folder: Path | None
) -> DependentColumn:
    """Return a dependent column.

    Args:
        column: Its type, levels and missing values. Unless the definition states `missing`, it can
            be missing if the source can.
        node: Its definition.
        source: The column that it follows.
        folder: Folder of the schema file, where a map is found.

    Raises:
        BadInput: if the rule does not assign one level to every value of the source.
    """
    keys = node.entries()
    for one in (column, source):
        check_public(keys["follows"], one, "no public rule can name them")
    if "missing" not in keys:
        column = replace(column, missing=source.missing)
    elif column.missing == "reject" and source.missing_code is not None:
        raise keys["missing"].error(
            f"{source.name!r} can be missing, so this column can be too; write `missing: level`."
        )
    last = () if source.missing_code is None else (missing_code(keys["follows"], column),)
    if not source.levels:
        if "map" in keys:
            raise keys["map"].error(
                f"{source.name!r} has no levels to map; give the `edges` where the next level"
                " begins."
            )
        cuts = _cuts(node, keys, column, source)
        codes = (*range(len(cuts) + 1), *last)
        return DependentColumn(column=column, source=source.name, codes=codes, cuts=cuts)
    if "edges" in keys:
        raise keys["edges"].error(
            f"{source.name!r} has levels, not edges; write a `map` of the levels."
        )
    codes = (*mapped_codes(node, keys, column, source, folder), *last)
    return DependentColumn(column=column, source=source.name, codes=codes)


def dependent_document(dependent: DependentColumn, source: Column) -> dict[str, object]:
    """Return the dependency as a schema states it, with a map written out."""
    if dependent.cuts:
        edges = [source.scale.text(cut) for cut in dependent.cuts]
        return {"follows": dependent.source, "edges": edges}
    texts = code_texts(dependent.column)
    return {
        "follows": dependent.source,
        "map": [
            {level.text: texts[code]}
            for level, code in zip(source.levels, dependent.codes, strict=False)
        ],
    }


def mapped_codes(
    node: Node, keys: Mapping[str, Node], column: Column, source: Column, folder: Path | None
) -> tuple[int, ...]:
    """Return the code of a column for each level of another one, as a `map` or a code list says.

    Args:
        node: Definition with the map.
        keys: Its keys.
        column: The column with the levels that the map gives.
        source: The column whose levels are mapped.
        folder: Folder of the schema file, where a map is found.

    Raises:
        BadInput: if the map does not give one level for each level of `source`.
    """
    own = column.texts()
    names = {**level_names(column), **own}
    if "map" in keys:
        given = read_pairs(keys["map"], folder, (source.name, column.name))
        place = keys["map"]
    elif source.codes is not None and source.codes == column.codes:
        # The same code list at another depth: its hierarchy is the map.
        place = keys["codes"]
        given = {text: replace(place, content=text) for text in source.texts() if text in own}
    else:
        raise node.error(
            f"the key 'map' is missing; map each level of {source.name!r} to a level of"
            f" {column.name!r}."
        )
    used: set[str] = set()
    found = []
    members = source.stands_for or tuple((level.text,) for level in source.levels)
    for level, texts in zip(source.levels, members, strict=True):
        by_text: dict[int, str] = {}
        for text in texts:
            name = next((key for key in (text, level.text, level.label) if key in given), None)
            if name is None:
                raise place.error(
                    f"{quote(text)} of {source.name!r} is not mapped; add it to the map."
                )
            used.add(name)
            word = given[name].text(example="a level")
            by_text.setdefault(read_level(given[name], word, column, names), text)
        if len(by_text) > 1:
            one, other, *_ = by_text.values()
            raise place.error(
                f"{quote(one)} and {quote(other)} belong to one level of {source.name!r}"
                f" ({quote(level.label)}) but are mapped to two levels; map them to one level, or"
                " group the codes more finely."
            )
        found.append(next(iter(by_text)))
    accepted = source.texts()
    known = {word for level in source.levels for word in (level.text, level.label)}
    for name, value in given.items():
        if name not in used and name not in known and name not in accepted:
            raise value.error(
                f"{quote(name)} is not a level of {source.name!r}.{nearest(name, known)}"
            )
    return tuple(found)


def _cuts(
    node: Node, keys: Mapping[str, Node], column: Column, source: Column
) -> tuple[Fraction, ...]:
    levels = len(column.levels)
    if levels < 2:
        raise node.error("has one level only, so every row would have it; remove the column.")
    if "edges" not in keys:
        raise node.error(
            f"the key 'edges' is missing; give the bin edges of {source.name!r} where each next"
            f" level of {column.name!r} begins."
        )
    items = keys["edges"].items(example="[15, 65]")
    scale = source.scale
    values = [scale.read(item) for item in items]
    if len(values) == levels + 1 and (values[0], values[-1]) == (
        source.edges[0],
        source.edges[-1],
    ):
        items, values = items[1:-1], values[1:-1]
    if len(values) != levels - 1:
        raise keys["edges"].error(
            f"{levels} levels need {levels - 1} edges between them, not {len(values)}."
        )
    for item, value, before in zip(items, values, [None, *values], strict=False):
        if before is not None and value <= before:
            raise item.error("edges must increase.")
        if value not in source.edges[1:-1]:
            near = sorted(source.edges[1:-1], key=lambda edge: abs(edge - value))[:2]
            known = " and ".join(scale.text(edge) for edge in sorted(near))
            raise item.error(
                f"{scale.text(value)} is not a bin edge of {source.name!r}"
                f"{f'; the nearest are {known}' if known else ''}."
            )
    return tuple(values)


def read_nested(
    definitions: Mapping[str, Node],
    columns: Sequence[Column],
    folder: Path | None,
    faults: Faults,
) -> NestedColumns | None:
    """Return the columns that lie within one another, or None if there are none.

    Args:
        definitions: Definitions of all columns, by name.
        columns: The columns that are modelled.
        folder: Folder of the schema file, where maps are found; None for a plain mapping.
        faults: Notes each fault.
    """
    for node in definitions.values():
        if node.has("within") and node.has("follows"):
            faults.note(
                node.entries()["within"].error(
                    "a column that follows another one is computed from it, so it cannot have"
                    " `within`; remove `within` or `follows`."
                )
            )
    known = {column.name: column for column in columns}
    places = {
        name: node.entries()["within"]
        for name, node in definitions.items()
        if node.has("within") and name in known
    }
    above: dict[str, str] = {}
    for name, place in places.items():
        upper = faults.of(None, _read_above, place, known[name], known, faults.bad)
        if upper is not None:
            above[name] = upper
    if not above or len(above) < len(places):
        return None
    chain = faults.of(None, _in_a_line, above, places)
    if chain is None:
        return None
    parents = [
        faults.of(None, _read_parents, definitions[lower], known[upper], known[lower], folder)
        for upper, lower in pairwise(chain)
    ]
    found = tuple(each for each in parents if each is not None)
    return NestedColumns(chain, found) if len(found) == len(parents) else None


def nested_document(schema: Schema, name: str) -> dict[str, object]:
    """Return where a column lies as a schema states it, with the map written out."""
    nested = schema.nested
    upper = None if nested is None else nested.above(name)
    if nested is None or upper is None:
        return {}
    texts = [level.text for level in schema.column(upper).levels]
    own = schema.column(name).levels
    return {
        "within": upper,
        "map": [
            {level.text: texts[code]}
            for level, code in zip(own, nested.map(upper, name).tolist(), strict=True)
        ],
    }


def check_rule(schema: Schema, text: str, names: Collection[str], node: Node) -> None:
    """Refuse a rule that names a column in which others lie.

    Args:
        schema: The schema.
        text: The rule.
        names: The columns that it names.
        node: The item of the document that states it.

    Raises:
        BadInput: if the rule does so.
    """
    if schema.nested is None:
        return
    for name in schema.nested.upper:
        if name in names:
            raise node.error(
                f"the rule `{text}` names {name!r}, in which {schema.nested.lowest!r} lies;"
                f" state it for {schema.nested.lowest!r}, which decides {name!r}."
            )


def _read_above(
    place: Node, column: Column, known: Mapping[str, Column], bad: Collection[str]
) -> str | None:
    upper = place.text(example="county")
    if upper in bad:
        return None
    if upper == column.name:
        raise place.error(f"{upper!r} cannot lie within itself; name the column of larger areas.")
    if upper not in known:
        raise place.error(
            f"there is no column {quote(upper)} with levels of its own in which this can lie."
            f"{nearest(upper, known)}"
        )
    for one in (column, known[upper]):
        check_public(place, one, "no public map can name them")
        if not one.levels:
            raise place.error(
                f"{one.name!r} is not a category or an ordinal; only columns with levels lie within"
                " one another."
            )
        if one.missing_code is not None:
            raise place.error(
                f"{one.name!r} can be missing, but every row needs an area; add a level for unknown"
                " places, and write `missing: reject`."
            )
    return upper


def _in_a_line(above: Mapping[str, str], places: Mapping[str, Node]) -> tuple[str, ...]:
    """Return the columns from the largest areas to the smallest.

    Raises:
        BadInput: if a column lies within itself, or the columns are not in one line.
    """
    for name in above:
        seen = [name]
        while seen[-1] in above and above[seen[-1]] not in seen:
            seen.append(above[seen[-1]])
        if above.get(seen[-1]) == name:
            raise places[name].error(f"{name!r} lies within itself; remove one `within`.")
    lowest = [name for name in above if name not in above.values()]
    line = [lowest[0]]
    while line[-1] in above:
        line.append(above[line[-1]])
    apart = [name for name in above if name not in line]
    if apart:
        raise places[apart[0]].error(
            f"{apart[0]!r} and {lowest[0]!r} are in different hierarchies; a schema can have only"
            f" one, such as {' > '.join(reversed(line))}. Remove this `within`."
        )
    return tuple(reversed(line))


def _read_parents(node: Node, upper: Column, lower: Column, folder: Path | None) -> tuple[int, ...]:
    keys = node.entries()
    found = mapped_codes(node, keys, upper, lower, folder)
    empty = np.flatnonzero(np.bincount(found, minlength=len(upper.levels)) == 0)
    if empty.size:
        level = upper.levels[int(empty[0])]
        place = keys.get("map", keys["within"])
        raise place.error(
            f"no level of {lower.name!r} lies in {quote(level.text)} of {upper.name!r}; correct the"
            f" map, or remove this level of {upper.name!r}."
        )
    return found
