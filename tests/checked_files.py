"""Checks of data files against a schema, as `schema check` makes them of one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from dp_core.confidential.sources.frame_source import frame_table
from dp_core.inspection.file_check import check_table
from dp_core.inspection.findings import FileCheck
from dp_core.inspection.given_data import FrameData, file_data
from dp_core.schema.definition import Schema


def check_files(
    patterns: Sequence[str], schema: Schema, folder: Path | None = None, **more: Schema
) -> FileCheck:
    paths = [str((folder or Path()) / pattern) for pattern in patterns]
    return check_table(file_data(paths), schema, **more)


def check_frame(frame: pd.DataFrame | pa.Table | Mapping[str, Any], schema: Schema) -> FileCheck:
    """Return everything in a frame that does not fit a schema; see `check_table`."""
    return check_table(FrameData.of(frame_table(frame)), schema)
