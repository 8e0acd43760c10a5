"""The answers of the ledger's other commands: charges, plans, keys, exports and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_core.accounts.chain_audit import Audit
from dp_core.accounts.requested import cost_unit
from dp_core.accounts.signatures import fingerprint
from dp_core.errors import BadInput
from dp_core.plan.plan import Plan
from dp_core.policies.refused_attempts import MOST_REFUSED
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.number_texts import number, plural
from dp_core.text.pages.page import Block, Fact, Listing, Sentence, numbers, texts
from flows.answers.amounts import PrivacyAmount
from tasks.ledger.ledger import Ledger


def charges_to(ledger: Ledger, account: str, release: str | None) -> CommandAnswer:
    """Return every charge that an account pays for, in order, or those of one release.

    JSON is a list.

    Raises:
        BadInput: if there is no such account, or the release is not paid from it.
    """
    names = list(ledger.covered(account))
    if release is not None:
        reservation = ledger.reservation(release)
        if reservation is None or reservation.account not in names:
            paid = "is in this ledger"
            if reservation is not None:
                paid = f"is paid from account {account!r}; {reservation.account!r} pays for it"
            raise BadInput(f"No release {release!r} {paid}. `dp-release status` lists them.")
        names = [reservation.account]
    found = [
        entry
        for name in names
        for entry in ledger.entries(account=name, kinds=("charge",), release=release)
    ]
    paid_in: dict[str, str] = {}
    for name in {entry.receipt.release for entry in found}:
        reservation = ledger.reservation(name)
        assert reservation is not None
        paid_in[name] = reservation.currency.kind
    charges = [
        {
            "number": entry.position,
            "receipt": entry.receipt.number,
            "at": entry.recorded,
            "account": entry.receipt.account,
            "release": entry.receipt.release,
            "stage": entry.body["stage"],
            "step": entry.body["step"],
            "cost": entry.body["cost"],
            "currency": paid_in[entry.receipt.release],
            "unit": cost_unit(paid_in[entry.receipt.release]),
            "event": entry.body["event"],
        }
        for entry in sorted(found, key=lambda entry: entry.position)
    ]
    of = f"account {account!r}"
    if release:
        of = f"release {release!r} in {of}"
    if not charges:
        return CommandAnswer([], (Sentence(f"No charges to {of} yet."),))
    units = {each["unit"] for each in charges}
    rows = [_charge(each, of_release=release is None, unit=len(units) > 1) for each in charges]
    columns = (
        *numbers("entry"),
        *texts("day", *(["release"] if release is None else []), "stage", "step"),
        *numbers("cost" if len(units) > 1 else f"cost ({units.pop()})"),
        *texts("noise"),
        *numbers("scale"),
    )
    page = (
        Listing(columns, rows, newest_last=True),
        Sentence(f"{plural(len(rows), 'charge')} to {of}."),
    )
    return CommandAnswer(charges, page)


def _charge(charge: Mapping[str, Any], *, of_release: bool, unit: bool) -> tuple[Any, ...]:
    event, cost = charge["event"], number(charge["cost"])
    threshold = f", from {event['threshold']}" if "threshold" in event else ""
    return (
        str(charge["number"]),
        charge["at"][:10],
        *([charge["release"]] if of_release else []),
        charge["stage"],
        charge["step"],
        f"{cost} {charge['unit']}" if unit else cost,
        event["mechanism"].removeprefix("discrete-"),
        number(event["scale"]) + threshold,
    )


def plan_approval(ledger: Ledger, plan: Plan) -> dict[str, Any] | None:
    """Return whether a plan is approved and by whom; None if no account requires it."""
    demanding = [one for one in ledger.lineage(plan.spec.account) if one.charter.approved_only]
    if not demanding:
        return None
    found = ledger.approval(plan.hash)
    owners = list(dict.fromkeys(one.charter.owner for one in demanding))
    return {
        "demanded_by": [one.name for one in demanding],
        "approved": found is not None,
        "waits_for": owners if found is None else [],
        "by": found and found.body["by"],
        "day": found and found.receipt.at,
        "reason": found and found.body["reason"],
    }


def recent_refusals(ledger: Ledger, account: str) -> int:
    """Return how many attempts count towards the limit of an account and its family."""
    topmost = ledger.lineage(account)[-1].name
    return sum(ledger.attempts(name).recent for name in ledger.covered(topmost))


def refusals_so_far(account: str, refused: int) -> str:
    """Return a sentence on how many of the attempts that an account allows were refused.

    >>> refusals_so_far("town", 2).partition(";")[0]
    "2 of 3 attempts on account 'town' (with its family) were refused"
    """
    were = "was" if refused == 1 else "were"
    return (
        f"{refused} of {MOST_REFUSED} attempts on account {account!r} (with its family) {were}"
        f" refused; after {MOST_REFUSED}, a person must allow more. An attempt is also refused"
        " if its release ended before its first charge. `dp-release schema check SCHEMA FILE` shows"
        " all that does not fit and is not counted."
    )


def plan_decision(
    ledger: Ledger, digest: str, plan: Plan | None, *, approved: bool, by: str
) -> CommandAnswer:
    """Return the approval of a plan, or its withdrawal.

    Args:
        ledger: The ledger.
        digest: Hash of the plan.
        plan: The plan, if its spec was named; otherwise None.
        approved: Whether it is approved.
        by: Person who decided.
    """
    values: dict[str, Any] = {"plan_hash": digest, "approved": approved, "by": by}
    verb = "approved" if approved else "no longer approved"
    page: list[Block] = [Fact("Plan", f"{digest} is {verb}.", whole=True)]
    if plan is not None:
        spec, account = plan.spec, ledger.find_account(plan.spec.account)
        amount = PrivacyAmount(spec.privacy.epsilon, spec.privacy.delta)
        demanded = account is not None and plan_approval(ledger, plan) is not None
        values |= {
            "release": spec.release,
            "account": spec.account,
            "account_found": account is not None,
            "method": spec.method,
            "sets": spec.sets,
            **amount.to_json(),
            "neighbours": spec.privacy.neighbours,
            "demanded": demanded,
        }
        made = f"{spec.method}, {amount.guarantee} ({spec.privacy.neighbours})"
        made += f", {plural(spec.sets, 'set')}"
        page.append(Fact("Release", f"{spec.release} from account {spec.account!r}: {made}"))
        if account is None:
            page.append(Fact("Account", f"{spec.account!r} is not open yet"))
        elif not demanded:
            page.append(Fact("Account", f"{spec.account!r} does not require approval"))
    if not approved:
        page.append(Fact("Reserved", "an existing reservation for this plan remains"))
    return CommandAnswer(values, tuple(page))


def ledger_check(
    found: Audit,
    trusted: Sequence[str],
    *,
    home: Path | None = None,
    export: Path | None = None,
    seals: str,
    anchor: Mapping[str, Any] | None = None,
) -> CommandAnswer:
    """Return that a ledger or an export verifies, and what the verification rests on.

    Args:
        found: Result of the check of every entry.
        trusted: Public keys, one of which signed the last entry.
        home: Home of the ledger; None for an export.
        export: The export; None for a ledger.
        seals: Whether the seals of the inputs were checked: `checked`, `not checked` or `none`.
        anchor: The notes of the ledger's head, and its place; None for an export.
    """
    keys = [fingerprint(public) for public in found.keys]
    names = [fingerprint(public) for public in trusted]
    entries = plural(found.entries, "entry")
    what = "export" if export else "ledger"
    page: list[Block] = [
        Sentence(f"The {what} verifies: {entries}, the last is {found.head[:16]}...")
    ]
    signed = "no; `dp-release ledger keygen` makes a signing key"
    if keys:
        since = f"since entry {found.entries - found.signed + 1:,}"
        signed = f"{since}, when the first key was added; current keys: {', '.join(keys)}"
    page.append(Fact("Signed", signed))
    if names:
        page.append(Fact("Last", f"signed with a trusted key ({', '.join(names)})"))
    if seals == "not checked" and not export:
        page.append(Fact("Seals", "not checked, because this home made none of the releases"))
    if anchor is not None:
        where = " and ".join(map(str, anchor["noted_in"])) or "nowhere"
        page.append(Fact("Anchor", f"entry {anchor['noted']:,} is noted in {where}"))
        unknown = ", ".join(anchor["unknown"])
        place = anchor["place"] + (f"; not known here: {unknown}" if unknown else "")
        page.append(Fact("Place", place))
        for one in anchor["adopted"]:
            behind = "an unknown number of" if one["behind"] is None else one["behind"]
            page.append(Fact("Adopted", f"on {one['day']}, {behind} entries missing"))
    values = {
        "ledger": home,
        "export": export,
        "anchor": anchor,
        "seals": seals,
        "passed": True,
        "entries": found.entries,
        "head": found.head,
        "signed": found.signed,
        "keys": keys,
        "trusted": names,
    }
    return CommandAnswer(values, tuple(page))
