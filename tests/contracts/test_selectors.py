"""What every selection method promises, whatever its name."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.released import tables_of
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.covered_choices import COVER, covered
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods import registry
from dp_core.methods.selection.one_way import OneWay
from dp_core.methods.selection.selector import Selection, Selector
from dp_core.plan.currency_choice import threshold_currency
from dp_core.plan.presets import PRESETS
from tests.full import pairwise, some
from tests.measured import method_inputs

DOMAINS = {
    "small": Domain(("a", "b", "c", "d"), (2, 3, 4, 2)),
    "binary": Domain(("a", "b", "c", "d"), (2, 2, 2, 2)),
    "one column": Domain(("a",), (3,)),
    "one binary column": Domain(("a",), (2,)),
    "one level": Domain(("a", "b"), (1, 1)),
    "two columns": Domain(("a", "b"), (2, 5)),
    "a single level beside others": Domain(("a", "b", "c"), (2, 1, 3)),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "fixed": {"cliques": (("a",),)},
    "dualquery": {"records": 3},  # its own number is hundreds
}
METHODS = registry.available("selection")
COVERED = [
    name
    for name in METHODS
    if registry.find("selection", name).largest_choice is not Selector.largest_choice
]
KINDS = ["pure", "zcdp", "gaussian"]
RELATIONS = ["add-remove", "replace-one"]


class OnlyNeeds(MemoryCounter):
    """A counter that answers only what was announced."""

    def __init__(self, data, allowed):
        super().__init__(data)
        self.allowed = {frozenset(clique) for clique in allowed}

    def count(self, cliques) -> dict[tuple[str, ...], Marginal]:
        unexpected = [clique for clique in cliques if frozenset(clique) not in self.allowed]
        assert not unexpected, f"{unexpected} was not in needs()"
        return dict(super().count(cliques))


def refused(selector, domain) -> bool:
    """Return whether a domain is refused; then with a sentence that names what fits."""
    try:
        selector.check(domain)
    except BadInput as refusal:
        if not any(name in str(refusal) for name in (*PRESETS, *METHODS)):
            raise
        return True
    return False


@dataclass
class Trial:
    """One method on one small file, with the session that pays."""

    name: str
    domain: Domain
    kind: str = "zcdp"
    neighbours: str = "add-remove"
    rows: int = 300
    session: MemorySession = field(init=False, repr=False)  # what is asked again is long

    def __post_init__(self):
        self.selector = registry.find("selection", self.name)(**OPTIONS.get(self.name, {}))
        if refused(self.selector, self.domain):
            pytest.skip(f"{self.name} does not take this domain")
        if self.kind == "gaussian" and self.selector.chooses:
            pytest.skip("a private choice has no cost on the Gaussian curve")
        delta = Fraction("1e-9")
        if self.selector.own_delta:
            if self.kind != "pure":
                pytest.skip("a threshold is paid for in epsilon and delta")
            currency = threshold_currency(Fraction(2), delta)
        else:
            currency = Currency(self.kind, largest_limit(self.kind, Fraction(2), delta))
        self.session = MemorySession(currency, self.neighbours)
        rng = np.random.default_rng(1)
        codes = np.stack([rng.integers(0, size, self.rows) for size in self.domain.sizes])
        self.data = Dataset(self.domain, codes.astype(np.uint16))
        limit = currency.limit
        self.cost = limit / 20 if self.selector.adaptive else Fraction(0)
        self.measure_cost = limit * 15 / 20
        planned = OneWay().fixed_selection(self.domain)
        curator = Curator(Kernel(self.domain, MemoryCounter(self.data), self.session))
        self.known = (
            *curator.measure("total", [()], [limit / 20]),
            *curator.measure(
                "one_way", planned.cliques, [limit / 20 * weight for weight in planned.weights]
            ),
        )

    def select(self, *, replicate=0, part=1) -> tuple[Selection, Fraction]:
        """Return what is selected, and what that cost."""
        before = self.session.spent()
        announced = self.selector.needs(self.domain)
        counter = OnlyNeeds(self.data, announced) if announced else MemoryCounter(self.data)
        selection = self.selector.select(
            method_inputs(
                Curator(Kernel(self.domain, counter, self.session)),
                self.domain,
                known=self.known,
                select_cost=self.cost / part,
                measure_cost=self.measure_cost / part,
                rng=np.random.default_rng(3),
                replicate=replicate,
            )
        )
        return selection, self.session.spent() - before


@pytest.mark.parametrize(
    ("kind", "shape"),
    some(itertools.product(KINDS, DOMAINS), lambda case: "pure" in case or "small" in case),
)
@pytest.mark.parametrize("name", METHODS)
def test_a_selection_covers_every_column_and_its_weights_sum_to_one(name, kind, shape):
    trial = Trial(name, DOMAINS[shape], kind)
    selection, _ = trial.select()
    assert not selection.cliques or sum(selection.weights) == 1
    assert selection.cliques or selection.measured or selection.records is not None
    if trial.selector.fixed_selection(trial.domain) is None and (
        selection.measured or selection.records is not None
    ):
        assert trial.selector.rounds is True, (
            f"{name} measures or makes records while it selects: say `rounds = True` in its class,"
            " so that it is asked once for each independent measurement"
        )
    whole = {*selection.cliques} - selection.interactions
    given = {
        kind
        for kind, found in (("tables", whole), ("interactions", selection.interactions))
        if found
    }
    assert given <= trial.selector.gives, (
        f"{name} selects {given}: say so in `gives`, by which a reconstruction that cannot use them"
        " is refused before anything is spent"
    )
    for clique in selection.interactions:
        Interaction(clique, trial.domain.project(clique).sizes)  # otherwise it cannot be measured
    if trial.selector.gives == {"tables"}:
        tables = [*selection.cliques, *(table.clique for table in tables_of(selection.measured))]
        covered = {column for clique in tables for column in clique}
        assert covered == set(trial.domain.columns), "a column in no table: measure it by itself"


@pytest.mark.parametrize(("name", "sets", "shape"), pairwise(COVERED, [1, 3], DOMAINS))
def test_no_choice_is_refused_where_the_method_says_that_enough_is_left(name, sets, shape):
    """At shares that the plan just accepts, with a measurement for each set."""
    trial = Trial(name, DOMAINS[shape], "mixed")
    if name == "auto":
        trial.selector = dataclasses.replace(trial.selector, candidates="forest")
    largest = trial.selector.largest_choice(trial.domain)
    if largest is None:
        pytest.skip(f"{name} has nothing to choose from")
    # The session has nothing else left, so what remains after a choice is this budget alone.
    budget = trial.session.currency.limit - trial.session.spent()
    trial.cost = budget / (1 + COVER * largest)
    trial.measure_cost = budget - trial.cost
    assert covered(largest * trial.cost, trial.measure_cost)
    rounds = sets if trial.selector.rounds else 1
    for replicate in range(1, rounds + 1):
        trial.select(replicate=replicate, part=rounds)
    asked = [each.step for each in trial.session.charges if each.step.stage == "select"]
    choices = [step for step in asked if isinstance(step.event, NoisyMaxEvent)]
    if trial.selector.chooses:  # `auto` also asks for scores, and may do without choices
        assert choices or len(trial.domain) == 1
        assert choices == asked


@pytest.mark.parametrize(
    ("shape", "neighbours", "kind"),
    some(
        itertools.product(["small", "binary", "one column"], RELATIONS, KINDS),
        lambda case: (case[2] == "zcdp") == (case[1] == "replace-one"),
    ),
)
@pytest.mark.parametrize("name", METHODS)
def test_exactly_the_share_is_spent_and_nothing_without_looking(name, shape, neighbours, kind):
    trial = Trial(name, DOMAINS[shape], kind, neighbours)
    selection, spent = trial.select()
    if trial.selector.fixed_selection(trial.domain) is not None:
        assert spent == 0
    elif selection.cliques:
        # What was chosen is measured afterwards, with the measuring share. With a single column
        # there may be nothing to choose from.
        assert spent == trial.cost or (spent == 0 and len(trial.domain) == 1)
    else:
        assert spent == trial.cost + trial.measure_cost


@pytest.mark.parametrize("name", METHODS)
def test_a_selection_that_is_asked_for_again_asks_the_same_and_pays_nothing(name):
    # So it is after a crash: the curator gives back what was paid for.
    for shape in ("small", "binary"):
        trial = Trial(name, DOMAINS[shape], "pure")
        first, _ = trial.select()
        charges = len(trial.session.charges)
        second, spent = trial.select()
        assert spent == 0
        assert len(trial.session.charges) == charges
        assert (first.cliques, first.weights) == (second.cliques, second.weights)
        assert len(first.measured) == len(second.measured)
        if first.records is not None:
            assert np.array_equal(first.records.codes, second.records.codes)


@pytest.mark.parametrize("name", METHODS)
def test_what_measures_as_it_selects_is_paid_for_each_set_by_itself(name):
    trial = Trial(name, DOMAINS["binary"], "pure")
    if not trial.selector.rounds:
        return
    first, _ = trial.select(replicate=1, part=2)
    second, spent = trial.select(replicate=2, part=2)
    assert spent == (trial.cost + trial.measure_cost) / 2
    assert {item.replicate for item in first.measured} <= {1}
    assert {item.replicate for item in second.measured} <= {2}


@pytest.mark.parametrize("name", METHODS)
def test_only_what_looks_needs_a_share_or_announces_scores(name):
    for shape in ("small", "binary"):
        trial = Trial(name, DOMAINS[shape], "pure")
        if trial.selector.fixed_selection(trial.domain) is not None:
            assert not trial.selector.adaptive
        if trial.selector.statistic(trial.domain) is not None:
            assert trial.selector.adaptive


@pytest.mark.parametrize("name", METHODS)
def test_no_rows_at_all_are_survived(name):
    trial = Trial(name, DOMAINS["binary"], "pure", rows=0)
    selection, _ = trial.select()
    assert selection.cliques or selection.measured or selection.records is not None


def test_the_methods_of_the_presets_are_there():
    assert {preset.select for preset in PRESETS.values() if preset.select} <= set(METHODS)
