"""Codes of a public frame, or everything in it that does not fit the schema.

The codes are those that a release stores (`dp_core.confidential.encoding`), with the policies of
the schema, its rules between columns, and its limit of rows for a person. What does not fit is what
`dp-release schema check` finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dp_core.confidential.between_columns import DependencyCheck, RuleCheck
from dp_core.confidential.encoding import Encoder, settle_zeros
from dp_core.confidential.linked.linked_rows import pair_row_codes
from dp_core.confidential.person_rows import hashes, kept_rows, orders
from dp_core.errors import BadInput, SchemaViolation
from dp_core.inspection.file_check import check_frame
from dp_core.inspection.findings import Finding
from dp_core.public_data.frame_columns import frame_columns
from dp_core.public_data.panel_frames import record_table
from dp_core.schema.definition import Schema
from dp_core.tables.codes import Codes
from dp_core.tables.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

MOST_FINDINGS = 20
"""Most findings that a message lists."""


class DataDoNotFit(BadInput):
    """A public frame does not fit the schema.

    Attributes:
        findings: Everything that does not fit.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        said = [_said(one) for one in findings[:MOST_FINDINGS]]
        if len(findings) > MOST_FINDINGS:
            said.append(f"... and {len(findings) - MOST_FINDINGS} more; .findings has all.")
        text = f" {said[0]}" if len(said) == 1 else "".join(f"\n- {one}" for one in said)
        super().__init__(f"The frame does not fit the schema:{text}")
        self.findings = tuple(findings)


def _said(finding: Finding) -> str:
    about = f"Column {finding.column!r}: " if finding.column else ""
    shown = "; ".join(
        one.text if one.rows is None else f"{one.text} ({one.rows:,})" for one in finding.examples
    )
    return f"{about}{finding.message} {f'[{shown}] ' if shown else ''}{finding.fix}"


def frame_codes(frame: pd.DataFrame | Mapping[str, pd.DataFrame], schema: Schema) -> Dataset:
    """Return the codes of a public frame, in which a release stores them.

    Args:
        frame: The rows, with a column for each that the schema reads; of a panel whose rows do not
            name their wave, a dictionary of the frames of the waves.
        schema: Schema of the release.

    Raises:
        DataDoNotFit: naming everything that does not fit, with values of the frame.
        BadInput: if a column cannot be read.
        TypeError: if it is not a pandas frame.
    """
    stored = schema.stored
    if schema.panel is not None:
        table = record_table(frame, schema)
    else:
        table = frame_columns(frame, schema)
    known = {*schema.reads, *schema.ignore}
    names = table.column_names
    fits = (
        table.num_rows > 0 and {*names} <= known and all(names.count(n) == 1 for n in schema.reads)
    )
    codes = _codes(table.select(list(schema.reads)), stored) if fits else None
    if codes is None:
        check = check_frame(table, schema.coarse or schema)
        raise DataDoNotFit([_of_frame(one) for one in check.of("refusal")])
    return Dataset(stored.domain, codes)


def linked_frame_codes(
    frames: pd.DataFrame | Mapping[str, pd.DataFrame], schema: Schema
) -> tuple[int, Dataset]:
    """Return the number of households of two public frames, and their pair rows.

    Args:
        frames: The two frames, by the names of their tables.
        schema: Schema of the release, of linked tables.

    Raises:
        BadInput: if a frame is missing or cannot be read, keys, links or sizes are not as the
            schema says, or values or rows break the schema; with the numbers of some rows.
        TypeError: if it is not a dictionary of pandas frames.
    """
    linked = schema.linked
    assert linked is not None
    names = (linked.households, linked.persons)
    if not isinstance(frames, Mapping):
        raise TypeError(
            f"The schema has two linked tables: give both frames as a dictionary, {{{names[0]!r}:"
            f" ..., {names[1]!r}: ...}}."
        )
    if {*frames} != {*names}:
        raise BadInput(
            f"The schema has the tables {names[0]} and {names[1]}, but the dictionary has"
            f" {', '.join(map(str, frames)) or 'no frame'}."
        )
    own = (schema.household_schema, schema.person_schema)
    homes, persons = (
        frame_columns(frames[name], each) for name, each in zip(names, own, strict=True)
    )
    try:
        return homes.num_rows, pair_row_codes(schema, homes, persons)
    except SchemaViolation as error:
        where = f" [{error.internal}]" if error.internal else ""
        raise BadInput(f"The frames do not fit the schema: {error.message}{where}") from None


def _of_frame(finding: Finding) -> Finding:
    """Return a finding about a file in the words of a frame."""
    message = finding.message.replace("The file ", "The frame ").replace(" the file", " the frame")
    return replace(finding, message=message)


def _codes(table: pa.Table, schema: Schema) -> Codes | None:
    """Return the codes of the rows that count, shape (columns, rows); None if a row is refused."""
    (records,) = table.combine_chunks().to_batches()
    codes: list[Codes] = []
    for column in schema.columns:
        encoded = Encoder(column).encode(records.column(column.name))
        if encoded.bad is not None:
            return None
        codes.append(np.ascontiguousarray(encoded.codes))
    if any(DependencyCheck(schema).refused(records, codes).values()):
        return None
    units = RuleCheck(schema).units(records)
    if any(broken.refused for broken in settle_zeros(schema, codes, units)):
        return None
    whole, unit = np.stack(codes), schema.unit
    if unit.column is None:
        return whole
    persons, without = hashes(unit.column, records.column(unit.column), unit.missing_values)
    if without:
        return None
    kept = kept_rows(persons, orders(persons, codes), unit.max_rows)
    return np.ascontiguousarray(whole[:, kept])
