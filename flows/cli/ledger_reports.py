"""`dp-release ledger`: what people look at and check; nothing here adds an entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from flows.cli.arguments import period_word
from flows.cli.command_parts import ledger_that_is, print_answer, this_home, with_json
from flows.cli.ledger_commands import ledger


@ledger.command("show")
@click.argument("account", required=False)
@with_json
def ledger_show(account: str | None, as_json: bool) -> Mapping[str, object]:
    """Show total, reserved, spent and left."""
    from flows.answers.ledger_answers import account_facts

    found = ledger_that_is()
    if account is not None:
        answer = account_facts(found, account)
    else:
        answer = {"accounts": [account_facts(found, one.name) for one in found.accounts()]}
    if not as_json:
        print_answer("account" if account else "accounts", answer)
    return answer


@ledger.command("charges")
@click.argument("account")
@click.option("--release", metavar="NAME", help="Only those of one release.")
@with_json
def ledger_charges(account: str, release: str | None, as_json: bool) -> list[Mapping[str, object]]:
    """List what was charged to an account, event by event."""
    from flows.answers.ledger_answers import charge_facts

    answer = charge_facts(ledger_that_is(), account, release)
    if not as_json:
        print_answer("charges", {"account": account, "release": release, "charges": answer})
    return answer


@ledger.command("forecast")
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--every", metavar="PERIOD", help="One each month, quarter or year.")
@with_json
def ledger_forecast(spec: Path, every: str | None, as_json: bool) -> Mapping[str, object]:
    """Tell how many more such releases fit, and until when."""
    from dp_core.spec.plan import make_plan
    from dp_core.spec.reading.spec_file import load_spec
    from flows.answers.forecast_answers import forecast_facts

    cadence = period_word("--every", every) if every is not None else None
    plan = make_plan(load_spec(spec))
    answer = forecast_facts(ledger_that_is(), plan, every=cadence)
    if not as_json:
        print_answer("forecast", answer)
    return answer


@ledger.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@with_json
def ledger_export(file: Path, as_json: bool) -> Mapping[str, object]:
    """Write the ledger to a file that an auditor can check."""
    from dp_core.wall.ledger.export import write_export

    found = ledger_that_is()
    head = found.head()
    entries = (entry for entry, _ in found.all_entries())
    write_export(file, entries, count=head.position, head=head.link)
    answer = {
        "file": str(file.absolute()),
        "entries": head.position,
        "head": head.link,
        "signed": head.signature is not None,
    }
    if not as_json:
        print_answer("exported", answer)
    return answer


@ledger.command("verify")
@click.argument("export", type=click.Path(path_type=Path), required=False)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Key that must have signed the last entry; repeat for several.",
)
@with_json
def ledger_verify(
    export: Path | None, keys: tuple[Path, ...], as_json: bool
) -> Mapping[str, object]:
    """Check every entry, and name the first that is wrong."""
    from flows.releases.ledger_check import check_export, check_ledger

    if export is not None:
        answer = check_export(export, keys, quiet=as_json)
    else:
        answer = check_ledger(ledger_that_is(), this_home(), keys, quiet=as_json)
    if not as_json:
        print_answer("verified", answer)
    return answer
