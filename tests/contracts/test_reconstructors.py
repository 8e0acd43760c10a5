"""What every reconstruction of tables promises, whatever its name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.methods import registry
from dp_core.tables.domain import Domain
from dp_core.tables.structural_zeros import Rule, StructuralZeros
from tests.full import examples
from tests.measured import noisy_table

METHODS = [
    name
    for name in registry.available("reconstruction")
    if "tables" in registry.find("reconstruction", name).takes
]
DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
NONE = StructuralZeros()
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
        others = tuple(axis for axis, name in enumerate(domain.columns) if name not in clique)
        exact = np.asarray(joint.sum(axis=others))
        kept = [name for name in domain.columns if name in clique]
        exact = exact.transpose([kept.index(name) for name in clique])
        noisy = np.rint(exact + rng.normal(0, scale, exact.shape)).astype(np.int64)
        found.append(noisy_table(domain.project(clique), noisy, scale=scale))
    return found


def fit(name, given, domain=DOMAIN, *, rows=None, zeros=NONE):
    method = registry.find("reconstruction", name)()
    method.check(domain)
    return method.fit(domain, given, rows=rows, zeros=zeros, rng=np.random.default_rng(0))


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", METHODS)
def test_a_model_has_the_total_and_draws_legal_records(name, workload):
    model = fit(name, measurements(WORKLOADS[workload]))
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
    model = fit(name, measurements(workload, SMALL), SMALL, zeros=zeros)
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
    model = fit(name, measurements(workload, domain), domain)
    data = model.sample(50, rng=np.random.default_rng(1))
    assert data.codes.shape == (len(sizes), 50)


@pytest.mark.parametrize("name", METHODS)
def test_tables_that_are_noise_below_zero_still_give_a_model(name):
    given = measurements(WORKLOADS["pairs"], mean=0, scale=30.0)
    model = fit(name, given)
    assert model.rows >= 1
    assert model.sample(20, rng=np.random.default_rng(1)).rows == 20


@pytest.mark.parametrize("name", METHODS)
def test_one_column_is_right_where_there_is_hardly_noise(name):
    given = measurements(WORKLOADS["columns"], scale=1e-3)
    model = fit(name, given)
    data = model.sample(20_000, rng=np.random.default_rng(1))
    for measurement in given:
        seen = np.bincount(data.column(measurement.clique[0]), minlength=measurement.values.size)
        wanted = measurement.values / measurement.values.sum()
        # Six standard errors of an independent draw.
        np.testing.assert_allclose(seen / data.rows, wanted, atol=6 * 0.5 / data.rows**0.5)


@pytest.mark.parametrize("name", METHODS)
def test_projections_have_the_shape_asked_for_and_the_total(name):
    model = fit(name, measurements(WORKLOADS["pairs"]))
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
        fit(name, measurements(WORKLOADS["pairs"]), zeros=zeros).sample(
            20, rng=np.random.default_rng(1)
        )
