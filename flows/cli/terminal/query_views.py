"""The terminal view of an answer from the noisy tables."""

from __future__ import annotations

import click
from rich.console import Console

from dp_core.analysis.query.changes.change_answer import ChangeAnswer, ChangeFile
from dp_core.analysis.query.query_answer import QueryAnswer, QueryFile
from dp_core.text.pages.page_text import print_page

MOST_SHOWN = 1000
"""Most answers in the terminal; `--csv` and `--json` have all."""


def answered(console: Console, answer: QueryAnswer | QueryFile | ChangeAnswer | ChangeFile) -> None:
    """Print the table of estimates or changes, and what the reader must know; or the CSV file."""
    found = answer.answer if isinstance(answer, QueryFile | ChangeFile) else answer
    if not found.determined:
        click.echo(f"dp-release: {found.reason}", err=True)
    elif isinstance(answer, QueryFile | ChangeFile):
        click.echo(answer.text(), nl=False)
    else:
        print_page(console, answer.page(MOST_SHOWN, "--csv"))
