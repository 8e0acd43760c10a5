"""With much noise, the households of a release still obey the rules that count their members."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.plan.procedure import carry_out, sample
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.linked.possible_members import possible_household
from dp_core.tables.household_rows import HouseholdRows, from_pair_rows, to_pair_rows
from dp_core.tables.member_rules import broken_households
from dp_core.wall.household_counter import HouseholdCounter
from dp_core.wall.ledger.session import MemorySession
from tests.member_rules import ADULT, REFERENCE, RULES, SPOUSE, schema_with

CASES = {
    "the usual rules": RULES,
    "with the columns of the household": (
        REFERENCE,
        "if tenure == own then relation != spouse",
        "exactly two age >= 65",
        "if members >= 3 then job != full",
    ),
    "several columns": (
        "exactly one relation == reference and age >= 18",
        SPOUSE,
        "at least one job is missing",
        "if job is missing then age >= 18",
    ),
    "nobody alone": (REFERENCE, ADULT, "at least one relation == child and age < 16"),
}


@pytest.mark.parametrize("mode", ["posterior", "shared"])
@pytest.mark.parametrize("name", CASES)
def test_every_household_obeys(name, mode):
    schema = schema_with(*CASES[name])
    linked, rng = schema.linked, np.random.default_rng(1)
    found = [possible_household(schema, rng=rng) for _ in range(150)]
    file = HouseholdRows(
        *(
            np.concatenate([getattr(one, part) for one in found], axis=-1)
            for part in ("households", "sizes", "persons")
        )
    )
    pairs = to_pair_rows(linked, schema.domain, file)
    stated = {
        "privacy": {"epsilon": "0.1", "delta": "1e-9"},
        "method": "auto",
        "synthesize": {"sets": 2, "seed": 3, "mode": mode, "rows": 300},
    }
    plan = memory_plan(schema, stated)
    session = MemorySession(plan.currency, "add-remove", shares=linked.shares)
    made = carry_out(plan, HouseholdCounter(MemoryCounter(pairs), linked), session=session)
    for number in (1, 2):
        drawn = sample(made.plan, made.models, number)
        rows = from_pair_rows(linked, drawn)

        assert rows.sizes.size == 300
        assert not broken_households(linked.rules, linked.person_columns, rows).any()
        assert not schema.zeros.violations(drawn).any()
