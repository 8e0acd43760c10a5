"""What `verify` asks of thresholds: their sensitivity, and the delta that was reserved for them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.tables.domain import Domain
from dp_core.wall.accounting.events import (
    LaplaceEvent,
    NoisyMaxEvent,
    PerturbedDrawsEvent,
    StabilityEvent,
)
from dp_core.wall.ledger.session import TABLE, drawn_asks, sparse_asks
from tests.dp_core.bundle.forgery import relinked, resealed, statement_of

EVENT = StabilityEvent(Fraction(1000), 1, 20_000)
NANO = Fraction(1, 10**9)


def with_threshold(folder, *, own_delta=None, event=EVENT, asks=None, neighbours=None):
    """Turn a table's receipt into one of a threshold; return what fails."""
    document = statement_of(folder)
    reserve, charge = document["ledger"]["receipts"][:2]
    asks = sparse_asks(Domain(("sex", "age"), (2, 3)), 100) if asks is None else asks
    charge["body"].update(event=event.to_json(), asks=asks)
    if own_delta is not None:
        reserve["body"]["currency"]["own_delta"] = str(own_delta)
        stated = {"exact": str(own_delta), "decimal": float(own_delta)}
        document["ledger"]["currency"]["own_delta"] = stated
    if neighbours is not None:
        reserve["body"]["neighbours"] = document["guarantee"]["neighbours"] = neighbours
    return relinked(folder, document)


def test_a_threshold_without_a_delta_that_was_reserved_for_it_shows(broken):
    assert 0 < EVENT.own_delta() < 2 * NANO
    assert "fail with a larger probability than was reserved" in with_threshold(broken)["charges"]


def test_thresholds_that_fail_with_what_was_reserved_pass_that_check(broken):
    found = with_threshold(broken, own_delta=EVENT.own_delta())
    assert "charges" not in found
    # But then the total is converted at what is left of delta, which gives a larger epsilon.
    assert "does not imply" in found["guarantee"]


def test_a_hair_less_than_thresholds_fail_with_is_not_enough(broken):
    found = with_threshold(broken, own_delta=EVENT.own_delta() * Fraction(999_999, 10**6))
    assert "fail with a larger probability" in found["charges"]


def test_a_delta_set_aside_by_the_statement_alone_shows(broken):
    document = statement_of(broken)
    document["ledger"]["currency"]["own_delta"] = {"exact": "1/1000", "decimal": 0.001}
    assert "is not the one that was reserved" in resealed(broken, document)["guarantee"]


@pytest.mark.parametrize("asks", [TABLE, {"name": "indif", "length": 3}, {"name": "query-counts"}])
def test_a_threshold_on_anything_but_counts_of_records_shows(broken, asks):
    found = with_threshold(broken, own_delta=EVENT.own_delta(), asks=dict(asks))["charges"]
    assert "smaller effect" in found or "whose sensitivity" in found


def test_a_threshold_of_the_other_relation_shows(broken):
    """Two counts move where a record is replaced."""
    found = with_threshold(broken, own_delta=EVENT.own_delta(), neighbours="replace-one")
    assert "Receipt 2 assumes a smaller effect" in found["charges"]


@pytest.mark.parametrize(("draws", "sentence"), [(5999, "smaller effect"), (6000, "")])
def test_records_charged_for_fewer_draws_than_there_are_show(broken, draws, sentence):
    """A thousand records of three columns, twenty sweeps; a replaced row is in two combinations."""
    asks = drawn_asks([["sex"], ["age", "sex"], ["born", "age"]], 1000, 20)
    event = PerturbedDrawsEvent(Fraction(10**9), draws)
    found = with_threshold(broken, event=event, asks=asks, neighbours="replace-one")
    assert ("Receipt 2 assumes a smaller effect" in found.get("charges", "")) == bool(sentence)


@pytest.mark.parametrize("asks", [TABLE, {"name": "drawn-records", "tables": [], "records": 1}])
def test_draws_of_anything_else_show(broken, asks):
    event = PerturbedDrawsEvent(Fraction(10**9), 10**6)
    found = with_threshold(broken, event=event, asks=dict(asks))["charges"]
    assert "smaller effect" in found or "whose sensitivity" in found


@pytest.mark.parametrize(
    "event", [LaplaceEvent(Fraction(1000), 9), NoisyMaxEvent(Fraction(1000), 9, True)]
)
def test_observed_cells_without_a_threshold_show_whatever_their_noise(broken, event):
    # That a cell is there at all would tell of its record; noise on its count does not help.
    assert "assumes a smaller effect" in with_threshold(broken, event=event)["charges"]
