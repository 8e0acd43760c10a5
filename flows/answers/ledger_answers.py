"""The answers of the ledger's commands, for staff."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from dp_core.errors import BadInput
from dp_core.plan.plan import Plan
from dp_core.text.pages.answer import INLINE, OMITTED, Answer
from dp_core.wall.accounting.account_curve import gaussian_statement
from dp_core.wall.accounting.composition import NOTHING
from dp_core.wall.accounting.currency import THEOREMS
from dp_core.wall.ledger.account_balance import Standing, room
from dp_core.wall.ledger.account_terms import OF_ACCOUNT
from dp_core.wall.ledger.attempts.tried_schemas import MOST_SCHEMAS
from dp_core.wall.ledger.entries import Entry
from dp_core.wall.ledger.receipts import AccountKind
from flows.answers.amounts import (
    AccountAbove,
    PrivacyAmount,
    account_above,
    amount_left,
    amount_of,
    unit_of,
)
from tasks.ledger.accounts import Account
from tasks.ledger.ledger import Ledger

RESTATING = (
    "A change of composition must not be decided by looking at released values; then delta counts"
    " twice."
)

_SUM = "basic composition: the releases' own (epsilon, delta) are summed (Dwork et al. 2006)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodBalance(Answer):
    """The allowance of an account's calendar, and what the current period has used.

    Attributes:
        this: Name of the current period.
        until: Its last day.
        allowed: What may be used in it, with what earlier periods left if it carries over.
    """

    period: str
    allowance: PrivacyAmount = field(metadata=INLINE)
    carry_over: bool
    this: str
    until: date
    allowed: PrivacyAmount
    used: PrivacyAmount
    left: PrivacyAmount


@dataclass(frozen=True, slots=True)
class Statement(Answer):
    """An (epsilon, delta) guarantee, and the theorem that gives it."""

    guarantee: PrivacyAmount = field(metadata=INLINE)
    theorem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRelease(Answer):
    """A release that an account pays for.

    Attributes:
        measurements: The release whose noisy tables it used at no cost; None if it measured.
    """

    release: str
    account: str
    outcome: str
    day: date
    amount: PrivacyAmount = field(metadata=INLINE)
    measurements: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class AccountEvent(Answer):
    """An entry that opened or changed an account.

    Attributes:
        terms: The terms that the entry states, by key: epsilon, delta, composition, calendar, ...
    """

    day: str
    kind: AccountKind
    terms: Mapping[str, Any] = field(metadata=INLINE)
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class AllowedRetry(Answer):
    """A decision that allowed further attempts after the data had refused some."""

    day: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefusedDeclaration(Answer):
    """A declaration that data of the account are public, which the ledger refused."""

    day: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class AccountAnswer(Answer):
    """An account: terms, balance, period, statements, attempts, releases and changes.

    Attributes:
        left: What the total leaves.
        left_today: What the total and the current period leave.
        above: The account above it, if that has less left.
        statement: The guarantee that the ledger enforces.
        tightest: The tightest guarantee known for everything released so far.
        refused_attempts: Refused attempts since the opening; see `refused_declarations`.
        open_attempts: Attempts under way, or interrupted, before the first charge of their release.
        attempts_left: Attempts that it and its family (accounts above and within it) may begin now.
        fitted_attempts: Attempts whose data fit; also an exact answer about them.
        tried_schemas: Number of different schemas that its family has tried since the topmost
            account was opened.
        schemas_left: Number of further schemas that the family may try in this period.
        refused_declarations: Comparisons for which a person declared data of the account public;
            each is a refused attempt.
    """

    account: str
    neighbours: str
    unit: str
    composition: str
    closed: bool
    owner: str
    opened: date
    within: str | None
    accounts_within: list[str]
    approved_plans_only: bool
    total: PrivacyAmount
    reserved: PrivacyAmount
    spent: PrivacyAmount
    left: PrivacyAmount
    left_today: PrivacyAmount
    above: AccountAbove | None
    calendar: PeriodBalance | None
    statement: Statement
    tightest: Statement
    refused_attempts: int
    open_attempts: int
    attempts_left: int
    fitted_attempts: int
    tried_schemas: int
    schemas_left: int
    allowed_retries: tuple[AllowedRetry, ...]
    refused_declarations: tuple[RefusedDeclaration, ...]
    releases: tuple[AccountRelease, ...]
    history: tuple[AccountEvent, ...]


@dataclass(frozen=True, slots=True)
class AllAccounts(Answer):
    """Every account of the ledger."""

    accounts: tuple[AccountAnswer, ...]


@dataclass(frozen=True, slots=True)
class AccountChange(Answer):
    """An account before and after a change of composition."""

    before: AccountAnswer
    after: AccountAnswer
    note: str | None = field(default=None, metadata=OMITTED)


class AccountRaise(AccountChange):
    """An account before and after its total was raised; JSON has the account after only."""

    def to_json(self) -> Any:
        """Return the account as it is now."""
        return self.after.to_json()


@dataclass(frozen=True, slots=True)
class ClosedAccount(Answer):
    """An account that takes no more releases."""

    account: str
    closed: bool = True


@dataclass(frozen=True, slots=True)
class AllowedAttempts(Answer):
    """An account that a person allowed further attempts on its data.

    Attributes:
        account: Name of the account.
        refused_attempts: Its refused attempts since the opening.
        new_attempts: Attempts that it and the accounts above and within it may begin now, together.
        by: Person who decided.
    """

    account: str
    refused_attempts: int
    new_attempts: int
    by: str


@dataclass(frozen=True, slots=True)
class Charge(Answer):
    """One charge: the ledger entry, what it paid for, and its event.

    Attributes:
        cost: Its cost, in the unit of its release's currency.
        currency: Currency of its release: `pure`, `gaussian`, `mixed` or `zcdp`.
        unit: Unit of the cost: `epsilon`, `rho` or `mu²/2`.
    """

    number: int
    receipt: int
    at: str
    account: str
    release: str | None
    stage: str
    step: str
    cost: str
    currency: str
    unit: str
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Charges(Answer):
    """The charges to an account, or those of one release; JSON is a list."""

    account: str
    release: str | None
    charges: tuple[Charge, ...]

    def to_json(self) -> Any:
        """Return the list of charges."""
        return [charge.to_json() for charge in self.charges]


@dataclass(frozen=True, slots=True)
class PlanApproval(Answer):
    """Which accounts require approval of a plan, who must give it, and who gave it."""

    demanded_by: list[str]
    approved: bool
    waits_for: list[str] = field(default_factory=list)
    by: str | None = None
    day: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedPlan(Answer):
    """The plan that was decided about, if its spec was named."""

    release: str
    account: str
    account_found: bool
    method: str
    sets: int
    privacy: PrivacyAmount = field(metadata=INLINE)
    neighbours: str
    demanded: bool


@dataclass(frozen=True, slots=True)
class PlanDecision(Answer):
    """The approval of a plan, or its withdrawal."""

    plan_hash: str
    approved: bool
    by: str
    plan: DecidedPlan | None = field(metadata=INLINE)


@dataclass(frozen=True, slots=True)
class LedgerExport(Answer):
    """Where an export is, and what it holds."""

    file: Path
    entries: int
    head: str
    signed: bool


@dataclass(frozen=True, slots=True)
class SigningKey(Answer):
    """A new key that signs entries.

    Attributes:
        found_by_itself: Whether it is in the default place, so that no setting is needed.
        signing: Fingerprints of all keys that may sign.
    """

    key: str
    public_key_file: str
    public_key: str
    fingerprint: str
    replaces: str | None
    found_by_itself: bool
    signing: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedLedger(Answer):
    """A restored or copied ledger that a person accepted.

    Attributes:
        head: Position of its last entry before the adoption.
        noted: Position of the newest noted entry; None without a note.
        behind: Number of noted entries that it lacks; None if it is unknown.
        elsewhere: How its place differs from the recorded one; None if it does not.
        closed: Accounts that were closed again.
        clock: How far the machine's clock jumped ahead, if only this was accepted.
    """

    ledger: str
    head: int
    noted: int | None
    behind: int | None
    elsewhere: str | None
    closed: list[str]
    clock: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAdoption(Answer):
    """An earlier adoption: its day, and the number of missing entries (None if unknown)."""

    day: date
    behind: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorCheck(Answer):
    """The notes of a ledger's head, and the place where the ledger is.

    Attributes:
        noted: Position of the newest noted entry, which the ledger has.
        noted_in: Folders of the notes.
        place: `as recorded`, or `not recorded` for a ledger that an earlier program made.
        unknown: Properties of the place that this process cannot know, so that they were not
            compared.
        adopted: Adoptions of the ledger.
    """

    noted: int
    noted_in: list[Path]
    place: str
    unknown: list[str]
    adopted: list[LedgerAdoption]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck(Answer):
    """A ledger or an export that verifies, and what the verification rests on.

    Attributes:
        anchor: The notes of its head and its place; None for an export.
    """

    ledger: Path | None
    export: Path | None
    anchor: AnchorCheck | None
    seals: str
    passed: bool
    entries: int
    head: str
    signed: int
    keys: list[str]
    trusted: list[str]


def account_answer(ledger: Ledger, name: str) -> AccountAnswer:
    """Return everything about an account.

    Raises:
        BadInput: if there is no such account.
    """
    account = ledger.account(name)
    charter, terms, balance = account.charter, account.terms, account.balance
    attempts, tried = ledger.attempts(name), ledger.tried_schemas(name)
    return AccountAnswer(
        account=account.name,
        neighbours=charter.neighbours,
        unit=charter.unit,
        composition=terms.composition,
        closed=charter.closed,
        owner=charter.owner,
        opened=charter.opened,
        within=charter.within,
        accounts_within=[
            entry.receipt.account for entry in ledger.entries(kinds=("open",), about=name)
        ],
        approved_plans_only=charter.approved_only,
        total=replace(amount_of(terms, terms.limit), epsilon=terms.epsilon, delta=terms.delta),
        reserved=amount_of(terms, balance.reserved),
        spent=amount_of(terms, balance.spent),
        left=amount_left(terms, account.total_left),
        left_today=amount_left(terms, account.left),
        above=account_above(account.above),
        calendar=_calendar(account, ledger.balances(name)[0]),
        statement=_statement(account),
        tightest=_tightest(ledger, account),
        refused_attempts=attempts.refused,
        open_attempts=attempts.open,
        attempts_left=ledger.new_attempts(name),
        fitted_attempts=attempts.fitted,
        tried_schemas=tried.total,
        schemas_left=max(0, MOST_SCHEMAS - tried.recent),
        allowed_retries=tuple(
            AllowedRetry(entry.receipt.at, entry.body["by"], entry.body["reason"])
            for entry in ledger.entries(account=name, kinds=("allow-retry",))
        ),
        refused_declarations=tuple(
            RefusedDeclaration(entry.receipt.at, entry.body["by"], entry.body["reason"])
            for entry in ledger.entries(account=name, kinds=("refuse-public",))
        ),
        releases=tuple(
            AccountRelease(
                release=used.release,
                account=used.account,
                outcome=used.outcome,
                day=used.day,
                amount=amount_of(terms, used.amount),
                measurements=used.measurements,
            )
            for used in ledger.uses(name)
        ),
        history=tuple(map(_event, ledger.entries(account=name, kinds=OF_ACCOUNT))),
    )


def _calendar(account: Account, standing: Standing) -> PeriodBalance | None:
    calendar, terms = account.charter.calendar, account.terms
    if calendar is None:
        return None
    index = calendar.index(account.day)
    used = standing.used_in_period.get(index, NOTHING)
    once = terms.allowance(calendar.epsilon, calendar.delta)
    left = calendar.room(index, once, standing.used, used)
    return PeriodBalance(
        period=calendar.period,
        allowance=PrivacyAmount(calendar.epsilon, calendar.delta),
        carry_over=calendar.carry_over,
        this=calendar.label(index),
        until=calendar.last_day(index),
        allowed=amount_left(terms, left + used),
        used=amount_of(terms, used),
        left=amount_left(terms, room(standing, account.day)),
    )


def _statement(account: Account) -> Statement:
    terms = account.terms
    theorem = _SUM if terms.is_basic else THEOREMS["zcdp"]
    return Statement(PrivacyAmount(terms.epsilon, terms.delta), theorem)


def _tightest(ledger: Ledger, account: Account) -> Statement:
    """Return the tightest statement known to hold for everything released so far."""
    if account.terms.is_basic or _was_changed(ledger, account):
        # The curve requires a total that was fixed beforehand, which a changed total was not.
        return _statement(account)
    epsilon = gaussian_statement(account.terms, ledger.tallies(account.name))
    if epsilon is None:
        return _statement(account)
    return Statement(PrivacyAmount(epsilon, account.terms.delta), THEOREMS["gaussian"])


def _was_changed(ledger: Ledger, account: Account) -> bool:
    """Return whether the terms were ever changed after the opening."""
    terms = account.terms
    first = ledger.entries(account=account.name, kinds=("open",))[0].body
    now = terms.composition, str(terms.epsilon), str(terms.delta), str(terms.own_delta)
    names = ("composition", "epsilon", "delta", "own_delta")
    then = tuple(first[name] for name in names)
    return then != now or any(changed != terms for _, _, changed in account.charter.changes)


def _event(entry: Entry) -> AccountEvent:
    body: Mapping[str, Any] = entry.body
    terms: dict[str, Any] = {}
    for name in ("epsilon", "delta"):
        if name in body:
            terms |= {name: float(Fraction(body[name])), f"{name}_exact": body[name]}
    for name in ("composition", "own_delta", "calendar"):
        if name in body:
            terms[name] = body[name]
    kind = cast(AccountKind, entry.kind)
    return AccountEvent(entry.receipt.at, kind, terms, body["by"], body["reason"])


def charges_to(ledger: Ledger, account: str, release: str | None) -> Charges:
    """Return every charge that an account pays for, in order, or those of one release.

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
    charges = (
        Charge(
            number=entry.position,
            receipt=entry.receipt.number,
            at=entry.recorded,
            account=entry.receipt.account,
            release=entry.receipt.release,
            stage=entry.body["stage"],
            step=entry.body["step"],
            cost=entry.body["cost"],
            currency=paid_in[entry.receipt.release],
            unit=unit_of(paid_in[entry.receipt.release]),
            event=entry.body["event"],
        )
        for entry in sorted(found, key=lambda entry: entry.position)
    )
    return Charges(account, release, tuple(charges))


