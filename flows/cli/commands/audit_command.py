"""`dp-release audit`: exact answers on neighbouring files, against the charged sensitivities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput, nearest
from flows.cli.command_parts import answering, cli, json_wanted
from flows.cli.completion import METHOD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dp_core.audit.configurations import Configuration
    from dp_core.text.pages.answer import CommandAnswer


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
            chosen=_chosen(methods),
            seed=seed,
            progress=lambda done, _name: bar.update(task, completed=done),
        )
    return audit_answer(findings)


def _chosen(methods: tuple[str, ...]) -> Sequence[Configuration] | None:
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
