from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.mechanisms import private_choice
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.methods.selection import privbayes
from dp_core.methods.selection.privbayes import PrivBayes, candidates, maximal_sets, tables
from tests.measured import curator_of, method_inputs

BINARY = Domain(tuple("abcdef"), (2,) * 6)
MIXED = Domain(tuple("abcde"), (2, 3, 4, 2, 30))


def chain(domain, rows, *, seed=0):
    """Records of a chain: each column mostly follows the one before it."""
    rng = np.random.default_rng(seed)
    codes = np.empty((len(domain), rows), dtype=np.uint16)
    for axis, size in enumerate(domain.sizes):
        fresh = rng.integers(size, size=rows)
        follows = rng.random(rows) < (0.9 if axis else 0.0)
        codes[axis] = np.where(follows, codes[axis - 1] % size, fresh)
    return Dataset(domain, codes)


def choose(
    data, *, kind="pure", neighbours="add-remove", limit=None, seed=0, total=True, **options
):
    limit = limit or largest_limit(kind, Fraction(1), Fraction("1e-9"))
    curator, session = curator_of(data, limit, kind, neighbours)
    known = curator.measure("total", [()], [limit / 10]) if total else ()
    selector = PrivBayes(**options)
    selector.check(data.domain)
    selection = selector.select(
        method_inputs(
            curator,
            data.domain,
            known=known,
            select_cost=limit * 3 / 10,
            measure_cost=limit * 6 / 10,
            rng=np.random.default_rng(seed),
        )
    )
    return selection, session


def choices(session):
    return [grant.step for grant in session.charges if isinstance(grant.step.event, NoisyMaxEvent)]


@pytest.mark.parametrize(
    ("score", "neighbours", "kind", "change"),
    [
        ("r", "add-remove", "pure", 4),
        ("r", "replace-one", "pure", 6),
        ("r", "add-remove", "zcdp", 4),
        ("r", "replace-one", "zcdp", 6),
        ("f", "add-remove", "pure", 2),
        ("f", "replace-one", "zcdp", 2),
    ],
)
def test_each_step_is_one_choice_at_its_part_of_the_budget(score, neighbours, kind, change):
    selection, session = choose(chain(BINARY, 400), kind=kind, neighbours=neighbours, score=score)
    steps = choices(session)
    d = len(BINARY)
    limit = session.currency.limit
    assert len(steps) == d - 1
    for step in steps:
        assert step.cost == limit * 3 / 10 / (d - 1)
        # The exponential mechanism of epsilon 2 change / scale: that itself, or its square / 8.
        epsilon = 2 * change / step.event.scale
        spent = epsilon if kind == "pure" else epsilon**2 / 8
        assert step.cost * Fraction(999_999, 10**6) <= spent <= step.cost
        assert step.event.sensitivity == change
    assert {name for clique in selection.cliques for name in clique} == {*BINARY.columns}


def test_mutual_information_is_chosen_by_where_the_rows_are_public():
    data = chain(BINARY, 3000)
    _, session = choose(data, neighbours="replace-one", score="mi", total=False)
    (event, *_) = [step.event for step in choices(session)]
    # h(1/n) in bits, for binary columns, in units of 2^-20 bit.
    assert event.sensitivity == pytest.approx(0.0043314 * 2**20, rel=1e-3)
    with pytest.raises(BadInput):
        choose(data, score="mi")


def test_the_f_score_is_refused_where_a_column_is_not_binary():
    with pytest.raises(BadInput, match="'b' has more than two codes"):
        PrivBayes(score="f").check(MIXED)


@pytest.fixture
def made(monkeypatch):
    """What the method made on the way: its network, and the useful number of cells."""
    found, cells = {}, PrivBayes._useful_cells

    def network(domain, network):
        found["network"] = network
        return tables(domain, network)

    def useful(self, *given):
        found["useful"] = cells(self, *given)
        return found["useful"]

    monkeypatch.setattr(privbayes, "tables", network)
    monkeypatch.setattr(PrivBayes, "_useful_cells", useful)
    return found


@pytest.mark.parametrize("rows", [30, 400, 4000])
def test_the_degree_of_binary_columns_is_the_largest_useful_one(rows, made):
    # SIGMOD 2014, section 4.3: n epsilon2 / ((d - k) 2^(k + 2)) >= theta, noise 2 (d - k)/epsilon2.
    data = chain(BINARY, rows)
    _, session = choose(data, neighbours="replace-one", total=False)
    epsilon = float(session.currency.limit * 6 / 10)
    d = len(BINARY)
    useful = [k for k in range(1, d) if rows * epsilon / ((d - k) * 2 ** (k + 2)) >= 4]
    assert made["useful"] == 2 ** (max(useful, default=0) + 1)


def test_tables_of_other_columns_have_no_more_cells_than_are_useful(made):
    # TODS 2017, section 5.1: cells of child and parents at most n epsilon2 / (2 d theta).
    data = chain(MIXED, 5000)
    selection, session = choose(data, neighbours="replace-one", total=False)
    epsilon = float(session.currency.limit * 6 / 10)
    useful = int(5000 * epsilon / (2 * len(MIXED) * 4))
    assert made["useful"] == useful
    for child, parents in made["network"]:
        assert not parents or MIXED.size((child, *parents)) <= useful
    assert max(MIXED.size(clique) for clique in selection.cliques) > useful / 2


