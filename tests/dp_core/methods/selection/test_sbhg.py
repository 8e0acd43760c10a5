"""SBA and SBHG through the curator: what each table and each choice costs, and which is made."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.methods.drawn_events import threshold_for
from dp_core.methods.selection.budget.threshold_delta import expected_cells
from dp_core.methods.selection.sba import Sba
from dp_core.methods.selection.sbhg import Sbhg
from dp_core.plan.currency_choice import threshold_currency
from tests.measured import method_inputs

EPSILON, DELTA = Fraction(1, 2), Fraction("1e-4")
DOMAIN = Domain(("a", "b", "c", "d"), (3, 3, 4, 2))


def file(rows=3000):
    """b follows a, d follows c; nothing else is tied."""
    draw = np.random.default_rng(1)
    a, c = draw.integers(0, 3, rows), draw.integers(0, 4, rows)
    b = np.where(draw.random(rows) < 0.9, a, draw.integers(0, 3, rows))
    d = np.where(draw.random(rows) < 0.9, c // 2, draw.integers(0, 2, rows))
    return Dataset(DOMAIN, np.stack([a, b, c, d]).astype(np.uint16))


def select(
    selector,
    *,
    neighbours="replace-one",
    epsilon=EPSILON,
    delta=DELTA,
    select=Fraction(0),
    replicate=0,
    data=None,
):
    """Return the selection and the charged steps; the measuring budget is what is left."""
    session = MemorySession(threshold_currency(epsilon, delta), neighbours)
    curator = Curator(Kernel(DOMAIN, MemoryCounter(data or file()), session))
    known, left = (), epsilon
    if neighbours == "add-remove":
        known = curator.measure("total", [()], [epsilon / 50])
        left = epsilon * Fraction(49, 50)
    done = len(session.charges)
    selection = selector.select(
        method_inputs(
            curator,
            DOMAIN,
            known=known,
            select_cost=left * select,
            measure_cost=left * (1 - select),
            replicate=replicate,
        )
    )
    steps = [grant.step for grant in session.charges[done:]]
    assert sum(step.cost for step in steps) == left
    assert sum(step.event.own_delta() for step in steps) <= delta
    return selection, steps


@pytest.mark.parametrize(("form", "threshold"), [("least", 36), ("text", 38), ("algorithm", 41)])
def test_sba_is_one_table_at_the_whole_epsilon_and_delta(form, threshold):
    selection, (step,) = select(Sba(threshold=form))
    assert step.event == StabilityEvent(Fraction(4), 2, threshold)
    (table,) = selection.measured
    assert table.clique == DOMAIN.columns
    assert (table.values >= threshold).all()
    assert table.threshold == threshold


def test_sba_under_add_remove_needs_half_the_noise():
    _, (step,) = select(Sba(), neighbours="add-remove")
    assert step.event.l1_sensitivity == 1
    assert step.event.scale == pytest.approx(2 * 50 / 49)


def test_the_sets_of_a_release_share_the_delta_as_they_share_the_budget():
    _, (step,) = select(Sba(), neighbours="add-remove", replicate=1)
    part = DELTA * Fraction(49, 50)
    assert step.event.threshold == threshold_for(step.event.scale, part)
    _, (whole,) = select(Sba(), neighbours="add-remove")
    assert whole.event.threshold == threshold_for(whole.event.scale, DELTA)


@pytest.mark.parametrize(
    ("form", "threshold"),
    [("least", threshold_for(Fraction(16), DELTA / 4)), ("algorithm", 182), ("text", 171)],
)
def test_each_of_p_tables_gets_a_pth_of_epsilon_and_delta(form, threshold):
    """1 + (2p/eps) log(2p/delta) = 1 + 16 log(80000) = 181.6 of the paper's."""
    given = (("a", "b"), ("b", "a"), ("c", "d"))
    selector = Sbhg(given=given, threshold=form)
    assert not selector.adaptive
    selection, steps = select(selector)
    assert [table.clique for table in selection.measured] == [*given, ("d",)]
    assert {step.event for step in steps} == {StabilityEvent(Fraction(16), 2, threshold)}


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("features", [1, 2, 9])
def test_features_are_chosen_one_after_the_other_each_paid_for(neighbours, features):
    selector = Sbhg(features=features)
    selection, steps = select(
        selector, neighbours=neighbours, epsilon=Fraction(200), select=Fraction(1, 2)
    )
    times = min(features, 3)
    choices = [step for step in steps if isinstance(step.event, NoisyMaxEvent)]
    assert len(choices) == 4 * times
    assert len({step.cost for step in choices}) == 1
    assert {step.stage for step in choices} == {"select"}
    asked = "mutual-information" if neighbours == "replace-one" else "r-score"
    assert {step.asks["name"] for step in choices} == {asked}
    # With hardly any noise the one that each follows comes first.
    first = {clique[0]: clique[1] for clique in (table.clique for table in selection.measured)}
    assert first == {"a": "b", "b": "a", "c": "d", "d": "c"}
    for table in selection.measured:
        assert len(set(table.clique)) == 1 + times


def test_the_choice_of_a_binary_column_has_the_smaller_sensitivity():
    _, steps = select(Sbhg(), epsilon=Fraction(200), select=Fraction(1, 2))
    asks = {step.name: step.asks["binary"] for step in steps if step.stage == "select"}
    assert list(asks.values()) == [False, False, False, True]


def test_the_capacity_is_public_and_large_enough():
    selection, (step,) = select(Sba(), epsilon=Fraction(20))
    (table,) = selection.measured
    assert step.shape == (min(72, expected_cells(3000, table.threshold, 1e-4) + 100), 2)
    assert table.capacity == step.shape[0]
    kept = np.unique(file().codes.T, axis=0, return_counts=True)[1] >= table.threshold + 3
    assert len(table.values) >= kept.sum()


def test_options_are_checked():
    for wrong in ({"features": 0}, {"given": (("a", "b"), ("a", "c"))}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Sbhg(**wrong)
    with pytest.raises(ValueError, match="given names a column twice"):
        Sbhg(given=(("a", "a"),))
    with pytest.raises(BadInput, match="sba"):
        Sbhg().check(Domain(("a",), (3,)))
    Sbhg(given=(("a",),)).check(Domain(("a",), (3,)))


def test_without_a_delta_there_is_no_plan(tmp_path):
    from dp_core.plan.plan import make_plan
    from tests.specs import write_spec

    text = "select: {method: sba}\nreconstruct: {method: sparse}\nmeasure: {share: 0.98}\n"
    text += "one_way: {share: 0}\ntotal: {share: 0.02}\n"
    with pytest.raises(BadInput, match=r"privacy\.delta above 0"):
        make_plan(write_spec(tmp_path, text, privacy="{epsilon: 1}"))
    plan = make_plan(write_spec(tmp_path, text, privacy="{epsilon: 1, delta: 1e-6}"))
    assert plan.currency == threshold_currency(Fraction(1), Fraction(1, 10**6))
    assert not plan.fixed_beforehand
    gaussian = text.replace("{share: 0.98}", "{share: 0.98, noise: gaussian}")
    with pytest.raises(BadInput, match="Laplace noise"):
        make_plan(write_spec(tmp_path, gaussian, privacy="{epsilon: 1, delta: 1e-6}"))
