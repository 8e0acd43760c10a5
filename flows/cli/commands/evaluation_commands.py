"""`compare` and `audit` for methods, and `release evaluate` for a release beside its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import BadInput, nearest
from dp_core.text.documents.typed_text import plain_text
from flows.cli.command_parts import PATH, answering, cli, internal_result, json_wanted, this_home
from flows.cli.commands.release_commands import release_group
from flows.cli.completion import METHOD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dp_core.audit.configurations import Configuration
    from dp_core.text.pages.answer import CommandAnswer


@cli.command("compare")
@click.argument("specs", nargs=-1, type=PATH, metavar="SPEC...")
@click.option("--public-data", is_flag=True, help="Declare the data public; required.")
@click.option("--by", metavar="NAME", help="Who declares the data public; required.")
@click.option("--reason", metavar="TEXT", help="Why the data are public; required.")
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
@click.option(
    "--group", "groups", multiple=True, metavar="COLUMN", help="Error by level; repeatable."
)
@click.option("--attacks", is_flag=True, help="Attack each method; needs held-out records.")
@click.option("--formula", "formulas", multiple=True, metavar="F", help="Regression; repeatable.")
@click.option("--hold-out", metavar="SHARE", help="Share of records that no method sees; 0.2.")
@click.option("--seed", metavar="S", help="Seed of the first run; default: the spec's.")
@click.option("--jobs", default="1", metavar="N", help="Parallel runs; 1.")
@click.option("--limit", default="1800", metavar="SECONDS", help="Time limit of a run; 1800.")
@answering
def compare(**options: Any) -> CommandAnswer:
    """Compare methods on public data; nothing is charged.

    Runs each spec with each --method and --epsilon several times. A bootstrap of the file and
    `independent` are the references. Repeat the command to continue an interrupted comparison.
    """
    from flows.comparison.comparison_request import request_of

    request = request_of(**options)
    from flows.comparison.comparison import ComparisonProgress
    from flows.comparison.comparison import compare as carry_out
    from flows.engine.settings import prepare

    prepare(this_home())
    return carry_out(request, ComparisonProgress(quiet=json_wanted()))


@release_group.command("evaluate")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--group", "groups", multiple=True, metavar="COLUMN", help="Error by level; repeatable."
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="COLUMN",
    help="Column for classifiers to predict; repeatable.",
)
@click.option("--quasi", multiple=True, metavar="COLUMN", help="Quasi-identifier; repeatable.")
@click.option("--line", metavar="Y~X", help="Regression line to compare by group.")
@click.option("--attacks", is_flag=True, help="Attack the method; takes minutes.")
@answering
def evaluate(
    folder: Path,
    groups: tuple[str, ...],
    targets: tuple[str, ...],
    quasi: tuple[str, ...],
    line: str | None,
    attacks: bool,
) -> CommandAnswer:
    """Compare a published release with its file, for staff.

    Computes the scores of NIST's SDNist report, error by subgroup, classifiers and attacks.
    Nothing is charged. The result goes to the internal folder of the release, never to the
    terminal.
    """
    from flows.cli.actions.internal_comparisons import evaluate_release

    for option, names in (("--group", groups), ("--target", targets), ("--quasi", quasi)):
        for name in names:
            plain_text(option, name)
    release, page = evaluate_release(
        this_home(), folder, by=groups, targets=targets, quasi=quasi, line=line, attacks=attacks
    )
    return internal_result(release, page)


@cli.command("audit")
@click.option("--quick", is_flag=True, help="Audit each release once; the units alternate.")
@click.option(
    "--method",
    "methods",
    type=METHOD,
    multiple=True,
    metavar="NAME",
    help="Preset to audit; repeatable.",
)
@click.option(
    "--seed",
    default=1,
    metavar="S",
    show_default=True,
    help="Seed of the generated files and the search.",
)
@answering
def audit(quick: bool, methods: tuple[str, ...], seed: int) -> CommandAnswer:
    """Compare charges with exact answers on neighbours.

    Makes releases of tiny generated files in memory, with every preset and option, for rows, for
    persons of up to 3 rows, and for households of up to 3 members. Reads no data and no ledger.
    Ends with exit code 1 if a charge is too small, or if a full audit leaves a question untested.
    """
    from rich.console import Console
    from rich.progress import Progress

    from dp_core.audit.audit_run import audit as carry_out
    from flows.answers.audit_answers import audit_answer

    with Progress(console=Console(stderr=True), transient=True, disable=json_wanted()) as bar:
        task = bar.add_task("Auditing", total=1.0)
        findings = carry_out(
            "quick" if quick else "full",
            chosen=_chosen_releases(methods),
            seed=seed,
            progress=lambda done, _name: bar.update(task, completed=done),
        )
    return audit_answer(findings)


def _chosen_releases(methods: tuple[str, ...]) -> Sequence[Configuration] | None:
    """Return the releases of some presets, None for all.

    Raises:
        BadInput: if a name is not that of a preset.
    """
    from dp_core.audit.configurations import configurations
    from dp_core.plan.presets import PRESETS

    if not methods:
        return None
    for name in methods:
        if name not in PRESETS:
            raise BadInput(f"There is no method {name!r}.{nearest(name, PRESETS)}")
    return [each for each in configurations() if each.method in methods]
