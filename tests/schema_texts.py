"""A schema that has everything, and short ones, as texts that are read or refused."""

import json
from pathlib import Path

import pytest

from dp_core.errors import BadInput
from dp_core.kernel.canonical import canonical_json
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import Document, parse

RAND = """\
version: 1
title: RAND Health Insurance Experiment
description: Visits in the first year
unit: row
rows_about: 20000
missing_values: ["", "?"]
columns:
  visits: {type: integer, min: 0, max: 80, edges: [0, 1, 2, 3, 5, 8, 13, 81]}
  income: {type: number, min: 0, max: 500000, bins: 24, decimals: 2}
  sex:    {type: category, levels: {1: male, 2: female}}
  health: {type: ordinal, levels: [poor, fair, good, excellent], missing: level}
  born:   {type: date, min: 1900-01-01, max: 2026-12-31, bins: year}
ignore: [interview_id]
out_of_range: reject
impossible:
  - {visits: "<3", health: [fair, missing], born: {not: "1999-01-01..2003-12-31"}}
"""

FLATS = """\
version: 1
title: Flats of a town
unit: {table: households, max_members: 4}
rows_about: 28000
missing_values: ["", "?"]
tables:
  households:
    key: hh
    columns:
      district: {type: category, levels: {1: north, 2: south}}
      income:   {type: number, min: 0, max: 100, bins: 5, decimals: 0, missing: level}
      children: {type: integer, min: 0, max: 3}
    ignore: [street]
  persons:
    key: number
    parent: households
    link: hh
    columns:
      age: {type: integer, min: 0, max: 99, edges: [0, 16, 40, 65, 100]}
      sex: {type: category, levels: {m: male, f: female}, missing: level, out_of_range: missing}
      job: {type: ordinal, levels: [none, part, full]}
      passport: {role: id}
    ignore: [street]
impossible:
  - {age: "<16", job: [part, full]}
rules:
  - children < members
  - if income < 20 then job != full
"""
"""Two linked tables."""


def column(text: str, *, extra: str = "") -> str:
    """Return a schema of one column, age."""
    return f"version: 1\ntitle: t\n{extra}columns:\n  age: {text}\n"


def read(text: str) -> Schema:
    """Return the schema of a text."""
    return parse_schema(Document(Path("s.yaml"), parse(text, source="s.yaml")))


def refusal(text: str) -> str:
    """Return what is said of a text that is no schema."""
    with pytest.raises(BadInput) as caught:
        read(text)
    assert caught.value.message.startswith("s.yaml")
    assert len(caught.value.message) < 400
    return caught.value.message


def assert_reads_back(schema: Schema) -> None:
    """Assert that the document of a schema, whatever JSON does to it, gives the same schema."""
    again = parse_schema(json.loads(canonical_json(schema.document)))
    assert (again, schema_hash(again)) == (schema, schema_hash(schema))
