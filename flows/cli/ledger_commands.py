"""`dp-release ledger`: what people decide, each with a name and a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click

from dp_core.documents.names import check_name
from dp_core.documents.typed_text import exact_number
from dp_core.errors import BadInput
from flows.cli.arguments import (
    account_calendar,
    account_terms,
    composition_word,
    exact_delta,
    exact_epsilon,
    known_word,
    plan_named,
    raised_calendar,
    relation,
    restated_calendar,
)
from flows.cli.command_parts import (
    Words,
    decided,
    ledger_that_is,
    print_answer,
    the_ledger,
    this_home,
    with_json,
)

_OWN_DELTA = "Of delta, for the thresholds of methods that have one (sba, sbhg)."


@click.group(cls=Words)
def ledger() -> None:
    """Accounts, and every epsilon that was spent."""


@ledger.command("open")
@click.argument("account")
@click.option("--epsilon", required=True, metavar="E", help="Total epsilon.")
@click.option("--delta", default="0", metavar="D", help="Total delta; 0: pure releases only.")
@click.option("--neighbours", default="add-remove", help="add-remove or replace-one.")
@click.option("--unit", default="row", help="Who is protected: row or person.")
@click.option("--composition", default="basic", help="How releases add up: basic or zcdp.")
@click.option("--own-delta", default="0", metavar="D", help=_OWN_DELTA)
@click.option("--owner", metavar="NAME", help="Who answers for it; default: --by.")
@click.option("--per", metavar="PERIOD", help="Allowance per month, quarter or year.")
@click.option("--period-epsilon", metavar="E", help="Epsilon that one period may use.")
@click.option(
    "--period-delta", metavar="D", help="Delta of one period; zcdp: own delta (default all)."
)
@click.option("--carry-over", is_flag=True, help="What a period leaves is for later ones.")
@click.option("--within", metavar="ACCOUNT", help="Account whose total covers this one too.")
@click.option("--approved-plans-only", is_flag=True, help="Run only plans that were approved.")
@decided
@with_json
def ledger_open(
    account: str,
    epsilon: str,
    delta: str,
    neighbours: str,
    unit: str,
    composition: str,
    own_delta: str,
    owner: str | None,
    per: str | None,
    period_epsilon: str | None,
    period_delta: str | None,
    carry_over: bool,
    within: str | None,
    approved_plans_only: bool,
    by: str,
    reason: str,
    as_json: bool,
) -> Mapping[str, object]:
    """Open an account: its total, and how releases add up."""
    from flows.answers.ledger_answers import account_facts

    name = check_name(account, what="account")
    terms = account_terms(
        composition,
        epsilon=exact_number("--epsilon", epsilon, positive=True),
        delta=exact_number("--delta", delta, below_one=True),
        own_delta=exact_number("--own-delta", own_delta, below_one=True),
    )
    calendar = account_calendar(
        terms, per=per, epsilon=period_epsilon, delta=period_delta, carry_over=carry_over
    )
    if owner is not None and not owner.strip():
        raise BadInput("--owner is empty; name who answers for the account, or leave it out.")
    known = relation(neighbours), known_word("--unit", unit)
    found = ledger_that_is() if within else the_ledger()
    found.open_account(
        name,
        terms=terms,
        neighbours=known[0],
        unit=known[1],
        by=by,
        reason=reason,
        owner=owner.strip() if owner else None,
        calendar=calendar,
        within=within,
        approved_only=approved_plans_only,
    )
    answer = account_facts(found, name)
    if not as_json:
        print_answer("account", answer)
        if not terms.delta:
            click.echo("With a total delta of 0 it takes releases of delta 0 only.")
    return answer


@ledger.command("raise")
@click.argument("account")
@click.option("--epsilon", metavar="E", help="New total epsilon.")
@click.option("--delta", metavar="D", help="New total delta.")
@click.option("--period-epsilon", metavar="E", help="New epsilon of one period.")
@click.option("--period-delta", metavar="D", help="New delta of one period; zcdp: own delta.")
@decided
@with_json
def ledger_raise(
    account: str,
    epsilon: str | None,
    delta: str | None,
    period_epsilon: str | None,
    period_delta: str | None,
    by: str,
    reason: str,
    as_json: bool,
) -> Mapping[str, object]:
    """Raise a total, or the allowance of a period."""
    from flows.answers.ledger_answers import account_facts

    new_epsilon, new_delta = exact_epsilon("--epsilon", epsilon), exact_delta("--delta", delta)
    if (epsilon, delta, period_epsilon, period_delta) == (None, None, None, None):
        raise BadInput(
            "Nothing is raised: give --epsilon, --delta, --period-epsilon or --period-delta."
        )
    found = ledger_that_is()
    charter = found.account(account).charter
    terms = replace(
        charter.terms,
        epsilon=max(charter.terms.epsilon, new_epsilon or Fraction(0)),
        delta=max(charter.terms.delta, new_delta or Fraction(0)),
    )
    calendar = raised_calendar(
        account, charter.calendar, terms, epsilon=period_epsilon, delta=period_delta
    )
    before = account_facts(found, account)
    found.raise_account(
        account, epsilon=new_epsilon, delta=new_delta, calendar=calendar, by=by, reason=reason
    )
    answer = account_facts(found, account)
    if not as_json:
        print_answer("changed", {"before": before, "after": answer})
    return answer


@ledger.command("restate")
@click.argument("account")
@click.option("--composition", required=True, help="How releases add up: basic or zcdp.")
@click.option("--own-delta", default="0", metavar="D", help=_OWN_DELTA)
@click.option("--period-delta", metavar="D", help="New delta of one period; zcdp: own delta.")
@decided
@with_json
def ledger_restate(
    account: str,
    composition: str,
    own_delta: str,
    period_delta: str | None,
    by: str,
    reason: str,
    as_json: bool,
) -> Mapping[str, object]:
    """Let releases add up in another way, history included."""
    from flows.answers.ledger_answers import RESTATING, account_facts

    kind = composition_word(composition)
    part = exact_number("--own-delta", own_delta, below_one=True)
    found = ledger_that_is()
    before = account_facts(found, account)
    charter = found.account(account).charter
    terms = charter.terms
    if kind == "zcdp" and terms.delta == 0:
        raise BadInput(
            f"Account {account!r} has delta 0, and zcdp needs one above 0; raise it first with"
            f" `dp-release ledger raise {account} --delta D --by NAME --reason TEXT`."
        )
    after = account_terms(kind, epsilon=terms.epsilon, delta=terms.delta, own_delta=part)
    calendar = restated_calendar(account, charter.calendar, terms, after, delta=period_delta)
    found.restate_account(
        account,
        composition=kind,
        own_delta=part,
        period_delta=calendar.delta if calendar else None,
        by=by,
        reason=reason,
    )
    answer = {"before": before, "after": account_facts(found, account), "note": RESTATING}
    if not as_json:
        print_answer("changed", answer)
    return answer


@ledger.command("close")
@click.argument("account")
@decided
@with_json
def ledger_close(account: str, by: str, reason: str, as_json: bool) -> Mapping[str, object]:
    """Let no more releases be made from an account."""
    found = ledger_that_is()
    found.close_account(account, by=by, reason=reason)
    if not as_json:
        click.echo(f"Account {account!r} is closed.")
    return {"account": account, "closed": True}


@ledger.command("approve")
@click.argument("plan", metavar="PLAN-HASH|SPEC")
@decided
@with_json
def ledger_approve(plan: str, by: str, reason: str, as_json: bool) -> Mapping[str, object]:
    """Approve a plan, by its hash or its spec."""
    return _decide(plan, approved=True, by=by, reason=reason, as_json=as_json)


@ledger.command("withdraw")
@click.argument("plan", metavar="PLAN-HASH|SPEC")
@decided
@with_json
def ledger_withdraw(plan: str, by: str, reason: str, as_json: bool) -> Mapping[str, object]:
    """Withdraw the approval of a plan."""
    return _decide(plan, approved=False, by=by, reason=reason, as_json=as_json)


def _decide(
    plan: str, *, approved: bool, by: str, reason: str, as_json: bool
) -> Mapping[str, object]:
    from flows.answers.ledger_answers import decision_facts

    digest, made = plan_named(plan)
    found = ledger_that_is()
    decide = found.approve if approved else found.withdraw
    decide(digest, by=by, reason=reason)
    answer = decision_facts(found, digest, made, by=by, approved=approved)
    if not as_json:
        print_answer("decision", answer)
    return answer


@ledger.command("keygen")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replaces", metavar="FINGERPRINT", help="Key that signs no longer.")
@decided
@with_json
def ledger_keygen(
    file: Path, replaces: str | None, by: str, reason: str, as_json: bool
) -> Mapping[str, object]:
    """Make a key; from then on every entry is signed."""
    from flows.cli.actions.signing_keys import make_signing_key

    answer = make_signing_key(
        the_ledger(), this_home(), file, replaces=replaces, by=by, reason=reason
    )
    if not as_json:
        print_answer("key", answer)
    return answer
