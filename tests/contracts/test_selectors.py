"""What every selection method promises, whatever its name."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core import registry
from dp_core.accounting.currency import Currency, largest_limit
from dp_core.curator import Curator
from dp_core.dataset import Dataset
from dp_core.domain import Domain
from dp_core.ledger.session import MemorySession
from dp_core.marginals import Marginal
from dp_core.selection.one_way import OneWay
from tests.conftest import DatasetCounter

DOMAINS = {
    "small": Domain(("a", "b", "c", "d"), (2, 3, 4, 2)),
    "one column": Domain(("a",), (3,)),
    "one level": Domain(("a", "b"), (1, 1)),
    "two columns": Domain(("a", "b"), (2, 5)),
}
OPTIONS = {"fixed": {"cliques": (("a",),)}}
METHODS = registry.available("selection")
KINDS = ["pure", "zcdp", "gaussian"]


class OnlyNeeds:
    """A counter that answers only what was announced."""

    def __init__(self, counter, allowed):
        self.counter = counter
        self.allowed = {frozenset(clique) for clique in allowed}

    def count(self, cliques) -> dict[tuple[str, ...], Marginal]:
        unexpected = [clique for clique in cliques if frozenset(clique) not in self.allowed]
        assert not unexpected, f"{unexpected} was not in needs()"
        return dict(self.counter.count(cliques))


def method(name):
    return registry.find("selection", name)(**OPTIONS.get(name, {}))


def selected(name, domain, kind="zcdp", neighbours="add-remove", rows=300):
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, rows) for size in domain.sizes]).astype(np.uint16)
    counter = DatasetCounter(Dataset(domain, codes), [])
    session = MemorySession(
        Currency(kind, largest_limit(kind, Fraction(2), Fraction("1e-9"))), neighbours
    )
    limit = session.currency.limit
    planned = OneWay().planned(domain)
    known = Curator(domain, counter, session).measure(
        "one_way", planned.cliques, [limit / 10 * weight for weight in planned.weights]
    )
    selector = method(name)
    before = session.spent()
    selection = selector.select(
        Curator(domain, OnlyNeeds(counter, selector.needs(domain)), session),
        known,
        domain=domain,
        cost=limit / 20,
        measure_cost=limit * 17 / 20,
    )
    return selector, selection, session.spent() - before, limit / 20


@pytest.mark.parametrize("shape", DOMAINS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_a_selection_covers_every_column_and_its_weights_sum_to_one(name, kind, shape):
    domain = DOMAINS[shape]
    _, selection, _, _ = selected(name, domain, kind)
    covered = {column for clique in selection.cliques for column in clique}
    assert covered == set(domain.columns), "a column in no table: measure it by itself"
    assert sum(selection.weights) == 1
    for clique in selection.cliques:
        assert clique == tuple(name for name in domain.columns if name in clique)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", METHODS)
def test_exactly_the_share_is_spent_and_nothing_without_looking(name, neighbours, kind):
    selector, _, spent, cost = selected(name, DOMAINS["small"], kind, neighbours)
    assert spent == (cost if selector.adaptive else 0)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_planned_is_what_is_selected(name):
    selector, selection, _, _ = selected(name, DOMAINS["small"])
    planned = selector.planned(DOMAINS["small"])
    assert (planned is None) == selector.adaptive
    if planned is not None:
        assert selection.cliques == planned.cliques
        assert selection.weights == planned.weights


@pytest.mark.parametrize("name", METHODS)
def test_scores_are_announced_when_the_method_looks(name):
    selector = method(name)
    assert (selector.statistic(DOMAINS["small"]) is not None) == selector.adaptive


@pytest.mark.parametrize("name", METHODS)
def test_no_rows_at_all_are_survived(name):
    _, selection, _, _ = selected(name, DOMAINS["small"], rows=0)
    assert selection.cliques


def test_the_methods_of_the_presets_are_there():
    assert {"one_way", "full", "fixed", "densemarg"} <= set(METHODS)
