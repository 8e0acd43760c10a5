"""`dp-release query`: an answer from the noisy tables of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput
from dp_core.text.documents.typed_text import exact_number, plain_text
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Verbatim
from flows.cli.command_parts import PATH, answering, cli, json_wanted

if TYPE_CHECKING:
    from dp_core.text.pages.answer import Answer


@cli.command("query")
@click.argument("folder", metavar="DIR", type=PATH)
@click.argument("question", metavar="QUESTION", nargs=-1, required=True)
@click.option("--level", default="0.95", metavar="LEVEL", help="Confidence level; 0.95.")
@click.option("--sampling", is_flag=True, help="Add the error of the file as a random sample.")
@click.option(
    "--since", metavar="DIR", type=PATH, multiple=True, help="Answer the change since this release."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print the answer as CSV.")
@answering
def query(
    folder: Path,
    question: tuple[str, ...],
    level: str,
    sampling: bool,
    since: tuple[Path, ...],
    as_csv: bool,
) -> Answer:
    """Answer a question from the noisy tables, with a margin.

    \b
    dp-release query DIR "count by sex, region"
    dp-release query DIR "share of sex = female by region where age >= 30"
    dp-release query DIR "mean of income by region"
    dp-release query DIR "difference in mean of income between sex = 1 and sex = 2"
    dp-release query DIR "ratio of smoker = yes to smoker = no by sex"
    dp-release query DIR "median of income by region" --since EARLIER

    It needs the bundle only, and combines all tables that bear on the question. It ends with
    exit code 2 if they do not determine the answer. With --since, it answers how much has changed
    since an earlier release, and whether the noise explains it. docs/query.md has the language.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    for word in question:
        plain_text("QUESTION", word)
    if not folder.exists() and len(question) == 1 and Path(question[0]).is_dir():
        raise BadInput("The folder comes first: dp-release query DIR QUESTION.")
    stated = exact_number("--level", level, positive=True)
    if stated >= 1:
        raise BadInput(f"--level must be between 0 and 1, such as 0.95, not {level}.")
    if len(since) > 1:
        raise BadInput("Give --since once: a change is that between two releases.")
    if as_csv and json_wanted():
        raise BadInput("Give --csv or --json, not both.")
    from dp_core.analysis.query.query_answer import answer_query
    from dp_core.analysis.query.sources import sources_of
    from dp_core.bundle.reading import read_bundle

    bundle, part = read_bundle(folder), float(stated)
    asked = " ".join(question)
    if since:
        from dp_core.analysis.query.change_answer import Release, answer_change

        later, earlier = (
            Release(each, sources_of(each)) for each in (bundle, read_bundle(since[0]))
        )
        found = answer_change(later, earlier, asked, level=part, sampling=sampling)
    else:
        found = answer_query(bundle, sources_of(bundle), asked, level=part, sampling=sampling)
    if as_csv and found.determined:
        return CommandAnswer({}, (Verbatim(found.csv()),))
    return found