@pytest.mark.parametrize("score", ["r", "f", "mi"])
def test_every_score_finds_the_chain(score, monkeypatch, made):
    monkeypatch.setattr(private_choice, "choose", lambda values, _: int(np.argmax(values)))
    monkeypatch.setattr(PrivBayes, "max_cells", 4)  # one parent
    choose(chain(BINARY, 5000), neighbours="replace-one", total=False, score=score)
    edges = {frozenset((child, *parents)) for child, parents in made["network"][1:]}
    assert edges == {frozenset(pair) for pair in ("ab", "bc", "cd", "de", "ef")}


def test_the_first_tables_of_a_network_are_in_the_one_after_them():
    network = [("c", ()), ("a", ("c",)), ("d", ("a", "c")), ("b", ("a", "d"))]
    assert tables(BINARY, network) == (("a", "c", "d"), ("a", "b", "d"))
    # The table of d is inside a later one, but not inside the next: it stays where it is.
    network = [("c", ()), ("d", ("c",)), ("a", ("d",)), ("b", ("c", "d"))]
    assert tables(BINARY, network) == (("c", "d"), ("a", "d"), ("b", "c", "d"))


def test_the_size_of_tables_is_limited(monkeypatch, made):
    data = chain(MIXED, 30_000)
    monkeypatch.setattr(PrivBayes, "max_cells", 40)
    selection, _ = choose(data)
    assert max(len(parents) for _, parents in made["network"]) >= 2
    assert all(MIXED.size(clique) <= 40 for clique in selection.cliques)
    monkeypatch.setattr(PrivBayes, "max_cells", 1)
    alone, _ = choose(data)
    assert sorted(alone.cliques) == [("a",), ("b",), ("c",), ("d",), ("e",)]


def test_the_number_of_candidates_is_bounded(monkeypatch):
    data = chain(Domain(tuple("abcdefghijkl"), (2,) * 12), 50_000)
    monkeypatch.setattr(PrivBayes, "max_cells", 16)  # three parents
    _, many = choose(data)
    monkeypatch.setattr(privbayes, "_COMPARED", 20)
    _, few = choose(data)
    assert max(step.asks["length"] for step in choices(few)) <= 20
    assert max(step.asks["length"] for step in choices(many)) > 100


def test_the_budget_is_divided_evenly():
    data = chain(MIXED, 4000)
    even, _ = choose(data)
    assert len(set(even.weights)) == 1


def test_without_a_number_of_rows_nothing_is_useful_and_that_is_said():
    with pytest.raises(BadInput, match="number of rows"):
        choose(chain(MIXED, 100), total=False)


def rng():
    return np.random.default_rng(0)


@given(
    sizes=st.lists(st.integers(1, 5), max_size=6),
    cells=st.integers(0, 40),
)
def test_the_sets_are_those_to_which_nothing_can_be_added(sizes, cells):
    named = {f"c{index}": size for index, size in enumerate(sizes)}
    fitting = [
        set(chosen)
        for order in range(len(named) + 1)
        for chosen in itertools.combinations(named, order)
        if not chosen or math.prod(named[name] for name in chosen) <= cells
    ]
    wanted = {frozenset(one) for one in fitting if not any(one < other for other in fitting)}
    found = maximal_sets(named, cells=cells, most=10**6, rng=rng())
    assert {frozenset(chosen) for chosen in found} == wanted
    assert len(found) == len(wanted)


def test_of_too_many_sets_a_random_part_is_listed_and_each_is_maximal():
    named = {f"c{index}": 2 for index in range(60)}
    found = maximal_sets(named, cells=2**5, most=300, rng=rng())
    assert len(set(found)) == 300
    assert all(len(chosen) == 5 for chosen in found)
    # Every column is in 5/60 of them, 25 on average: none is left out, and none is in all.
    seen = [sum(name in chosen for chosen in found) for name in named]
    assert min(seen) > 0
    assert max(seen) < 100
    assert found == maximal_sets(named, cells=2**5, most=300, rng=rng())


def test_every_column_that_is_left_has_a_candidate_however_few_are_wanted():
    domain = Domain(tuple("abcdefgh"), (2, 3, 2, 50, 2, 3, 4, 2))
    found = candidates(domain, ["a", "b", "c"], cells=8, most=2, rng=rng())
    assert [child for child, _ in found] == list("defgh")
    for child, parents in found:
        assert set(parents) <= {"a", "b", "c"}
        assert not parents or domain.size((child, *parents)) <= 8


@pytest.mark.parametrize("cells", [1, 10, 100])
def test_a_child_that_is_too_large_by_itself_has_no_parents(cells):
    domain = Domain(("a", "b"), (2, 101))
    assert candidates(domain, ["a"], cells=cells, most=9, rng=rng()) == (("b", ()),)
