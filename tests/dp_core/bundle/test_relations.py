from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import codes_schema
from dp_core.bundle.quality.relations import bin_bias, measured_cliques, relations, wide_bins
from dp_core.client.released import Measurement
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.replicates.posterior import posterior_tables
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.rules.possible_codes import decode
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_sums, noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 2, 3))
SCHEMA = codes_schema(DOMAIN, StructuralZeros())


def table(clique, values, *, scale=10.0, replicate=0):
    domain = DOMAIN.project(clique)
    counts = np.array(values, dtype=np.int64).reshape(domain.sizes)
    return Measurement(
        domain, counts, noise="gaussian", scale=scale, stage="measure", replicate=replicate, grant=1
    )


def test_a_release_tells_which_pairs_its_tables_hold():
    found = relations([table(("a", "b"), [500, 300, 400, 600]), table((), 1800)], SCHEMA)
    assert (found.pairs, found.carried) == (3, 1)
    assert found.missing == ("a × c", "b × c")


def test_a_release_tells_which_pairs_posterior_sets_do_not_draw(monkeypatch):
    released = [table(("a", "b"), [500, 300, 400, 600]), table((), 1800)]
    assert relations(released, SCHEMA, mode="posterior").undrawn == ()

    # The measured pair fills four of ten cells, a × c the other six.
    monkeypatch.setattr(posterior_tables, "MOST_CELLS", 10)
    found = relations(released, SCHEMA, mode="posterior")
    assert (found.missing, found.undrawn) == (("a × c", "b × c"), ("b × c",))
    assert relations(released, SCHEMA, mode="shared").undrawn == ()


def test_of_sets_with_their_own_tables_every_one_must_hold_a_pair():
    own = [table(("a", "b"), [5, 3, 4, 6], replicate=1), table(("a",), [8, 10], replicate=2)]
    assert relations(own, SCHEMA).carried == 0
    both = [*own, table(("a", "b"), [5, 3, 4, 6], replicate=2)]
    assert relations(both, SCHEMA).carried == 1


def test_counts_by_bins_are_tables_and_other_sums_are_not():
    counts = BinnedCounts(columns=("a", "b"), sizes=(2, 2), edges=(None, None))
    item = noisy_sums(counts, np.zeros(4, np.int64), noise="laplace")
    assert measured_cliques([item]) == ({0: [("a", "b")]}, {})


ROWS = 200_000


def column(bins, *, high=100, kind="number"):
    edges = tuple(Fraction(high) * part / bins for part in range(bins + 1))
    return Column(name="x", kind=kind, edges=edges)


def values_of(name, rng):
    return {
        "normal": np.clip(rng.normal(50, 10, ROWS), 0, 99.99),
        "even": rng.random(ROWS) * 100,
        "falling": np.clip(rng.exponential(10, ROWS), 0, 99.99),
        "steep": np.clip(rng.exponential(4, ROWS), 0, 99.99),
    }[name]


def in_set(one, codes, rng):
    """Return the values of a set with these codes, as a release decodes them."""
    schema = Schema(title="x", columns=(one,), zeros=StructuralZeros(), document={})
    table = decode(schema, Dataset(schema.domain, codes[None, :].astype(np.uint16)), rng=rng)
    return table.column("x").to_numpy()


@pytest.mark.parametrize(
    ("name", "bins", "off"),
    # The fitted density of a wide bin is less exact.
    [("normal", 20, 0.003), ("normal", 10, 0.02), ("even", 5, 0.003), ("falling", 20, 0.004),
     ("steep", 20, 0.04)],
)  # fmt: skip
def test_the_bias_is_that_of_sets_of_generated_data(name, bins, off):
    rng = np.random.default_rng(5)
    x, one = values_of(name, rng), column(bins)
    codes = np.searchsorted([float(edge) for edge in one.edges[1:-1]], x, side="right")
    u = in_set(one, codes, rng)
    found = bin_bias(one, np.bincount(codes, minlength=bins).astype(float), 0.0)
    # Four standard errors of the mean and the factors: half a per cent of a deviation.
    assert found.mean_error == pytest.approx(u.mean() - x.mean(), abs=(off + 0.01) * x.std() + 1e-9)
    outcome = 2 * x + rng.normal(size=ROWS) * x.std()  # its mean is linear in x
    slope = np.cov(u, outcome)[0, 1] / u.var()
    assert found.predictor == pytest.approx(slope / 2, abs=off + 0.01)
    predictor = x + rng.normal(size=ROWS) * x.std()  # the mean of this is linear in x too
    kept = np.cov(u, predictor)[0, 1] / np.cov(x, predictor)[0, 1]
    assert found.outcome == pytest.approx(kept, abs=off + 0.015)


