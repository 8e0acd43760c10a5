"""`dp-release schema`: a draft, a check of a file, and the suite of a schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.display.answer import Answer
from flows.cli.command_parts import PATH, CommandGroup, answering, cli

if TYPE_CHECKING:
    from rich.console import Console

    from dp_core.inspection.findings import FileCheck


@dataclass(frozen=True, slots=True)
class SchemaDraft(Answer):
    """The text of a draft."""

    schema: str


def _print_draft(_console: Console, answer: SchemaDraft) -> None:
    click.echo(answer.schema, nl=False)


@cli.group(cls=CommandGroup)
def schema() -> None:
    """Describe a data file, from public knowledge only."""


@schema.command("draft")
@click.argument("file", metavar="FILE|TABLE")
@click.option("--database", metavar="VARIABLE", help="Environment variable with a database's URL.")
@answering(_print_draft)
def schema_draft(file: str, database: str | None) -> SchemaDraft:
    """Print a schema to complete: column names and known types.

    With --database, it describes a table. Fill in levels and bounds from public knowledge.
    """
    from flows.cli.actions.drafting import draft

    return SchemaDraft(draft(file, database))


@schema.command("check")
@click.argument("file", metavar="SCHEMA", type=PATH)
@click.argument("data", metavar="FILE...", nargs=-1, required=True)
@answering("schema_views.checked")
def schema_check(file: Path, data: tuple[str, ...]) -> FileCheck:
    """Show everything in a file that does not fit a schema.

    Confidential: it prints values and counts, for the person who may see the data. It needs no
    account, spends nothing and writes nothing. Several files or a glob are one file of a release.
    It ends with exit code 2 if a release would refuse the file.
    """
    from flows.cli.actions.file_check import check

    return check(file, data)


@dataclass(frozen=True, slots=True)
class SchemaSuite(Answer):
    """The suite of a schema, in the JSON form of Great Expectations."""

    suite: dict[str, Any]


def _print_suite(_console: Console, answer: SchemaSuite) -> None:
    click.echo(json.dumps(answer.suite, ensure_ascii=False, indent=2))


@schema.command("suite")
@click.argument("file", metavar="SCHEMA", type=PATH)
@answering(_print_suite)
def schema_suite(file: Path) -> SchemaSuite:
    """Print the suite by which Great Expectations judges the data."""
    from dp_core.schema.expectations.suite import suite_document
    from dp_core.schema.reading.schema_file import load_schema

    return SchemaSuite(suite_document(load_schema(file).stored))
