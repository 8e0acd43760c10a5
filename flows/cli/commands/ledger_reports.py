"""`dp-release ledger`: the commands that only read the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flows.cli.arguments import period_word
from flows.cli.command_parts import answering, existing_ledger, json_wanted, this_home
from flows.cli.commands.ledger_commands import ledger

if TYPE_CHECKING:
    from rich.console import Console

    from flows.answers.forecast_answers import Forecast
    from flows.answers.ledger_answers import (
        AccountAnswer,
        AllAccounts,
        Charges,
        LedgerCheck,
        LedgerExport,
    )


def _print_accounts(console: Console, answer: AccountAnswer | AllAccounts) -> None:
    from flows.answers.ledger_answers import AllAccounts
    from flows.cli.terminal import ledger_views

    if isinstance(answer, AllAccounts):
        ledger_views.accounts(console, answer)
    else:
        ledger_views.account(console, answer)


@ledger.command("show")
@click.argument("account", required=False)
@answering(_print_accounts)
def ledger_show(account: str | None) -> AccountAnswer | AllAccounts:
    """Show total, reserved, spent and left."""
    from flows.answers.ledger_answers import AllAccounts, account_answer

    found = existing_ledger()
    if account is not None:
        return account_answer(found, account)
    return AllAccounts(tuple(account_answer(found, one.name) for one in found.accounts()))


@ledger.command("charges")
@click.argument("account")
@click.option("--release", metavar="NAME", help="Charges of this release only.")
@answering("ledger_views.charges")
def ledger_charges(account: str, release: str | None) -> Charges:
    """List the charges to an account."""
    from flows.answers.ledger_answers import charges_to

    return charges_to(existing_ledger(), account, release)


@ledger.command("forecast")
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--every", metavar="PERIOD", help="Make one each month, quarter or year.")
@answering("ledger_views.forecast")
def ledger_forecast(spec: Path, every: str | None) -> Forecast:
    """Show how many more releases of a spec fit, and until when."""
    from dp_core.spec.plan import make_plan
    from dp_core.spec.reading.spec_file import load_spec
    from flows.answers.forecast_answers import forecast_answer

    cadence = period_word("--every", every) if every is not None else None
    plan = make_plan(load_spec(spec))
    return forecast_answer(existing_ledger(), plan, every=cadence)


@ledger.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@answering("ledger_views.exported")
def ledger_export(file: Path) -> LedgerExport:
    """Write the ledger to a file for auditors."""
    from dp_core.wall.ledger.export import write_export
    from flows.answers.ledger_answers import LedgerExport

    found = existing_ledger()
    head = found.head()
    entries = (entry for entry, _ in found.all_entries())
    write_export(file, entries, count=head.position, head=head.link)
    return LedgerExport(
        file=str(file.absolute()),
        entries=head.position,
        head=head.link,
        signed=head.signature is not None,
    )


@ledger.command("verify")
@click.argument("export", type=click.Path(path_type=Path), required=False)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Key that must have signed the last entry; repeatable.",
)
@answering("ledger_views.verified")
def ledger_verify(export: Path | None, keys: tuple[Path, ...]) -> LedgerCheck:
    """Check every entry, and name the first invalid one."""
    from flows.answers.ledger_answers import LedgerCheck
    from flows.releases.ledger_check import check_export, check_ledger

    quiet = json_wanted()
    if export is not None:
        found: Any = check_export(export, keys, quiet=quiet)
    else:
        found = check_ledger(existing_ledger(), this_home(), keys, quiet=quiet)
    return LedgerCheck(**found)
