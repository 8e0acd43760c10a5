"""Schemas in a notebook."""

from __future__ import annotations

import os
from pathlib import Path

from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import load_schema


def read_schema(path: str | os.PathLike[str]) -> Schema:
    """Return the schema in a file.

    Args:
        path: The YAML file; `docs/schema.md` describes it.

    Raises:
        BadInput: naming file, line, key and what is expected there.

    >>> import dp_core as dp
    >>> dp.read_schema("town.schema.yaml")
    Schema('Town survey': sex, age, region, income)
    """
    return load_schema(Path(path))
