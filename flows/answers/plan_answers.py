"""The answer of `dp-release plan`: cost and noise of a release, and what its account has left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dp_core.analysis.planned.plan_page import plan_page
from dp_core.analysis.planned.plan_values import plan_values
from dp_core.errors import BadInput, BudgetRefused
from dp_core.plan.forecast.machine_speed import REFERENCE, Machine
from dp_core.plan.plan import Plan, with_gaussian_noise
from dp_core.text.pages.answer import CommandAnswer, known_values
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Block, Fact, Sentence
from flows.answers.amounts import (
    account_above,
    amount_left,
    left_words,
)
from tasks.support.budget_refusals import no_account

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger


def plan_answer(plan: Plan, ledger: Ledger | None, machine: Machine = REFERENCE) -> CommandAnswer:
    """Return a plan's cost, noise, size and time, and how many releases of it the account can pay.

    The exit code is 3 if the ledger would refuse the release.

    Args:
        plan: The plan of the release.
        ledger: The ledger of this home, None if there is none yet.
        machine: The machine that makes the release; by default that of the unit costs, with one
            processor.
    """
    values = plan_values(plan, machine, room=_account_room(plan, ledger))
    page = (*plan_page(values), *_account_page(values))
    return CommandAnswer(values, page, BudgetRefused.exit_code if values["refused"] else 0)


_NO_ROOM: dict[str, Any] = {
    "account_found": False,
    "account_missing": None,
    "account_closed": None,
    "left": None,
    "above": None,
    "more_such_releases": None,
    "approval": None,
    "refused": None,
}


def _account_room(plan: Plan, ledger: Ledger | None) -> dict[str, Any]:
    """Return what the account of a plan has left, and for how many releases of the plan.

    `more_such_releases` is 0 if the account refuses them; `more_with_gaussian_noise` is the same
    number if the spec stated `measure.noise: gaussian`, if it is larger. `refused` is why the
    ledger would refuse the release today, with a heading of the runbook; a plan that only waits for
    approval is not refused. `refused_attempts` are those of the account and its family since a
    person last allowed further ones.
    """
    account = ledger.find_account(plan.spec.account) if ledger else None
    if ledger is None or account is None:
        accounts = [one.name for one in ledger.accounts()] if ledger else []
        missing = no_account(accounts, plan.spec.account, plan.spec.privacy.unit)
        refused = {"error": missing, "runbook": "no-account"}
        return {**_NO_ROOM, "account_missing": missing, "refused": refused}
    # These need the database's packages, without which there is no ledger.
    from dp_core.policies.account_balance import room
    from flows.answers.forecast_answers import fitting_now
    from flows.answers.ledger_answers import plan_approval, recent_refusals
    from tasks.ledger.accounts import Above

    refusal = ledger.refusal(plan)
    found = _NO_ROOM | {
        "account_found": True,
        "account_closed": any(one.charter.closed for one in ledger.lineage(account.name)),
        "left": amount_left(account.terms, account.left),
        "above": account_above(account.above),
        "approval": plan_approval(ledger, plan),
        "refused": {"error": refusal.message, "runbook": refusal.row} if refusal else None,
    }
    if plan.spec.measurements is not None:
        return found
    attempts = recent_refusals(ledger, account.name)
    own, *others = ledger.balances(account.name)
    fits, least = fitting_now(own, plan, account.day), own
    for other in others:
        count = fitting_now(other, plan, account.day)
        if count < fits:
            fits, least = count, other
    payable = refusal is None or refusal.row == "budget-used-up"
    gaussian = with_gaussian_noise(plan) if payable else None
    more = 0
    if gaussian is not None:
        day = account.day
        more = min(fitting_now(one, gaussian, day) for one in (own, *others))
    above = None if least is own else Above(least.name, least.terms, room(least, account.day))
    # A used name can be replaced; any other refusal holds for every such release.
    possible = refusal is None or isinstance(refusal, BadInput)
    return {
        **found,
        "above": account_above(above),
        "more_such_releases": fits if possible else 0,
        **known_values(
            more_with_gaussian_noise=more if more > fits else None,
            refused_attempts=attempts or None,
        ),
    }


def _account_page(plan: Mapping[str, Any]) -> Iterator[Block]:
    yield Sentence(f"Plan {plan['plan_hash']}")
    refused = plan["refused"]
    if plan["left"] is not None and not plan["account_closed"]:
        left = left_words(plan["account"], plan["left"], plan["above"])
        said = f"{left[0].upper()}{left[1:]}"
        if "measurements" in plan:
            said += ": this release takes nothing of it."
        elif refused and refused["runbook"] != "budget-used-up":
            said += "."  # however much is left
        elif more := plan["more_such_releases"]:
            said += f": enough for {plural(more, 'release')} of this plan."
        else:
            said += ": not enough for this release."
        if more := plan.get("more_with_gaussian_noise"):
            said += f" With `measure: {{noise: gaussian}}`, enough for {plural(more, 'release')}."
        yield Sentence(said)
    if approval := plan["approval"]:
        words = f"by {approval['by']} on {approval['day']}: {approval['reason']}"
        if not approval["approved"]:
            owners = " and ".join(approval["waits_for"])
            words = (
                f"required from {owners}: dp-release ledger approve SPEC --by NAME --reason TEXT"
            )
        yield Fact("Approval", words)
    if refused:
        row = f" (runbook: {refused['runbook']})" if refused["runbook"] else ""
        yield Sentence(f"The ledger would refuse this release. {refused['error']}{row}")
    elif attempts := plan.get("refused_attempts"):
        from flows.answers.ledger_answers import refusals_so_far

        yield Sentence(refusals_so_far(plan["account"], attempts))
