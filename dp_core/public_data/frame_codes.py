"""Codes of public frames, or everything in them that does not fit the schema.

Frames are sources like the files of a release: they are coded by the same functions, and checked as
`dp-release schema check` checks a file. No file is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from dp_core.confidential.coding import codes_in_memory
from dp_core.confidential.sources.frame_source import frame_table, open_frame
from dp_core.confidential.sources.input_parts import input_parts, joined_source
from dp_core.errors import BadInput
from dp_core.inspection.data_check import check_data
from dp_core.inspection.findings import Finding
from dp_core.inspection.given_data import FrameData
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pandas as pd

Frames: TypeAlias = "pd.DataFrame | Mapping[str, pd.DataFrame]"
"""A frame; of linked tables or of the waves of a panel, a dictionary of them by their names."""
MOST_FINDINGS = 20
"""Most findings that a message lists."""


class DataDoNotFit(BadInput):
    """Public frames do not fit the schema.

    Attributes:
        findings: Everything that does not fit.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        said = [_finding_text(one) for one in findings[:MOST_FINDINGS]]
        if len(findings) > MOST_FINDINGS:
            said.append(f"... and {len(findings) - MOST_FINDINGS} more; .findings has all.")
        text = f" {said[0]}" if len(said) == 1 else "".join(f"\n- {one}" for one in said)
        super().__init__(f"The frame does not fit the schema:{text}")
        self.findings = tuple(findings)


def _finding_text(finding: Finding) -> str:
    about = f"Column {finding.column!r}: " if finding.column else ""
    shown = "; ".join(map(str, finding.examples))
    return f"{about}{finding.message} {f'[{shown}] ' if shown else ''}{finding.fix}"


def frame_codes(frames: Frames, schema: Schema) -> Dataset:
    """Return the codes of public frames, in which a release stores them.

    Args:
        frames: The rows, with a column for each that the schema reads; of linked tables, and of a
            panel whose rows do not name their wave, a dictionary of the frames.
        schema: Schema of the release.

    Returns:
        The rows; of linked tables their pair rows.

    Raises:
        DataDoNotFit: naming everything that does not fit, with values of the frames.
        BadInput: if a table or wave has no frame, or a column is in the index or has no text as its
            name.
        TypeError: if something is not a frame, or frames are not a dictionary where they must be.
    """
    parts, tables = input_parts(schema), _tables(frames, schema)
    try:
        opened = [
            open_frame(table, part.reads, part.ignore)
            for part, table in zip(parts, tables, strict=True)
        ]
        return codes_in_memory(joined_source(schema, opened, None), schema.stored)
    except BadInput:
        names = [f"wave {part.name}" if schema.panel else part.name for part in parts]
        data = [FrameData.of(*each) for each in zip(tables, names, strict=True)]
        found = check_data(data, schema.coarse or schema).of("refusal")
        if not found:
            raise
        raise DataDoNotFit([_of_frame(one) for one in found]) from None


def _tables(frames: Frames, schema: Schema) -> list[pa.Table]:
    """Return the frame of each part of the data."""
    parts, given = input_parts(schema), {"": frames}
    names = [part.name for part in parts]
    if names != [""]:
        what = "tables" if schema.linked else "waves"
        if not isinstance(frames, Mapping):
            raise TypeError(
                f"The schema has the {what} {', '.join(names)}, each with a frame of its own: give"
                f" a dictionary, {{{names[0]!r}: ..., {names[1]!r}: ...}}."
            )
        given = {str(name): frame for name, frame in frames.items()}
        if {*given} != {*names}:
            raise BadInput(
                f"The schema has the {what} {', '.join(names)}, but the dictionary has"
                f" {', '.join(given) or 'no frame'}."
            )
    tables = []
    for part in parts:
        frame = given[part.name]
        table = frame_table(frame)
        index = getattr(getattr(frame, "index", None), "names", ())
        for column in part.reads:
            if column in index and column not in table.column_names:
                raise BadInput(
                    f"Column {column!r} is the index of the frame; make it a column:"
                    " frame.reset_index()."
                )
        tables.append(table)
    return tables


def _of_frame(finding: Finding) -> Finding:
    """Return a finding about a file in the words of a frame."""
    message = finding.message.replace("The file ", "The frame ").replace(" the file", " the frame")
    return replace(finding, message=message)
