"""`datapackage.json`: the codebook, as a Frictionless Data Package (version 1).

Standard keys are used where the standard has them (types, constraints, missing values); `bins`,
`levels`, `codeLists`, `rules`, `publicTotals`, `panel` and a field's `wave` are additional keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dp_core.bundle.best_set import BEST
from dp_core.bundle.files.marginals_file import marginal_columns
from dp_core.kernel.counting.linked_columns import MEMBERS, OTHER
from dp_core.methods.replicates.survey_weights import in_words
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import dependency_in_words
from dp_core.schema.linked.linked_tables import NO_MEMBER, NO_OTHER
from dp_core.schema.panel.panel_waves import ABSENT
from dp_core.schema.publication import Publication

CODEBOOK = "datapackage.json"
"""Name of the codebook in the bundle."""
MARGINALS = "marginals.parquet"
"""Name of the file of noisy tables in the bundle."""

_PARQUET = {
    "profile": "data-resource",
    "format": "parquet",
    "mediatype": "application/vnd.apache.parquet",
}


_SYNTHETIC = (
    "Synthetic records; no row describes a person. Analyse all numbered sets, then combine the"
    " results."
)
_BEST = (
    "Synthetic records, as near to the file as the measurements allow; no row describes a person."
    " To look at and to train on. For intervals, use the numbered sets."
)


def codebook(
    schema: Schema,
    files: Mapping[str, Mapping[str, object]],
    release: Mapping[str, Any],
    sets: int,
    source: str = "",
) -> dict[str, Any]:
    """Return the content of `datapackage.json`: synthetic sets and noisy tables.

    Args:
        schema: Schema of the release.
        files: SHA-256 and size (`file_record`) of the synthetic sets and of the noisy tables.
        release: Its `name`, `version`, `created` and `title`, as the statement has them.
        sets: Number of synthetic sets.
        source: What the release was made from, in a sentence; by default a confidential file.
    """
    source = source or (
        f"The confidential file behind {release['title']}, which is not published and was used only"
        " through noisy measurements"
    )
    if schema.linked is not None:
        resources = _linked_resources(schema, files, sets)
    else:
        fields = _fields(schema.coarse or schema)
        resources = [
            _resource(set_name(number), synthetic_path(number), number, sets, files, fields)
            for number in _numbers(schema, files, sets)
        ]
    better = " A noisy table usually answers a question better than the synthetic sets do."
    better = better if sets else ""
    resources.append(
        {
            "name": "marginals",
            "path": MARGINALS,
            "title": "Noisy tables",
            "description": ("Every table that was measured, with its noise." + better),
            **_PARQUET,
            **_checksum(files[MARGINALS]),
            "schema": {
                "fields": [
                    {
                        "name": column,
                        "type": _table_schema_type(kind),
                        "description": description,
                        "constraints": {"required": column != "of"},
                    }
                    for column, (kind, description) in marginal_columns(schema).items()
                ],
                "missingValues": [""],
            },
        }
    )
    product, totals = "synthetic microdata" if sets else "noisy tables", schema.totals
    # Rules between columns, and those that count members, hold in the sets.
    rules = [each.text for each in schema.rules] + [each.text for each in schema.member_rules]
    return {
        "profile": "data-package",
        "name": package_name(release["name"]),
        "title": schema.title,
        "description": schema.description or f"Differentially private {product}: {schema.title}.",
        "version": str(release["version"]),
        "created": release["created"],
        **_code_lists(schema.released),
        **({"rules": rules} if rules else {}),
        **({"publicTotals": [each.in_words for each in totals]} if totals and sets else {}),
        **_linked_tables(schema),
        **_panel(schema),
        "keywords": [
            "synthetic data" if sets else "noisy tables",
            "differential privacy",
        ],
        **_terms(schema.publication),
        "sources": [{"title": source}],
        "resources": resources,
    }


def _linked_resources(
    schema: Schema, files: Mapping[str, Mapping[str, object]], sets: int
) -> list[dict[str, Any]]:
    """Return the two resources of each set of linked tables, with their keys."""
    linked = schema.linked
    assert linked is not None
    households = [
        _key_field(linked.key, f"Key of the household, 1 to the number of {linked.households}."),
        *_fields(schema.household_schema),
    ]
    persons = [
        _key_field(linked.link, f"Household of the person: {linked.key} of {linked.households}."),
        _key_field(linked.person_key, "Number of the person within the household, from 1."),
        *_fields(schema.person_schema),
    ]
    found = []
    for number in _numbers(schema, files, sets):
        tables = (linked.households, linked.persons)
        names = [package_name(f"{set_name(number)}-{table}") for table in tables]
        reference = {"resource": names[0], "fields": linked.key}
        keys: tuple[dict[str, Any], ...] = (
            {"primaryKey": linked.key},
            {
                "primaryKey": [linked.link, linked.person_key],
                "foreignKeys": [{"fields": linked.link, "reference": reference}],
            },
        )
        for at, path in enumerate(set_paths(schema, number)):
            fields = (households, persons)[at]
            made = _resource(names[at], path, number, sets, files, fields, keys[at])
            found.append(made | {"title": f"{made['title']}: {tables[at]}"})
    return found


def _resource(
    name: str,
    path: str,
    number: int,
    sets: int,
    files: Mapping[str, Mapping[str, object]],
    fields: list[dict[str, Any]],
    keys: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the resource of a file of a set."""
    best = number == BEST
    return {
        "name": name,
        "path": path,
        "title": "Best synthetic set" if best else f"Synthetic set {number} of {sets}",
        "description": _BEST if best else _SYNTHETIC,
        **_PARQUET,
        **_checksum(files[path]),
        "schema": {"fields": fields, **(keys or {}), "missingValues": [""]},
    }