def test_a_number_in_bins_attenuates_as_a_predictor_and_not_as_an_outcome():
    """Normal values, bins of half a deviation: var(x)/(var(x) + w^2/6) = .96 of a slope is left."""
    x = np.random.default_rng(5).normal(50, 10, ROWS)
    counts = np.histogram(x, bins=np.arange(0, 101, 5))[0].astype(float)
    found = bin_bias(column(20), counts, 0.0)
    assert found.predictor == pytest.approx(1 / (1 + 25 / 600), abs=0.004)
    assert found.outcome == pytest.approx(1.0, abs=0.004)


def test_a_density_that_noise_may_explain_is_taken_as_even():
    counts = np.array([500.0, 300, 150, 50])
    known, unknown = bin_bias(column(4), counts, 1.0), bin_bias(column(4), counts, 400.0)
    assert known.mean_error > 1
    assert unknown.mean_error == 0
    # Even within bins: the bound is the part of the variance within them.
    share, middle = counts / 1000, np.array([12.5, 37.5, 62.5, 87.5])
    between = share @ np.square(middle - share @ middle)
    assert unknown.predictor == pytest.approx(between / (between + 625 / 12))


def test_bins_of_one_whole_number_have_no_bias():
    found = bin_bias(column(5, high=5, kind="integer"), np.array([5.0, 9, 3, 2, 1]), 0.0)
    assert (found.mean_error, found.predictor, found.outcome) == pytest.approx((0, 1, 1))
    wide = bin_bias(column(2, high=10, kind="integer"), np.array([5.0, 5]), 0.0)
    assert wide.predictor == pytest.approx(6.25 / (6.25 + 2))  # middles 2 and 7, variance 24/12


def test_columns_with_wide_bins_are_named():
    narrow, wide = column(50), dataclasses.replace(column(5), name="wide")
    schema = Schema(title="x", columns=(narrow, wide), zeros=StructuralZeros(), document={})
    tables = [
        noisy_table(schema.domain.project((one.name,)), np.full(one.bins, 1000 // one.bins))
        for one in (narrow, wide)
    ]
    assert wide_bins(tables, schema) == ()  # 1 - 1/25 is left
    halved = dataclasses.replace(wide, edges=wide.edges[::2])
    schema = dataclasses.replace(schema, columns=(narrow, halved))
    tables[1] = dataclasses.replace(
        tables[1], domain=schema.domain.project(("wide",)), values=np.array([500, 500])
    )
    assert wide_bins(tables, schema) == ("wide (-25 %)",)
    assert relations(tables, schema).wide_bins == ("wide (-25 %)",)


def test_records_that_neighbours_do_not_explain_may_lie_anywhere_in_a_bin():
    counts = np.array([0.0, 100, 400, 100, 200, 50, 0])
    # With so much noise no density but an even one is fitted.
    found = bin_bias(column(7), counts, 1e6)
    beside = 1 - np.sqrt(100 * 50) / 200
    np.testing.assert_allclose(found.anywhere(), [0, 1, 0.75, 0, beside, 1, 0])
    # Of the mean, half of it at an end, the less the more records the neighbour has.
    even = 100 / 7 / np.sqrt(12)
    parts = found.doubts() / even
    np.testing.assert_allclose(parts, [0, 1 / 8, 0.75, 0, beside, 1 / 8, 0], atol=0.002)
    first = bin_bias(column(3), np.array([400.0, 100, 100]), 1e6)
    np.testing.assert_allclose(
        first.doubts(), 100 / 3 / np.sqrt(12) * np.array([7 / 8, 0, 0.5]), atol=0.02
    )


def test_levels_and_empty_tables_have_no_bias_to_tell():
    levels = Column(name="x", kind="category", levels=(Level("a", "a"), Level("b", "b")))
    assert bin_bias(levels, np.array([5.0, 5]), 1.0) is None
    assert bin_bias(column(3), np.array([-1.0, -2, -3]), 1.0) is None
    assert bin_bias(column(3, high=3, kind="integer"), np.array([0.0, 4, 0]), 1.0) is None
