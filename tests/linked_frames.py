"""Codes of two linked tables in memory, read as those of files are."""

from __future__ import annotations

import pyarrow as pa

from dp_core.confidential.linked.linked_source import LinkedSource, read_households
from dp_core.confidential.sources.frame_source import frame_source
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.definition import Schema
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows


def household_codes(schema: Schema, *tables: pa.Table) -> HouseholdRows:
    return read_households(schema, LinkedSource(*map(frame_source, tables)))


def pair_row_codes(schema: Schema, *tables: pa.Table) -> Dataset:
    assert schema.linked is not None
    return to_pair_rows(schema.linked, schema.domain, household_codes(schema, *tables))
