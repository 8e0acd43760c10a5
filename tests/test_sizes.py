"""The product does not grow unnoticed: every room has a limit, which is lowered when it shrinks."""

import shutil
from pathlib import Path

import pytest

from tests.sizes import LIMITS, faults, lower, measured_sizes, stated_limits

SIZES = {"lines": {"product": 30, "flows/cli": 30}, "words": {"docs": 9}}


def test_every_room_has_exactly_its_stated_size():
    assert faults(measured_sizes(), stated_limits()) == []


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"lines": {"product": 30, "flows/cli": 29}, "words": {"docs": 9}}, "its limit is 29"),
        ({"lines": {"product": 30, "flows/cli": 31}, "words": {"docs": 9}}, "--lower"),
        ({"lines": {"product": 30}, "words": {"docs": 9}}, "no limit"),
        ({"lines": {**SIZES["lines"], "old": 4}, "words": {"docs": 9}}, "does not exist"),
    ],
)
def test_a_size_that_differs_from_its_limit_is_a_fault(limits, words):
    (found,) = faults(SIZES, limits)
    assert words in found
    assert faults(SIZES, SIZES) == []


def test_lowering_never_raises_a_limit_and_keeps_the_comments(tmp_path):
    file = Path(shutil.copy(LIMITS, tmp_path))
    before = stated_limits(file)
    smaller = {
        unit: {room: size + (5 if room == "tests" else -5) for room, size in limits.items()}
        for unit, limits in before.items()
    }
    lower(file, smaller)
    after = stated_limits(file)
    assert after["lines"]["tests"] == before["lines"]["tests"]
    assert all(
        after[unit][room] == size - 5
        for unit, limits in before.items()
        for room, size in limits.items()
        if room != "tests"
    )
    assert file.read_text().splitlines()[0] == LIMITS.read_text().splitlines()[0]
