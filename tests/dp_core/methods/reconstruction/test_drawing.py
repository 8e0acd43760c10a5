"""Records are dealt: they have a model's tables more closely than independent draws would."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Domain
from dp_core.methods import registry
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.contracts.test_reconstructors import METHODS
from tests.exact_tables import counts_of, summed
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 3))


def joint(seed=0, domain=DOMAIN):
    return np.random.default_rng(seed).gamma(0.7, size=domain.sizes)


def deal(tables, rows, domain=DOMAIN, seed=1):
    return records(domain, tables, rows, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("ways", [1, 2, 3])
@pytest.mark.parametrize("rows", [200, 20_000])
def test_dealt_records_of_a_joint_table_are_nearer_to_it_than_drawn_ones(rows, ways):
    wanted = joint() / joint().sum()
    drawn = np.random.default_rng(2).multinomial(rows, wanted.ravel()).reshape(wanted.shape)
    data = deal([Table(DOMAIN, joint())], rows)
    errors = np.zeros(2)
    for clique in itertools.combinations(DOMAIN.columns, ways):
        expected = summed(wanted, DOMAIN, clique) * rows
        errors[0] += np.abs(counts_of(data, clique) - expected).sum()
        errors[1] += np.abs(summed(drawn, DOMAIN, clique) - expected).sum()
    assert errors[0] < (0.3 if ways < 3 or rows > 1000 else 0.6) * errors[1]


def test_whole_counts_of_a_joint_table_are_dealt_exactly():
    wanted = np.random.default_rng(4).poisson(1.5, DOMAIN.sizes)
    data = deal([Table(DOMAIN, wanted.astype(np.float64))], int(wanted.sum()))
    np.testing.assert_array_equal(counts_of(data, DOMAIN.columns), wanted)


@pytest.mark.parametrize("name", METHODS)
def test_no_reconstruction_adds_the_error_of_a_sample_to_the_tables_it_was_fitted_to(name):
    domain = Domain(("a", "b", "c"), (2, 3, 4))
    table = np.random.default_rng(3).integers(200, 800, domain.sizes)
    given = [
        noisy_table(domain.project(clique), summed(table, domain, clique), scale=1e-3)
        for clique in (("a", "b"), ("b", "c"))
    ]
    method = registry.find("reconstruction", name)()
    model = method.fit(
        domain, given, rows=None, zeros=StructuralZeros(), rng=np.random.default_rng(0)
    )
    cliques = [("a",), ("b",), ("c",)]
    if name != "independent":
        cliques += [("a", "b"), ("b", "c")]
    rows = 5000
    seen, sampled = 0.0, 0.0
    for seed in range(4):
        data = model.sample(rows, rng=np.random.default_rng(seed))
        for clique in cliques:
            share = model.project(clique) / model.rows
            seen += np.square(counts_of(data, clique) - share * rows).sum()
            sampled += rows * (share * (1 - share)).sum()
    # Independent draws give 1, with a standard error of about .1.
    assert seen < 0.1 * sampled


def test_cells_without_mass_get_no_record_and_rare_ones_hardly_any():
    domain = Domain(("a", "b"), (50, 3))
    values = np.ones(domain.sizes)
    values[:, 1] = 1e-6
    values[7, 2] = 0
    data = deal([Table(domain, values)], 4000, domain)
    assert not ((data.codes[0] == 7) & (data.codes[1] == 2)).any()
    assert (data.codes[1] == 1).sum() <= 1
    assert abs((data.codes[1] == 0).sum() - 4000 * 50 / 99) < 5


def test_a_column_is_spread_evenly_over_columns_it_does_not_depend_on():
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    tables = [Table(domain.project((name,)), np.array([0.3, 0.7])) for name in domain.columns]
    data = deal(tables, 1000, domain)
    for one, two in itertools.combinations(data.codes, 2):
        # Independent draws would be off by about 15 records.
        assert abs(np.count_nonzero((one == 0) & (two == 0)) - 90) <= 4


def test_what_a_table_says_of_columns_drawn_before_is_a_condition_only():
    first = Table(DOMAIN.project(("a", "b")), np.array([[1.0, 1, 1], [1, 1, 1]]))
    equal = np.eye(3, 4) * [[9.0], [90.0], [900.0]]
    second = Table(DOMAIN.project(("b", "c")), equal)
    third = Table(DOMAIN.project(("d",)), np.zeros(3))  # nothing is known: even
    data = deal([first, second, third], 3000)
    np.testing.assert_allclose(counts_of(data, ("a", "b")), 500, atol=2)
    np.testing.assert_array_equal(data.column("b"), data.column("c"))
    np.testing.assert_allclose(counts_of(data, ("d",)), 1000, atol=2)


def test_a_column_of_many_values_has_its_table():
    domain = Domain(("a", "b"), (2, 5000))
    values = np.random.default_rng(0).gamma(0.3, size=5000)
    values[-1] = 0
    tables = [Table(domain.project(("b",)), values), Table(domain.project(("a",)), np.ones(2))]
    data = deal(tables, 20_000, domain)
    seen = np.bincount(data.column("b"), minlength=5000)
    assert np.abs(seen - values / values.sum() * 20_000).max() <= 1
    assert seen[-1] == 0
    # Shuffled: its values do not follow the order of the records.
    assert abs(np.corrcoef(np.arange(20_000), data.column("b"))[0, 1]) < 0.05


@pytest.mark.parametrize("given", [("a",), ()])
def test_values_beyond_16_bits_are_dealt_as_themselves(given):
    domain = Domain(("a", "area"), (2, 70_000))
    joint = np.zeros(domain.sizes)
    # 69,999 has the 16 bits of 4463.
    joint[0, [4463, 69_999]] = 100, 300
    joint[1, [0, 69_999]] = 200, 400
    first = Table(domain.project(("a",)), joint.sum(axis=1))
    second = Table(domain.project((*given, "area")), joint if given else joint.sum(axis=0))
    data = records(domain, [first, second], 1000, rng=np.random.default_rng(1))
    assert data.codes.dtype == np.uint32
    cells = np.flatnonzero(second.values.ravel())
    found = counts_of(data, second.clique)
    assert np.abs(found - second.values).max() <= 1
    assert found.ravel()[cells].sum() == 1000
