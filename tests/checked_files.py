"""Checks of data files against a schema, as `schema check` makes them of one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dp_core.inspection.file_check import check_table
from dp_core.inspection.findings import FileCheck
from dp_core.inspection.given_data import file_data
from dp_core.schema.definition import Schema


def check_files(
    patterns: Sequence[str], schema: Schema, folder: Path | None = None, **more: Schema
) -> FileCheck:
    return check_table(file_data(patterns, folder), schema, **more)
