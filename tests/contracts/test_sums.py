"""What every sum of the closed list promises, whatever it is a sum of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.errors import GARBAGE
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Neighbours, Relation
from dp_core.kernel.questions.limited_sums import LimitedSums
from dp_core.kernel.questions.linear_questions import (
    BinnedCounts,
    BoxCounts,
    CellCounts,
    CellSums,
    CosineSums,
    Interaction,
    KernelCounts,
    MiddleProducts,
)
from dp_core.kernel.questions.products import Products
from dp_core.kernel.questions.regressions.features import ONE as G_ONE
from dp_core.kernel.questions.regressions.features import Features, Levels, Number, Product
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    ClassGradient,
    NumberGradient,
)
from dp_core.kernel.questions.regressions.shortened import UNIT, Scores, SecondMoments
from dp_core.kernel.questions.statistic import Sum, check_codes
from dp_core.kernel.questions.vetted import SUMS, bounds, kind_of, required, sum_from_json
from tests.added_noise import handed_over
from tests.full import examples, pairwise

# Codes of each column. x and y are numbers, of one position less than codes: the last is missing.
CODES = {"g": 2, "h": 3, "x": 6, "y": 5, "z": 4}
X, Y, Z = 5, 4, 4
BY: dict[str, Any] = {"by": ("g", "h"), "sizes": (2, 3)}
FEATURES = Features(
    (
        Number.line(name="x", positions=X, centre=-1, reach=3, missing=True),
        Levels(name="h", size=3),
    )
)
CROSSED = Features((Product((Levels(name="h", size=3), Levels(name="z", size=4))),))
ONE = COEFFICIENT
NUMBER_Y = Number.line(name="y", positions=Y, centre=1, reach=2, missing=True)
# Records with a missing value add 0: code 5 of x, code 4 of y, code 2 of h.
PRESENT = Features(
    (Number.line(name="x", positions=X, centre=-1, reach=3), Levels(name="h", size=2)),
)
_CURVE = Number(name="x", positions=X, knots=((0, 99), (3, -G_ONE), (8, G_ONE)))
CURVED = Features(
    (*PRESENT.all, Product((_CURVE, Levels(name="h", size=2))), _CURVE, Product((_CURVE, _CURVE)))
)
"""A number, levels, a function of the number, its square, and its product with the levels."""
PRESENT_Y = Number.line(name="y", positions=Y, centre=1, reach=2)
TWO = (ONE, 0, 2 * ONE, ONE // 2, -ONE, 3 * ONE)
"""A transform of three features to two predictors."""

EXAMPLES: dict[str, tuple[Sum, ...]] = {
    "cell-counts": (
        CellCounts(**BY, numbers=("x", "y"), positions=(X, Y)),
        CellCounts(by=(), sizes=(), numbers=("x",), positions=(X,)),
    ),
    "cell-sums": (CellSums(column="x", positions=X, **BY), CellSums(column="z", positions=Z)),
    "limited-sums": (
        LimitedSums(
            **BY,
            edges=(None, (0, 2, 3)),
            column="x",
            positions=X,
            runs=(0, -3, 2, 3, 7, 10),
            lows=(-2, -3, 0, -3),
            highs=(4, 5, 17, -1),
            centres=(1, 0, -4, 2),
            factors=(3, 2, 1, 4),
        ),
        LimitedSums(
            by=(),
            sizes=(),
            edges=(),
            column="z",
            positions=Z,
            runs=(0, 0, 1),
            lows=(0,),
            highs=(2,),
            centres=(0,),
            factors=(5,),
        ),
    ),
    "products": (
        MiddleProducts(columns=("x", "x"), positions=(X, X)),
        MiddleProducts(columns=("x", "y"), positions=(X, Y)),
        Products(columns=("x", "x"), positions=(X, X), about="cells", **BY),
        Products(columns=("x", "y"), positions=(X, Y), about="cells", **BY),
    ),
    "class-gradient": (
        ClassGradient(column="g", classes=2, features=FEATURES, at=(0,) * 5),
        ClassGradient(column="g", classes=2, features=FEATURES, at=(ONE, -ONE, 9, 3 * ONE, 0)),
        ClassGradient(
            column="z",
            classes=4,
            features=FEATURES,
            at=(ONE, 2, -40 * ONE, 5, 0) + (30 * ONE,) * 10,
        ),
        ClassGradient(column="y", classes=2, missing_from=Y, features=FEATURES, at=(-ONE,) * 5),
    ),
    "number-gradient": (
        NumberGradient(target=NUMBER_Y, features=FEATURES, at=(0,) * 5),
        NumberGradient(target=NUMBER_Y, features=FEATURES, at=(ONE, -7 * ONE, 4, 0, 900 * ONE)),
    ),
    "class-minimiser": (
        ClassMinimiser(column="g", classes=2, features=FEATURES, ridge=1),
        ClassMinimiser(column="z", classes=4, features=FEATURES, ridge=3),
        ClassMinimiser(column="g", classes=2, features=CROSSED, ridge=3),
        ClassMinimiser(column="y", classes=2, missing_from=Y, features=FEATURES, ridge=2),
    ),
    "second-moments": (
        SecondMoments(features=PRESENT, transform=TWO, length_limit=2 * UNIT**2),
        SecondMoments(features=PRESENT, transform=(ONE, -ONE, 7), length_limit=UNIT),
        SecondMoments(features=CURVED, transform=TWO * 2, length_limit=2 * UNIT**2),
        SecondMoments(
            features=Features((Levels(name="h", size=3), Levels(name="z", size=4))),
            transform=(0, ONE, -2 * ONE, ONE, -ONE, 3 * ONE) * 3,
            length_limit=3 * UNIT**2 + 1,
        ),
    ),
    "scores": (
        Scores(
            outcome=PRESENT_Y,
            features=PRESENT,
            transform=TWO,
            at=(ONE, -ONE, 5),
            length_limit=G_ONE * UNIT,
        ),
        Scores(
            outcome=PRESENT_Y,
            features=CURVED,
            transform=TWO * 2,
            at=(ONE, -ONE, 5, 0, 0, ONE),
            length_limit=G_ONE * UNIT,
        ),
        Scores(
            outcome=Levels(name="g", size=2),
            features=PRESENT,
            transform=TWO,
            at=(0, 0, 0),
            length_limit=G_ONE * UNIT,
        ),
        Scores(
            outcome=Levels(name="z", size=3),
            features=PRESENT,
            transform=TWO,
            at=(ONE, 2 * ONE, -40 * ONE, 0, 3, -3 * ONE),
            length_limit=G_ONE * UNIT // 2,
        ),
    ),
    "binned-counts": (
        BinnedCounts(columns=("x", "g"), sizes=(6, 2), edges=((0, 2, 5, 6), None)),
        BinnedCounts(columns=("z",), sizes=(4,), edges=(None,)),
    ),
    "cosine-sums": (
        CosineSums(column="x", size=6, edges=(0, 1, 3, 5), kept=2),
        CosineSums(column="z", size=4, edges=(0, 1, 2, 3, 4), kept=3),
        CosineSums(column="y", size=5, edges=(0, 2, 4), kept=1),
    ),
    "box-counts": (
        BoxCounts(
            columns=("x", "g"),
            sizes=(6, 2),
            boxes=((0, 2, 0, 1), (0, 5, 1, 2), (2, 6, 0, 1)),
        ),
        BoxCounts(columns=("z",), sizes=(4,), boxes=((1, 3), (3, 4), (0, 1))),
    ),
    "kernel-counts": (
        KernelCounts(column="x", positions=5, edges=(0, 1, 2, 3, 4, 5), weights=(5, 3, 1)),
        KernelCounts(column="z", positions=4, edges=(0, 1, 4), weights=(2,)),
        KernelCounts(column="z", positions=4, edges=(0, 1, 2, 3, 4), weights=(9, 0, 7, 1)),
    ),
    "interaction": (
        Interaction(("h", "x"), (3, 6)),
        Interaction(("g",), (2,)),
        Interaction(("g", "y", "z"), (2, 5, 4)),
    ),
}
"""Every entry of the list, in each of its forms."""

APPROXIMATE = {"class-minimiser"}
"""What is computed to within half a unit, so that another order may round it the other way."""

BINNED = ("binned-counts", "limited-sums")
ALL = [
    pytest.param(name, sum, id=f"{name}-{number}")
    for name, sums in EXAMPLES.items()
    for number, sum in enumerate(sums)
]

Rows = NDArray[np.uint16]
Place = tuple[str | int, ...]


def cells_of(rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """Return the cells that hold a record, and how many, as a counter finds them."""
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    return cells.astype(np.uint16), counts.astype(np.int64)


def records(sum: Sum, size: int, rng: np.random.Generator) -> Rows:
    """Return records of a sum's columns: many of them at the ends of the ranges, and alike."""
    sizes = np.array([CODES[name] for name in sum.clique])
    rows = rng.integers(0, sizes, (size, len(sizes)))
    ends = rng.choice([0.0, 1.0, 2.0], (size, len(sizes)), p=[0.3, 0.4, 0.3])
    # The last position of a number stands before its code for missing.
    last = sizes - 1 - np.isin(sum.clique, ("x", "y"))
    rows = np.where(ends == 0, 0, np.where(ends == 2, last, rows))
    if size and rng.random() < 0.4:
        rows[rng.random(size) < 0.9] = rows[0]
    return np.asarray(rows, dtype=np.uint16)


