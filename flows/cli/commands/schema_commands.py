"""`dp-release schema`: a draft for a file or a table; reads none of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.answers.answer import Answer
from flows.cli.command_parts import CommandGroup, answering, cli

if TYPE_CHECKING:
    from rich.console import Console


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
