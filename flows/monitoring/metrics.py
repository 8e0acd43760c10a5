"""Prometheus metrics of a home and its ledger, read without changing anything.

They have their own registry, without the default metrics of this process (memory, garbage
collection).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dp_core.accounts.largest_release import epsilon_of
from dp_core.errors import ReleaseError
from dp_core.kernel.cost.composition import NOTHING, Amount
from dp_core.kernel.ledger.entries import Entry
from tasks.ledger.accounts import Account, Used
from tasks.ledger.ledger import Ledger
from tasks.run.home import assert_not_lost, home, ledger_exists, open_ledger
from tasks.run.home_notes import last_verified
from tasks.run.stage_table import stages_of
from tasks.support.run_folder import RunFolder

_WINDOW = timedelta(days=365)
"""Period over which the rate of spending is computed."""

_ZERO = Fraction(0)

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values of a metric, each after the values of its labels."""


@dataclass(frozen=True, slots=True)
class HomeMetrics:
    """The metrics of a home at one moment.

    Attributes:
        fault: Why the ledger cannot be used; empty if it can.
        families: The metrics; those of the ledger only if it can be used.
    """

    fault: str
    families: tuple[Metric, ...]

    @property
    def text(self) -> str:
        """The metrics in Prometheus' text format."""
        return generate_latest(registry_of(lambda: self)).decode()


def read_metrics() -> HomeMetrics:
    """Return the metrics of the home that the environment names.

    An unusable ledger is reported in `fault`, and none is created.
    """
    where = home()
    found, fault = tuple[Metric, ...](), ""
    try:
        assert_not_lost(where)
        if ledger_exists(where):
            found = tuple(_of_ledger(where, open_ledger(where)))
        else:
            fault = f"There is no ledger in {where} yet."
    except ReleaseError as error:
        fault = error.message
    except Exception as error:
        # A damaged database can make a library raise any error, which must not end the monitoring.
        # The error's text is left out because it may quote stored values.
        fault = f"The ledger cannot be read ({type(error).__name__})."
    up = _one("ledger_up", "Whether the ledger can be used (1) or not (0).", not fault)
    return HomeMetrics(fault, (up, *_of_home(where), *found))


def registry_of(read: Callable[[], HomeMetrics]) -> CollectorRegistry:
    """Return a registry that holds only these metrics.

    Args:
        read: Returns the metrics of the home; called at each scrape; must not raise.
    """

    class AtEachScrape(Collector):
        def collect(self) -> Iterable[Metric]:
            return read().families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(AtEachScrape())
    return registry


