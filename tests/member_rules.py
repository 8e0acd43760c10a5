"""A schema with rules that count the members of a household, for tests."""

from __future__ import annotations

from dp_core.schema.definition import Schema
from tests.schema_texts import read

TEXT = """\
version: 1
title: Relations
unit: {table: homes, max_members: 4}
rows_about: 1000
tables:
  homes:
    key: home
    columns:
      tenure: {type: category, levels: [own, rent]}
  people:
    key: nr
    parent: homes
    link: home
    columns:
      age: {type: integer, min: 0, max: 99, edges: [0, 16, 18, 65, 100]}
      relation: {type: category, levels: {1: reference, 2: spouse, 3: child}}
      job: {type: ordinal, levels: [none, part, full], missing: level}
rules:
"""
REFERENCE, SPOUSE = "exactly one relation == reference", "at most one relation == spouse"
ADULT = "at least one age >= 18"
RULES = (REFERENCE, SPOUSE, ADULT, "if relation == spouse then age >= 16")


def text_with(*rules: str) -> str:
    """Return the text of the schema with some rules."""
    return TEXT + "".join(f"  - {rule}\n" for rule in rules)


def schema_with(*rules: str) -> Schema:
    """Return the schema with some rules."""
    return read(text_with(*rules))
