"""`dp-release compare`: several methods on data that may be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from flows.cli.command_parts import print_answer, with_json


@click.command("compare")
@click.argument("specs", nargs=-1, type=click.Path(path_type=Path), metavar="SPEC...")
@click.option("--public-data", is_flag=True, help="The data may be looked at; required.")
@click.option("--by", metavar="NAME", help="Who declares them public; required.")
@click.option("--reason", metavar="TEXT", help="Why they are public; required.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of tables and plots.")
@click.option("--method", "methods", multiple=True, metavar="NAME", help="Preset; repeatable.")
@click.option("--epsilon", "epsilons", multiple=True, metavar="E", help="Repeatable.")
@click.option("--runs", default="3", metavar="N", help="Of each method and epsilon; 3.")
@click.option("--target", metavar="COLUMN", help="Column that classifiers predict.")
@click.option("--formula", "formulas", multiple=True, metavar="F", help="Regression; repeatable.")
@click.option("--hold-out", metavar="SHARE", help="Records no method sees, with --target; 0.2.")
@click.option("--seed", metavar="S", help="Of the first run's post-processing; the spec's.")
@click.option("--jobs", default="1", metavar="N", help="Runs at a time; 1.")
@click.option("--limit", default="1800", metavar="SECONDS", help="Stops a run; 1800.")
@with_json
def compare(
    specs: tuple[Path, ...],
    public_data: bool,
    by: str | None,
    reason: str | None,
    out: Path | None,
    methods: tuple[str, ...],
    epsilons: tuple[str, ...],
    runs: str,
    target: str | None,
    formulas: tuple[str, ...],
    hold_out: str | None,
    seed: str | None,
    jobs: str,
    limit: str,
    as_json: bool,
) -> Mapping[str, object]:
    """Compare methods on public data; nothing is charged.

    Each spec is run with each --method and at each --epsilon, several times, beside a bootstrap of
    the file and `independent`. The same command again goes on where it stopped.
    """
    from flows.comparison.comparison_request import request_of

    request = request_of(
        specs=specs,
        public_data=public_data,
        by=by,
        reason=reason,
        out=out,
        methods=methods,
        epsilons=epsilons,
        runs=runs,
        target=target,
        formulas=formulas,
        hold_out=hold_out,
        seed=seed,
        jobs=jobs,
        limit=limit,
    )
    from flows.comparison.comparison import compare as carry_out
    from flows.comparison.comparison_progress import ComparisonProgress
    from flows.engine.settings import prepare
    from tasks.run.home import home

    prepare(home())
    answer = carry_out(request, ComparisonProgress(quiet=as_json))
    if not as_json:
        print_answer("compared", answer)
    return answer