def _family(name: str, words: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(f"dp_release_{name}", words, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family


def _one(name: str, words: str, value: float) -> Metric:
    return _family(name, words, (), [((), value)])


def _of_home(where: Path) -> Iterator[Metric]:
    try:
        free = to_two_digits(shutil.disk_usage(where).free)
    except OSError:  # there is no home yet
        pass
    else:
        words = "Bytes free on the disk of the home, rounded down to two digits."
        yield _one("home_free_bytes", words, free)
    verified = last_verified(where)
    if verified is not None:
        at = verified.at.timestamp()
        yield _one("ledger_verified_timestamp_seconds", "When the ledger was last verified.", at)
        words = "Whether the ledger was in order when it was last verified."
        yield _one("ledger_verified_passed", words, verified.passed)


def _of_ledger(where: Path, ledger: Ledger) -> Iterator[Metric]:
    yield _one("ledger_entries", "Number of the ledger's last entry.", ledger.head().position)
    yield from _of_releases(where, ledger)
    yield from _of_accounts(ledger)


def _of_releases(where: Path, ledger: Ledger) -> Iterator[Metric]:
    """Yield the metrics of releases.

    All are read in one query; one query for each release would take seconds after some years.
    """
    now = datetime.now(UTC)
    latest, held = {}, dict[int | None, Entry]()
    outcomes = dict[int | None, str]()
    for entry in ledger.entries(kinds=("reserve", "hold", "settle")):
        if entry.kind == "reserve":
            latest[entry.receipt.release] = entry
        elif entry.kind == "hold":
            held[entry.reservation] = entry
        else:
            outcomes[entry.reservation] = str(entry.body["outcome"])
    counts, oldest = Counter[tuple[str, str]](), dict[str, datetime]()
    stages, leases = list[tuple[tuple[str, ...], float]](), list[tuple[tuple[str, ...], float]]()
    for name, entry in latest.items():
        outcome = outcomes.get(entry.position)
        folder = RunFolder(where, name, entry.link)
        unpublished = (
            outcome == "finished" and folder.exists() and folder.facts_of("publish") is None
        )
        if outcome is not None and not unpublished:
            counts[entry.receipt.account, outcome] += 1
            continue
        holder, waits = ledger.holder(name), held.get(entry.position)
        if holder:
            state = "at_work"
            leases.append(((name, holder.host, str(holder.process)), 1))
        else:
            state = "to_be_published" if unpublished else "held" if waits else "unfinished"
            since = datetime.fromisoformat((waits or entry).recorded)
            oldest[state] = min(oldest.get(state, since), since)
        counts[entry.receipt.account, state] += 1
        reuses = "measurements" in entry.body
        names = stages_of(entry.body["costs"], entry.body["sets"], reuses=reuses)
        done = sum(folder.facts_of(stage) is not None for stage in names)
        stages += [((name, "done"), done), ((name, "open"), len(names) - done)]
    words = "Releases of the ledger, by state."
    yield _family("releases", words, ("account", "state"), sorted(counts.items()))
    words = "Stages of releases that have not ended."
    yield _family("open_stages", words, ("release", "state"), stages)
    words = "Process that works on a release now."
    yield _family("lease", words, ("release", "host", "process"), leases)
    words = "Age of the oldest release that has not ended and that no process works on, by state."
    ages = [((state,), (now - since).total_seconds()) for state, since in oldest.items()]
    yield _family("oldest_open_seconds", words, ("state",), ages)


def _of_accounts(ledger: Ledger) -> Iterator[Metric]:
    accounts = ledger.accounts()
    words = "Whether an account takes releases (1) or is closed (0)."
    takes = [((each.name, each.terms.composition), not each.charter.closed) for each in accounts]
    yield _family("account_open", words, ("account", "composition"), takes)
    parts = [
        (account, (account.name, part), amount)
        for account in accounts
        for part, amount in _parts(account)
    ]
    by_part = ("account", "part")
    words = "Epsilon of an account; for a zcdp account its rho converted at the account's delta."
    epsilons = [(labels, _epsilon(account, amount)) for account, labels, amount in parts]
    yield _family("account_epsilon", words, by_part, epsilons)
    words = "Delta of an account; for a zcdp account the sum of its events' own deltas."
    deltas = [(labels, float(amount.delta)) for _, labels, amount in parts]
    yield _family("account_delta", words, by_part, deltas)
    rhos = [
        (labels, float(amount.main))
        for account, labels, amount in parts
        if not account.terms.is_basic
    ]
    yield _family("account_rho", "Rho of a zcdp account.", by_part, rhos)
    words = "Epsilon of the current period of an account's calendar."
    periods = [sample for account in accounts for sample in _of_period(ledger, account)]
    yield _family("period_epsilon", words, ("account", "period", "part"), periods)
    words = "Days until an account's total is used up at the rate of its last year."
    days = [
        ((account.name,), left)
        for account in accounts
        if (left := days_left(account, ledger.uses(account.name))) is not None
    ]
    yield _family("account_days_left", words, ("account",), days)


def _parts(account: Account) -> list[tuple[str, Amount]]:
    left = account.total_left
    return [
        ("total", account.terms.limit),
        ("reserved", account.balance.reserved),
        ("spent", account.balance.spent),
        ("left", Amount(max(left.main, _ZERO), max(left.delta, _ZERO))),
    ]


def _epsilon(account: Account, amount: Amount) -> float:
    terms = account.terms
    return float(amount.main if terms.is_basic else epsilon_of(terms, amount))


def _of_period(ledger: Ledger, account: Account) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the budget of the current period of an account's calendar, if it has one."""
    calendar = account.calendar
    if calendar is None:
        return
    standing, index = ledger.balances(account.name)[0], calendar.index(account.day)
    used = standing.used_in_period.get(index, NOTHING)
    once = account.terms.allowance(calendar.epsilon, calendar.delta)
    left = calendar.room(index, once, standing.used, used)
    for part, amount in (("total", left + used), ("used", used), ("left", left)):
        value = _epsilon(account, Amount(max(amount.main, _ZERO), _ZERO))
        yield (account.name, calendar.label(index), part), value


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
        float(max(has, _ZERO) / wants) * days
        for has, wants in ((left.main, spent.main), (left.delta, spent.delta))
        if wants > 0
    ]
    return min(lasts)


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