def plan_approval(ledger: Ledger, plan: Plan) -> PlanApproval | None:
    """Return whether a plan is approved and by whom; None if no account requires it."""
    demanding = [one for one in ledger.lineage(plan.spec.account) if one.charter.approved_only]
    if not demanding:
        return None
    names = [one.name for one in demanding]
    found = ledger.approval(plan.hash)
    if found is None:
        owners = list(dict.fromkeys(one.charter.owner for one in demanding))
        return PlanApproval(names, approved=False, waits_for=owners)
    by, reason = found.body["by"], found.body["reason"]
    return PlanApproval(names, True, by=by, day=found.receipt.at, reason=reason)


def recent_refusals(ledger: Ledger, account: str) -> int:
    """Return how many attempts count towards the limit of an account and its family."""
    topmost = ledger.lineage(account)[-1].name
    return sum(ledger.attempts(name).recent for name in ledger.covered(topmost))


def decided_plan(ledger: Ledger, plan: Plan) -> DecidedPlan:
    """Return what an approval of a plan is about."""
    spec, account = plan.spec, ledger.find_account(plan.spec.account)
    return DecidedPlan(
        release=spec.release,
        account=spec.account,
        account_found=account is not None,
        method=spec.method,
        sets=spec.sets,
        privacy=PrivacyAmount(spec.privacy.epsilon, spec.privacy.delta),
        neighbours=spec.privacy.neighbours,
        demanded=account is not None and plan_approval(ledger, plan) is not None,
    )
