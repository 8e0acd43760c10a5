"""A selection knows the file by paid answers only: with the same answers, any file gives the same.

A session returns what was paid for when the same steps are asked again. So the second selection
here has the answers of the first, but a file that is as different as possible. It must ask for the
same statistics, to the last number of their public parameters, and must end with the same result.
A method that uses an exact number anywhere (a one-way table, the best pair, a rule which of two
statistics to ask) asks for something else, or ends elsewhere.
"""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.methods import registry
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.candidates import private_looks
from dp_core.methods.selection.one_way import OneWay
from dp_core.plan.currency_choice import threshold_currency
from tests.full import some
from tests.measured import method_inputs

BINARY = Domain(tuple("abcdef"), (2,) * 6)
MIXED = Domain(tuple("abcdefgh"), (2, 3, 4, 2, 5, 3, 2, 4))
WIDE = Domain(tuple(f"c{place:02d}" for place in range(66)), (3,) * 66)
OPTIONS = {"fixed": {"cliques": (("a", "b"),)}, "dualquery": {"records": 3}}
LIMIT = largest_limit("zcdp", Fraction(1), Fraction("1e-9"))


class Noting(Kernel):
    """A kernel that notes every request, with all its public values."""

    asked: list[object]

    def answer(self, request):
        self.asked.append(_plain(request))
        return super().answer(request)


def _plain(value):
    if dataclasses.is_dataclass(value):
        fields = (_plain(getattr(value, each.name)) for each in dataclasses.fields(value))
        return [type(value).__name__, *fields]
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else repr(value)


def near(domain, rows, *, apart, keep, seed=0):
    """Return records whose columns follow, in part, the one so many places before."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in domain.sizes]
    for place in range(apart, len(domain)):
        same = rng.random(rows) < keep * (0.7 + 0.3 * place / len(domain))
        codes[place] = np.where(same, codes[place - apart] % domain.sizes[place], codes[place])
    return Dataset(domain, np.stack(codes).astype(np.uint16))


def unlike(data, *, neighbours):
    """Return records whose columns are skewed, other pairs of which depend.

    Their number is another one unless it is public.
    """
    rows = data.rows if neighbours == "replace-one" else 5 * data.rows
    other = near(data.domain, rows, apart=3, keep=0.95, seed=1)
    return Dataset(data.domain, np.minimum(other.codes, np.uint16(1)))


def both(selector, data, currency, neighbours):
    """Return what is asked and selected with a file, and with another one but the same answers."""
    session = MemorySession(currency, neighbours)
    domain, limit = data.domain, currency.limit
    planned = OneWay().fixed_selection(domain)
    first = Curator(Kernel(domain, MemoryCounter(data), session))
    known = (
        *first.measure("total", [()], [limit / 20]),
        *first.measure("one_way", planned.cliques, [limit / 20 * each for each in planned.weights]),
    )
    found = []
    for file in (data, unlike(data, neighbours=neighbours)):
        kernel = Noting(domain, MemoryCounter(file), session)
        kernel.asked = []
        selection = selector.select(
            method_inputs(
                Curator(kernel),
                domain,
                known=known,
                select_cost=limit / 20 if selector.adaptive else Fraction(0),
                measure_cost=limit * 15 / 20,
                rng=np.random.default_rng(3),
                replicate=1 if selector.rounds else 0,
            )
        )
        found.append((selection, kernel.asked, len(session.charges)))
    return found, session


def same(found):
    (first, asked, charges), (second, again, paid) = found
    assert asked == again
    assert charges == paid
    for one in dataclasses.fields(first):
        mine, other = getattr(first, one.name), getattr(second, one.name)
        if isinstance(mine, Dataset):
            assert np.array_equal(mine.codes, other.codes)
        elif one.name == "measured":
            assert [repr(each) for each in mine] == [repr(each) for each in other]
        else:
            assert mine == other, one.name


@pytest.mark.parametrize(
    ("kind", "neighbours"),
    some(
        itertools.product(["pure", "zcdp"], ["add-remove", "replace-one"]),
        lambda case: case in (("pure", "add-remove"), ("zcdp", "replace-one")),
    ),
)
@pytest.mark.parametrize("name", registry.available("selection"))
def test_with_the_same_answers_another_file_gives_the_same_selection(name, kind, neighbours):
    selector = registry.find("selection", name)(**OPTIONS.get(name, {}))
    try:
        selector.check(BINARY)
    except BadInput:
        pytest.skip("does not take this domain")
    currency = Currency(kind, largest_limit(kind, Fraction(2), Fraction("1e-9")))
    if selector.own_delta:
        if kind != "pure":
            pytest.skip("a threshold is paid for in epsilon and delta")
        currency = threshold_currency(Fraction(2), Fraction("1e-9"))
    found, _ = both(selector, near(BINARY, 300, apart=1, keep=0.8), currency, neighbours)
    same(found)


@pytest.mark.parametrize("neighbours", some(["add-remove", "replace-one"], "replace-one".__eq__))
@pytest.mark.parametrize(
    ("rows", "domain", "keep", "candidates", "steps"),
    [
        (20_000, MIXED, 0.7, "all", {"distances"}),
        (100, MIXED, 0.7, "all", {"indif"}),
        (20_000, MIXED, 0.0, "forest", {"usual pairs", "edge 1", "edge 7", "indif"}),
        (10_000, WIDE, 0.8, "auto", {"usual pairs", "edge 1", "edge 65", "indif"}),
    ],
)
def test_so_it_does_in_every_look_of_auto(
    rows, domain, keep, candidates, steps, neighbours, monkeypatch
):
    # A wide file always takes its forest: noise alone makes usual pairs clear once in 160 times.
    monkeypatch.setattr(private_looks, "_CLEAR", 100)
    data = near(domain, rows, apart=1, keep=keep)
    found, session = both(Auto(candidates=candidates), data, Currency("zcdp", LIMIT), neighbours)
    names = {charge.step.name for charge in session.charges if charge.step.stage == "select"}
    assert steps <= names
    same(found)
