"""Grants of stages: what the ledger checks before a stage looks, and what a grant covers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.requested import PAYING_STAGES
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BudgetRefused, StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.stored_rows import StoredRows
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.policies.stage_grant import PAYS
from tasks.ledger.charging.ledger_session import LedgerSession
from tests.ledgers import begin, set_lease, step, steps_of

pytestmark = pytest.mark.usefixtures("town")

BATCH = "one_way-0"


class Untouchable:
    """A counter that must not be asked."""

    def count(self, _cliques):
        raise AssertionError("The data were read.")


@pytest.fixture
def reservation(writer, plan):
    return begin(writer, plan)


@pytest.fixture
def counter(plan):
    domain = plan.spec.schema.domain
    codes = np.stack([np.arange(60) % size for size in domain.sizes]).astype(np.uint16)
    return MemoryCounter(Dataset(domain, codes))


@pytest.fixture
def curator_with(writer, plan, reservation, tmp_path):
    """Return the curator of a stage, as the ledger grants it."""

    def curator(stage, counter=None):
        grant, folder = writer.grant(reservation, plan.hash, stage), tmp_path / "noisy"
        session = LedgerSession(writer, reservation, Relation("add-remove"), folder, grant)
        asked = counter or Untouchable()
        return Curator(Kernel(plan.spec.schema.domain, asked, session, StoredRows(60, 60)))

    return curator


def test_every_share_of_the_budget_belongs_to_a_stage():
    assert {share for shares in PAYS.values() for share in shares} == {*PAYING_STAGES}


def test_a_grant_states_what_is_left_for_its_stage_and_for_no_other(writer, plan, reservation):
    basics = writer.grant(reservation, plan.hash, "basics")
    assert basics.left == {"total": plan.costs["total"], "one_way": plan.costs["one_way"]}
    assert (basics.reservation, basics.plan) == (reservation.link, plan.hash)
    assert basics.fence == writer.lease.fence
    writer.charge(reservation, BATCH, steps_of(plan, "one_way"))
    assert writer.grant(reservation, plan.hash, "basics").left["one_way"] == 0
    assert writer.grant(reservation, plan.hash, "measure").left == {
        "measure": plan.costs["measure"]
    }
    assert writer.grant(reservation, plan.hash, "count").left == {}


def test_a_grant_records_nothing(ledger, writer, plan, reservation):
    before = ledger.head()
    writer.grant(reservation, plan.hash, "measure")
    assert ledger.head() == before


def test_a_release_that_was_taken_over_gets_no_grant(ledger_url, writer, plan, reservation):
    set_lease(ledger_url, fence=99)
    with pytest.raises(StageFailed, match="Another process took over release 'first'"):
        writer.grant(reservation, plan.hash, "measure")


def test_a_closed_reservation_gets_no_grant(writer, plan, reservation):
    writer.settle(reservation, "abandoned")
    with pytest.raises(StageFailed, match="reservation of release 'first' is closed"):
        writer.grant(reservation, plan.hash, "measure")


def test_another_plan_gets_no_grant(writer, reservation):
    with pytest.raises(StageFailed, match="carries out plan abc"):
        writer.grant(reservation, "abc", "measure")


def test_a_release_without_its_input_gets_no_grant(writer, plan):
    reservation = writer.reserve(plan)
    with pytest.raises(StageFailed, match="not bound to its input"):
        writer.grant(reservation, plan.hash, "count")


@pytest.mark.any_database
@pytest.mark.parametrize("stage", PAYS)
def test_a_charge_of_another_share_is_refused_before_the_data_are_read(
    ledger, plan, curator_with, stage
):
    curator = curator_with(stage)
    before = ledger.head()
    for share in {"one_way", "measure"} - {*PAYS[stage]}:
        with pytest.raises(BudgetRefused, match=f"does not cover a charge of '{share}'"):
            curator.measure(share, [("a",)], [plan.costs[share]])
    assert ledger.head() == before


def test_a_stage_without_a_share_charges_nothing(ledger, plan, curator_with):
    assert "analyses" not in plan.costs
    curator = curator_with("analyses")
    before = ledger.head()
    with pytest.raises(BudgetRefused, match="analyses"):
        curator.measure("analyses", [("a",)], [Fraction(1, 10**6)])
    assert ledger.head() == before


def test_more_than_a_grant_says_is_refused_before_the_data_are_read(ledger, plan, curator_with):
    cost = plan.costs["measure"]
    curator = curator_with("measure")
    before = ledger.head()
    with pytest.raises(BudgetRefused, match="left, and a step needs"):
        curator.measure("measure", [("a",), ("b",)], [cost, cost / 10**6])
    assert ledger.head() == before


def test_an_old_grant_pays_nothing_that_the_ledger_has_not_left(
    ledger, writer, plan, reservation, curator_with
):
    curator = curator_with("measure")
    paid = step(reservation, "measure", "elsewhere", plan.costs["measure"])
    writer.charge(reservation, "elsewhere", [paid])
    before = ledger.head()
    with pytest.raises(BudgetRefused, match="Stage 'measure'"):
        curator.measure("measure", [("a",)], [Fraction(1, 10**6)])
    assert ledger.head() == before


def test_results_of_earlier_stages_are_read_back_under_any_grant(plan, curator_with, counter):
    basics = curator_with("basics", counter)
    cost = plan.costs["one_way"]
    (first,) = basics.measure("one_way", [("a",)], [cost])
    again = curator_with("measure")
    (read,) = again.measure("one_way", [("a",)], [cost])
    assert np.array_equal(first.values, read.values)


def test_a_charged_result_is_drawn_again_only_under_a_grant_of_its_share(
    ledger, plan, curator_with, counter
):
    cost = plan.costs["one_way"]
    with pytest.raises(AssertionError, match="data were read"):
        curator_with("basics").measure("one_way", [("a",)], [cost])
    before = ledger.head()
    assert before.kind == "charge"
    with pytest.raises(BudgetRefused, match="does not cover a charge of 'one_way'"):
        curator_with("measure", counter).measure("one_way", [("a",)], [cost])
    assert ledger.head() == before
    # What is left of the share does not matter: the draw is paid.
    curator_with("basics", counter).measure("one_way", [("a",)], [cost])
    assert ledger.head().kind == "commit"


def test_without_weighed_units_no_kernel_has_a_session_of_the_ledger(
    writer, plan, reservation, counter, tmp_path
):
    grant = writer.grant(reservation, plan.hash, "measure")
    session = LedgerSession(writer, reservation, Relation("add-remove"), tmp_path / "noisy", grant)
    with pytest.raises(ValueError, match="units in its code store were weighed"):
        Kernel(plan.spec.schema.domain, counter, session)


def test_a_grant_of_another_release_does_not_widen_the_reservation(
    ledger, writer, plan, reservation, tmp_path
):
    """Whoever forges a grant still meets the reservation at the charge."""
    grant = writer.grant(reservation, plan.hash, "measure")
    forged = replace(grant, left={"one_way": Fraction(10**6), "measure": Fraction(10**6)})
    session = LedgerSession(writer, reservation, Relation("add-remove"), tmp_path / "noisy", forged)
    curator = Curator(Kernel(plan.spec.schema.domain, Untouchable(), session, StoredRows(60, 60)))
    before = ledger.head()
    with pytest.raises(BudgetRefused, match="its plan reserved"):
        curator.measure("measure", [("a",)], [plan.costs["measure"] * 2])
    assert ledger.head() == before
