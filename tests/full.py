"""What `make test` runs of a long row of cases; `make test-all` (`pytest --full`) runs the rest.

A case that is marked `full` is one of many that show the same. One of each kind stays in
`make test`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

full = pytest.mark.full
EXHAUSTIVE = os.environ.get("DP_RELEASE_EXHAUSTIVE") == "1"
"""Kill a release at every point, and stress the ledger for long."""
exhaustive = pytest.mark.skipif(not EXHAUSTIVE, reason="takes long; set DP_RELEASE_EXHAUSTIVE=1")
_asked: bool | None = None


def ask_for_all(asked: bool) -> None:
    """Set whether tests run at their full size; before the first test module is imported."""
    global _asked
    _asked = asked


def at_full_size() -> bool:
    """Return whether tests run at their full size."""
    return bool(_asked)


def some(cases: Iterable[Any], keep: Callable[[Any], bool]) -> list[Any]:
    """Return the cases of a parametrized test that `keep` accepts, and with `--full` all.

    The others are marked `full`. To make tests of them and leave these out took a second.
    """
    found = []
    for case in cases:
        if _asked is False and not keep(case):
            continue
        values = case if isinstance(case, tuple) else (case,)
        found.append(case if keep(case) else pytest.param(*values, marks=full))
    return found


def pairwise(*axes: Iterable[Any]) -> list[Any]:
    """Return cases in which each value meets every value of each other axis; with `--full` all.

    Greedy: the case with the most new pairs comes next, the first of equals.
    """
    values = [list(axis) for axis in axes]
    places = list(itertools.product(*(range(len(axis)) for axis in values)))
    pairs = {place: set(itertools.combinations(enumerate(place), 2)) for place in places}
    missing = set().union(*pairs.values())
    kept = set()
    while missing:
        best = max(places, key=lambda place: len(pairs[place] & missing))
        kept.add(best)
        missing -= pairs[best]
    found = []
    for place in places:
        case = tuple(axis[at] for axis, at in zip(values, place, strict=True))
        if place in kept:
            found.append(case)
        elif _asked is not False:
            found.append(pytest.param(*case, marks=full))
    return found


def examples(number: int) -> int:
    """Return how many random examples a test takes that takes many: a quarter of them, or all."""
    return number if at_full_size() else number // 4


RELATIONS_OF_AUDITS = ["add-remove", pytest.param("replace-one", marks=full)]
"""One relation is audited every time."""
RIGHT_OR_WRONG = [False, pytest.param(True, marks=full)]
"""That an audit finds a sensitivity that is wrong changes with the audit only."""
