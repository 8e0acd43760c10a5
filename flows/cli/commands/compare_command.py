"""`dp-release compare`: several methods on public data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flows.cli.command_parts import PATH, answering, cli, json_wanted, this_home
from flows.cli.completion import METHOD

if TYPE_CHECKING:
    from flows.answers.comparison_answers import ComparisonAnswer


@cli.command("compare")
@click.argument("specs", nargs=-1, type=PATH, metavar="SPEC...")
@click.option("--public-data", is_flag=True, help="Declare that the data is public; required.")
@click.option("--by", metavar="NAME", help="Who declares it public; required.")
@click.option("--reason", metavar="TEXT", help="Why it is public; required.")
@click.option("--out", metavar="DIR", type=PATH, help="Folder for tables and plots.")
@click.option(
    "--method",
    "methods",
    type=METHOD,
    multiple=True,
    metavar="NAME",
    help="Preset to compare; repeatable.",
)
@click.option(
    "--epsilon", "epsilons", multiple=True, metavar="E", help="Epsilon to compare; repeatable."
)
@click.option("--runs", default="3", metavar="N", help="Runs of each method and epsilon; 3.")
@click.option("--target", metavar="COLUMN", help="Column for classifiers to predict.")
@click.option("--formula", "formulas", multiple=True, metavar="F", help="Regression; repeatable.")
@click.option("--hold-out", metavar="SHARE", help="Share of test records, with --target; 0.2.")
@click.option("--seed", metavar="S", help="Seed of the first run; default: the spec's.")
@click.option("--jobs", default="1", metavar="N", help="Parallel runs; 1.")
@click.option("--limit", default="1800", metavar="SECONDS", help="Time limit of a run; 1800.")
@answering("comparison_views.compared")
def compare(**options: Any) -> ComparisonAnswer:
    """Compare methods on public data; nothing is charged.

    Runs each spec with each --method and --epsilon several times. A bootstrap of the file and
    `independent` are the references. Repeat the command to continue an interrupted comparison.
    """
    from flows.comparison.comparison_request import request_of

    request = request_of(**options)
    from flows.comparison.comparison import compare as carry_out
    from flows.comparison.comparison_progress import ComparisonProgress
    from flows.engine.settings import prepare

    prepare(this_home())
    return carry_out(request, ComparisonProgress(quiet=json_wanted()))
