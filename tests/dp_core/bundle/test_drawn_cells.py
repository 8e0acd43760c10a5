"""What `verify` asks of records that were drawn from a whole table."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.wall.accounting.events import LaplaceEvent, PerturbedDrawsEvent, PolyaUrnEvent
from dp_core.wall.ledger.session import TABLE, drawn_asks, drawn_cells_asks
from tests.dp_core.bundle.test_thresholds import with_threshold

ASKS = drawn_cells_asks(["sex", "age"], [None, (0, 3, 5)], 1000)
LARGE = Fraction(10**9)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("event", [PerturbedDrawsEvent, PolyaUrnEvent])
@pytest.mark.parametrize("paid", [999, 1000])
def test_records_charged_for_fewer_than_there_are_show(broken, event, paid, neighbours):
    found = with_threshold(broken, event=event(LARGE, paid), asks=ASKS, neighbours=neighbours)
    assert ("Receipt 2 assumes a smaller effect" in found.get("charges", "")) == (paid < 1000)


def test_an_urn_charged_at_less_than_it_costs_shows(broken):
    found = with_threshold(broken, event=PolyaUrnEvent(Fraction(1, 10), 1000), asks=ASKS)
    assert "charges less than its event costs" in found["charges"]


@pytest.mark.parametrize(
    "asks", [TABLE, drawn_asks([["sex"], ["age"]], 10, 1), {"name": "drawn-cells", "records": "9"}]
)
def test_an_urn_of_anything_but_whole_tables_shows(broken, asks):
    found = with_threshold(broken, event=PolyaUrnEvent(LARGE, 10**6), asks=dict(asks))["charges"]
    assert "smaller effect" in found or "whose sensitivity" in found


def test_noise_does_not_make_drawn_cells_private(broken):
    found = with_threshold(broken, event=LaplaceEvent(Fraction(1000), 2000), asks=ASKS)
    assert "assumes a smaller effect" in found["charges"]
