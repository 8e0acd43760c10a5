"""Draws by counts with virtual records: their distribution, and all that they can tell.

The audit is exact: every sequence of draws on two neighbouring files is enumerated, with the
probability of each from the very function that draws.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions import column_draws
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent, differing_draws
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.privacy import Relation
from dp_core.methods.drawn_events import draws_event
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.pegs import Pegs
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.full import RELATIONS_OF_AUDITS
from tests.statistical import FALSE_ALARM

pytestmark = pytest.mark.statistical

DOMAIN = Domain(("a", "b"), (2, 2))
CLIQUES = (("a", "b"), ("b", "a"))
VIRTUAL = Fraction(1, 4)


class Script:
    """Choices instead of chance, and the probability that chance would have made them."""

    def __init__(self, choices):
        self.choices, self.place, self.chance = list(choices), 0, Fraction(1)
        self.options, self.taken = [], []

    def evenly(self, size):
        return self.take([1] * size)

    def weighted(self, counts, virtual, parts):
        return self.take([count * parts + virtual for count in counts])

    def take(self, weights):
        choice = self.choices[self.place] if self.place < len(self.choices) else 0
        self.place += 1
        self.options.append(len(weights))
        self.taken.append(choice)
        self.chance *= Fraction(weights[choice], sum(weights))
        return choice


def outcomes(monkeypatch, table, records, sweeps):
    """Return the probability of every sequence of draws from a table of a with b.

    All draws, also those that no record shows: whatever they tell, records tell no more.
    """
    step = Step("measure", "x", Fraction(1), PerturbedDrawsEvent(VIRTUAL, 1), (records, 2))
    tables, others = [table, table.T], [(1,), (0,)]
    found, script = {}, []
    while script is not None:
        tape = Script(script)
        with monkeypatch.context() as patched:
            patched.setattr(column_draws.secrets, "randbelow", tape.evenly)
            patched.setattr(column_draws, "weighted", tape.weighted)
            column_draws.draw(tables, others, sweeps, Grant(1, step))
        found[tuple(tape.taken)] = tape.chance
        # The next sequence of choices, in order.
        full = [*script, *[0] * (len(tape.options) - len(script))]
        while full and full[-1] + 1 == tape.options[len(full) - 1]:
            full.pop()
        script = [*full[:-1], full[-1] + 1] if full else None
    assert sum(found.values()) == 1
    return found


def neighbours_of(relation):
    """Pairs of small tables that differ in one record."""
    for cells in itertools.product(range(3), repeat=4):
        table = np.array(cells).reshape(2, 2)
        if table.sum() > 2:
            continue
        for place in itertools.product(range(2), repeat=2):
            more = table.copy()
            more[place] += 1
            if relation == "add-remove":
                yield table, more
                continue
            for other in itertools.product(range(2), repeat=2):
                if other > place:
                    moved = table.copy()
                    moved[other] += 1
                    yield more, moved


@pytest.mark.parametrize("relation", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize(("records", "sweeps"), [(1, 1), (2, 1), (1, 2), (1, 3)])
def test_whatever_is_drawn_is_as_likely_on_neighbours_as_was_charged(
    monkeypatch, relation, records, sweeps
):
    draws = differing_draws(len(CLIQUES), records, sweeps, Relation(relation))
    assert draws == records * 2 * min(sweeps, 1 if relation == "add-remove" else 2)
    claim = float(PerturbedDrawsEvent(VIRTUAL, draws).epsilon())
    known, worst = {}, 0.0

    def distribution(table):
        key = tuple(table.ravel().tolist())
        if key not in known:
            known[key] = outcomes(monkeypatch, table, records, sweeps)
        return known[key]

    for first, second in neighbours_of(relation):
        one, two = distribution(first), distribution(second)
        for key, chance in one.items():
            worst = max(worst, abs(math.log(chance / two[key])))
    # Half as many draws would not do, nor half of what each is charged.
    assert 0.6 * claim < worst <= claim


def test_codes_are_drawn_in_proportion_to_counts_and_virtual_records():
    counts, size = [0, 3, 10, 1], 60_000
    drawn = [column_draws.weighted(counts, 1, 2) for _ in range(size)]
    seen = np.bincount(drawn, minlength=4)

    def fit(virtual):
        weights = np.array(counts) + virtual
        return stats.chisquare(seen, weights / weights.sum() * size).pvalue

    assert fit(0.5) > FALSE_ALARM
    # Either passes by chance less than once in 1e9; .4 and .6 would in up to 6 of a hundred runs.
    assert fit(0.35) < FALSE_ALARM
    assert fit(0.7) < FALSE_ALARM


def test_virtual_records_are_those_of_the_paper_for_one_sweep():
    """a = 1/(e^(epsilon/p) - 1) for one record; its exponent epsilon B/p has no proof for B > 1."""
    pure = Currency("pure", Fraction(1))
    for records, columns in ((1, 3), (1, 12), (100, 12)):
        event = draws_event(pure, Fraction(1), records * columns)
        paper = 1 / math.expm1(1 / (records * columns))
        assert paper <= event.scale <= paper + 2 / 1024
        assert Fraction(99, 100) < event.epsilon() <= 1
        assert event_from_json(event.to_json()) == event
    zcdp = draws_event(Currency("zcdp", Fraction(1, 100)), Fraction(1, 100), 1200)
    assert zcdp.rho() <= Fraction(1, 100)
    assert (
        zcdp.scale < draws_event(Currency("pure", Fraction(1, 100)), Fraction(1, 100), 1200).scale
    )
    with pytest.raises(ValueError, match="Gaussian curve"):
        draws_event(Currency("gaussian", Fraction(1)), Fraction(1), 5)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="positive"):
            draws_event(pure, Fraction(wrong), 5)
        with pytest.raises(ValueError, match="at least 1"):
            PerturbedDrawsEvent(Fraction(1), wrong)


def test_few_records_of_a_large_file_follow_it():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, 200_000)
    b = np.where(rng.random(200_000) < 0.95, a, 1 - a)
    data = Dataset(DOMAIN, np.stack([a, b]).astype(np.uint16))
    session = MemorySession(Currency("pure", Fraction(2)), "add-remove")
    selection = Pegs(given=CLIQUES, records=500).select(
        MethodInputs(
            curator=Curator(Kernel(DOMAIN, MemoryCounter(data), session)),
            domain=DOMAIN,
            select_cost=Fraction(0),
            measure_cost=Fraction(2),
            zeros=StructuralZeros(),
            rng=rng,
        )
    )
    (grant,) = session.charges
    assert grant.step.event.draws == 1000
    assert selection.records is not None
    # 500 virtual records a code beside 100,000 real ones: 94.7 % alike, 6 standard errors below.
    alike = (selection.records.codes[0] == selection.records.codes[1]).mean()
    assert alike > 0.947 - 6 * (0.947 * 0.053 / 500) ** 0.5


def test_options_are_checked():
    for name in ("records", "sweeps", "features"):
        with pytest.raises(ValueError, match=name):
            Pegs(**{name: 0})
    with pytest.raises(ValueError, match="given"):
        Pegs(given=(("a", "b"), ("a", "c")))
    from dp_core.errors import BadInput

    with pytest.raises(BadInput, match="or sbhg"):
        Pegs(features=3).check(Domain(tuple("abcd"), (1000,) * 4))
