"""What the ledger's commands answer, as plain values for staff."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dp_core.errors import BadInput
from dp_core.spec.plan import Plan
from dp_core.wall.accounting.account_curve import gaussian_statement
from dp_core.wall.accounting.composition import NOTHING
from dp_core.wall.accounting.currency import THEOREMS
from dp_core.wall.ledger.account_balance import Standing, room
from dp_core.wall.ledger.account_terms import OF_ACCOUNT
from flows.answers.amounts import above_facts, amount, amount_facts, left_facts
from tasks.ledger.accounts import Account
from tasks.ledger.ledger import Ledger

RESTATING = (
    "A change of composition must not be decided by looking at released values; then delta counts"
    " twice."
)

_SUM = "basic composition: the releases' own (epsilon, delta) are summed (Dwork et al. 2006)"


def account_facts(ledger: Ledger, name: str) -> dict[str, object]:
    """Return everything about an account: terms, balance, period, statements, releases, changes.

    Raises:
        BadInput: if there is no such account.
    """
    account = ledger.account(name)
    charter, terms, balance = account.charter, account.terms, account.balance
    standing = ledger.balances(name)[0]
    return {
        "account": account.name,
        "neighbours": charter.neighbours,
        "unit": charter.unit,
        "composition": terms.composition,
        "closed": charter.closed,
        "owner": charter.owner,
        "opened": charter.opened.isoformat(),
        "within": charter.within,
        "accounts_within": _accounts_within(ledger, name),
        "approved_plans_only": charter.approved_only,
        "total": amount_facts(terms, terms.limit) | amount(terms.epsilon, terms.delta),
        "reserved": amount_facts(terms, balance.reserved),
        "spent": amount_facts(terms, balance.spent),
        "left": left_facts(terms, account.total_left),
        "left_today": left_facts(terms, account.left),
        "above": above_facts(account.above),
        "calendar": _calendar(account, standing),
        "statement": _statement(account),
        "tightest": _tightest(ledger, account),
        "releases": [
            {
                "release": used.release,
                "account": used.account,
                "outcome": used.outcome,
                "day": used.day.isoformat(),
                **amount_facts(terms, used.amount),
            }
            for used in ledger.uses(name)
        ],
        "history": _history(ledger, name),
    }


def _accounts_within(ledger: Ledger, name: str) -> list[str]:
    return [entry.receipt.account for entry in ledger.entries(kinds=("open",), about=name)]


def _calendar(account: Account, standing: Standing) -> dict[str, object] | None:
    calendar, terms = account.charter.calendar, account.terms
    if calendar is None:
        return None
    index = calendar.index(account.day)
    used = standing.used_in_period.get(index, NOTHING)
    once = terms.allowance(calendar.epsilon, calendar.delta)
    left = calendar.room(index, once, standing.used, used)
    return {
        "period": calendar.period,
        **amount(calendar.epsilon, calendar.delta),
        "carry_over": calendar.carry_over,
        "this": calendar.label(index),
        "until": calendar.last_day(index).isoformat(),
        "allowed": left_facts(terms, left + used),
        "used": amount_facts(terms, used),
        "left": left_facts(terms, room(standing, account.day)),
    }


def _statement(account: Account) -> dict[str, object]:
    terms = account.terms
    theorem = _SUM if terms.is_basic else THEOREMS["zcdp"]
    return {**amount(terms.epsilon, terms.delta), "theorem": theorem}


def _tightest(ledger: Ledger, account: Account) -> dict[str, object]:
    """Return the tightest statement that is known to hold of everything released so far."""
    if account.terms.is_basic or _was_changed(ledger, account):
        # A total that was changed later was not fixed beforehand, which the curve supposes.
        return _statement(account)
    epsilon = gaussian_statement(account.terms, ledger.tallies(account.name))
    if epsilon is None:
        return _statement(account)
    return {**amount(epsilon, account.terms.delta), "theorem": THEOREMS["gaussian"]}


def _was_changed(ledger: Ledger, account: Account) -> bool:
    """Return whether the total is another than at the opening, or was at any time."""
    terms = account.terms
    first = ledger.entries(account=account.name, kinds=("open",))[0].body
    now = terms.composition, str(terms.epsilon), str(terms.delta), str(terms.own_delta)
    names = ("composition", "epsilon", "delta", "own_delta")
    then = tuple(first[name] for name in names)
    return then != now or any(changed != terms for _, _, changed in account.charter.changes)


def _history(ledger: Ledger, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for entry in ledger.entries(account=name, kinds=OF_ACCOUNT):
        body: Mapping[str, Any] = entry.body
        item: dict[str, object] = {"day": entry.receipt.at, "kind": entry.kind}
        for field in ("epsilon", "delta"):
            if field in body:
                item |= {field: float(Fraction(body[field])), f"{field}_exact": body[field]}
        for field in ("composition", "own_delta", "calendar"):
            if field in body:
                item[field] = body[field]
        found.append(item | {"by": body["by"], "reason": body["reason"]})
    return found


def charge_facts(ledger: Ledger, account: str, release: str | None) -> list[Mapping[str, object]]:
    """Return every charge that an account pays for, in order, or those of one release.

    Raises:
        BadInput: if there is no such account, or the release is not paid from it.
    """
    names = list(ledger.covered(account))
    if release is not None:
        held = ledger.reservation(release)
        if held is None or held.account not in names:
            paid = "is in this ledger" if held is None else f"is paid from account {account!r}"
            elsewhere = "" if held is None else f"; {held.account!r} pays for it"
            raise BadInput(
                f"No release {release!r} {paid}{elsewhere}. `dp-release status` lists them."
            )
        names = [held.account]
    found = [
        entry
        for name in names
        for entry in ledger.entries(account=name, kinds=("charge",), release=release)
    ]
    return [
        {
            "number": entry.position,
            "receipt": entry.receipt.number,
            "at": entry.recorded,
            "account": entry.receipt.account,
            "release": entry.receipt.release,
            "stage": entry.body["stage"],
            "step": entry.body["step"],
            "cost": entry.body["cost"],
            "event": entry.body["event"],
        }
        for entry in sorted(found, key=lambda entry: entry.position)
    ]


def approval_facts(ledger: Ledger, plan: Plan) -> dict[str, object] | None:
    """Return whether a plan is approved and who has to, None where no account demands it."""
    demanding = [one for one in ledger.lineage(plan.spec.account) if one.charter.approved_only]
    if not demanding:
        return None
    found = ledger.approval(plan.hash)
    return {
        "demanded_by": [one.name for one in demanding],
        "approved": found is not None,
        "waits_for": [] if found else list(dict.fromkeys(one.charter.owner for one in demanding)),
        "by": found.body["by"] if found else None,
        "day": found.receipt.at if found else None,
        "reason": found.body["reason"] if found else None,
    }


def decision_facts(
    ledger: Ledger, digest: str, plan: Plan | None, *, by: str, approved: bool
) -> dict[str, object]:
    """Return what was approved or withdrawn; more than the hash where the spec was named."""
    facts: dict[str, object] = {"plan_hash": digest, "approved": approved, "by": by}
    if plan is None:
        return facts
    spec, account = plan.spec, ledger.find_account(plan.spec.account)
    demanded = account is not None and approval_facts(ledger, plan) is not None
    return facts | {
        "release": spec.release,
        "account": spec.account,
        "account_found": account is not None,
        "method": spec.method,
        "sets": spec.sets,
        **amount(spec.privacy.epsilon, spec.privacy.delta),
        "neighbours": spec.privacy.neighbours,
        "demanded": demanded,
    }
