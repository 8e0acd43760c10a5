"""What every reconstruction promises, whatever it is fitted to."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_core.client.interactions import steps_of_a_record
from dp_core.client.released import Records, ReleasedKind, SparseTable
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods import registry
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.full import examples
from tests.measured import NONE, noisy_answers, noisy_sums, noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
BINARY = Domain(("a", "b", "c"), (2, 2, 2))
# The second is of two columns that no table of two columns here has together.
ZEROS = StructuralZeros(
    (Rule(("a", "b"), ((0,), (1,)), "within"), Rule(("a", "c"), ((1,), (0,)), "across"))
)
ROWS = 2000
THRESHOLD = 5


def file_of(domain, rows=ROWS):
    """Records of columns that follow the first, whose codes are far from even."""
    rng = np.random.default_rng(4)
    codes = np.empty((len(domain), rows), dtype=np.uint16)
    codes[0] = rng.random(rows) < 0.15
    for axis, size in enumerate(domain.sizes[1:], start=1):
        low = np.where(rng.random(rows) < 0.6, 0, rng.integers(0, size, rows))
        codes[axis] = np.where(rng.random(rows) < 0.3, codes[0], low)
    return Dataset(domain, codes)


def total():
    return noisy_table(DOMAIN.project(()), np.array(ROWS), noise="laplace", stage="total")


def answers(domain, queries):
    counter = MemoryCounter(file_of(domain))
    counted = counter.count(queries.cliques)
    exact = queries.count({clique: counted[clique].counts for clique in queries.cliques})
    noise = np.rint(np.random.default_rng(1).laplace(0, 2, exact.size)).astype(np.int64)
    return noisy_answers(queries, exact + noise, noise="laplace", scale=2.0, grant=2)


def tables():
    cliques = [("a", "b"), ("c", "b")]
    counts = MemoryCounter(file_of(DOMAIN)).count(cliques)
    return [total(), *(noisy_table(DOMAIN.project(c), counts[c].counts) for c in cliques)]


def cells():
    pairs = [("a", "b"), ("c", "b")]
    asked = [(pair, cell) for pair in pairs for cell in np.ndindex(DOMAIN.project(pair).sizes)]
    return [total(), answers(DOMAIN, Cells(*map(tuple, zip(*asked, strict=True))))]


def parities():
    sets = [each for size in (1, 2) for each in combinations(BINARY.columns, size)]
    return [total(), answers(BINARY, Parities(tuple(sets)))]


def sparse(clique):
    found, counts = MemoryCounter(file_of(DOMAIN)).observed(clique)
    kept = counts >= THRESHOLD
    return SparseTable(
        domain=DOMAIN.project(clique),
        cells=found[kept],
        values=counts[kept],
        threshold=THRESHOLD,
        capacity=100,
        noise="laplace",
        scale=1.0,
        stage="measure",
        replicate=0,
        grant=2,
    )


def joint():
    return [total(), sparse(("a", "b", "c"))]


def each_column_with_another():
    return [total(), *(sparse(clique) for clique in (("a", "b"), ("b", "a"), ("c", "b")))]


def records():
    # Fewer than were counted, so that the number of them is not taken for the number of rows.
    return [total(), Records(file_of(DOMAIN, 500))]


def beyond_the_columns():
    pairs = [("a", "b"), ("c", "b")]
    sizes = {clique: DOMAIN.project(clique).sizes for clique in (*pairs, *zip("abc", strict=True))}
    counts = MemoryCounter(file_of(DOMAIN)).count(list(sizes))
    found = [total()]
    for number, clique in enumerate(zip("abc", strict=True), start=2):
        table = DOMAIN.project(clique), counts[clique].counts
        found.append(noisy_table(*table, stage="one_way", grant=number))
    for number, clique in enumerate(pairs, start=5):
        of = Interaction(clique, sizes[clique])
        values = of.of_table(counts[clique].counts)
        found.append(noisy_sums(of, values, scale=steps_of_a_record(of), grant=number))
    return found


# For each kind what it is shown as; a method that needs another form of it is named below.
SHOWN = {
    "tables": {"tables": (DOMAIN, tables)},
    "answers": {"cells": (DOMAIN, cells), "parities": (BINARY, parities)},
    "sparse": {"joint": (DOMAIN, joint)},
    "records": {"records": (DOMAIN, records)},
    "interactions": {"interactions": (DOMAIN, beyond_the_columns)},
}
OTHER_FORM = {("gibbs", "sparse"): {"each column with another": (DOMAIN, each_column_with_another)}}
CASES = {
    f"{name}, {form}": (name, *case)
    for name in registry.available("reconstruction")
    for kind in sorted(registry.find("reconstruction", name).takes)
    for form, case in OTHER_FORM.get((name, kind), SHOWN.get(kind, {})).items()
}
every_case = pytest.mark.parametrize(
    ("name", "domain", "released"), CASES.values(), ids=list(CASES)
)


def fit(name, domain, released, *, rows=None, zeros=NONE):
    method = registry.find("reconstruction", name)()
    method.check(domain)
    return method.fit(domain, released, rows=rows, zeros=zeros, rng=np.random.default_rng(0))


def restored(name, model, released, zeros=NONE):
    return registry.find("reconstruction", name)().restore(
        model.domain, model.tables, rows=model.rows, zeros=zeros, released=released
    )


@every_case
def test_a_model_has_the_total_and_draws_legal_records(name, domain, released):
    model = fit(name, domain, released())
    assert abs(model.rows - ROWS) < 100
    assert model.domain == domain
    for table in model.tables:
        assert table.values.sum() == pytest.approx(model.rows)
        assert (table.values >= 0).all()
    for rows in (0, 1, 300):
        data = model.sample(rows, rng=np.random.default_rng(1))
        assert data.codes.shape == (3, rows)
        assert data.domain == domain
        assert (data.codes < np.array(domain.sizes)[:, None]).all()


@every_case
def test_a_public_number_of_rows_is_kept(name, domain, released):
    model = fit(name, domain, released(), rows=1234)
    assert model.rows == 1234
    assert model.tables[0].values.sum() == pytest.approx(1234)


@every_case
def test_records_follow_what_was_released(name, domain, released):
    data = fit(name, domain, released()).sample(20_000, rng=np.random.default_rng(1))
    original = file_of(domain)
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        seen, wanted = (
            np.bincount(each.column(column), minlength=size) / each.rows
            for each in (data, original)
        )
        # Even records, which follow nothing, are twice as far away.
        assert np.abs(1 / size - wanted).max() > 0.2
        np.testing.assert_allclose(seen, wanted, atol=0.1)


@pytest.mark.parametrize("zeros", [NONE, ZEROS], ids=["no rules", "rules"])
@every_case
def test_a_restored_model_draws_the_same_records(name, domain, released, zeros):
    model = fit(name, domain, released(), zeros=zeros)
    again = restored(name, model, released(), zeros)
    assert again.rows == model.rows
    one, two = (each.sample(200, rng=np.random.default_rng(3)) for each in (model, again))
    np.testing.assert_array_equal(one.codes, two.codes)


@every_case
def test_impossible_combinations_are_in_no_record(name, domain, released):
    assert ZEROS.violations(file_of(domain)).any()
    model = fit(name, domain, released(), zeros=ZEROS)
    for each in (model, restored(name, model, released(), ZEROS)):
        data = each.sample(3000, rng=np.random.default_rng(1))
        assert data.rows == 3000
        assert not ZEROS.violations(data).any()


def test_every_kind_is_shown():
    # Totals are of parametric methods, which model them themselves.
    missing = set(get_args(ReleasedKind)) - {*SHOWN, "totals"}
    assert missing == set(), f"show {missing} to the methods that take it: add it to SHOWN"
    names = {name for name, *_ in CASES.values()}
    assert {"linear_program", "multiplicative_weights", "gibbs", "sparse", "records"} <= names


# -- noisy tables, of any workload and under any rules

METHODS = [
    name
    for name in registry.available("reconstruction")
    if "tables" in registry.find("reconstruction", name).takes
]
WORKLOADS = {
    "columns": [("a",), ("b",), ("c",)],
    "columns and total": [(), ("a",), ("b",), ("c",)],
    "pairs": [("a", "b"), ("b", "c")],
    "pairs, repeated and turned": [("a", "b"), ("b", "a"), ("b",), ("c", "b")],
    "joint": [("a", "b", "c")],
    "only a total": [()],
    "one of the columns": [("b",)],
}


def measurements(workload, domain=DOMAIN, *, scale=2.0, mean=60, seed=1):
    rng = np.random.default_rng(seed)
    joint = rng.poisson(mean, domain.sizes)
    found = []
    for clique in workload:
        exact = summed(joint, domain, clique)
        noisy = np.rint(exact + rng.normal(0, scale, exact.shape)).astype(np.int64)
        found.append(noisy_table(domain.project(clique), noisy, scale=scale))
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", METHODS)
def test_tables_of_any_workload_give_a_model_of_their_total_and_legal_records(name, workload):
    model = fit(name, DOMAIN, measurements(WORKLOADS[workload]))
    assert abs(model.rows - 24 * 60) < 200
    assert sum(table.values.sum() for table in model.tables) == pytest.approx(
        model.rows * len(model.tables)
    )
    assert all((table.values >= 0).all() for table in model.tables)
    for rows in (0, 1, 300):
        data = model.sample(rows, rng=np.random.default_rng(1))
        assert data.codes.shape == (3, rows)
        assert data.domain == DOMAIN
        for codes, size in zip(data.codes, DOMAIN.sizes, strict=True):
            assert (codes < size).all()


SMALL = Domain(("a", "b", "c", "d"), (3, 4, 1, 2))


@st.composite
def drawn_rules(draw):
    columns = draw(st.permutations(SMALL.columns))[: draw(st.integers(1, 4))]
    codes = [
        tuple(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))))
        for size in SMALL.project(columns).sizes
    ]
    return Rule(tuple(columns), tuple(codes), "drawn")


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(drawn_rules(), min_size=1, max_size=4), st.sampled_from([(), ("a", "b")]))
@pytest.mark.parametrize("name", METHODS)
def test_whatever_the_rules_they_hold_in_every_record(name, rules, pair):
    zeros = StructuralZeros(tuple(rules))
    assume(not zeros.mask(SMALL).all())
    workload = [("a",), ("b",), ("c",), ("d",), pair] if pair else [("a",), ("b",), ("c",), ("d",)]
    model = fit(name, SMALL, measurements(workload, SMALL), zeros=zeros)
    assert all(np.isfinite(table.values).all() for table in model.tables)
    again = registry.find("reconstruction", name)().restore(
        SMALL, model.tables, rows=model.rows, zeros=zeros
    )
    one, two = (each.sample(400, rng=np.random.default_rng(1)) for each in (model, again))
    assert one.rows == 400
    assert not zeros.violations(one).any()
    np.testing.assert_array_equal(one.codes, two.codes)


@pytest.mark.parametrize("sizes", [(1,), (4,), (1, 1), (1, 5), (2, 1, 3)])
@pytest.mark.parametrize("name", METHODS)
def test_the_smallest_domains_work(name, sizes):
    domain = Domain(tuple("abc"[: len(sizes)]), sizes)
    workload = [(), ("a",), domain.columns] if len(sizes) > 1 else [(), ("a",)]
    model = fit(name, domain, measurements(workload, domain))
    data = model.sample(50, rng=np.random.default_rng(1))
    assert data.codes.shape == (len(sizes), 50)


@pytest.mark.parametrize("name", METHODS)
def test_tables_that_are_noise_below_zero_still_give_a_model(name):
    given = measurements(WORKLOADS["pairs"], mean=0, scale=30.0)
    model = fit(name, DOMAIN, given)
    assert model.rows >= 1
    assert model.sample(20, rng=np.random.default_rng(1)).rows == 20


@pytest.mark.parametrize("name", METHODS)
def test_one_column_is_right_where_there_is_hardly_noise(name):
    given = measurements(WORKLOADS["columns"], scale=1e-3)
    model = fit(name, DOMAIN, given)
    data = model.sample(20_000, rng=np.random.default_rng(1))
    for measurement in given:
        seen = np.bincount(data.column(measurement.clique[0]), minlength=measurement.values.size)
        wanted = measurement.values / measurement.values.sum()
        # Six standard errors of an independent draw.
        np.testing.assert_allclose(seen / data.rows, wanted, atol=6 * 0.5 / data.rows**0.5)


@pytest.mark.parametrize("name", METHODS)
def test_projections_have_the_shape_asked_for_and_the_total(name):
    model = fit(name, DOMAIN, measurements(WORKLOADS["pairs"]))
    found = model.project(("b", "a"))
    assert found.shape == (3, 2)
    assert found.sum() == pytest.approx(model.rows)
    np.testing.assert_allclose(found.T, model.project(("a", "b")))


@pytest.mark.parametrize("name", METHODS)
def test_memory_grows_with_the_rows_where_they_are_held_at_once(name):
    method = registry.find("reconstruction", name)()
    few, many = (method.memory(DOMAIN, [("a", "b")], rows) for rows in (1000, 10_000_000))
    assert 0 < few < many


@pytest.mark.parametrize("name", METHODS)
def test_rules_that_leave_nothing_possible_are_refused_with_a_sentence(name):
    zeros = StructuralZeros(
        (
            Rule(("a", "b"), ((0,), (0, 1, 2)), "no a = 0"),
            Rule(("a", "c"), ((1,), (0, 1, 2, 3)), "no a = 1"),
        )
    )
    with pytest.raises(BadInput, match="impossible"):
        fit(name, DOMAIN, measurements(WORKLOADS["pairs"]), zeros=zeros).sample(
            20, rng=np.random.default_rng(1)
        )