def test_every_sum_of_the_list_is_held_to_this_contract():
    assert set(EXAMPLES) == set(SUMS), "give each sum of the list an example here"
    for name, sums in EXAMPLES.items():
        assert name == kind_of(name).NAME
        assert sums
        # Products about the middle are of the linear family, and those about the cells are not.
        other = {MiddleProducts} if name == "products" else set()
        assert {type(sum) for sum in sums} == {kind_of(name), *other}


# -- its description


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_it_is_read_back_from_its_description(name, sum):
    document = sum.to_json()
    text = json.dumps(document)

    assert document["name"] == name
    assert sum_from_json(json.loads(text)) == sum
    # Text that is the same twice: a receipt's hash is of it.
    assert json.dumps(sum_from_json(json.loads(text)).to_json()) == text
    for neighbours in get_args(Neighbours):
        relation = Relation(neighbours)
        assert required(json.loads(text), relation) == bounds(sum, relation)


def changed(value: Any) -> list[Any]:
    """Return what is no value of this kind, whatever the key."""
    wrong: list[Any] = [None, 1.5, float("nan"), b"g", {"a": 1}]
    if not isinstance(value, str):
        wrong.append("g")
    if not isinstance(value, list):
        wrong.append([value])
    if not isinstance(value, bool):
        wrong += [True, False]
    if isinstance(value, int) and not isinstance(value, bool):
        wrong += [float(value), str(value), -(2**70)]
    if isinstance(value, list):
        wrong += [tuple(value), [*value, True], [*value, None], {str(each): 1 for each in value}]
    if isinstance(value, dict):
        wrong = [each for each in wrong if each != {"a": 1}] + [{}]
    return wrong


