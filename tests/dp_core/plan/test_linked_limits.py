"""What a release of linked tables may not ask is refused by its plan, or left out of its choice."""

from __future__ import annotations

import copy
import dataclasses
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.household_values import LARGEST, stored_shares
from dp_core.client.released import Totals
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.linked_columns import household_shares
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.methods.reconstruction.linked import member_targets
from dp_core.methods.selection.budget.costs import Costs
from dp_core.plan.procedure import ask_all
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema
from tests import linked_release
from tests.linked_frames import pair_row_codes

LEVELS = 5


def schema_of(most):
    """Return a schema of households of so many members, with three person columns of 5 levels."""
    document = copy.deepcopy(dict(linked_release.SCHEMA))
    document["unit"] = {"table": "homes", "max_members": str(most)}
    levels = [str(level) for level in range(LEVELS)]
    people = document["tables"]["people"]
    people["columns"] = {name: {"type": "ordinal", "levels": levels} for name in "xyz"}
    document.pop("impossible")
    return parse_schema(document)


def plan_of(schema, privacy=None, **stages):
    usual = {"epsilon": "300", "delta": "1e-9", "neighbours": "add-remove"}
    return memory_plan(
        schema, {"privacy": usual | (privacy or {}), "synthesize": {"sets": "1"}, **stages}
    )


@pytest.mark.parametrize(
    "keys",
    [
        {"method": "privsyn"},
        {"select": {"method": "aim"}},
        {"reconstruct": {"method": "gum"}},
        {"synthesize": {"method": "kde"}},
        {"checks": {"share": "0.1"}},
    ],
)
def test_another_method_or_a_check_is_refused_by_the_plan(keys):
    with pytest.raises(BadInput, match="linked tables"):
        plan_of(schema_of(3), **keys)


def test_more_households_than_can_be_stored_in_shares_are_refused_by_the_plan():
    schema = dataclasses.replace(schema_of(20), rows_about=1_000_000)
    with pytest.raises(BadInput, match="So many households cannot be counted") as caught:
        plan_of(schema)
    assert caught.value.exit_code == 2
    assert plan_of(dataclasses.replace(schema, rows_about=900_000)).tables
    assert plan_of(dataclasses.replace(schema_of(10), rows_about=10_000_000)).tables


@pytest.mark.parametrize(("most", "epsilon"), [(20, "1e-6"), (10, "1e-10")])
def test_noise_that_cannot_be_stored_in_shares_is_refused_by_the_plan(most, epsilon):
    schema, privacy = schema_of(most), {"epsilon": epsilon, "delta": "0"}
    with pytest.raises(BadInput, match="too large for counts in units of 1/") as caught:
        plan_of(schema, privacy, synthesize={"sets": "1", "rows": "100"})
    assert f"{schema.linked.shares:,}" in str(caught.value)
    # The same release of smaller households is possible.
    small = schema_of(2)
    assert plan_of(small, privacy, synthesize={"sets": "1", "rows": "100"}).tables


def test_a_rule_about_too_many_codes_of_a_member_is_refused_by_the_plan(monkeypatch):
    document = copy.deepcopy(dict(linked_release.SCHEMA))
    schema = parse_schema(document)
    assert plan_of(schema).tables
    monkeypatch.setattr(member_targets, "MOST_RULE_CELLS", 5)
    with pytest.raises(BadInput, match="The rules about age, work compare 6 combinations"):
        plan_of(schema)


# -- interactions, which are selected after some of the budget was spent


def test_an_interaction_with_large_numbers_in_shares_is_no_candidate():
    currency = Currency("zcdp", Fraction(1))

    def measurable(most, *sizes):
        relation = Relation("add-remove", shares=household_shares(most))
        return Costs(currency, relation, Fraction(1), whole=False).measurable(sizes)

    assert [measurable(most, 2, 2) for most in (1, 3, 10, 20)] == [True, True, True, False]
    assert [measurable(most, 2, 2, 5) for most in (1, 3, 10, 20)] == [True, True, True, False]
    assert [measurable(most, 5, 5, 5) for most in (1, 3, 10, 20)] == [True, False, False, False]


def test_the_noise_that_is_expected_of_an_interaction_is_that_of_the_curator():
    """In households, whatever their shares are."""
    currency, cost = Currency("pure", Fraction(1)), Fraction(1)
    for most in (1, 3, 6):
        schema = schema_of(most)
        relation = Relation("add-remove", shares=schema.linked.shares)
        session = MemorySession(currency, "add-remove", shares=relation.shares)
        counter = HouseholdCounter(MemoryCounter(None), schema.linked) if most > 1 else None
        curator = Curator(Kernel(schema.domain, counter, session))
        costs = Costs(currency, relation, cost, whole=False)
        table = curator.count_noise(cost).stddev ** 2
        assert costs.table * (1 + costs.floor) == pytest.approx(table, rel=1e-6)


def three_way(households, most):
    """Return two tables: the third column of a person is the sum of the others, modulo 5."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, most + 1, households)
    home = np.arange(households)
    of = np.repeat(home, sizes)
    x, y = rng.integers(0, LEVELS, (2, of.size))
    number = np.arange(of.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ones = rng.integers(1, 3, (2, households))
    homes = pd.DataFrame({"home": home, "tenure": ones[0], "income": ones[1]})
    people = pd.DataFrame({"home_id": of, "nr": number, "x": x, "y": y, "z": (x + y) % LEVELS})
    return [pa.Table.from_pandas(each.astype(str)) for each in (homes, people)]


@pytest.mark.parametrize("most", [2, 13, 20])
def test_a_release_of_large_households_is_not_refused_after_it_was_partly_paid(most):
    schema = schema_of(most)
    plan = plan_of(schema, synthesize={"sets": "1", "mode": "shared"})
    pairs = pair_row_codes(schema, *three_way(400, most))
    shares = schema.linked.shares
    session = MemorySession(plan.currency, "add-remove", shares=shares)
    answered = ask_all(plan, HouseholdCounter(MemoryCounter(pairs), schema.linked), session)
    assert session.spent() == plan.currency.limit
    for item in answered.released:
        assert np.abs(stored_shares(item.values, shares)).max() < LARGEST
    orders = {len(item.of.columns) for item in answered.released if isinstance(item, Totals)}
    assert (3 in orders) == (most == 2)
