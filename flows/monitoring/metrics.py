"""Prometheus metrics of a home and its ledger.

They have their own registry, without the default metrics of this process (memory, garbage
collection).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dp_core.wall.accounting.composition import Amount, Terms
from flows.monitoring.home_state import Budget, Health, OpenRelease

_ZERO = Fraction(0)


class HomeCollector(Collector):
    """Collects the metrics of a home at each scrape."""

    def __init__(self, read: Callable[[], Health]) -> None:
        """Create a collector.

        Args:
            read: Returns the state of the home; called at each scrape; must not raise.
        """
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        return families(self._read())

    def describe(self) -> list[Metric]:
        """Return no metrics, so that registering the collector does not read the ledger."""
        return []


def registry_of(read: Callable[[], Health]) -> CollectorRegistry:
    """Return a registry that holds only these metrics.

    Args:
        read: Returns the state of the home; called at each scrape; must not raise.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(HomeCollector(read))
    return registry


def text_of(health: Health) -> str:
    """Return the metrics of a home's state in Prometheus' text format."""
    return generate_latest(registry_of(lambda: health)).decode()


def families(health: Health) -> Iterator[Metric]:
    """Yield all metric families; those of the ledger only if it can be read."""
    yield _one("ledger_up", "Whether the ledger can be used (1) or not (0).", not health.fault)
    if health.free is not None:
        words = "Bytes free on the disk of the home, rounded down to two digits."
        yield _one("home_free_bytes", words, health.free)
    if health.verified is not None:
        at = health.verified.at.timestamp()
        yield _one("ledger_verified_timestamp_seconds", "When the ledger was last verified.", at)
        words = "Whether the ledger was in order when it was last verified."
        yield _one("ledger_verified_passed", words, health.verified.passed)
    if health.fault:
        return
    yield _one("ledger_entries", "Number of the ledger's last entry.", health.head)
    yield _releases(health)
    yield from _open(health)
    for make in (_totals, _epsilons, _deltas, _rhos, _periods, _days):
        yield make(health.budgets)


def _family(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"dp_release_{name}", words, labels=labels)


def _one(name: str, words: str, value: float) -> Metric:
    family = _family(name, words)
    family.add_metric([], float(value))
    return family


def _releases(health: Health) -> Metric:
    family = _family("releases", "Releases of the ledger, by state.", "account", "state")
    counts = {(account, outcome): count for account, outcome, count in health.ended}
    for release in health.open:
        key = release.account, release.state
        counts[key] = counts.get(key, 0) + 1
    for (account, state), count in sorted(counts.items()):
        family.add_metric([account, state], count)
    return family


def _open(health: Health) -> Iterator[Metric]:
    stages = _family("open_stages", "Stages of releases that have not ended.", "release", "state")
    lease = _family("lease", "Process that works on a release now.", "release", "host", "process")
    for release in health.open:
        stages.add_metric([release.name, "done"], release.done)
        stages.add_metric([release.name, "open"], release.stages - release.done)
        if release.holder is not None:
            host, process = release.holder
            lease.add_metric([release.name, host, str(process)], 1)
    yield stages
    yield lease
    words = "Age of the oldest release that has not ended and that no process works on, by state."
    oldest = _family("oldest_open_seconds", words, "state")
    for state, release in _oldest(health.open).items():
        oldest.add_metric([state], (health.at - release.since).total_seconds())
    yield oldest


def _oldest(releases: tuple[OpenRelease, ...]) -> dict[str, OpenRelease]:
    found: dict[str, OpenRelease] = {}
    for release in releases:
        if release.holder is None:
            other = found.get(release.state, release)
            found[release.state] = min(other, release, key=lambda one: one.since)
    return found


def _totals(budgets: tuple[Budget, ...]) -> Metric:
    words = "Whether an account takes releases (1) or is closed (0)."
    family = _family("account_open", words, "account", "composition")
    for budget in budgets:
        account = budget.account
        family.add_metric(
            [account.name, account.terms.composition], float(not account.charter.closed)
        )
    return family


def _parts(budget: Budget) -> dict[str, Amount]:
    account = budget.account
    left = account.total_left
    return {
        "total": account.terms.limit,
        "reserved": account.balance.reserved,
        "spent": account.balance.spent,
        "left": Amount(max(left.main, _ZERO), max(left.delta, _ZERO)),
    }


def _epsilons(budgets: tuple[Budget, ...]) -> Metric:
    words = "Epsilon of an account; for a zcdp account its rho converted at the account's delta."
    family = _family("account_epsilon", words, "account", "part")
    for budget in budgets:
        terms = budget.account.terms
        for part, amount in _parts(budget).items():
            family.add_metric([budget.account.name, part], _epsilon(terms, amount))
    return family


def _epsilon(terms: Terms, amount: Amount) -> float:
    return float(amount.main if terms.is_basic else terms.epsilon_of(amount))


def _deltas(budgets: tuple[Budget, ...]) -> Metric:
    words = "Delta of an account; for a zcdp account the sum of its events' own deltas."
    family = _family("account_delta", words, "account", "part")
    for budget in budgets:
        for part, amount in _parts(budget).items():
            family.add_metric([budget.account.name, part], float(amount.delta))
    return family


def _rhos(budgets: tuple[Budget, ...]) -> Metric:
    family = _family("account_rho", "Rho of a zcdp account.", "account", "part")
    for budget in budgets:
        if not budget.account.terms.is_basic:
            for part, amount in _parts(budget).items():
                family.add_metric([budget.account.name, part], float(amount.main))
    return family


def _periods(budgets: tuple[Budget, ...]) -> Metric:
    words = "Epsilon of the current period of an account's calendar."
    family = _family("period_epsilon", words, "account", "period", "part")
    for budget in budgets:
        found, terms = budget.period, budget.account.terms
        if found is None:
            continue
        left = max(found.allowed.main - found.used.main, _ZERO)
        for part, main in (
            ("total", found.allowed.main),
            ("used", found.used.main),
            ("left", left),
        ):
            value = _epsilon(terms, Amount(max(main, _ZERO), _ZERO))
            family.add_metric([budget.account.name, found.label, part], value)
    return family


def _days(budgets: tuple[Budget, ...]) -> Metric:
    words = "Days until an account's total is used up at the rate of its last year."
    family = _family("account_days_left", words, "account")
    for budget in budgets:
        if budget.days_left is not None:
            family.add_metric([budget.account.name], budget.days_left)
    return family
