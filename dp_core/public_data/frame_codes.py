"""Codes of a public frame, or everything in it that does not fit the schema.

The codes are those that a release stores (`dp_core.confidential.encoding`), with the policies of
the schema, its rules between columns, and its limit of rows for a person.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.confidential.dependency_check import DependencyCheck
from dp_core.confidential.encoding import PROBLEMS, Encoder, settle_zeros
from dp_core.confidential.person_rows import RowLimit, hashes, without_identifier
from dp_core.documents.typed_text import shown
from dp_core.errors import BadInput, similar
from dp_core.public_data.frame_columns import frame_columns
from dp_core.schema.bin_edges import value_text
from dp_core.schema.decoding import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.problems import Problem
from dp_core.tables.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 3
"""Most values that a finding shows."""
MOST_FINDINGS = 20
"""Most findings that a message lists."""
_MISSING_MARKS = ("", "?", ".", "-", "na", "n/a", "nan", "none", "null", "missing", "unknown")
_KIND_WORDS = {"integer": "whole number", "number": "number", "date": "date"}


class DataDoNotFit(BadInput):
    """A public frame does not fit the schema.

    Attributes:
        findings: What does not fit, a sentence for each column and problem, or rule.
    """

    def __init__(self, findings: Sequence[str]) -> None:
        listed = [*findings[:MOST_FINDINGS]]
        if len(findings) > MOST_FINDINGS:
            listed.append(f"... and {len(findings) - MOST_FINDINGS} more; .findings has all.")
        many = len(findings) > 1
        said = "\n".join(f"- {text}" for text in listed) if many else listed[0]
        super().__init__(f"The frame does not fit the schema:{chr(10) if many else ' '}{said}")
        self.findings = tuple(findings)


def frame_codes(frame: pd.DataFrame, schema: Schema) -> Dataset:
    """Return the codes of a public frame.

    Args:
        frame: The rows, with a column for each that the schema reads.
        schema: Schema with the codes in which the data are stored (`Schema.stored`).

    Raises:
        DataDoNotFit: naming everything that does not fit, with values of the frame.
        BadInput: if a column is missing, unknown or cannot be read, or there is no row.
        TypeError: if it is not a pandas frame.
    """
    records = frame_columns(frame, schema)
    codes: list[NDArray[np.uint16]] = []
    findings: list[str] = []
    for column in schema.columns:
        encoder, values = Encoder(column), records.column(column.name)
        encoded = encoder.encode(values)
        if encoded.bad is not None:
            findings += _misfits(encoder, values)
        codes.append(np.ascontiguousarray(encoded.codes))
    if not findings:
        findings = list(_broken_rules(schema, records, codes))
    if findings:
        raise DataDoNotFit(findings)
    whole = np.stack(codes)
    if schema.unit.column is not None:
        whole = np.ascontiguousarray(whole[:, _kept(schema, records, codes)])
    return Dataset(schema.domain, whole)


def _misfits(encoder: Encoder, raw: pa.Array) -> Iterator[str]:
    """Yield a finding for each refused problem of a column."""
    column, values = encoder.column, encoder.reader.read(raw)
    problems = encoder.problem(values)
    assert problems is not None
    by_row = problems if values.index is None else problems[values.index]
    for problem in Problem:
        if problem not in encoder.refused:
            continue
        places = np.flatnonzero(by_row == PROBLEMS.index(problem))
        if places.size:
            examples = _distinct(raw.take(pa.array(places)))
            yield f"Column {column.name!r}: {_finding(column, problem, places.size, examples, raw)}"


def _distinct(values: pa.Array) -> list[str]:
    if pa.types.is_dictionary(values.type):
        values = pc.dictionary_decode(values)
    found = [each for each in pc.unique(values).to_pylist() if each is not None]
    texts = dict.fromkeys(str(int(v)) if _is_whole(v) else str(v) for v in found)
    return list(texts)


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _finding(
    column: Column, problem: Problem, rows: int, examples: Sequence[str], raw: pa.Array
) -> str:
    count = f"{rows:,} row{'s' if rows != 1 else ''}"
    has = "has" if rows == 1 else "have"
    listed = ", ".join(shown(text) for text in examples[:MOST_VALUES])
    if len(examples) > MOST_VALUES:
        listed += f" and {len(examples) - MOST_VALUES:,} more"
    marks = [text for text in examples if text.strip().casefold() in _MISSING_MARKS]
    mark = f" If {shown(marks[0])} means missing, list it under `missing_values`." if marks else ""
    if problem is Problem.MISSING:
        return f"{count} {has} no value; give the column `missing: level`, or drop these rows."
    if problem is Problem.LEVEL:
        levels = [*column.texts()]
        hint = similar(examples[0], levels) if examples and not examples[0].isdigit() else ""
        padded = any(text.lstrip("0") != text for text in levels if text.isdigit() and text != "0")
        if padded and not pa.types.is_dictionary(raw.type) and not pa.types.is_string(raw.type):
            hint = " The frame holds numbers: read its file with dtype=str to keep the zeros."
        what, it = ("is no level", "it") if len(examples) == 1 else ("are no levels", "them")
        return f"{count} {has} {listed}, which {what}; add {it} to `levels`, or recode.{mark or hint}"
    if problem is Problem.RANGE:
        assert column.kind in ("integer", "number", "date")
        low, high = (value_text(bound, column.kind) for bound in legal_range(column))
        return (
            f"{count} {has} {listed}, outside {low} to {high}; widen the bounds, or give the column"
            " `out_of_range: clip`."
        )
    kind = _KIND_WORDS[column.kind]
    what = f"is no {kind}" if len(examples) == 1 else f"are no {kind}s"
    return f"{count} {has} {listed}, which {what}.{mark}"


def _broken_rules(
    schema: Schema, records: pa.RecordBatch, codes: list[NDArray[np.uint16]]
) -> Iterator[str]:
    """Yield a finding for each rule between columns that rows break; settle what a policy says."""
    for name, rows in DependencyCheck(schema).refused(records, codes).items():
        if rows:
            source = next(one.source for one in schema.dependents if one.column.name == name)
            yield f"Column {name!r} does not follow from {source!r} in {rows:,} rows."
    for broken in settle_zeros(schema, codes):
        if broken.refused:
            yield f"{broken.refused:,} rows break the `impossible` rule {{{broken.rule.text}}}."


def _kept(
    schema: Schema, records: pa.RecordBatch, codes: Sequence[NDArray[np.uint16]]
) -> NDArray[np.bool_]:
    """Return which rows the limit of rows for a person keeps."""
    unit = schema.unit
    assert unit.column is not None
    persons, without = hashes(unit.column, records.column(unit.column), unit.missing_values)
    if without:
        raise DataDoNotFit([without_identifier(unit.column)])
    with (
        tempfile.TemporaryDirectory() as folder,
        RowLimit(Path(folder) / "persons", unit.max_rows) as limit,
    ):
        limit.add(persons, codes)
        return np.array(limit.kept())
