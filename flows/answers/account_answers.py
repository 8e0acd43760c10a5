"""The answers about accounts: terms, balance, attempts, releases and changes, for staff.

A key of JSON that its name does not explain is explained where its value is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, assert_never, cast

from dp_core.accounts.account_curve import gaussian_statement
from dp_core.accounts.guarantee import THEOREMS
from dp_core.kernel.cost.composition import NOTHING
from dp_core.kernel.ledger.account_terms import OF_ACCOUNT
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import AccountKind
from dp_core.policies.account_balance import Standing, room
from dp_core.policies.tried_schemas import MOST_SCHEMAS
from dp_core.text.pages.answer import CommandAnswer, known_values
from dp_core.text.pages.number_texts import number, plural
from dp_core.text.pages.page import Block, Fact, Listing, Page, Sentence, Title, numbers, texts
from flows.answers.amounts import PrivacyAmount, account_above, amount_left, amount_of
from tasks.ledger.accounts import Account
from tasks.ledger.ledger import Ledger

RESTATING = (
    "A change of composition must not be decided by looking at released values; then delta counts"
    " twice."
)
_SUM = "basic composition: the releases' own (epsilon, delta) are summed (Dwork et al. 2006)"
_WORDS = ("total", "reserved", "spent", "left")


def account_answer(ledger: Ledger, name: str, *, opened: bool = False) -> CommandAnswer:
    """Return everything about an account: terms, balance, attempts, releases and changes.

    Args:
        ledger: The ledger.
        name: Name of the account.
        opened: Whether it was just opened; False by default.

    Raises:
        BadInput: if there is no such account.
    """
    account = ledger.account(name)
    charter, terms, balance = account.charter, account.terms, account.balance
    attempts, tried = ledger.attempts(name), ledger.tried_schemas(name)
    total = replace(amount_of(terms, terms.limit), epsilon=terms.epsilon, delta=terms.delta)
    above = account_above(account.above)
    enforced, tightest = _enforced_guarantee(account), _tightest(ledger, account)
    inside = [entry.receipt.account for entry in ledger.entries(kinds=("open",), about=name)]
    values = {
        "account": account.name,
        "neighbours": charter.neighbours,
        "unit": charter.unit,
        "composition": terms.composition,
        "closed": charter.closed,
        "owner": charter.owner,
        "opened": charter.opened,
        "within": charter.within,
        "accounts_within": inside,
        "approved_plans_only": charter.approved_only,
        "core_questions_only": charter.core_only,
        "total": total,
        "reserved": amount_of(terms, balance.reserved),
        "spent": amount_of(terms, balance.spent),
        "left": amount_left(terms, account.total_left),
        # What the total and the current period leave.
        "left_today": amount_left(terms, account.left),
        # The account above it, if that has less left.
        "above": above,
        "calendar": _calendar(account, ledger.balances(name)[0]),
        # The guarantee that the ledger enforces, and the tightest known for all releases so far.
        "statement": enforced,
        "tightest": tightest,
        # Attempts since the opening; `refused_declarations` count among the refused ones. An open
        # attempt is under way, or was interrupted, before the first charge of its release.
        "refused_attempts": attempts.refused,
        "open_attempts": attempts.open,
        # Attempts that it and its family (accounts above and within it) may begin now.
        "attempts_left": ledger.new_attempts(name),
        # That the data fit is an exact answer too.
        "fitted_attempts": attempts.fitted,
        # Schemas that the family has tried, and may still try in this period.
        "tried_schemas": tried.total,
        "schemas_left": max(0, MOST_SCHEMAS - tried.recent),
        "allowed_retries": _decisions(ledger, name, "allow-retry"),
        # Comparisons for which a person declared data of the account public.
        "refused_declarations": _decisions(ledger, name, "refuse-public"),
        "releases": [
            {
                "release": used.release,
                "account": used.account,
                "outcome": used.outcome,
                "day": used.day,
                **amount_of(terms, used.amount).to_json(),
                **known_values(measurements=used.measurements),
            }
            for used in ledger.uses(name)
        ],
        "history": [_event(entry) for entry in ledger.entries(account=name, kinds=OF_ACCOUNT)],
    }
    return CommandAnswer(values, (*_account_page(values, opened=opened),))


def _account_page(answer: Mapping[str, Any], *, opened: bool) -> Iterator[Block]:
    state, total = " (closed)" if answer["closed"] else "", answer["total"]
    name = answer["account"]
    yield Title(
        name,
        f"{state}: {answer['neighbours']}, unit {answer['unit']}, composition"
        f" {answer['composition']}",
    )
    words = [*_WORDS, *(["left_today"] if answer["left_today"] != answer["left"] else [])]
    names = _parts(total)
    rows = [(word.replace("_", " "), *_cells(answer[word], names)) for word in words]
    yield Listing((*texts(""), *numbers(*names)), rows)
    if total.rho is not None:
        yield Sentence(
            "rho adds up over the rows; each epsilon is converted from that row's rho alone."
        )
    if above := answer["above"]:
        yield Fact(
            "Above",
            f"account {above.account} also pays for every release and has less left:"
            f" {above.left.in_words}",
        )
    first, *changes = answer["history"]
    yield Fact(
        "Owner",
        f"{answer['owner']}; opened {first['day']} by {first['by']}: {first['reason']}",
    )
    if within := answer["within"]:
        yield Fact("Within", f"account {within}, whose total also limits this account")
    if answer["accounts_within"]:
        yield Fact("Covers", ", ".join(answer["accounts_within"]))
    if answer["approved_plans_only"]:
        yield Fact("Plans", "must be approved before they run (`dp-release ledger approve`)")
    if answer["core_questions_only"]:
        yield Fact("Questions", "those of the kernel's core only, no extensions")
    if calendar := answer["calendar"]:
        after = "what is not used " + ("carries over" if calendar["carry_over"] else "expires")
        yield Fact("Period", f"{_allowance(calendar)} per {calendar['period']}; {after}")
        amounts = (f"{calendar[word].in_words} {word}" for word in ("allowed", "used", "left"))
        yield Fact("Now", f"{calendar['this']}, until {calendar['until']}: {', '.join(amounts)}")
    enforced, tightest = answer["statement"], answer["tightest"]
    yield Fact("Enforced", f"{_two(enforced)}, by {enforced['theorem']}")
    if tightest != enforced:
        why = "since all noise so far is Gaussian"
        yield Fact("Tightest", f"{_two(tightest)}, {why}, by {tightest['theorem']}")
    for change in changes:
        yield Fact("Changed", _change(change))
    yield from _attempts(answer)
    yield from _releases(answer, names)
    if opened and not total.delta:
        yield Sentence("Its total delta is 0, so it takes releases with delta 0 only.")


def _parts(total: PrivacyAmount) -> list[str]:
    """Return which parts an account's amounts have."""
    rho = ["rho"] if total.rho is not None else []
    return [*rho, "epsilon", "delta", *(["own delta"] if total.own_delta else [])]


