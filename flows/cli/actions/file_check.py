"""Checking a file against its schema, for the terminal of a person who may see the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput
from dp_core.inspection.file_check import check_files, data_files, with_findings
from dp_core.inspection.findings import Example, FileCheck, Finding
from dp_core.inspection.header_check import check_header
from dp_core.inspection.panel_check import check_panel
from dp_core.schema.reading.schema_file import load_schema
from dp_core.text.pages.number_texts import plural

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
    if schema.linked is not None:
        return _of_linked(schema, patterns)
    if schema.panel is not None:
        more = partial(_own_expectations, schema.stored) if schema.expectations else None
        return check_panel(patterns, schema, more)
    found = check_files(patterns, schema)
    if not schema.expectations or found.columns < len(schema.reads) or not found.rows:
        return found
    from dp_core.confidential.source import Source

    files, kind = data_files(patterns, Path())
    pieces = Source(files, kind, schema.reads).batches()
    parts = (
        (each.records for each in part) for _, part in groupby(pieces, attrgetter("partition"))
    )
    return with_findings(found, _own_expectations(schema.stored, parts))


def _of_linked(schema: Schema, patterns: Sequence[str]) -> FileCheck:
    """Check each of two linked tables by itself and, if both fit, their keys and links."""
    from dp_core.confidential.linked.linked_rows import RulesBroken
    from dp_core.confidential.linked.linked_source import LinkedSource, read_households
    from dp_core.confidential.source import open_source

    linked = schema.linked
    assert linked is not None
    if len(patterns) != 2:
        raise BadInput(
            f"The schema has two linked tables; name the file of the table {linked.households},"
            f" then that of {linked.persons}."
        )
    if _swapped(schema, patterns):
        raise BadInput(
            f"The two files seem to be swapped; name the file of the table {linked.households}"
            f" first, then that of {linked.persons}."
        )
    homes = check_files(patterns[:1], schema.household_schema, whole=schema)
    persons = check_files(patterns[1:], schema.person_schema, whole=schema)
    more: list[Finding] = []
    if homes.fits and persons.fits:
        reads = (linked.household_reads, linked.person_reads)
        ignores = (linked.household_ignore, linked.person_ignore)
        try:
            read_households(
                schema,
                LinkedSource(
                    *(
                        open_source(*(pattern, Path(), columns, ignore))
                        for pattern, columns, ignore in zip(patterns, reads, ignores, strict=True)
                    )
                ),
            )
        except RulesBroken as error:
            more += [
                Finding(
                    "refusal",
                    "rules",
                    "",
                    f"{plural(each.rows, each.whose)} break{'s' * (each.rows == 1)} the rule"
                    f" `{each.text}`.",
                    "Correct the files or the rule.",
                    each.rows,
                    tuple(Example(f"household {key}") for key in each.keys),
                )
                for each in error.broken
            ]
        except BadInput as error:
            message, _, fix = error.message.partition("; ")
            where = f" ({error.internal})" if error.internal else ""
            more.append(
                Finding("refusal", "links", "", f"{message}{where}.", fix[:1].upper() + fix[1:])
            )
    rows = (homes.rows, persons.rows)
    both = replace(
        homes,
        files=(*homes.files, *persons.files),
        rows=None if None in rows else sum(each or 0 for each in rows),
        columns=homes.columns + persons.columns,
        rows_of=None if homes.rows is None or persons.rows is None else (homes.rows, persons.rows),
    )
    return with_findings(
        replace(both, findings=_of_table(linked.households, homes)),
        [*_of_table(linked.persons, persons), *more],
    )


def _of_table(name: str, found: FileCheck) -> tuple[Finding, ...]:
    """Return the findings of one table, each with its name."""
    return tuple(
        replace(one, message=f"{one.message.removesuffix('.')} (table {name}).")
        for one in found.findings
    )


def _swapped(schema: Schema, patterns: Sequence[str]) -> bool:
    """Return whether each file lacks a column of its own table and has all of the other table."""
    tables = (schema.household_schema, schema.person_schema)

    def has_all(pattern: str, table: Schema) -> bool:
        files, kind = data_files([pattern], Path())
        names = check_header(files[0], kind, table).names
        return all(name in names for name in table.reads)

    pairs = list(zip(patterns, tables, strict=True))
    crossed = zip(patterns, reversed(tables), strict=True)
    return not any(has_all(*pair) for pair in pairs) and all(has_all(*pair) for pair in crossed)


def _own_expectations(
    schema: Schema, parts: Iterable[Iterable[pa.RecordBatch]]
) -> Iterator[Finding]:
    """Yield the team's own expectations that the rows, in partitions, do not meet."""
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
