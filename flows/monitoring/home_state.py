"""The state of a home and its ledger, for monitoring: quick to read, and nothing is changed."""

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
from tasks.ledger.accounts import Account, Used
from tasks.ledger.ledger import Ledger
from tasks.run.home import assert_not_lost, home, ledger_exists, open_ledger
from tasks.run.home_notes import Verified, last_verified
from tasks.run.stage_table import stages_of
from tasks.support.run_folder import RunFolder

_WINDOW = timedelta(days=365)
"""Period over which the rate of spending is computed."""


@dataclass(frozen=True, slots=True)
class OpenRelease:
    """A release that has not ended.

    Attributes:
        name: Name of the release.
        account: Account that pays.
        since: When its budget was reserved, or when it began to await approval; UTC.
        state: `at_work`, `held`, `unfinished` or `to_be_published`.
        stages: Number of its stages.
        done: Number of stages that are done according to this home.
        holder: Machine name and process number that work on it; None if none does.
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
    """The budget of the current period of an account's calendar.

    Attributes:
        label: Name of the period, such as `2026-Q4`.
        allowed: Budget that may be used in it.
        used: Budget that was used in it.
    """

    label: str
    allowed: Amount
    used: Amount


@dataclass(frozen=True, slots=True)
class Budget:
    """An account with its current period, and an estimate of how long its total lasts.

    Attributes:
        account: The account with its balance.
        period: Budget of the current period; None if the account has no calendar.
        days_left: Days until the total is used up at the rate of the last year; None if there is
            no rate yet.
    """

    account: Account
    period: PeriodUse | None
    days_left: float | None


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a home and its ledger at one moment.

    Attributes:
        at: When it was read; UTC.
        fault: Why the ledger cannot be used; empty if it can.
        free: Free bytes on the home's disk, rounded down to two digits; None if there is no home
            yet.
        verified: The last check of the ledger; None if none was recorded.
        head: Number of the ledger's last entry.
        ended: Tuples of account, outcome and number of releases that ended so.
        open: Releases that have not ended.
        budgets: Budget of every account.
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
    """Return the state of a home; an unusable ledger is reported in `fault`, and none is created.

    Args:
        at: The home; by default the one that the environment names.
    """
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
        # A damaged database can make a library raise any error, which must not end the monitoring.
        # The error's text is left out because it may quote stored values.
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
    """Return the releases that have not ended, and the number of the others by outcome.

    All are read in one query; one query for each release would take seconds after some years.
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
        reuses = "measurements" in entry.body
        stages = stages_of(entry.body["costs"], entry.body["sets"], reuses=reuses)
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

    The rate is the budget of all releases but the latest, divided by the days from the first
    release to the latest.

    Args:
        account: The account with its balance.
        uses: Releases of the account with their day and budget, in order of time.

    Returns:
        Number of days; None if there were releases on fewer than two days, so no rate is known.
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
        The disk space that a run takes depends on its number of rows. Metrics therefore report the
        free space only in steps of 1 to 10 %.

    >>> to_two_digits(5_099_999_999)
    5000000000
    >>> to_two_digits(87)
    87
    """
    step: int = 10 ** max(len(str(number)) - 2, 0)
    return number // step * step
