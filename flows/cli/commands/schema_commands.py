"""`dp-release schema`: a draft, a check of a file, and the suite of a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Verbatim
from flows.cli.arguments import person_and_reason
from flows.cli.command_parts import PATH, CommandGroup, answering, cli

if TYPE_CHECKING:
    from dp_core.inspection.findings import FileCheck


@cli.group(cls=CommandGroup)
def schema() -> None:
    """Draft a schema, check a file against it, or print its suite."""


@schema.command("draft")
@click.argument("file", metavar="FILE|CODEBOOK|TABLE", required=False)
@click.argument("persons", metavar="[FILE]", type=PATH, required=False)
@click.option(
    "--codebook",
    metavar="CODEBOOK",
    type=PATH,
    help="Frictionless, DDI or a CSV table; with --public-data, a public file of this form.",
)
@click.option(
    "--public-data",
    is_flag=True,
    help="Declare the data public, so that the draft takes levels and bounds from them.",
)
@click.option("--by", metavar="NAME", help="Who declares the data public; with --public-data.")
@click.option("--reason", metavar="TEXT", help="Why the data are public; with --public-data.")
@click.option("--database", metavar="VARIABLE", help="Environment variable with a database's URL.")
@answering
def schema_draft(
    file: str | None,
    persons: Path | None,
    codebook: Path | None,
    public_data: bool,
    by: str | None,
    reason: str | None,
    database: str | None,
) -> CommandAnswer:
    """Print a schema to complete, from the column names and a codebook.

    \b
    dp-release schema draft FILE --codebook CODEBOOK > survey.schema.yaml
    dp-release schema draft --codebook CODEBOOK        without a data file
    dp-release schema draft FILE                       column names; types of Parquet only
    dp-release schema draft HOUSEHOLDS PERSONS         of two linked tables

    No row of the file is read unless it is declared public. Fill in the levels and bounds that
    are still empty from public knowledge.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    from dp_core.schema.draft import draft_linked
    from flows.cli.actions.drafting import draft

    public = None
    if public_data:
        if by is None or reason is None:
            raise BadInput(
                "--public-data needs --by NAME and --reason TEXT: who declares the data public, and"
                " why."
            )
        public = person_and_reason(by, reason)
    elif by is not None or reason is not None:
        raise BadInput(
            "--by and --reason are for --public-data only. Add --public-data, or leave both out."
        )
    if persons is not None:
        if file is None or codebook or public_data or database is not None:
            raise BadInput(
                "A draft of linked tables is made from the two files alone; name both, and leave"
                " out --codebook, --public-data and --database."
            )
        text = draft_linked(Path(file), persons)
    else:
        text = draft(file, database=database, codebook=codebook, public=public)
    return CommandAnswer({"schema": text}, (Verbatim(text),))


@schema.command("check")
@click.argument("file", metavar="SCHEMA", type=PATH)
@click.argument("data", metavar="FILE...", nargs=-1, required=True)
@answering
def schema_check(file: Path, data: tuple[str, ...]) -> FileCheck:
    """Show everything in a file that does not fit a schema.

    Confidential: it prints values and counts, for the person who may see the data. It needs no
    account, spends nothing and writes nothing. Several files or a glob are one file of a release;
    of linked tables, name the file of households, then that of persons.
    It ends with exit code 2 if a release would refuse the file.
    """
    from flows.cli.actions.file_check import check

    return check(file, data)


@schema.command("suite")
@click.argument("file", metavar="SCHEMA", type=PATH)
@answering
def schema_suite(file: Path) -> CommandAnswer:
    """Print the suite by which Great Expectations judges the data."""
    from dp_core.schema.expectations.suite import suite_document
    from dp_core.schema.reading.schema_file import load_schema

    suite = suite_document(load_schema(file).stored)
    text = json.dumps(suite, ensure_ascii=False, indent=2)
    return CommandAnswer({"suite": suite}, (Verbatim(f"{text}\n"),))
