"""Checking a file against its schema, for the terminal of a person who may see the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.confidential.sources.input_parts import input_parts
from dp_core.errors import BadInput
from dp_core.inspection.data_check import check_data
from dp_core.inspection.findings import FileCheck, Finding
from dp_core.inspection.given_data import FileData, file_data
from dp_core.schema.reading.schema_file import load_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.schema.definition import Schema


def check(file: Path, patterns: Sequence[str]) -> FileCheck:
    """Return everything in data files that does not fit a schema. Confidential.

    Great Expectations judges the team's own expectations. The schema's own rules are judged by the
    functions from which it gets its profile, so it is not loaded without own expectations.

    Args:
        file: The schema.
        patterns: Paths or globs of the data files; of linked tables, one of the table of
            households and one of the table of persons; of a panel with a file for each wave, one
            of each wave in their order.

    Raises:
        BadInput: if the schema cannot be read, no data file is found, or the files of linked tables
            are not two, in the order of the tables.
    """
    yaml = (".yaml", ".yml")
    if file.suffix.lower() not in yaml and any(
        Path(one).suffix.lower() in yaml for one in patterns
    ):
        raise BadInput("The schema comes first: dp-release schema check SCHEMA FILE...")
    schema = load_schema(file)
    for one in patterns:
        if "://" in one:
            raise BadInput(
                f"{one}: only files of this machine are checked; copy the object, or a sample of"
                " it, and check the copy."
            )
    more = partial(_own_expectations, schema.stored) if schema.expectations else None
    return check_data(_data(schema, patterns), schema, more)


def _data(schema: Schema, patterns: Sequence[str]) -> list[FileData]:
    """Return the files of each table or wave.

    Raises:
        BadInput: if no data file is found, or there is not one pattern for each table or wave.
    """
    parts = input_parts(schema)
    if len(parts) == 1:
        return [file_data(patterns)]
    names, what = ", ".join(part.name for part in parts), "table" if schema.linked else "wave"
    if len(patterns) != len(parts):
        raise BadInput(
            f"Each {what} has a file of its own; name {len(parts)} files, of the {what}s {names} in"
            f" this order{'' if schema.linked else ', or state `wave` under `panel`'}."
        )
    data = [file_data([one]) for one in patterns]
    if schema.linked is not None and _are_swapped(schema, data):
        raise BadInput(
            f"The two files seem to be swapped; name those of the tables {names} in this order."
        )
    return data


def _are_swapped(schema: Schema, data: Sequence[FileData]) -> bool:
    """Return whether each file lacks a column of its own table and has all of the other table."""
    homes, persons = schema.household_schema, schema.person_schema

    def has_all(each: FileData, table: Schema) -> bool:
        return {*each.header(table).names} >= {*table.reads}

    first, second = data
    own = has_all(first, homes) or has_all(second, persons)
    return not own and has_all(first, persons) and has_all(second, homes)


def _own_expectations(
    schema: Schema, parts: Iterable[Iterable[pa.RecordBatch]]
) -> Iterator[Finding]:
    """Yield the team's own expectations that the rows, in partitions, do not meet."""
    from dp_core.schema.expectations.suite import rules_of
    from tasks.validation.expectations import try_expectations
    from tasks.validation.judged_frames import FileProfile, RowPieces
    from tasks.validation.suite_judge import SuiteJudge

    try_expectations(schema)
    rules = rules_of(schema)
    own = [number for number, rule in enumerate(rules) if rule.kind == "own"]
    judge = SuiteJudge(schema.title, rules, only=own)
    profile, pieces = FileProfile(schema, rules), RowPieces(schema, rules)
    broken: set[int] = set()
    for batches in parts:
        partition = profile.begin()
        for records in batches:
            for profiler, part in zip(profile.profilers, partition, strict=True):
                profiler.add(part, records.column(profiler.column.name))
            for piece, rows in pieces.add(records):
                broken |= judge.judge("rows", piece, rows)
        profile.add(partition)
    for piece, rows in pieces.last():
        broken |= judge.judge("rows", piece, rows)
    broken |= judge.judge("profile", *profile.frame({}))
    broken |= judge.judge("table", {}, profile.rows)
    for number in sorted(broken):
        rule = rules[number]
        arguments = ", ".join(f"{name}: {value}" for name, value in rule.kwargs.items())
        yield Finding(
            "refusal",
            "expectation",
            str(rule.kwargs.get("column", "")),
            f"The file does not meet {rule.about} ({arguments}).",
            "Correct the file, or change the expectation.",
        )
