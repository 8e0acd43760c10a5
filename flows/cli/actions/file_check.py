"""Checking a file against its schema, for the terminal of a person who may see the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput
from dp_core.inspection.file_check import check_files, data_files, with_findings
from dp_core.inspection.findings import FileCheck, Finding
from dp_core.schema.reading.schema_file import load_schema

if TYPE_CHECKING:
    from dp_core.schema.definition import Schema


def check(file: Path, patterns: Sequence[str]) -> FileCheck:
    """Return everything in data files that does not fit a schema. Confidential.

    Great Expectations judges the team's own expectations. The schema's own rules are judged by the
    functions from which it gets its profile, so it is not loaded without own expectations.

    Args:
        file: The schema.
        patterns: Paths or globs of the data files.

    Raises:
        BadInput: if the schema cannot be read, or no data file is found.
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
    found = check_files(patterns, schema)
    if not schema.expectations or found.columns < len(schema.reads) or not found.rows:
        return found
    return with_findings(found, list(_own_expectations(schema.stored, patterns)))


def _own_expectations(schema: Schema, patterns: Sequence[str]) -> Iterator[Finding]:
    """Yield the team's own expectations that the file does not meet."""
    from dp_core.confidential.source import Source
    from dp_core.schema.expectations.suite import rules_of
    from tasks.validation.profile_frame import FileProfile
    from tasks.validation.row_frame import RowPieces
    from tasks.validation.suite_judge import SuiteJudge
    from tasks.validation.trial import try_expectations

    try_expectations(schema)
    rules = rules_of(schema)
    own = [number for number, rule in enumerate(rules) if rule.kind == "own"]
    judge = SuiteJudge(schema.title, rules, only=own)
    profile, pieces = FileProfile(schema, rules), RowPieces(schema, rules)
    broken: set[int] = set()
    files, kind = data_files(patterns, Path())
    partition, current = profile.begin(), 0
    for batch in Source(files, kind, schema.reads).batches():
        if batch.partition != current:
            profile.add(partition)
            partition, current = profile.begin(), batch.partition
        for profiler, part in zip(profile.profilers, partition, strict=True):
            profiler.add(part, batch.records.column(profiler.column.name))
        for piece, rows in pieces.add(batch.records):
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