def _numbers(schema: Schema, files: Mapping[str, object], sets: int) -> Sequence[int]:
    """Return the numbers of the sets among the files: 1 to m, after the best set, if any."""
    return range(BEST if set_paths(schema, BEST)[0] in files else 1, sets + 1)


def _key_field(name: str, description: str) -> dict[str, Any]:
    constraints = {"required": True, "minimum": 1}
    return {"name": name, "type": "integer", "description": description, "constraints": constraints}


def _linked_tables(schema: Schema) -> dict[str, Any]:
    """Return how the two tables are linked, and what the noisy tables' own columns mean."""
    linked = schema.linked
    if linked is None:
        return {}
    empty = "" if linked.min_members else f" or none. In a household of none, x is {NO_MEMBER!r}"
    return {
        "linkedTables": {
            "households": linked.households,
            "persons": linked.persons,
            "key": linked.key,
            "link": linked.link,
            "personKey": linked.person_key,
            "shares": linked.shares,
            "members": {
                **field(schema.column(MEMBERS)),
                "description": (
                    f"Number of the {linked.persons} of a household. It is a column of noisy"
                    f" tables; in a set, count the {linked.persons} of each household."
                ),
            },
            "other": (
                f"A noisy table over x and {OTHER}y counts pairs of two different members of a"
                f" household: x of the one and y of the other. The codes of {OTHER}y are those of"
                f" y; the last one, {NO_OTHER!r}, is for a household of one member{empty}."
            ),
            "counts": (
                "Every household counts 1 in each noisy table, divided equally among its members"
                " or among its ordered pairs of different members."
            ),
        }
    }


def _panel(schema: Schema) -> dict[str, Any]:
    """Return which columns belong to which wave, and what they say of an absent person."""
    panel = schema.panel
    if panel is None:
        return {}
    made = {
        column: {wave: name for wave, name in names.items() if name in schema.names}
        for column, names in panel.columns.items()
    }
    absent = (
        "Every person takes part in every wave."
        if panel.balanced
        else f"In a wave in which a person does not take part, a column has the level {ABSENT!r} or"
        " no value."
    )
    return {
        "panel": {
            "waves": list(panel.waves),
            "columns": {column: names for column, names in made.items() if names},
            **({} if panel.balanced else {"takesPart": dict(panel.takes_part)}),
            "record": f"A record is a person with all waves. {absent}",
        }
    }


def _table_schema_type(kind: pa.DataType) -> str:
    """Return the Table Schema type of a column of noisy tables."""
    if pa.types.is_list(kind):
        return "array"
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string"


def _fields(schema: Schema) -> list[dict[str, Any]]:
    """Return the field of every column, with the column that it follows or in which it lies."""
    described = {column.name: field(column) for column in schema.released}
    if schema.panel is not None:
        for name in described:
            place = schema.panel.place(name)
            if place is not None:
                described[name] |= {"wave": place[1], "variable": place[0]}
    if schema.weight is not None:
        described[schema.weight.name] |= _weight(schema.weight, schema)
    for column in (schema.stratum, schema.cluster):
        if column is not None:
            described[column.name]["role"] = column.role
    for dependent in schema.dependents:
        described[dependent.column.name]["follows"] = {
            "column": dependent.source,
            "rule": dependency_in_words(dependent, schema.column(dependent.source)),
        }
    for nesting in schema.nestings:
        above, column = (schema.column(name) for name in nesting.columns)
        labels = above.code_labels()
        described[column.name]["within"] = {
            "column": above.name,
            "map": {
                label: labels[code]
                for label, code in zip(column.code_labels(), nesting.parents.tolist(), strict=True)
            },
        }
    return list(described.values())


def _weight(weight: Column, schema: Schema) -> dict[str, Any]:
    """Return the additional keys of the column of survey weights."""
    if not schema.calibration:
        return {"role": "weight"}
    return {
        "role": "weight",
        # Calibrated weights may exceed the file's bounds; bins are those before calibration.
        "constraints": {"required": True, "minimum": 0},
        "within_bin": f"{_within(weight)}, then calibrated: multiplied so that the weights add up"
        " to totals",
        "calibrated_to": [in_words(margin) for margin in schema.calibration],
    }


