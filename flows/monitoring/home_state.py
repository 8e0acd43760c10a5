"""How a home and its ledger stand, for those who watch: read quickly, and changing nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from dp_core.errors import ReleaseError
from dp_core.wall.accounting.composition import NOTHING, Amount
from dp_core.wall.ledger.account_balance import Standing
from dp_core.wall.ledger.entries import Entry
from flows.answers.release_answers import stages_of
from tasks.ledger.accounts import Account, Used
from tasks.ledger.ledger import Ledger
from tasks.run.home import assert_not_lost, home, ledger_exists, open_ledger
from tasks.run.verification_note import Verified, last_verified
from tasks.support.run_folder import RunFolder

_WINDOW = timedelta(days=365)
"""How far back the rate of spending looks."""


@dataclass(frozen=True, slots=True)
class OpenRelease:
    """A release that is neither finished nor given up.

    Attributes:
        name: Of the release.
        account: That pays.
        since: When it was reserved, or held, UTC.
        state: `at_work`, `held`, `unfinished` or `to_be_published`.
        stages: Number of its stages.
        done: How many of them are done, as this home knows.
        holder: Machine and process that work on it, None if none does.
    """

    name: str
    account: str
    since: datetime
    state: str
    stages: int
    done: int
    holder: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class PeriodUse:
    """What the current period of an account's calendar allows.

    Attributes:
        label: Of the period.
        allowed: What it may use.
        used: What it did.
    """

    label: str
    allowed: Amount
    used: Amount


@dataclass(frozen=True, slots=True)
class Budget:
    """An account with its current period, and how long it lasts.

    Attributes:
        account: With its balance.
        period: None without a calendar.
        days_left: Until its total is used up at the rate of the last year; None without a rate.
    """

    account: Account
    period: PeriodUse | None
    days_left: float | None


@dataclass(frozen=True, slots=True)
class Health:
    """A home and its ledger at one moment.

    Attributes:
        at: When it was read, UTC.
        fault: Why the ledger cannot be used, empty if it can.
        free: Bytes free where the home is, to two digits; None where there is no home yet.
        verified: The last check of the ledger, None if none was noted.
        head: Number of the ledger's last entry.
        ended: Number of releases that are over, by account and outcome.
        open: Releases that are not over.
        budgets: Of every account.
    """

    at: datetime
    fault: str
    free: int | None
    verified: Verified | None
    head: int = 0
    ended: tuple[tuple[str, str, int], ...] = ()
    open: tuple[OpenRelease, ...] = ()
    budgets: tuple[Budget, ...] = ()


def read_health(at: Path | None = None) -> Health:
    """Return how a home stands; makes no ledger, and a broken one is a fault in the answer."""
    where = at or home()
    now = datetime.now(UTC)
    free, verified = _free(where), last_verified(where)
    try:
        assert_not_lost(where)
        if not ledger_exists(where):
            return Health(now, f"There is no ledger in {where} yet.", free, verified)
        return _read(where, open_ledger(where), now, free, verified)
    except ReleaseError as error:
        return Health(now, error.message, free, verified)
    except Exception as error:
        # Whatever a damaged database makes a library raise: a watch does not end with what it
        # watches. Its text may quote what is stored.
        name = type(error).__name__
        return Health(now, f"The ledger cannot be read ({name}).", free, verified)


def _read(
    where: Path, ledger: Ledger, now: datetime, free: int | None, verified: Verified | None
) -> Health:
    open_, ended = _releases(where, ledger)
    return Health(
        at=now,
        fault="",
        free=free,
        verified=verified,
        head=ledger.head().position,
        ended=ended,
        open=open_,
        budgets=tuple(_budget(ledger, account) for account in ledger.accounts()),
    )


def _releases(
    where: Path, ledger: Ledger
) -> tuple[tuple[OpenRelease, ...], tuple[tuple[str, str, int], ...]]:
    """Return the releases that are not over, and how many of the others ended how.

    Read by one question for all of them: one at a time would take seconds after some years.
    """
    latest, held = {}, dict[int | None, Entry]()
    outcomes = dict[int | None, str]()
    for entry in ledger.entries(kinds=("reserve", "hold", "settle")):
        if entry.kind == "reserve":
            latest[entry.receipt.release] = entry
        elif entry.kind == "hold":
            held[entry.reservation] = entry
        else:
            outcomes[entry.reservation] = str(entry.body["outcome"])
    open_, counts = [], dict[tuple[str, str], int]()
    for name, entry in latest.items():
        outcome = outcomes.get(entry.position)
        folder = RunFolder(where, name, entry.link)
        unpublished = outcome == "finished" and folder.exists() and folder.done("publish") is None
        if outcome is not None and not unpublished:
            key = entry.receipt.account, outcome
            counts[key] = counts.get(key, 0) + 1
            continue
        holder = ledger.holder(name)
        waits = held.get(entry.position)
        stages = stages_of(entry.body["costs"])
        if holder:
            state = "at_work"
        elif unpublished:
            state = "to_be_published"
        else:
            state = "unfinished" if waits is None else "held"
        open_.append(
            OpenRelease(
                name=name,
                account=entry.receipt.account,
                since=datetime.fromisoformat((waits or entry).recorded),
                state=state,
                stages=len(stages),
                done=sum(folder.done(stage) is not None for stage in stages),
                holder=(holder.host, holder.process) if holder else None,
            )
        )
    return tuple(open_), tuple((*key, count) for key, count in sorted(counts.items()))


def _budget(ledger: Ledger, account: Account) -> Budget:
    standing = ledger.balances(account.name)[0]
    uses = ledger.uses(account.name)
    return Budget(account, _period(account, standing), days_left(account, uses))


def _period(account: Account, standing: Standing) -> PeriodUse | None:
    calendar = account.charter.calendar
    if calendar is None:
        return None
    index = calendar.index(account.day)
    used = standing.used_in_period.get(index, NOTHING)
    once = account.terms.allowance(calendar.epsilon, calendar.delta)
    room = calendar.room(index, once, standing.used, used)
    return PeriodUse(calendar.label(index), room + used, used)


def days_left(account: Account, uses: Sequence[Used]) -> float | None:
    """Return how many days an account's total lasts at the rate of its last year.

    The rate is what all but the latest release took, over the days from the first to the latest:
    the latest is what the time after it is for. None where releases of fewer than two days tell
    of no rate.
    """
    since = account.day - _WINDOW
    taken = [(use.day, use.amount) for use in uses if use.amount != NOTHING and use.day >= since]
    if not taken:
        return None
    first, last = taken[0][0], taken[-1][0]
    days = (last - first).days
    if days < 1:
        return None
    spent = sum((amount for _, amount in taken[:-1]), NOTHING)
    left = account.total_left
    lasts = [
        float(max(has, Fraction(0)) / wants) * days
        for has, wants in ((left.main, spent.main), (left.delta, spent.delta))
        if wants > 0
    ]
    return min(lasts)


def _free(where: Path) -> int | None:
    try:
        return to_two_digits(shutil.disk_usage(where).free)
    except OSError:
        return None


def to_two_digits(number: int) -> int:
    """Return a number rounded down to its first two digits.

    Privacy:
        What a run of the release takes of the disk follows from the number of its rows; whoever
        scrapes metrics is told steps of 1 to 10 % of what is free instead.

    >>> to_two_digits(5_099_999_999)
    5000000000
    >>> to_two_digits(87)
    87
    """
    step: int = 10 ** max(len(str(number)) - 2, 0)
    return number // step * step
