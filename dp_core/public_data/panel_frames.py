"""The records of a panel from public frames, as a release makes them from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.confidential.panel.row_columns import row_columns, rows_schema
from dp_core.confidential.source_files import check_columns
from dp_core.errors import BadInput, SchemaViolation
from dp_core.public_data.frame_columns import frame_columns
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pandas as pd


def record_table(frames: pd.DataFrame | Mapping[str, pd.DataFrame], schema: Schema) -> pa.Table:
    """Return the records of a panel's persons.

    Args:
        frames: The rows of all waves or, if they do not name their wave, a dictionary of the frames
            of the waves.
        schema: The schema of records.

    Raises:
        BadInput: if a wave is missing, or columns or rows are not as the schema says.
        TypeError: if it is not a pandas frame, or not a dictionary of them.
    """
    panel = schema.panel
    assert panel is not None
    if panel.wave is not None:
        parts: Mapping[str | None, object] = {None: frames}
    elif isinstance(frames, Mapping):
        found = {str(wave): frame for wave, frame in frames.items()}
        if {*found} != {*panel.waves}:
            raise BadInput(
                f"The panel has the waves {', '.join(panel.waves)}, but the dictionary has"
                f" {', '.join(found) or 'no frame'}."
            )
        parts = {wave: found[wave] for wave in panel.waves}
    else:
        raise TypeError(
            f"Each wave has a frame of its own: give a dictionary, {{{panel.waves[0]!r}: ...,"
            " ...}, or state `wave` under `panel` in the schema."
        )
    with PersonRecords(schema, None) as records:
        for wave, frame in parts.items():
            own = rows_schema(schema, wave)
            table = frame_columns(frame, own)
            reads, ignore = row_columns(schema, wave)
            what = "The frame" if wave is None else f"The frame of wave {wave}"
            check_columns(what, table.column_names, reads, ignore)
            table = table.select(list(reads))
            records.begin(reads)
            for batch in table.to_batches():
                records.add(batch, wave)
        try:
            made = [*records.tables()]
        except SchemaViolation as error:
            raise BadInput(f"{error.message} ({error.internal})") from None
        return pa.concat_tables([records.types.empty_table(), *made])
