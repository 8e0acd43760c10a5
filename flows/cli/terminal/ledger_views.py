"""The terminal views of accounts, charges and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from rich.console import Console
from rich.markup import escape

from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page_text import fact, sentence, table_of
from dp_core.wall.ledger.receipts import AccountKind
from flows.answers import ledger_answers as answers
from flows.answers.amounts import PrivacyAmount
from flows.answers.forecast_answers import CompositionForecast, Forecast, ImpossibleComposition
from flows.cli.terminal.view_parts import amount_words, number, path, privacy

MOST_CHARGES = 1000
"""Charges that a terminal shows; `--json`, and a file or a pipe, get all of them."""

_WORDS = ("total", "reserved", "spent", "left")


def shown(console: Console, answer: answers.AccountAnswer | answers.AllAccounts) -> None:
    """Print one account, or a line for each."""
    if isinstance(answer, answers.AllAccounts):
        _accounts(console, answer)
    else:
        account(console, answer)


def closed(console: Console, answer: answers.ClosedAccount) -> None:
    """Print that an account takes no more releases."""
    sentence(console, f"Account {answer.account!r} is closed.")


def account(console: Console, answer: answers.AccountAnswer) -> None:
    """Print an account: balance, terms, statements, releases and changes."""
    state = " (closed)" if answer.closed else ""
    console.print(
        f"[bold]{answer.account}[/bold]{state}: {answer.neighbours}, unit"
        f" {answer.unit}, composition {answer.composition}"
    )
    _balance(console, answer)
    if answer.above:
        pays = f"account {answer.above.account} also pays for every release"
        fact(console, "Above", f"{pays} and has less left: {amount_words(answer.above.left)}")
    first = answer.history[0]
    fact(console, "Owner", f"{answer.owner}; opened {first.day} by {first.by}: {first.reason}")
    if answer.within:
        fact(console, "Within", f"account {answer.within}, whose total also limits this account")
    if answer.accounts_within:
        fact(console, "Covers", ", ".join(answer.accounts_within))
    if answer.approved_plans_only:
        fact(console, "Plans", "must be approved before they run (`dp-release ledger approve`)")
    if answer.calendar:
        _period(console, answer.calendar)
    enforced, tightest = answer.statement, answer.tightest
    fact(console, "Enforced", f"{privacy(enforced.guarantee)}, by {enforced.theorem}")
    if tightest != enforced:
        why = "since all noise so far is Gaussian"
        fact(console, "Tightest", f"{privacy(tightest.guarantee)}, {why}, by {tightest.theorem}")
    for change in answer.history[1:]:
        fact(console, "Changed", _change(change))
    _attempts(console, answer)
    _releases(console, answer)


def _attempts(console: Console, answer: answers.AccountAnswer) -> None:
    if answer.refused_attempts:
        fact(console, "Refused", plural(answer.refused_attempts, "attempt"))
    for said in answer.refused_declarations:
        what = f"declaration of {said.day} by {said.by} that data of this account are public"
        fact(console, "Refused", f"{what}: {said.reason}")
    if answer.open_attempts:
        fact(console, "Open", f"{plural(answer.open_attempts, 'attempt')} without a charge yet")
    elif answer.refused_attempts and not answer.attempts_left:
        how = f"`dp-release ledger allow-retry {answer.account} --by NAME --reason TEXT`"
        fact(console, "Stopped", f"no further attempt until a person allows it: {how}")
    if answer.fitted_attempts:
        fact(console, "Fitted", f"{plural(answer.fitted_attempts, 'attempt')} whose data fit")
    if answer.tried_schemas:
        left = f"{answer.schemas_left} more may be tried in this period"
        fact(console, "Tried", f"{plural(answer.tried_schemas, 'schema')}; {left}")
    for retry in answer.allowed_retries:
        fact(console, "Allowed", f"further attempts on {retry.day} by {retry.by}: {retry.reason}")


def retry_allowed(console: Console, answer: answers.AllowedAttempts) -> None:
    """Print that an account takes attempts again."""
    refused = plural(answer.refused_attempts, "refused attempt")
    sentence(
        console,
        f"Account {answer.account!r} allows further attempts; it has {refused} so far. Together"
        " with the accounts above and within it, it may begin"
        f" {plural(answer.new_attempts, 'new attempt')}.",
    )


def opened(console: Console, answer: answers.AccountAnswer) -> None:
    """Print a new account."""
    account(console, answer)
    if not answer.total.delta:
        sentence(console, "Its total delta is 0, so it takes releases with delta 0 only.")


def _balance(console: Console, answer: answers.AccountAnswer) -> None:
    zcdp = answer.total.rho is not None
    own = bool(answer.total.own_delta)
    words = [*_WORDS, *(["left_today"] if answer.left_today != answer.left else [])]
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


def _period(console: Console, calendar: answers.PeriodBalance) -> None:
    after = "what is not used " + ("carries over" if calendar.carry_over else "expires")
    fact(console, "Period", f"{_allowance(calendar)} per {calendar.period}; {after}")
    fact(
        console,
        "Now",
        f"{calendar.this}, until {calendar.until}: {amount_words(calendar.allowed)} allowed,"
        f" {amount_words(calendar.used)} used, {amount_words(calendar.left)} left",
    )


def _allowance(calendar: answers.PeriodBalance) -> str:
    if calendar.allowed.rho is None:
        return privacy(calendar.allowance)
    words = f"epsilon {number(calendar.allowance.epsilon)}"
    own = calendar.allowance.delta
    return f"{words}, own delta {number(own)}" if own else words


def _change(change: answers.AccountEvent) -> str:
    kind: AccountKind = change.kind
    terms = change.terms
    match kind:
        case "open":
            words = f"opened with {_two(terms)}"
        case "raise":
            words = f"raised to {_two(terms)}"
        case "restate":
            words = f"restated as {terms['composition']}"
        case "close":
            words = "closed"
        case _:
            assert_never(kind)
    if calendar := terms.get("calendar"):
        own = "own delta" if terms.get("composition") == "zcdp" else "delta"
        words += f" ({_two(calendar, own)} per {calendar['period']})"
    return f"{change.day} {words} by {change.by}: {change.reason}"


def _two(terms: Mapping[str, Any], delta: str = "delta") -> str:
    """Return an epsilon and a delta of an entry in words."""
    return f"epsilon {number(terms['epsilon'])}, {delta} {number(terms['delta'])}"


def _releases(console: Console, answer: answers.AccountAnswer) -> None:
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
        row = [escape(item.release), *([item.account] if several else []), str(item.day)]
        row += [number(item.amount.rho or 0)] if zcdp else []
        amounts = number(item.amount.epsilon), number(item.amount.delta)
        tables = f", tables of {item.measurements}" if item.measurements else ""
        table.add_row(*row, *amounts, f"{item.outcome}{tables}")
    console.print()
    console.print(table)


def _accounts(console: Console, answer: answers.AllAccounts) -> None:
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


def charges(console: Console, answer: answers.Charges) -> None:
    """Print a line for each charge."""
    found = answer.charges
    of = f"account {answer.account!r}"
    if answer.release:
        of = f"release {answer.release!r} in {of}"
    if not found:
        console.print(f"No charges to {of} yet.")
        return
    last = found[-MOST_CHARGES:] if console.is_terminal else found
    one = bool(answer.release)
    names = (
        "entry",
        "day",
        *(() if one else ("release",)),
        "stage",
        "step",
        "cost",
        "unit",
        "noise",
    )
    table = table_of(*names, "scale", right=("entry",), fold=("step", "release"))
    for charge in last:
        event = charge.event
        threshold = f", from {event['threshold']}" if "threshold" in event else ""
        table.add_row(
            str(charge.number),
            charge.at[:10],
            *(() if one else (charge.release,)),
            charge.stage,
            escape(charge.step),
            number(charge.cost),
            charge.unit,
            event["mechanism"].removeprefix("discrete-"),
            number(event["scale"]) + threshold,
        )
    console.print(table)
    if len(last) < len(found):
        sentence(console, f"Only the last {len(last):,} are shown; --json lists all.")
    console.print(f"{plural(len(found), 'charge')} to {of}.")


def changed(console: Console, answer: answers.AccountChange) -> None:
    """Print an account before and after a change."""
    before, after = answer.before, answer.after
    words = after.composition
    if before.composition != words:
        words = f"{before.composition} before, {words} now"
    console.print(f"[bold]{after.account}[/bold]: composition {words}")
    table = table_of("", "before", "now")
    for word in _WORDS:
        table.add_row(word, amount_words(getattr(before, word)), amount_words(getattr(after, word)))
    if before.calendar and after.calendar:
        period = f"per {after.calendar.period}"
        table.add_row(period, _allowance(before.calendar), _allowance(after.calendar))
    console.print(table)
    if answer.note:
        sentence(console, answer.note)


def decision(console: Console, answer: answers.PlanDecision) -> None:
    """Print what was approved or withdrawn."""
    verb = "approved" if answer.approved else "no longer approved"
    console.print(f"Plan {answer.plan_hash} is {verb}.", soft_wrap=True)
    plan = answer.plan
    if plan is not None:
        spends = f"{privacy(plan.privacy)} ({plan.neighbours})"
        made = f"{plan.method}, {spends}, {plural(plan.sets, 'set')}"
        fact(console, "Release", f"{plan.release} from account {plan.account!r}: {made}")
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
            last = [str(row.last or "-")] if answer.every else []
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


def key(console: Console, answer: answers.SigningKey) -> None:
    """Print where a new key is, and what to do with it."""
    path(console, "Key", f"{answer.key} (mode 0600)")
    path(console, "Public", answer.public_key_file)
    path(console, "Name", f"{answer.fingerprint} (fingerprint)")
    if answer.replaces:
        fact(console, "Replaces", f"{answer.replaces}, which no longer signs")
    others = [name for name in answer.signing if name != answer.fingerprint]
    if others:
        fact(console, "Beside", f"{', '.join(others)}: any of these keys may sign")
    console.print("From now on every entry of this ledger is signed.")
    if answer.found_by_itself:
        fact(console, "- Sign", "nothing to set: the key is in its default place.")
    else:
        path(console, "- Sign", f"export DP_RELEASE_SIGNING_KEY={answer.key}")
    fact(
        console,
        "- Keep",
        "the key out of the backups of the ledger, and one copy in a safe: anyone with the key and"
        " the ledger can forge entries, and without the key no entry can be added.",
    )
    auditors = "the public key to auditors: dp-release ledger verify --public-key FILE"
    fact(console, "- Give", auditors)


def exported(console: Console, answer: answers.LedgerExport) -> None:
    """Print where an export is."""
    said = f"{plural(answer.entries, 'entry')} exported to {answer.file} (mode 0600)."
    console.print(said, markup=False, soft_wrap=True)
    trusted = " --public-key KEY.pub" if answer.signed else ""
    path(console, "Check", f"dp-release ledger verify {answer.file}{trusted}")
    fact(console, "", "This check needs neither the ledger nor its home.")
    fact(
        console,
        "Keep",
        "the file among staff and auditors: it contains times of day and keyed hashes of inputs,"
        " which are not published.",
    )


def adopted(console: Console, answer: answers.AdoptedLedger) -> None:
    """Print what the adoption of a ledger recorded."""
    sentence(console, f"This ledger is adopted, at entry {answer.head:,}.")
    if answer.behind is None:
        fact(console, "Missing", "an unknown number of entries")
    elif answer.behind:
        fact(console, "Missing", f"{plural(answer.behind, 'entry')}, up to {answer.noted:,}")
    if answer.elsewhere is not None:
        fact(console, "Place", f"{answer.elsewhere}; the ledger now records its present place")
    if answer.closed:
        fact(console, "Closed", f"{', '.join(answer.closed)}: closed before, and closed again")
    if answer.clock is not None:
        sentence(console, f"The clock of this machine, {answer.clock} ahead, is accepted.")
        return
    words = "Every later release states this adoption. Never use another copy of the ledger again."
    sentence(console, words)


def verified(console: Console, answer: answers.LedgerCheck) -> None:
    """Print that a ledger verifies, and what that rests on."""
    what = "export" if answer.export else "ledger"
    entries = plural(answer.entries, "entry")
    sentence(console, f"The {what} verifies: {entries}, the last is {answer.head[:16]}...")
    if not answer.keys:
        fact(console, "Signed", "no; `dp-release ledger keygen` makes a signing key")
    else:
        since = f"since entry {answer.entries - answer.signed + 1:,}"
        keys = ", ".join(answer.keys)
        fact(console, "Signed", f"{since}, when the first key was added; current keys: {keys}")
    if answer.trusted:
        fact(console, "Last", f"signed with a trusted key ({', '.join(answer.trusted)})")
    if answer.seals == "not checked" and not answer.export:
        fact(console, "Seals", "not checked, because this home made none of the releases")
    if answer.anchor is not None:
        _anchor(console, answer.anchor)


def _anchor(console: Console, anchor: answers.AnchorCheck) -> None:
    """Print where the head is noted, whether the place is known, and earlier adoptions."""
    where = " and ".join(map(str, anchor.noted_in)) or "nowhere"
    fact(console, "Anchor", f"entry {anchor.noted:,} is noted in {where}")
    unknown = f"; not known here: {', '.join(anchor.unknown)}" if anchor.unknown else ""
    fact(console, "Place", f"{anchor.place}{unknown}")
    for adoption in anchor.adopted:
        behind = "an unknown number of" if adoption.behind is None else adoption.behind
        fact(console, "Adopted", f"on {adoption.day}, {behind} entries missing")