def _code_lists(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the hierarchy of each code list, with the level of each code.

    A field names its list as `codeList`.
    """
    found = {}
    for column in (each.in_sets for each in columns):
        if column.codes is None:
            continue
        levels = column.texts()
        found[column.name] = [
            {
                "code": code.text,
                "label": code.label,
                "parent": code.parent or None,
                "level": column.levels[levels[code.text]].label if code.text in levels else None,
            }
            for code in column.codes.codes
        ]
    return {"codeLists": found} if found else {}


def _terms(stated: Publication) -> dict[str, Any]:
    """Return publisher and terms, if stated, under the standard's keys."""
    found: dict[str, Any] = {}
    if stated.url:
        found["homepage"] = stated.url
    licence = {"name": stated.licence, "path": stated.licence_url}
    if any(licence.values()):
        found["licenses"] = [{name: value for name, value in licence.items() if value}]
    if stated.publisher:
        who = {"title": stated.publisher, "role": "publisher", "email": stated.contact}
        found["contributors"] = [{name: value for name, value in who.items() if value}]
    return found


def set_name(number: int) -> str:
    """Return the name of a synthetic set, counted from 1; 0 is the best set."""
    return "best" if number == BEST else f"set-{number}"


def synthetic_path(number: int) -> str:
    """Return the path of a synthetic set in the bundle, counted from 1; 0 is the best set."""
    return f"synthetic/{set_name(number)}.parquet"


def set_paths(schema: Schema, number: int) -> tuple[str, ...]:
    """Return the paths of the files of a synthetic set in the bundle.

    Args:
        schema: Schema of the release.
        number: Number of the set, from 1; 0 is the best set.

    Returns:
        One file or, of linked tables, that of the table of households and that of persons, each
        named after its table.
    """
    linked = schema.linked
    if linked is None:
        return (synthetic_path(number),)
    folder = f"synthetic/{set_name(number)}"
    return tuple(f"{folder}/{table}.parquet" for table in (linked.households, linked.persons))


def package_name(release: str) -> str:
    """Return the release's name in the characters the standard allows.

    >>> package_name("RAND 2026/Q4")
    'rand-2026-q4'
    """
    return re.sub(r"[^a-z0-9._-]+", "-", release.lower()).strip("-.") or "release"


def field(column: Column) -> dict[str, Any]:
    """Return a column's Table Schema field, with its codes."""
    constraints: dict[str, Any] = {"required": column.missing != "level"}
    described: dict[str, Any] = {
        "name": column.name,
        "type": column.type.field_type,
        "description": column.description,
        "constraints": constraints,
    }
    if column.type.own_texts:
        described["format"] = "default"
    if column.levels:
        levels = column.in_sets.levels
        constraints["enum"] = list(dict.fromkeys(level.label for level in levels))
        described["ordered"] = column.type.ordered
        codes: Sequence[int] = range(len(levels))
        if column.choice is not None and column.choice.drawn:
            codes = column.choice.level_codes()
            described["groups"] = [
                {"code": code, "label": column.levels[code].label}
                for code in range(len(column.choice.codes or ()), column.bins)
            ]
            described["within_group"] = (
                "noisy tables count these groups; within a group, the levels of a set follow the"
                " noisy counts that chose the levels (method.domain in release.json) and do not"
                " depend on other columns"
            )
        described["levels"] = [
            {"code": code, "source": level.text, "label": level.label}
            for code, level in zip(codes, levels, strict=True)
        ]
        if column.codes is not None:
            described["codeList"] = column.name
    else:
        if column.minimum is not None:
            constraints["minimum"] = column.scale.json(column.minimum)
        if column.maximum is not None:
            constraints["maximum"] = column.scale.json(column.maximum)
        labels = column.code_labels()
        described["bins"] = [
            {
                "code": code,
                "from": column.scale.json(column.edges[code]),
                "below": column.scale.json(column.edges[code + 1]),
                "label": labels[code],
            }
            for code in range(column.bins)
        ]
        even = "uniform: values within a bin contain no information"
        described["within_bin"] = even if column.within is None else _within(column)
    if column.missing_code is not None:
        described["missing"] = {
            "code": column.missing_code,
            "description": "Missing in the file; empty (null) in the synthetic sets.",
        }
    return described


def _within(column: Column) -> str:
    """Return a phrase about the distribution of values within bins."""
    if column.within is None:
        return "uniform"
    if column.choice is None:
        return (
            "piecewise uniform, following a density fitted to the noisy counts of the bins"
            " (method.densities in release.json)"
        )
    return (
        "piecewise uniform, following the noisy counts that chose the bins (method.domain in"
        " release.json)"
    )


def _checksum(record: Mapping[str, object]) -> dict[str, object]:
    return {"bytes": record["bytes"], "hash": f"sha256:{record['sha256']}"}
