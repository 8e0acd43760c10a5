"""The terminal views of accounts, charges and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from rich.console import Console
from rich.markup import escape

from dp_core.wall.ledger.receipts import AccountKind
from flows.answers.amounts import PrivacyAmount
from flows.answers.forecast_answers import (
    CompositionForecast,
    Forecast,
    ImpossibleComposition,
)
from flows.answers.ledger_answers import (
    AccountAnswer,
    AccountChange,
    AccountEvent,
    AllAccounts,
    Charges,
    LedgerCheck,
    LedgerExport,
    PeriodBalance,
    PlanDecision,
    SigningKey,
)
from flows.answers.release_answers import EndedRelease
from flows.cli.terminal.view_parts import (
    amount_words,
    fact,
    fraction,
    left_of,
    number,
    plural,
    privacy,
    sentence,
    table_of,
)

MOST_CHARGES = 1000
"""Charges that a terminal shows; `--json`, and a file or a pipe, get all of them."""

_WORDS = ("total", "reserved", "spent", "left")


def account(console: Console, answer: AccountAnswer) -> None:
    """Print an account: balance, terms, statements, releases and changes."""
    state = " (closed)" if answer.closed else ""
    console.print(
        f"[bold]{answer.account}[/bold]{state}: {answer.neighbours}, unit"
        f" {answer.unit}, composition {answer.composition}"
    )
    _balance(console, answer)
    if answer.above:
        above = answer.above
        fact(
            console,
            "Above",
            f"account {above.account} also pays for every release and has less left:"
            f" {amount_words(above.left)}",
        )
    fact(console, "Owner", f"{answer.owner}; opened {_opening(answer)}")
    if answer.within:
        fact(console, "Within", f"account {answer.within}, whose total also limits this account")
    if answer.accounts_within:
        fact(console, "Covers", ", ".join(answer.accounts_within))
    if answer.approved_plans_only:
        fact(console, "Plans", "must be approved before they run (`dp-release ledger approve`)")
    if answer.calendar:
        _period(console, answer.calendar)
    _statements(console, answer)
    for change in answer.history[1:]:
        fact(console, "Changed", _change(change))
    _releases(console, answer)


def opened(console: Console, answer: AccountAnswer) -> None:
    """Print a new account."""
    account(console, answer)
    if not answer.total.delta:
        sentence(console, "Its total delta is 0, so it takes releases with delta 0 only.")


def _balance(console: Console, answer: AccountAnswer) -> None:
    zcdp = answer.total.rho is not None
    own = bool(answer.total.own_delta)
    words = list(_WORDS)
    if answer.left_today != answer.left:
        words.append("left_today")
    names = ["", *(["rho"] if zcdp else []), "epsilon", "delta", *(["own delta"] if own else [])]
    table = table_of(*names)
    for word in words:
        part: PrivacyAmount = getattr(answer, word)
        row = [word.replace("_", " "), *([number(part.rho or 0)] if zcdp else [])]
        row += [number(part.epsilon), number(part.delta)]
        table.add_row(*row, *([number(part.own_delta or 0)] if own else []))
    console.print(table)
    if zcdp:
        sentence(
            console,
            "rho adds up over the rows; each epsilon is converted from that row's rho alone.",
        )


def _opening(answer: AccountAnswer) -> str:
    first = answer.history[0]
    return f"{first.day} by {first.by}: {first.reason}"


def _period(console: Console, calendar: PeriodBalance) -> None:
    after = "carries over" if calendar.carry_over else "expires"
    fact(
        console,
        "Period",
        f"{_allowance(calendar)} per {calendar.period}; what is not used {after}",
    )
    fact(
        console,
        "Now",
        f"{calendar.this}, until {calendar.until}: {amount_words(calendar.allowed)} allowed,"
        f" {amount_words(calendar.used)} used, {amount_words(calendar.left)} left",
    )


def _allowance(calendar: PeriodBalance) -> str:
    if calendar.allowed.rho is None:
        return privacy(calendar.allowance)
    own = f", own delta {number(calendar.allowance.delta)}" if calendar.allowance.delta else ""
    return f"epsilon {number(calendar.allowance.epsilon)}{own}"


def _statements(console: Console, answer: AccountAnswer) -> None:
    enforced, tightest = answer.statement, answer.tightest
    fact(console, "Enforced", f"{privacy(enforced.guarantee)}, by {enforced.theorem}")
    if tightest != enforced:
        fact(
            console,
            "Tightest",
            f"{privacy(tightest.guarantee)}, since all noise so far is Gaussian, by"
            f" {tightest.theorem}",
        )


def _change(change: AccountEvent) -> str:
    kind: AccountKind = change.kind
    match kind:
        case "open":
            words = f"opened with {_new_total(change)}"
        case "raise":
            words = f"raised to {_new_total(change)}"
        case "restate":
            words = f"restated as {change.terms['composition']}"
        case "close":
            words = "closed"
        case _:
            assert_never(kind)
    calendar = change.terms.get("calendar")
    if calendar:
        own = "own delta" if change.terms.get("composition") == "zcdp" else "delta"
        words += (
            f" (epsilon {number(fraction(calendar['epsilon']))}, {own}"
            f" {number(fraction(calendar['delta']))} per {calendar['period']})"
        )
    return f"{change.day} {words} by {change.by}: {change.reason}"


def _new_total(change: AccountEvent) -> str:
    return f"epsilon {number(change.terms['epsilon'])}, delta {number(change.terms['delta'])}"


def _releases(console: Console, answer: AccountAnswer) -> None:
    # What was given back unused is in the chain, and in --json; here it would only be noise.
    used = [item for item in answer.releases if item.outcome != "returned"]
    if not used:
        return
    zcdp = answer.total.rho is not None
    several = any(item.account != answer.account for item in used)
    names = ["release", *(["account"] if several else []), "day", *(["rho"] if zcdp else [])]
    names += ["epsilon", "delta", "outcome"]
    table = table_of(*names, fold=("release", "account"))
    for item in used:
        row = [escape(item.release), *([item.account] if several else []), item.day]
        row += [number(item.amount.rho or 0)] if zcdp else []
        amounts = number(item.amount.epsilon), number(item.amount.delta)
        table.add_row(*row, *amounts, item.outcome)
    console.print()
    console.print(table)


def accounts(console: Console, answer: AllAccounts) -> None:
    """Print a line for each account."""
    if not answer.accounts:
        console.print(
            "No accounts yet. To open one: dp-release ledger open ACCOUNT --epsilon E --delta D"
            " --by NAME --reason TEXT"
        )
        return
    console.print("[dim]Amounts are epsilon.[/dim]")
    names = ("account", *_WORDS[:-1], "left today", "releases", "composition")
    table = table_of(*names, right=("releases",), fold=("account", "left today"))
    for one in answer.accounts:
        used = sum(item.outcome != "returned" for item in one.releases)
        name = one.account + (" (closed)" if one.closed else "")
        if one.within:
            name += f", within {one.within}"
        amounts = (number(getattr(one, word).epsilon) for word in _WORDS[:-1])
        left, above = number(one.left_today.epsilon), one.above
        if above:
            left = f"{number(above.left.epsilon)} (by {above.account})"
        table.add_row(name, *amounts, left, str(used), one.composition)
    console.print(table)


def charges(console: Console, answer: Charges) -> None:
    """Print a line for each charge."""
    found = answer.charges
    of = f"account {answer.account!r}"
    if answer.release:
        of = f"release {answer.release!r} in {of}"
    if not found:
        console.print(f"No charges to {of} yet.")
        return
    shown = found[-MOST_CHARGES:] if console.is_terminal else found
    one = bool(answer.release)
    names = ("entry", "day", *(() if one else ("release",)), "stage", "step", "cost", "noise")
    table = table_of(*names, "scale", right=("entry",), fold=("step", "release"))
    for charge in shown:
        event = charge.event
        table.add_row(
            str(charge.number),
            charge.at[:10],
            *(() if one else (charge.release,)),
            charge.stage,
            escape(charge.step),
            number(fraction(charge.cost)),
            event["mechanism"].removeprefix("discrete-"),
            number(fraction(event["scale"])) + _threshold(event),
        )
    console.print(table)
    if len(shown) < len(found):
        sentence(console, f"Only the last {len(shown):,} are shown; --json lists all.")
    console.print(f"{plural(len(found), 'charge')} to {of}.")


def _threshold(event: Mapping[str, Any]) -> str:
    """Return the threshold of an event that has one, as the end of its scale."""
    return f", from {event['threshold']}" if "threshold" in event else ""


def changed(console: Console, answer: AccountChange) -> None:
    """Print an account before and after a change."""
    before, after = answer.before, answer.after
    console.print(
        f"[bold]{after.account}[/bold]: composition {before.composition} before,"
        f" {after.composition} now"
        if before.composition != after.composition
        else f"[bold]{after.account}[/bold]: composition {after.composition}"
    )
    table = table_of("", "before", "now")
    for word in _WORDS:
        table.add_row(word, amount_words(getattr(before, word)), amount_words(getattr(after, word)))
    if before.calendar and after.calendar:
        period = f"per {after.calendar.period}"
        table.add_row(period, _allowance(before.calendar), _allowance(after.calendar))
    console.print(table)
    if answer.note:
        sentence(console, answer.note)


def decision(console: Console, answer: PlanDecision) -> None:
    """Print what was approved or withdrawn."""
    verb = "approved" if answer.approved else "no longer approved"
    console.print(f"Plan {answer.plan_hash} is {verb}.", soft_wrap=True)
    plan = answer.plan
    if plan is not None:
        fact(
            console,
            "Release",
            f"{plan.release} from account {plan.account!r}: {plan.method},"
            f" {privacy(plan.privacy)} ({plan.neighbours}), {plural(plan.sets, 'set')}",
        )
        if not plan.account_found:
            fact(console, "Account", f"{plan.account!r} is not open yet")
        elif not plan.demanded:
            fact(console, "Account", f"{plan.account!r} does not require approval")
    if not answer.approved:
        fact(console, "Reserved", "an existing reservation for this plan remains")


def forecast(console: Console, answer: Forecast) -> None:
    """Print how many releases fit under each composition."""
    cadence = f", one each {answer.every} from {answer.from_}" if answer.every else ""
    console.print(
        f"[bold]{answer.release}[/bold]: epsilon {number(answer.epsilon)}, delta"
        f" {number(answer.delta)}, from account {answer.account!r}{cadence}"
    )
    names = ("composition", "releases", *(("last",) if answer.every else ()), "stopped by")
    table = table_of(*names, right=("releases",), fold=("stopped by",))
    for row in answer.forecasts:
        word = f"{row.composition}{' (now)' if row.now else ''}"
        if isinstance(row, ImpossibleComposition):
            cells = ["-", *(["-"] if answer.every else []), f"not possible: {row.impossible}"]
        else:
            last = [row.last or "-"] if answer.every else []
            cells = [f"{row.releases:,}", *last, row.stopped_by + row.note]
        table.add_row(word, *cells)
    console.print(table)
    others = [row for row in answer.forecasts[1:] if isinstance(row, CompositionForecast)]
    if others:
        restated = " and ".join(repr(name) for name in answer.accounts)
        several = "s" if len(answer.accounts) > 1 else ""
        sentence(
            console,
            f"The other rows assume that account{several} {restated} had that composition from the"
            " start. Do not base a change of composition on released values.",
        )


def key(console: Console, answer: SigningKey) -> None:
    """Print where a new key is, and what to do with it."""
    console.print(f"Key      {answer.key} (mode 0600)", soft_wrap=True)
    console.print(f"Public   {answer.public_key_file}", soft_wrap=True)
    console.print(f"Name     {answer.fingerprint} (fingerprint)")
    if answer.replaces:
        fact(console, "Replaces", f"{answer.replaces}, which no longer signs")
    others = [name for name in answer.signing if name != answer.fingerprint]
    if others:
        fact(console, "Beside", f"{', '.join(others)}: any of these keys may sign")
    console.print("From now on every entry of this ledger is signed.")
    if answer.found_by_itself:
        fact(console, "- Sign", "nothing to set: the key is in its default place.")
    else:
        console.print(f"- Sign   export DP_RELEASE_SIGNING_KEY={answer.key}", soft_wrap=True)
    fact(
        console,
        "- Keep",
        "the key out of the backups of the ledger, and one copy in a safe: anyone with the key and"
        " the ledger can forge entries, and without the key no entry can be added.",
    )
    fact(
        console,
        "- Give",
        "the public key to auditors: dp-release ledger verify --public-key FILE",
    )


def exported(console: Console, answer: LedgerExport) -> None:
    """Print where an export is."""
    console.print(
        f"{plural(answer.entries, 'entry')} exported to {answer.file} (mode 0600).",
        soft_wrap=True,
    )
    trusted = " --public-key KEY.pub" if answer.signed else ""
    console.print(f"Check    dp-release ledger verify {answer.file}{trusted}", soft_wrap=True)
    fact(console, "", "This check needs neither the ledger nor its home.")
    fact(
        console,
        "Keep",
        "the file among staff and auditors: it contains times of day and keyed hashes of inputs,"
        " which are not published.",
    )


def verified(console: Console, answer: LedgerCheck) -> None:
    """Print that a ledger verifies, and what that rests on."""
    what = "The export" if answer.export else "The ledger"
    head = f"{answer.head[:16]}..."
    console.print(
        f"{what} verifies: {plural(answer.entries, 'entry')}, the last is {head}",
        soft_wrap=True,
    )
    if not answer.keys:
        fact(console, "Signed", "no; `dp-release ledger keygen` makes a signing key")
    else:
        first = answer.entries - answer.signed + 1
        fact(
            console,
            "Signed",
            f"since entry {first:,}, when the first key was added; current keys:"
            f" {_names(answer.keys)}",
        )
    if answer.trusted:
        fact(console, "Last", f"signed with a trusted key ({_names(answer.trusted)})")
    if answer.seals == "not checked" and not answer.export:
        fact(console, "Seals", "not checked, because this home made none of the releases")


def _names(fingerprints: Sequence[str]) -> str:
    return ", ".join(fingerprints)


def abandoned(console: Console, answer: EndedRelease) -> None:
    """Print what stays spent of an abandoned release, and what became of its files."""
    word = "epsilon" if answer.spent.rho is None else "rho"
    files = {
        "deleted": "Its confidential files are deleted.",
        "none": "It never read the data, so there were no files to delete.",
        "gone": "Its folder is no longer in this home, so no file was deleted.",
        "elsewhere": (
            "It was started in another home: delete its confidential files there, in"
            f" runs/{answer.release}/confidential."
        ),
    }[str(answer.files)]
    console.print(
        f"Release {answer.release!r} is abandoned: {word} {getattr(answer.spent, word):.6g} stays"
        f" spent, and {left_of(answer.account, answer.left, answer.above)}. {files}"
    )
