"""`dp-release ledger`.

First the commands that add an entry, each with a name and a reason; then those that only read.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput
from dp_core.text.names import check_name
from dp_core.text.pages.answer import CommandAnswer, known_values
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Block, Fact, Sentence
from flows.cli.arguments import (
    COMPOSITION,
    DELTA,
    EPSILON,
    PERIOD,
    Word,
    account_calendar,
    account_terms,
    confirm_total,
    plan_named,
    raised_calendar,
    restated_calendar,
)
from flows.cli.command_parts import (
    PATH,
    CommandGroup,
    answering,
    cli,
    decision_options,
    existing_ledger,
    json_wanted,
    the_ledger,
    this_home,
)
from flows.cli.completion import ACCOUNT, RELEASE

if TYPE_CHECKING:
    from dp_core.kernel.cost.composition import Composition
    from dp_core.kernel.privacy import Neighbours
    from dp_core.policies.budget_periods import Period

_LARGE_EPSILON = "Confirm a total epsilon above 100, or delta above 0.001."
_OWN_DELTA = "Part of delta reserved for methods with a threshold (sba, sbhg)."
_NEW_PERIOD_DELTA = click.option(
    "--period-delta",
    type=DELTA,
    metavar="D",
    help="New delta of one period; for zcdp, its own delta.",
)


@cli.group(cls=CommandGroup)
def ledger() -> None:
    """Manage accounts, and show what was spent."""


@ledger.command("open")
@click.argument("account", type=ACCOUNT)
@click.option("--epsilon", type=EPSILON, required=True, metavar="E", help="Total epsilon.")
@click.option(
    "--delta",
    type=DELTA,
    default="0",
    metavar="D",
    help="Total delta; 0 allows pure releases only.",
)
@click.option(
    "--neighbours",
    type=Word("add-remove", "replace-one"),
    default="add-remove",
    help="add-remove or replace-one.",
)
@click.option(
    "--unit",
    type=Word("row", "person", "household"),
    default="row",
    help="Who is protected: row, person or household.",
)
@click.option(
    "--composition",
    type=COMPOSITION,
    default="basic",
    help="Composition of releases: basic or zcdp.",
)
@click.option("--own-delta", type=DELTA, default="0", metavar="D", help=_OWN_DELTA)
@click.option("--owner", metavar="NAME", help="Who is responsible for it; default: --by.")
@click.option("--per", type=PERIOD, metavar="PERIOD", help="Limit each month, quarter or year.")
@click.option("--period-epsilon", type=EPSILON, metavar="E", help="Epsilon allowed in one period.")
@click.option(
    "--period-delta",
    type=DELTA,
    metavar="D",
    help="Delta of one period; for zcdp, its own delta (all).",
)
@click.option("--carry-over", is_flag=True, help="Keep unused allowance for later periods.")
@click.option(
    "--within", type=ACCOUNT, metavar="ACCOUNT", help="Account whose total also limits this one."
)
@click.option("--approved-plans-only", is_flag=True, help="Run approved plans only.")
@click.option("--core-questions-only", is_flag=True, help="Refuse the kernel's extensions.")
@click.option("--large-epsilon", "meant", is_flag=True, help=_LARGE_EPSILON)
@decision_options
@answering
def ledger_open(
    account: str,
    epsilon: Fraction,
    delta: Fraction,
    neighbours: Neighbours,
    unit: str,
    composition: Composition,
    own_delta: Fraction,
    owner: str | None,
    per: Period | None,
    period_epsilon: Fraction | None,
    period_delta: Fraction | None,
    carry_over: bool,
    within: str | None,
    approved_plans_only: bool,
    core_questions_only: bool,
    meant: bool,
    by: str,
    reason: str,
) -> CommandAnswer:
    """Open an account with a total budget."""
    from flows.answers.account_answers import account_answer

    name = check_name(account, what="account")
    terms = account_terms(composition, epsilon=epsilon, delta=delta, own_delta=own_delta)
    calendar = account_calendar(
        terms, per=per, epsilon=period_epsilon, delta=period_delta, carry_over=carry_over
    )
    if owner is not None and not owner.strip():
        raise BadInput("--owner is empty; name the person responsible, or leave the option out.")
    confirm_total(terms.epsilon, terms.delta, meant=meant)
    found = existing_ledger() if within else the_ledger()
    found.open_account(
        name,
        terms=terms,
        neighbours=neighbours,
        unit=unit,
        by=by,
        reason=reason,
        owner=owner.strip() if owner else None,
        calendar=calendar,
        within=within,
        approved_only=approved_plans_only,
        core_only=core_questions_only,
    )
    return account_answer(found, name, opened=True)


@ledger.command("raise")
@click.argument("account", type=ACCOUNT)
@click.option("--epsilon", type=EPSILON, metavar="E", help="New total epsilon.")
@click.option("--delta", type=DELTA, metavar="D", help="New total delta.")
@click.option("--period-epsilon", type=EPSILON, metavar="E", help="New epsilon of one period.")
@_NEW_PERIOD_DELTA
@click.option("--large-epsilon", "meant", is_flag=True, help=_LARGE_EPSILON)
@decision_options
@answering
def ledger_raise(
    account: str,
    epsilon: Fraction | None,
    delta: Fraction | None,
    period_epsilon: Fraction | None,
    period_delta: Fraction | None,
    meant: bool,
    by: str,
    reason: str,
) -> CommandAnswer:
    """Raise the total, or the allowance per period."""
    from flows.answers.account_answers import account_answer, changed_account

    if (epsilon, delta, period_epsilon, period_delta) == (None, None, None, None):
        raise BadInput(
            "Nothing to raise; give --epsilon, --delta, --period-epsilon or --period-delta."
        )
    found = existing_ledger()
    now = found.account(account)
    terms = replace(
        now.terms,
        epsilon=max(now.terms.epsilon, epsilon or Fraction(0)),
        delta=max(now.terms.delta, delta or Fraction(0)),
    )
    calendar = raised_calendar(
        account, now.calendar, terms, epsilon=period_epsilon, delta=period_delta
    )
    confirm_total(epsilon, delta, meant=meant)
    before = account_answer(found, account)
    found.raise_account(
        account, epsilon=epsilon, delta=delta, calendar=calendar, by=by, reason=reason
    )
    return changed_account(before, account_answer(found, account))


@ledger.command("restate")
@click.argument("account", type=ACCOUNT)
@click.option(
    "--composition", type=COMPOSITION, required=True, help="Composition of releases: basic or zcdp."
)
@click.option("--own-delta", type=DELTA, default="0", metavar="D", help=_OWN_DELTA)
@_NEW_PERIOD_DELTA
@decision_options
@answering
def ledger_restate(
    account: str,
    composition: Composition,
    own_delta: Fraction,
    period_delta: Fraction | None,
    by: str,
    reason: str,
) -> CommandAnswer:
    """Change the composition, for past releases too."""
    from flows.answers.account_answers import account_answer, changed_account

    found = existing_ledger()
    before = account_answer(found, account)
    now = found.account(account)
    terms = now.terms
    if composition == "zcdp" and terms.delta == 0:
        raise BadInput(
            f"Account {account!r} has delta 0, but zcdp needs delta above 0. Raise it first:"
            f" `dp-release ledger raise {account} --delta D --by NAME --reason TEXT`."
        )
    after = account_terms(
        composition, epsilon=terms.epsilon, delta=terms.delta, own_delta=own_delta
    )
    calendar = restated_calendar(account, now.calendar, terms, after, delta=period_delta)
    found.restate_account(
        account,
        composition=composition,
        own_delta=own_delta,
        period_delta=calendar.delta if calendar else None,
        by=by,
        reason=reason,
    )
    return changed_account(before, account_answer(found, account), restated=True)


@ledger.command("close")
@click.argument("account", type=ACCOUNT)
@decision_options
@answering
def ledger_close(account: str, by: str, reason: str) -> CommandAnswer:
    """Close an account; it takes no more releases."""
    existing_ledger().close_account(account, by=by, reason=reason)
    page = (Sentence(f"Account {account!r} is closed."),)
    return CommandAnswer({"account": account, "closed": True}, page)


@ledger.command("allow-retry")
@click.argument("account", type=ACCOUNT)
@decision_options
@answering
def ledger_allow_retry(account: str, by: str, reason: str) -> CommandAnswer:
    """Allow further attempts after the data refused three."""
    ledger = existing_ledger()
    refused = ledger.allow_retry(account, by=by, reason=reason).refused
    new = ledger.new_attempts(account)
    sentence = (
        f"Account {account!r} allows further attempts; it has"
        f" {plural(refused, 'refused attempt')} so far. Together with the accounts above and within"
        f" it, it may begin {plural(new, 'new attempt')}."
    )
    values = {"account": account, "refused_attempts": refused, "new_attempts": new, "by": by}
    return CommandAnswer(values, (Sentence(sentence),))


@ledger.command("approve")
@click.argument("plan", metavar="PLAN-HASH|SPEC")
@decision_options
@answering
def ledger_approve(plan: str, by: str, reason: str) -> CommandAnswer:
    """Approve a plan, given its hash or spec."""
    return _decide(plan, approved=True, by=by, reason=reason)


@ledger.command("withdraw")
@click.argument("plan", metavar="PLAN-HASH|SPEC")
@decision_options
@answering
def ledger_withdraw(plan: str, by: str, reason: str) -> CommandAnswer:
    """Withdraw the approval of a plan."""
    return _decide(plan, approved=False, by=by, reason=reason)


def _decide(plan: str, *, approved: bool, by: str, reason: str) -> CommandAnswer:
    from flows.answers.ledger_answers import plan_decision

    digest, made = plan_named(plan)
    found = existing_ledger()
    decide = found.approve if approved else found.withdraw
    decide(digest, by=by, reason=reason)
    return plan_decision(found, digest, made, approved=approved, by=by)


@ledger.command("keygen")
@click.argument("file", type=PATH)
@click.option("--replaces", metavar="FINGERPRINT", help="Key that the new one replaces.")
@decision_options
@answering
def ledger_keygen(file: Path, replaces: str | None, by: str, reason: str) -> CommandAnswer:
    """Make a key that signs every entry from now on."""
    from flows.cli.actions.signing_keys import make_signing_key

    return make_signing_key(
        the_ledger(), this_home(), file, replaces=replaces, by=by, reason=reason
    )


@ledger.command("show")
@click.argument("account", type=ACCOUNT, required=False)
@answering
def ledger_show(account: str | None) -> CommandAnswer:
    """Show total, reserved, spent and left."""
    from flows.answers.account_answers import account_answer, all_accounts

    found = existing_ledger()
    return all_accounts(found) if account is None else account_answer(found, account)


@ledger.command("charges")
@click.argument("account", type=ACCOUNT)
@click.option("--release", type=RELEASE, metavar="NAME", help="Charges of this release only.")
@answering
def ledger_charges(account: str, release: str | None) -> CommandAnswer:
    """List the charges to an account."""
    from flows.answers.ledger_answers import charges_to

    return charges_to(existing_ledger(), account, release)


@ledger.command("forecast")
@click.argument("spec", type=PATH)
@click.option(
    "--every", type=PERIOD, metavar="PERIOD", help="Make one each month, quarter or year."
)
@answering
def ledger_forecast(spec: Path, every: Period | None) -> CommandAnswer:
    """Show how many more releases of a spec fit, and until when.

    SPEC is the file of a release such as those to come; it names the account.
    """
    from flows.answers.forecast_answers import forecast_answer
    from tasks.run.earlier_releases import preview_plan

    return forecast_answer(existing_ledger(), preview_plan(spec), every=every)


@ledger.command("export")
@click.argument("file", type=PATH)
@answering
def ledger_export(file: Path) -> CommandAnswer:
    """Write the ledger to a file for auditors."""
    from tasks.ledger.export import write_export

    found = existing_ledger()
    head = found.head()
    entries = (entry for entry, _ in found.all_entries())
    write_export(file, entries, count=head.position, head=head.link)
    where, signed = file.absolute(), head.signature is not None
    trusted = " --public-key KEY.pub" if signed else ""
    return CommandAnswer(
        {"file": where, "entries": head.position, "head": head.link, "signed": signed},
        (
            Fact("Export", f"{plural(head.position, 'entry')} in {where} (mode 0600)", whole=True),
            Fact("Check", f"dp-release ledger verify {where}{trusted}", whole=True),
            Fact("", "This check needs neither the ledger nor its home."),
            Fact(
                "Keep",
                "the file among staff and auditors: it contains times of day and keyed hashes of"
                " inputs, which are not published.",
            ),
        ),
    )


@ledger.command("verify")
@click.argument("export", type=PATH, required=False)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Key that must have signed the last entry; repeatable.",
)
@answering
def ledger_verify(export: Path | None, keys: tuple[Path, ...]) -> CommandAnswer:
    """Check every entry, and name the first invalid one."""
    from flows.releases.ledger_check import check_export, check_ledger

    quiet = json_wanted()
    if export is not None:
        return check_export(export, keys, quiet=quiet)
    return check_ledger(existing_ledger(), this_home(), keys, quiet=quiet)


@ledger.command("adopt")
@decision_options
@answering
def ledger_adopt(by: str, reason: str) -> CommandAnswer:
    """Accept a restored ledger, or a clock that jumped.

    This cannot be undone.
    """
    from tasks.run.home import ledger_exists, open_ledger

    if not ledger_exists():
        existing_ledger()  # raises the error of every command that needs a ledger
    found = open_ledger(refuse=False).adopt(by=by, reason=reason)
    page: list[Block] = [Sentence(f"This ledger is adopted, at entry {found.head:,}.")]
    if found.behind is None:
        page.append(Fact("Missing", "an unknown number of entries"))
    elif found.behind:
        page.append(Fact("Missing", f"{plural(found.behind, 'entry')}, up to {found.noted:,}"))
    if found.elsewhere is not None:
        place = f"{found.elsewhere}; the ledger now records its present place"
        page.append(Fact("Place", place))
    if found.closed:
        page.append(Fact("Closed", f"{', '.join(found.closed)}: closed before, and closed again"))
    last = (
        "Every later release states this adoption. Never use another copy of the ledger again."
        if found.clock is None
        else f"The clock of this machine, {found.clock} ahead, is accepted."
    )
    names = ("ledger", "head", "noted", "behind", "elsewhere", "closed")
    values = {name: getattr(found, name) for name in names} | known_values(clock=found.clock)
    return CommandAnswer(values, (*page, Sentence(last)))