def places(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every place in a description and what is there, the whole first."""
    yield at, value
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, each in inside:
        yield from places(each, (*at, key))


def put(document: Any, at: Place, value: Any) -> Any:
    """Return a copy of a description with something else in one place."""
    if not at:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[at[0]] = put(copy[at[0]], at[1:], value)
    return copy


def refused(document: Any) -> bool:
    """Return whether a description is refused as whoever verifies a bundle expects it."""
    try:
        sum_from_json(document)
    except (ValueError, KeyError, TypeError) as error:
        return isinstance(error, GARBAGE)
    return False


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_a_description_that_is_none_is_refused(name, sum):
    document = sum.to_json()
    accepted = [
        (at, wrong)
        for at, value in places(document)
        for wrong in (changed(value) if at else ())
        # Only a table's edges may be left out: its codes are levels then.
        if not (name in BINNED and at[0] == "edges" and len(at) == 2 and wrong is None)
        and not refused(put(document, at, wrong))
    ]
    assert not accepted
    for whole in (None, [], [document], "cell-sums", 3, True, {}, {"name": "anything"}):
        assert refused(whole)


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_a_description_with_a_key_less_or_more_is_refused(name, sum):  # noqa: ARG001
    document = sum.to_json()
    with pytest.raises(ValueError, match=r"Expected|unknown"):
        required({**document, "weight": 1}, Relation("add-remove"))
    for at, mapping in places(document):
        if not isinstance(mapping, dict):
            continue
        assert refused(put(document, at, {**mapping, "weight": 1}))
        assert refused(put(document, at, {**mapping, "": None}))
        for key in mapping:
            assert refused(put(document, at, {k: v for k, v in mapping.items() if k != key}))


NEGATIVE = {"knots", "at", "transform", "runs", "lows", "highs", "centres"}
"""What may be below 0."""


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_a_file_without_records_has_an_answer_too(name, sum):  # noqa: ARG001
    cells = np.zeros((0, len(sum.clique)), dtype=np.uint16)
    found = sum.total(cells, np.zeros(0, dtype=np.int64))
    assert found.shape == (sum.length,)
    assert not found.any()


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_a_size_below_0_is_refused(name, sum):  # noqa: ARG001
    document = sum.to_json()
    sizes = [
        (at, value)
        for at, value in places(document)
        if type(value) is int and not NEGATIVE & set(at)
    ]
    assert sizes
    for at, value in sizes:
        assert refused(put(document, at, -1))
        assert refused(put(document, at, -value - 1))


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_it_is_asked_of_a_file_with_its_own_codes_only(name, sum):  # noqa: ARG001
    check_codes(sum, Domain(tuple(CODES), tuple(CODES.values())))
    claimed = {each.column: each for each in sum.claimed_codes()}
    for column in sum.clique:
        for more in (-2, 1, 2):
            sizes = {**CODES, column: max(CODES[column] + more, 1)}
            # One more than the claimed codes would be the code for missing.
            if more == 1 and claimed[column].or_missing and claimed[column].codes == CODES[column]:
                sizes[column] += 1
            with pytest.raises(ValueError, match=column):
                check_codes(sum, Domain(tuple(sizes), tuple(sizes.values())))
        others = {other: size for other, size in CODES.items() if other != column}
        with pytest.raises(ValueError, match=f"{column}.*not a column"):
            check_codes(sum, Domain(tuple(others), tuple(others.values())))


# -- its value


@pytest.mark.parametrize(("name", "sum"), ALL)
def test_it_is_whole_numbers_that_no_order_and_no_division_of_cells_changes(name, sum):
    rng = np.random.default_rng(7)
    for size in (0, 1, 2, 9, 40):
        cells, counts = cells_of(records(sum, size, rng))
        found = sum.total(cells, counts)
        assert found.shape == (sum.length,)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(sum.total(cells, counts), found)
        for _ in range(3):
            order = rng.permutation(len(cells))
            # One record at a time, and in a mixed order.
            single = rng.permutation(np.repeat(np.arange(len(cells)), counts))
            ones = np.ones(len(single), dtype=np.int64)
            for other in (
                sum.total(cells[order], counts[order]),
                sum.total(cells[single], ones),
            ):
                away = np.abs(other - found).max(initial=0)
                assert away <= (1 if name in APPROXIMATE else 0)


@pytest.mark.parametrize("neighbours", get_args(Neighbours))
@pytest.mark.parametrize(("name", "sum"), ALL)
def test_no_two_neighbouring_files_are_farther_apart_than_its_bounds(name, sum, neighbours):
    """And some are a good part of that apart: a search that finds none would find no error."""
    rng = np.random.default_rng(11)
    l1, l2_squared = sum.l1(neighbours), sum.l2_squared(neighbours)
    assert type(l1) is type(l2_squared) is int
    assert 1 <= l1 <= l2_squared <= l1**2
    far = far_squared = 0
    for _ in range(examples(60 if name in APPROXIMATE else 300)):
        shared = records(sum, int(rng.choice([0, 0, 1, 2, 5, 30])), rng)
        one, other = records(sum, 2, rng)
        files = [np.vstack([shared, one])]
        files.append(np.vstack([shared, other]) if neighbours == "replace-one" else shared)
        totals = [sum.total(*cells_of(each)).astype(object) for each in files]
        change = np.abs(totals[0] - totals[1])
        far, far_squared = max(far, int(change.sum())), max(far_squared, int((change**2).sum()))
    assert far <= l1
    assert far_squared <= l2_squared
    part = 6 if name in APPROXIMATE else 4
    assert far >= l1 / part
    assert far_squared >= l2_squared / part**2


# -- its noise


@pytest.mark.parametrize(
    ("example", "kind", "neighbours"),
    pairwise([case.values for case in ALL], ["pure", "zcdp"], get_args(Neighbours)),
)
def test_its_noise_is_that_of_its_bounds_and_of_its_charge(monkeypatch, example, kind, neighbours):
    """That the draws have this law and scale is tested in `tests/distributions/test_noise.py`."""
    name, sum = example
    cost, domain = Fraction(3, 4), Domain(tuple(CODES), tuple(CODES.values()))
    rng = np.random.default_rng(13)
    codes = np.stack([rng.integers(0, size, 40) for size in CODES.values()]).astype(np.uint16)
    counter, session = (
        MemoryCounter(Dataset(domain, codes)),
        MemorySession(Currency(kind, cost), neighbours),
    )
    curator = Curator(Kernel(domain, counter, session))
    found = []

    def ask():
        found.append(curator.total("measure", "sum", sum, cost))
        return found[0].values

    values, noise, scale = handed_over(monkeypatch, ask)
    away = np.abs(values - sum.total(*counter.observed(sum.clique))).max()
    assert away <= (1 if name in APPROXIMATE else 0)
    if kind == "pure":
        exact = sum.l1(neighbours) / cost
    else:
        exact = math.sqrt(sum.l2_squared(neighbours) / (2 * cost))
    assert noise == found[0].noise == ("laplace" if kind == "pure" else "gaussian")
    assert curator.statistic_noise(sum, cost).scale == found[0].scale
    assert found[0].scale == scale == pytest.approx(float(exact), rel=1e-6)
    (grant,) = session.charges
    assert grant.step.asks == sum.to_json()
    assert cost * Fraction(999_999, 10**6) < session.currency.cost(grant.step.event) <= cost
