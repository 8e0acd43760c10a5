"""Every method protects persons of several rows: whoever verifies finds its noise large enough."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.calibration import calibrated
from dp_core.plan.presets import PRESETS
from dp_core.plan.procedure import carry_out

DOMAIN = Domain(("a", "b", "c"), (2, 2, 2))
OPTIONS: dict[str, dict[str, Any]] = {
    "fixed": {"select": {"cliques": (("a", "b"), ("c",))}},
    "dualquery": {"select": {"records": 3}},
    "average": {"synthesize": {"models": ("modips", "sequential_regression")}},
}


def charges_of(name, relation):
    """Return what a method is charged for a file, and the file's domain."""
    codes = np.random.default_rng(4).integers(0, 2, (3, 3000)).astype(np.uint16)
    options = OPTIONS.get(name, {})
    delta = Fraction(1, 10**6) if name in ("sba", "sbhg") else Fraction(0)
    plan = trial_plan(
        DOMAIN,
        name,
        Fraction(2),
        delta,
        neighbours=relation.neighbours,
        max_rows=relation.max_rows,
        rows=40,
        **options,
    )
    outcome = carry_out(plan, MemoryCounter(Dataset(DOMAIN, codes)))
    session: Any = outcome.session
    assert session.relation == relation
    assert session.spent() <= plan.currency.limit
    return [grant.step for grant in session.charges], outcome.plan.spec.schema.domain


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", PRESETS)
def test_noise_of_every_method_is_for_all_rows_of_a_person(name, neighbours):
    relation = Relation(neighbours, 3)
    charges, domain = charges_of(name, relation)

    def enough(held: Relation) -> list[bool | None]:
        return [calibrated(charge.asks, charge.event, held, domain) for charge in charges]

    assert charges
    assert all(enough(relation))
    # And it is no more than it has to be: for one row more none of them would do.
    assert not any(enough(Relation(neighbours, 4)))


def test_a_score_for_a_public_number_of_rows_is_refused():
    asked = {"neighbours": "replace-one", "rows": 9, "select": {"score": "mi"}}
    assert trial_plan(DOMAIN, "privbayes", Fraction(1), **asked).costs["select"]
    with pytest.raises(BadInput, match="one row per person"):
        trial_plan(DOMAIN, "privbayes", Fraction(1), max_rows=2, **asked)


def test_one_row_per_person_costs_what_a_row_costs():
    for neighbours in ("add-remove", "replace-one"):
        of_rows = trial_plan(DOMAIN, "privsyn", Fraction(1), neighbours=neighbours)
        of_persons = trial_plan(DOMAIN, "privsyn", Fraction(1), neighbours=neighbours, max_rows=1)
        assert of_rows.tables == of_persons.tables


def test_the_number_of_rows_is_measured_where_only_that_of_persons_is_public():
    def shares(max_rows):
        plan = trial_plan(
            DOMAIN, "mwem", Fraction(1), neighbours="replace-one", max_rows=max_rows, rows=9
        )
        return plan.costs["total"]

    assert shares(1) == 0
    assert shares(2) > 0
