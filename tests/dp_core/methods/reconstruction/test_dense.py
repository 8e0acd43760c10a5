from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.dense import Dense
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import NONE, noisy_table
from tests.statistical import FALSE_ALARM

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
RNG = np.random.default_rng(7)
COUNTS = RNG.integers(0, 40, DOMAIN.sizes)


def measured(clique, scale=1.0, values=None):
    values = summed(COUNTS, DOMAIN, clique) if values is None else values
    return noisy_table(DOMAIN.project(clique), values, noise="laplace", scale=scale)


def fit(measurements, zeros=NONE, rows=None):
    return Dense().fit(DOMAIN, measurements, rows=rows, zeros=zeros, rng=np.random.default_rng(0))


def test_a_measured_joint_table_is_used_as_it_is():
    found = fit([measured(DOMAIN.columns)])
    np.testing.assert_allclose(found.tables[0].values, COUNTS)
    assert found.rows == COUNTS.sum()


def test_negative_cells_of_the_joint_table_become_empty():
    values = COUNTS.copy()
    values[0, 0, :2] = [-30, -2]
    found = fit([measured(DOMAIN.columns, values=values)]).tables[0].values
    assert (found >= 0).all()
    assert found[0, 0, 0] == found[0, 0, 1] == 0
    assert found.sum() == pytest.approx(values.sum())


def test_from_one_way_tables_comes_their_product():
    found = fit([measured(("a",)), measured(("b",)), measured(("c",))], rows=COUNTS.sum())
    a, b, c = (COUNTS.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1)))
    product = np.einsum("i,j,k->ijk", a, b, c) / COUNTS.sum() ** 2
    np.testing.assert_allclose(found.tables[0].values, product, rtol=1e-6)


def test_from_pairs_comes_the_table_of_largest_entropy():
    found = fit([measured(("a", "b")), measured(("b", "c")), measured(("a", "c"))])
    joint = found.tables[0].values
    for clique in (("a", "b"), ("b", "c"), ("a", "c")):
        np.testing.assert_allclose(found.project(clique), measured(clique).values, atol=0.05)
    # Largest entropy: no interaction of all three in the logarithms.
    logs = np.log(joint)
    for axis in range(3):
        logs = logs - logs.mean(axis=axis, keepdims=True)
    assert np.abs(logs).max() < 1e-2


def test_draws_have_the_joint_table_and_not_another():
    found = fit([measured(DOMAIN.columns)])
    data = found.sample(100_000, rng=np.random.default_rng(1))
    seen = np.zeros(DOMAIN.sizes)
    np.add.at(seen, tuple(data.codes), 1)
    kept = COUNTS > 0
    expected = COUNTS[kept] / COUNTS.sum() * data.rows
    assert seen[~kept].sum() == 0
    assert stats.chisquare(seen[kept], expected).pvalue > FALSE_ALARM
    other = expected * np.where(np.arange(expected.size) % 2, 1.2, 1.0)
    other *= data.rows / other.sum()
    assert stats.chisquare(seen[kept], other).pvalue < FALSE_ALARM


def test_around_impossible_cells_the_measured_tables_are_kept():
    zeros = StructuralZeros((Rule(("a", "c"), ((0,), (1, 2)), "rule"),))
    truth = COUNTS * ~zeros.mask(DOMAIN)
    given = [
        measured(("a",), values=truth.sum(axis=(1, 2))),
        measured(("b",), values=truth.sum(axis=(0, 2))),
        measured(("c",), values=truth.sum(axis=(0, 1))),
    ]
    found = fit(given, zeros)
    for measurement in given:
        np.testing.assert_allclose(
            found.project(measurement.clique), measurement.values, atol=0.02, rtol=1e-3
        )


def test_a_domain_that_does_not_fit_is_refused_with_a_method_that_does():
    with pytest.raises(BadInput, match="privsyn"):
        Dense().check(Domain(tuple("abcd"), (100,) * 4))
