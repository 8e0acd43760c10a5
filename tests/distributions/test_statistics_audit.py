"""What an answer tells of a record, exactly, for every statistic but tables.

By what is handed to the noise (`tests/added_noise.py`), or by the law of a private choice
(`tests/choices.py`): the loss must not pass what was charged, and does where a record counts twice,
or a choice is as sharp as for half of the sensitivity. Neighbours are as far apart as the proofs
allow, or nearly. `test_audit.py` audits the noise itself by draws.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dp_core.kernel.kernel as kernel_module
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions import vetted
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.linear import Linear
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
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number, Product
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    PROBABILITY,
    ClassGradient,
    NumberGradient,
)
from dp_core.kernel.questions.regressions.shortened import UNIT, Scores, SecondMoments
from tests import added_noise, choices
from tests.distributions.audited_files import Observed, PaysAlways, Tables

P, Q = 5, 4
MANY = 100_000  # records at one place: one more is far from their mean
COUNTED = Domain(("g", "h", "x", "y"), (2, 2, P + 1, Q))
REGRESSED = Domain(("x", "g", "y", "b", "h"), (5, 2, 5, 2, 3))
WAVES = Domain(("x",), (64,))

# -- histograms and moments

BINS = BinnedCounts(columns=("g", "x"), sizes=(2, 6), edges=(None, (0, 2, 6)))
BOXES = BoxCounts(
    columns=("g", "x"), sizes=(2, 6), boxes=((0, 1, 0, 2), (0, 1, 2, 6), (1, 2, 0, 6))
)
KERNEL = KernelCounts(column="x", positions=6, edges=tuple(range(7)), weights=(16, 4))
COSINES = CosineSums(column="x", size=64, edges=tuple(range(65)), kept=5)
TWO_COSINES = CosineSums(column="x", size=64, edges=tuple(range(65)), kept=2)
SUMS = CellSums(column="x", positions=P, by=("h",), sizes=(2,))
COUNTS = CellCounts(by=("h",), sizes=(2,), numbers=("x",), positions=(P,))
MIDDLE_SQUARES = MiddleProducts(columns=("x", "x"), positions=(P, P))
MIDDLE = MiddleProducts(columns=("x", "y"), positions=(P, Q))
BY = {"about": "cells", "by": ("h",), "sizes": (2,)}
SQUARES = Products(columns=("x", "x"), positions=(P, P), **BY)
PRODUCTS = Products(columns=("x", "y"), positions=(P, Q), **BY)
ONE_CELL = Products(columns=("x", "y"), positions=(P, Q), about="cells")
TOP = (P - 1, Q - 1)

# -- regressions

X = Number.line(name="x", positions=5, centre=0, reach=4)
FEATURES = Features((X, Levels(name="g", size=2)))
CURVE = Number(name="x", positions=5, knots=((0, -ONE), (7, 0), (8, ONE)))
TARGET = Number.line(name="y", positions=5, centre=0, reach=4)
TWO = ClassGradient(column="b", classes=2, features=FEATURES, at=(0,) * 3)
ALONE = ClassGradient(column="h", classes=3, features=Features(), at=(0, 0))
SLOPED = ClassGradient(column="b", classes=2, features=FEATURES, at=(40 << 16, 0, 0))
# At x = 4 a function of x is 1, and so is its product with x and the level.
PRODUCT = ClassGradient(
    column="b",
    classes=2,
    features=Features((Product((X, Levels(name="g", size=2), CURVE)), CURVE)),
    at=(0,) * 3,
)
NUMBER = NumberGradient(target=TARGET, features=Features((X,)), at=(0,) * 2)
# With a penalty that leaves the coefficients at 0, half of the proven distance is reached.
MINIMISER = ClassMinimiser(column="b", classes=2, features=Features(), ridge=2**20)
# Predictors 1 + x and 1 - x: at each end of x one of them is 0, in the middle they are equal.
MOMENTS = SecondMoments(
    features=Features((X,)),
    transform=(COEFFICIENT, COEFFICIENT, COEFFICIENT, -COEFFICIENT),
    length_limit=2 * UNIT**2 - 1000,
)
ONE_MOMENT = SecondMoments(
    features=Features((X,)), transform=(0, COEFFICIENT), length_limit=UNIT**2 // 2
)
SCORE = Scores(
    outcome=TARGET, features=Features(), transform=(COEFFICIENT,), at=(0,), length_limit=ONE * UNIT
)
# At each end of x sure of a level, with a predictor far beyond the limit.
LEVELS_SCORE = Scores(
    outcome=Levels(name="b", size=2),
    features=Features((X,)),
    transform=(40 * COEFFICIENT, 0),
    at=(0, 40 * COEFFICIENT),
    length_limit=ONE * UNIT,
)
EVEN = [(code, 1) for code in range(64)]
ADD, REPLACE = "add-remove", "replace-one"

# statistic, neighbours, two files as cells (codes in the clique's order, then records)
FAR = {
    "bins, add": (BINS, ADD, [(0, 3, 1)], [(0, 0, 1), (0, 3, 1)]),
    "bins, replace": (BINS, REPLACE, [(0, 3, 1)], [(0, 0, 1)]),
    "boxes, add": (BOXES, ADD, [(1, 3, 1)], [(0, 1, 1), (1, 3, 1)]),
    "boxes, replace": (BOXES, REPLACE, [(0, 5, 1), (1, 3, 1)], [(0, 1, 1), (1, 3, 1)]),
    "kernel, add": (KERNEL, ADD, [(0, 1)], [(0, 1), (1, 1)]),
    "kernel, replace": (KERNEL, REPLACE, [(0, 1), (4, 1)], [(0, 1), (1, 1)]),
    "cosines, add": (COSINES, ADD, EVEN, [(0, 2), *EVEN[1:]]),
    "cosines, replace": (TWO_COSINES, REPLACE, [*EVEN[:-1], (63, 2)], [(0, 2), *EVEN[1:]]),
    "sums, add": (SUMS, ADD, [(0, P, 1)], [(0, P - 1, 1)]),
    "sums, replace": (SUMS, REPLACE, [(0, 0, 1)], [(0, P - 1, 1)]),
    "counts, add": (COUNTS, ADD, [(0, 0, 1)], [(0, 0, 1), (0, P, 1)]),
    "counts, replace": (COUNTS, REPLACE, [(0, 0, 1)], [(0, P, 1)]),
    "squares, middle, add": (MIDDLE_SQUARES, ADD, [(P, 1)], [(0, 1), (P, 1)]),
    "squares, middle, replace": (MIDDLE_SQUARES, REPLACE, [(2, 1)], [(0, 1)]),
    "products, middle, add": (MIDDLE, ADD, [(P, 0, 1)], [(*TOP, 1), (P, 0, 1)]),
    "products, middle, replace": (MIDDLE, REPLACE, [(0, 3, 1)], [(*TOP, 1)]),
    "squares, cells, add": (SQUARES, ADD, [(0, 0, MANY)], [(0, 0, MANY), (0, P - 1, 1)]),
    "squares, cells, replace": (
        *(SQUARES, REPLACE),
        *([(0, 0, MANY), (1, 0, 1)], [(0, 0, MANY), (0, P - 1, 1)]),
    ),
    "products, cells, add": (PRODUCTS, ADD, [(0, 0, 0, MANY)], [(0, 0, 0, MANY), (0, *TOP, 1)]),
    "products, cells, replace": (
        *(PRODUCTS, REPLACE),
        [(0, 0, 0, MANY), (1, 0, 3, MANY), (1, P - 1, 0, 1)],
        [(0, 0, 0, MANY), (0, *TOP, 1), (1, 0, 3, MANY)],
    ),
    "products, one cell, replace": (
        *(ONE_CELL, REPLACE),
        *([(0, 0, MANY), (0, 0, 1)], [(0, 0, MANY), (*TOP, 1)]),
    ),
    "two classes, add": (TWO, ADD, [(4, 1, 0, 1)], [(4, 1, 0, 1), (4, 1, 1, 1)]),
    "two classes, replace": (TWO, REPLACE, [(4, 1, 0, 1)], [(4, 1, 1, 1)]),
    "product, add": (PRODUCT, ADD, [(4, 1, 0, 1)], [(4, 1, 0, 1), (4, 1, 1, 1)]),
    "product, replace": (PRODUCT, REPLACE, [(4, 1, 0, 1)], [(4, 1, 1, 1)]),
    "sure, add": (SLOPED, ADD, [(4, 1, 1, 1)], [(4, 1, 0, 1), (4, 1, 1, 1)]),
    "no predictor, replace": (ALONE, REPLACE, [(1, 1)], [(2, 1)]),
    "number, add": (NUMBER, ADD, [(4, 5, 1)], [(4, 4, 1), (4, 5, 1)]),
    "minimiser, replace": (MINIMISER, REPLACE, [(0, 1)], [(1, 1)]),
    "moments, add": (MOMENTS, ADD, [(2, 3)], [(2, 4)]),
    "one moment, add": (ONE_MOMENT, ADD, [(2, 3)], [(0, 1), (2, 3)]),
    "moments, replace": (MOMENTS, REPLACE, [(0, 1), (4, 2)], [(4, 3)]),
    "score, add": (SCORE, ADD, [(5, 1)], [(0, 1), (5, 1)]),
    "score, replace": (SCORE, REPLACE, [(0, 1), (2, 1)], [(2, 1), (4, 1)]),
    "score of levels, replace": (LEVELS_SCORE, REPLACE, [(4, 0, 1)], [(0, 1, 1)]),
}
REACHED = {"minimiser, replace": 0.5, "moments, replace": (2 / 3) ** 0.5}
"""Part of the bound that the files are apart, where it is not nearly all."""
REACHED_IN_SQUARES = {"minimiser, replace": 0.25, "no predictor, replace": 0.9}


def exact(statistic, file):
    return statistic.total(*Observed(file).observed(statistic.clique))


def test_every_sum_is_audited():
    names = {statistic.NAME for statistic, *_ in FAR.values()}
    # Interactions are audited below, and limited sums by the audit of declared statistics.
    assert names | {"interaction", "limited-sums"} == vetted.SUMS


@pytest.mark.parametrize("name", FAR)
def test_the_neighbours_of_the_audit_are_nearly_as_far_apart_as_the_proof_allows(name):
    statistic, neighbours, before, after = FAR[name]
    change = np.abs(exact(statistic, after) - exact(statistic, before))
    part = change.sum() / statistic.l1(neighbours)
    assert REACHED.get(name, 1) * 0.96 <= part <= 1


def told(patch, name, kind, cost, times=1):
    """Return the privacy loss between the two files, in the unit of the cost.

    Args:
        patch: Used while both are asked.
        name: Which files.
        kind: The currency.
        cost: What is charged.
        times: How often a record counts: above 1 the sensitivity is wrong by this factor.
    """
    statistic, neighbours, *files = FAR[name]
    session = PaysAlways(Currency(kind, cost), neighbours)
    domain = REGRESSED
    if isinstance(statistic, (Linear, Products)):
        domain = WAVES if isinstance(statistic, CosineSums) else COUNTED
    # Some of these cells are ones that no column of the file has.
    patch.setattr(kernel_module, "CheckedCounter", lambda counter, *_: counter)
    curators = [Curator(Kernel(domain, Observed(file), session)) for file in files]
    with patch.context() as fault:
        right = type(statistic).total
        fault.setattr(type(statistic), "total", lambda self, *file: times * right(self, *file))
        return added_noise.loss(
            fault,
            *(lambda c=c: c.total("measure", "x", statistic, cost).values for c in curators),
        )


@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
@pytest.mark.parametrize("name", FAR)
def test_an_answer_keeps_what_it_was_charged(name, kind, monkeypatch):
    cost = Fraction(1, 2)
    found = told(monkeypatch, name, kind, cost)
    assert found <= float(cost) * (1 + 1e-9)
    if kind != "gaussian":  # whose noise is larger, for its discreteness
        reached = REACHED if kind == "pure" else REACHED_IN_SQUARES
        assert found >= 0.95 * reached.get(name, 1) * cost
    assert told(monkeypatch, name, kind, cost, times=4) > 1.5 * cost


def test_units_are_what_the_audit_takes_them_for():
    assert exact(TWO, [(4, 1, 1, 1)]).tolist() == [-PROBABILITY // 2 * ONE] * 3


# -- scores of pairs, and counts of queries

PAIR = ("a", "b")
ORDERS = tuple(c for size in (1, 2) for c in itertools.combinations("abc", size))


def of_row(*row):
    """Return the tables of a file of one row of three binary columns."""
    found = {}
    for clique in ORDERS:
        found[clique] = np.zeros((2,) * len(clique))
        found[clique][tuple(row["abc".index(name)] for name in clique)] = 1
    return found


def first_cells(*cells):
    return Cells(tuple((name,) for name, _ in cells), tuple((code,) for _, code in cells))


def two_columns(a, b):
    return {("a",): np.array(a), ("b",): np.array(b)}


# what asks, statistic, neighbours, the tables of two files, and their part of the bound
TOLD = {
    "indif, add": (
        *("perturb", InDif((PAIR,)), ADD),
        *({PAIR: np.diag([60, 0, 0])}, {PAIR: np.diag([60, 1, 0])}, 1),
    ),
    "indif, replace": (
        *("perturb", InDif((PAIR,)), REPLACE),
        {PAIR: np.array([[0, 0, 0], [3, 0, 1], [4, 0, 12]])},
        {PAIR: np.array([[0, 1, 0], [3, 0, 0], [4, 0, 12]])},
        5 / 7,
    ),
    # Two rows that differ in two of three columns move 4 of the 6 parities, the most there is.
    "parities": ("answer", Parities(ORDERS), REPLACE, of_row(0, 0, 0), of_row(1, 1, 0), 1),
    # Two cells of two tables: one row is in both, and its replacement in the two others.
    "cells, add": (
        *("answer", first_cells(("a", 0), ("b", 0)), ADD),
        *(two_columns([7, 7], [7, 7]), two_columns([8, 7], [8, 7]), 1),
    ),
    "cells, replace": (
        *("answer", first_cells(("a", 0), ("a", 1)), REPLACE),
        *(two_columns([7, 8], [7, 8]), two_columns([8, 7], [8, 7]), 1),
    ),
}


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
@pytest.mark.parametrize("name", TOLD)
def test_scores_and_queries_keep_what_they_were_charged(name, kind, halved, monkeypatch):
    ask, statistic, neighbours, *files, reached = TOLD[name]
    if halved:
        monkeypatch.setattr(kernel_module, "require_calibrated", lambda *_: None)
        if ask == "perturb":
            right = statistic.largest_change(neighbours)
            monkeypatch.setattr(type(statistic), "change", lambda *_: right // 2)
        else:
            both = tuple(max(1, each // 2) for each in statistic.norms(neighbours))
            monkeypatch.setattr(type(statistic), "norms", lambda *_: both)
    cost = Fraction(1, 50)
    session = PaysAlways(Currency(kind, cost), neighbours)
    sizes = (3, 3) if ask == "perturb" else (2, 2, 2)
    domain = Domain(("a", "b", "c")[: len(sizes)], sizes)
    curators = [Curator(Kernel(domain, Tables(tables), session)) for tables in files]

    def asked(curator):
        if ask == "perturb":
            return curator.perturb("select", "x", statistic, cost)
        return curator.answer("measure", "x", statistic, cost).values

    found = added_noise.loss(monkeypatch, *(lambda c=c: asked(c) for c in curators))
    if halved:
        assert found > 1.01 * cost
        return
    assert found <= float(cost) * (1 + 1e-9)
    if kind != "gaussian":
        assert found >= 0.99 * cost * reached ** (1 if kind == "pure" else 2)


# -- interactions


def farthest(sizes, neighbours, by, rows=1):
    """Return an interaction, the two farthest neighbours, and the change of the entries."""
    of = Interaction(tuple("abc"[: len(sizes)]), sizes)
    entries = np.stack(
        [of.of_table(cell.reshape(sizes)) for cell in np.eye(math.prod(of.sizes), dtype=int)]
    )
    size = {"l1": lambda change: np.abs(change).sum(), "l2": lambda change: (change**2).sum()}[by]
    files = np.full((2, *sizes), 40, dtype=np.int64)
    cells = range(math.prod(of.sizes))
    if neighbours == ADD:
        last = max(cells, key=lambda cell: size(entries[cell]))
        change = entries[last]
    else:
        pairs = [(one, other) for one in cells for other in cells]
        first, last = max(pairs, key=lambda pair: size(entries[pair[1]] - entries[pair[0]]))
        change = entries[last] - entries[first]
        files[0].flat[first] += rows
    files[1].flat[last] += rows
    return of, files, rows * change


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("kind", "rows"), [("pure", 1), ("zcdp", 1), ("zcdp", 3), ("gaussian", 1)])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_interactions_keep_what_they_were_charged(neighbours, kind, rows, times, monkeypatch):
    """A person of k rows has them all in the cell that tells most."""
    cost = Fraction(1, 2)
    of, files, change = farthest((2, 3), neighbours, "l1" if kind == "pure" else "l2", rows)
    if kind == "pure":
        assert np.abs(change).sum() == of.l1(neighbours)
    right = Interaction.of_table
    monkeypatch.setattr(Interaction, "of_table", lambda self, counts: times * right(self, counts))
    session = PaysAlways(Currency(kind, cost), Relation(neighbours, rows))
    domain = Domain(of.columns, of.sizes)
    curators = [Curator(Kernel(domain, Tables({of.columns: counts}), session)) for counts in files]
    found = added_noise.loss(
        monkeypatch,
        *(lambda c=c: c.interactions("measure", [of.columns], [cost])[0].values for c in curators),
    )
    assert found == pytest.approx(cost * (times if kind == "pure" else times**2), rel=0.01)
    assert (found > cost * (1 + 1e-9)) == (times > 1)


# -- private choices

# Two cuts of three positions, at the median: a row that comes to the first position, or goes there
# from the last, lets the first cut gain as much as it can and the second lose as much.
HALF = Quantile(column="x", low=0, high=3, part=2, of=4)
# Cutting before the second bin or before the third: a record that comes to the second bin (from the
# third, if it is replaced) raises the score of the first cut and lowers that of the second.
CUT = CutDeviations(column="x", edges=(0, 1, 2, 3), low=0, high=3)
# A record that lengthens the tail of one coefficient and shortens that of three; a high price makes
# the rare choice of three tell all that it can.
TAIL = CosineTails(column="x", edges=(0, 1, 2, 3, 4), prices=(0, 0, 2**25))
# statistic, and for each relation the counts of one column in both files
RIVALS = {
    "quantile": (HALF, {ADD: ((0, 3, 1), (1, 3, 1)), REPLACE: ((0, 4, 2), (1, 4, 1))}),
    "cuts": (CUT, {ADD: ((0, 1, 4), (0, 2, 4)), REPLACE: ((0, 1, 5), (0, 2, 4))}),
    "tails": (TAIL, {ADD: ((0, 2, 3, 0), (0, 3, 3, 0)), REPLACE: ((0, 3, 2, 1), (0, 3, 3, 0))}),
}


def column(counts):
    return Tables({("x",): np.array(counts)})


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_the_cuts_of_the_audit_move_apart_as_far_as_they_can(neighbours):
    moves = {"quantile": {ADD: (1, -1), REPLACE: (1, -1)}, "cuts": {ADD: (1, -1), REPLACE: (2, -1)}}
    for name, expected in moves.items():
        statistic, files = RIVALS[name]
        before, after = (
            statistic.compute(column(counts).count(statistic.cliques))
            for counts in files[neighbours]
        )
        unit = statistic.largest_change(neighbours) if name == "quantile" else 1
        assert (after - before).tolist() == [unit * each for each in expected[neighbours]]
        assert after[0] == after[1]


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("name", RIVALS)
def test_a_choice_keeps_the_epsilon_it_was_charged(kind, neighbours, name, monkeypatch):
    """Half of the sensitivity would mean half of the scale, as for twice the epsilon."""
    statistic, files = RIVALS[name]

    def found(epsilon):
        cost = epsilon if kind == "pure" else epsilon**2 / 8
        session = PaysAlways(Currency(kind, cost), neighbours)
        domain = Domain(("x",), (len(files[neighbours][0]),))
        return choices.loss(
            *(
                choices.chances(
                    monkeypatch, Curator(Kernel(domain, column(counts), session)), statistic, cost
                )
                for counts in files[neighbours]
            )
        )

    epsilon = Fraction(2)
    assert epsilon / 2 < found(epsilon) <= epsilon
    assert found(2 * epsilon) > epsilon
    if name == "quantile":
        # Permute-and-flip tells all that it may; the exponential mechanism less.
        assert found(epsilon) == pytest.approx({"pure": 2.0, "zcdp": 1.434}[kind], abs=0.0005)