def _cells(amount: PrivacyAmount | Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    stated = amount.to_json() if isinstance(amount, PrivacyAmount) else amount
    return [stated.get(name.replace(" ", "_"), 0.0) for name in names]


def _attempts(answer: Mapping[str, Any]) -> Iterator[Fact]:
    refused, name = answer["refused_attempts"], answer["account"]
    if refused:
        yield Fact("Refused", plural(refused, "attempt"))
    for said in answer["refused_declarations"]:
        what = f"declaration of {said['day']} by {said['by']} that data of this account are public"
        yield Fact("Refused", f"{what}: {said['reason']}")
    if answer["open_attempts"]:
        yield Fact("Open", f"{plural(answer['open_attempts'], 'attempt')} without a charge yet")
    elif refused and not answer["attempts_left"]:
        how = f"`dp-release ledger allow-retry {name} --by NAME --reason TEXT`"
        yield Fact("Stopped", f"no further attempt until a person allows it: {how}")
    if answer["fitted_attempts"]:
        yield Fact("Fitted", f"{plural(answer['fitted_attempts'], 'attempt')} whose data fit")
    if answer["tried_schemas"]:
        left = f"{answer['schemas_left']} more may be tried in this period"
        yield Fact("Tried", f"{plural(answer['tried_schemas'], 'schema')}; {left}")
    for retry in answer["allowed_retries"]:
        text = f"further attempts on {retry['day']} by {retry['by']}: {retry['reason']}"
        yield Fact("Allowed", text)


def _releases(answer: Mapping[str, Any], names: Sequence[str]) -> Iterator[Block]:
    # What was given back unused is in the chain, and in --json; here it would only be noise.
    used = [item for item in answer["releases"] if item["outcome"] != "returned"]
    if not used:
        return
    several = any(item["account"] != answer["account"] for item in used)
    names = [name for name in names if name != "own delta"]
    rows = []
    for item in used:
        paid = [item["account"]] if several else []
        tables = f", tables of {item['measurements']}" if "measurements" in item else ""
        amounts = _cells(item, names)
        rows.append((item["release"], *paid, item["day"], *amounts, item["outcome"] + tables))
    first = ("release", *(["account"] if several else []), "day")
    yield Listing((*texts(*first), *numbers(*names), *texts("outcome")), rows)


def _change(change: Mapping[str, Any]) -> str:
    kind: AccountKind = change["kind"]
    match kind:
        case "open":
            words = f"opened with {_two(change)}"
        case "raise":
            words = f"raised to {_two(change)}"
        case "restate":
            words = f"restated as {change['composition']}"
        case "close":
            words = "closed"
        case _:
            assert_never(kind)
    if calendar := change.get("calendar"):
        own = "own delta" if change.get("composition") == "zcdp" else "delta"
        words += f" ({_two(calendar, own)} per {calendar['period']})"
    return f"{change['day']} {words} by {change['by']}: {change['reason']}"


def _two(stated: Mapping[str, Any], delta: str = "delta") -> str:
    """Return an epsilon and a delta in words."""
    return f"epsilon {number(stated['epsilon'])}, {delta} {number(stated['delta'])}"


def _allowance(calendar: Mapping[str, Any]) -> str:
    if calendar["allowed"].rho is None:
        return _two(calendar)
    words = f"epsilon {number(calendar['epsilon'])}"
    own = calendar["delta"]
    return f"{words}, own delta {number(own)}" if own else words


def _calendar(account: Account, standing: Standing) -> dict[str, Any] | None:
    """Return the allowance of an account's calendar, and what the current period has used."""
    calendar, terms = account.calendar, account.terms
    if calendar is None:
        return None
    index = calendar.index(account.day)
    used = standing.used_in_period.get(index, NOTHING)
    once = terms.allowance(calendar.epsilon, calendar.delta)
    left = calendar.room(index, once, standing.used, used)
    return {
        "period": calendar.period,
        **PrivacyAmount(calendar.epsilon, calendar.delta).to_json(),
        "carry_over": calendar.carry_over,
        "this": calendar.label(index),
        "until": calendar.last_day(index),
        # With what earlier periods left, if it carries over.
        "allowed": amount_left(terms, left + used),
        "used": amount_of(terms, used),
        "left": amount_left(terms, room(standing, account.day)),
    }


def _enforced_guarantee(account: Account) -> dict[str, Any]:
    """Return the guarantee that the ledger enforces, and the theorem that gives it."""
    terms = account.terms
    theorem = _SUM if terms.is_basic else THEOREMS["zcdp"]
    return PrivacyAmount(terms.epsilon, terms.delta).to_json() | {"theorem": theorem}


def _tightest(ledger: Ledger, account: Account) -> dict[str, Any]:
    """Return the tightest statement known to hold for everything released so far."""
    if account.terms.is_basic or _was_changed(ledger, account):
        # The curve requires a total that was fixed beforehand, which a changed total was not.
        return _enforced_guarantee(account)
    epsilon = gaussian_statement(account.terms, ledger.tallies(account.name))
    if epsilon is None:
        return _enforced_guarantee(account)
    amount = PrivacyAmount(epsilon, account.terms.delta)
    return amount.to_json() | {"theorem": THEOREMS["gaussian"]}


def _was_changed(ledger: Ledger, account: Account) -> bool:
    """Return whether the terms were ever changed after the opening."""
    terms = account.terms
    first = ledger.entries(account=account.name, kinds=("open",))[0].body
    now = terms.composition, str(terms.epsilon), str(terms.delta), str(terms.own_delta)
    names = ("composition", "epsilon", "delta", "own_delta")
    then = tuple(first[name] for name in names)
    return then != now or any(changed != terms for _, _, changed in account.charter.changes)


def _decisions(ledger: Ledger, account: str, kind: Any) -> list[dict[str, str]]:
    """Return the day, the person and the reason of each entry of a kind."""
    return [
        {"day": entry.receipt.at, "by": entry.body["by"], "reason": entry.body["reason"]}
        for entry in ledger.entries(account=account, kinds=(kind,))
    ]


def _event(entry: Entry) -> dict[str, Any]:
    """Return an entry that opened or changed an account, with the terms that it states."""
    body: Mapping[str, Any] = entry.body
    terms: dict[str, Any] = {}
    for name in ("epsilon", "delta"):
        if name in body:
            terms |= {name: float(Fraction(body[name])), f"{name}_exact": body[name]}
    for name in ("composition", "own_delta", "calendar"):
        if name in body:
            terms[name] = body[name]
    said = {"by": body["by"], "reason": body["reason"]}
    return {"day": entry.receipt.at, "kind": cast(AccountKind, entry.kind), **terms, **said}


def all_accounts(ledger: Ledger) -> CommandAnswer:
    """Return every account of the ledger."""
    found = [account_answer(ledger, one.name).values for one in ledger.accounts()]
    rows = []
    for one in found:
        name = one["account"] + (" (closed)" if one["closed"] else "")
        if one["within"]:
            name += f", within {one['within']}"
        left, above = number(one["left_today"].epsilon), one["above"]
        if above:
            left = f"{number(above.left.epsilon)} (by {above.account})"
        used = sum(item["outcome"] != "returned" for item in one["releases"])
        amounts = (one[word].epsilon for word in _WORDS[:-1])
        rows.append((name, *amounts, left, used, one["composition"]))
    columns = (
        *texts("account"),
        *numbers(*_WORDS[:-1]),
        *texts("left today"),
        *numbers("releases"),
        *texts("composition"),
    )
    page: Page = (Sentence("Amounts are epsilon."), Listing(columns, rows))
    if not rows:
        page = (
            Sentence(
                "No accounts yet. To open one: dp-release ledger open ACCOUNT --epsilon E --delta D"
                " --by NAME --reason TEXT"
            ),
        )
    return CommandAnswer({"accounts": found}, page)


def changed_account(
    before: CommandAnswer, after: CommandAnswer, *, restated: bool = False
) -> CommandAnswer:
    """Return an account before and after a change; JSON of a raise has the account after only.

    Args:
        before: Its answer before the change.
        after: Its answer now.
        restated: Whether the composition was changed; False (the default) for a raise.
    """
    words = after["composition"]
    if before["composition"] != words:
        words = f"{before['composition']} before, {words} now"
    rows: list[tuple[str, ...]] = [
        (word, before[word].in_words, after[word].in_words) for word in _WORDS
    ]
    if before["calendar"] and after["calendar"]:
        both = (_allowance(one["calendar"]) for one in (before, after))
        rows.append((f"per {after['calendar']['period']}", *both))
    page = (
        Title(after["account"], f": composition {words}"),
        Listing(texts("", "before", "now"), rows),
    )
    if not restated:
        return CommandAnswer(after.values, page)
    values = {"before": before.values, "after": after.values, "note": RESTATING}
    return CommandAnswer(values, (*page, Sentence(RESTATING)))
