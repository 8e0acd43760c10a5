from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import codes_schema
from dp_core.bundle.quality.relations import (
    bin_bias,
    cells_near_zero,
    levels_near_zero,
    measured_cliques,
    relations,
    thin_groups,
    wide_bins,
)
from dp_core.client.interactions import steps_of_a_record
from dp_core.client.released import Measurement, Totals
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import BinnedCounts, CellCounts, Interaction
from dp_core.methods.replicates.posterior import posterior_tables
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.rules.possible_codes import decode
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
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


@pytest.mark.parametrize(("count", "named"), [(29, ("c: 2",)), (31, ())])
def test_a_level_is_named_below_three_standard_errors_of_its_noise(count, named):
    found = relations([table(("c",), [500, 300, count])], SCHEMA)
    assert found.near_zero == named


def test_a_level_that_an_interaction_knows_is_not_called_faint():
    counts, of = np.array([500, 300, 160]), Interaction(("c",), (3,))
    alone = table(("c",), counts, scale=100.0)
    assert levels_near_zero([alone], SCHEMA, ["c"]) == ("c: 2",)
    for stddev, named in ((10.0, ()), (1000.0, ("c: 2",))):
        item = noisy_sums(of, of.of_table(counts), scale=stddev * steps_of_a_record(of))
        total = table((), 960, scale=10.0)
        assert levels_near_zero([alone, item, total], SCHEMA, ["c"]) == named
    zeros = StructuralZeros((Rule(("c",), ((2,),), "c: 2"),))
    assert levels_near_zero([alone, item], codes_schema(DOMAIN, zeros), ["c"]) == ()


def test_what_cannot_occur_is_not_called_faint():
    zeros = StructuralZeros((Rule(("c",), ((2,),), "c: 2"),))
    schema = codes_schema(DOMAIN, zeros)
    assert levels_near_zero([table(("c",), [500, 300, 0])], schema, ["c"]) == ()


def test_counts_by_bins_are_tables_and_other_sums_are_not():
    counts = BinnedCounts(columns=("a", "b"), sizes=(2, 2), edges=(None, None))
    item = noisy_sums(counts, np.zeros(4, np.int64), noise="laplace")
    assert measured_cliques([item]) == ({0: [("a", "b")]}, {})


@pytest.mark.parametrize(("low", "named"), [(29, True), (31, False)])
def test_pairs_whose_tails_drown_in_noise_are_named(low, named):
    """Two of six cells of a pair: more than a fifth."""
    pair = table(("a", "c"), [500, 300, low, 400, 350, low])
    found = relations([pair], SCHEMA)
    assert found.thin == (("a × c (33%)",) if named else ())


def test_counts_by_cell_of_a_parametric_method_are_looked_at_as_tables():
    counts = CellCounts(by=("a", "c"), sizes=(2, 3), numbers=(), positions=())
    values = np.array([500, 300, 2, 400, 350, 1])
    item = Totals(
        counts, values, noise="laplace", scale=10.0, stage="measure", replicate=1, grant=1
    )
    assert thin_groups([item], SCHEMA, [("a", "c"), ("a", "b")]) == ((("a", "c"), 2 / 6),)


def test_cells_that_cannot_occur_are_not_counted_as_thin():
    zeros = StructuralZeros((Rule(("a", "c"), ((0,), (2,)), "a 0, c 2"),))
    pair = table(("a", "c"), [500, 300, 0, 400, 350, 300])
    assert relations([pair], codes_schema(DOMAIN, zeros)).thin == ()


def test_which_numbers_are_missing_is_added_up_with_its_noise():
    counts = CellCounts(by=("a",), sizes=(2,), numbers=("c",), positions=(3,))
    item = noisy_sums(counts, np.array([20, 8, 15, 15]), scale=7.0, replicate=1)
    schema = codes_schema(Domain(("a", "b"), (2, 2)), StructuralZeros())
    # 28 and 30 of a noise of 9.9: three standard errors are 29.7.
    assert relations([item], schema).thin == ()
    pairs = CellCounts(by=("a", "b"), sizes=(2, 2), numbers=("c",), positions=(3,))
    item = noisy_sums(pairs, np.array([20, 8, 15, 16] * 2), scale=7.0, replicate=1)
    assert thin_groups([item], schema, [("a", "b")]) == ((("a", "b"), 0.5),)


@pytest.mark.parametrize("scale", [2.0, 60.0])
def test_a_pair_measured_without_its_margins_is_as_thin_as_a_table_of_its_noise(scale):
    counts = np.array([[500, 300, 20], [400, 350, 20]])
    whole = table(("a", "c"), counts, scale=scale)
    of = Interaction(("a", "c"), (2, 3))
    beyond = noisy_sums(of, of.of_table(counts), scale=scale * steps_of_a_record(of), grant=3)
    apart = [table(("a",), counts.sum(1)), table(("c",), counts.sum(0)), beyond]
    found = thin_groups([whole], SCHEMA, [("a", "c")])
    assert bool(found) == (scale > 2)
    assert thin_groups(apart, SCHEMA, [("a", "c")]) == found
    assert thin_groups([beyond], SCHEMA, [("a", "c")]) == ()


def near_zero(tables, clique, zeros=None):
    return cells_near_zero(DOMAIN, tables, [clique], zeros=zeros or StructuralZeros())


@pytest.mark.parametrize("clique", [("a", "c"), ("c", "a")])
def test_cells_below_three_standard_errors_are_near_zero(clique):
    given = [table(("a", "c"), [100, 29, 31, -5, 200, 90])]
    low = near_zero(given, clique)[clique]
    assert low.tolist() == [[False, True, False], [True, False, False]]


@pytest.mark.parametrize(
    ("tables", "near"),
    [
        # A sum of two cells has the noise of both: its limit is 3 * 10 * sqrt(2) = 42.4.
        ([table(("a", "c"), [100, 21, 300, 100, 21, 300])], True),
        ([table(("a", "c"), [100, 22, 300, 100, 21, 300])], False),
        # With a table of half its variance, which has twice the say: (30 + 2 * 21)/3 and 24.5.
        ([table(("a", "c"), [9, 15, 9, 9, 15, 9]), table(("c",), [200, 21, 600])], True),
        ([table(("a", "c"), [9, 15, 9, 9, 15, 9]), table(("c",), [200, 22, 600])], False),
        # Laplace noise has twice the square of its scale.
        ([noisy_table(DOMAIN.project(("c",)), [9, 42, 9], noise="laplace", scale=10.0)], True),
        ([noisy_table(DOMAIN.project(("c",)), [9, 43, 9], noise="laplace", scale=10.0)], False),
    ],
)
def test_the_limit_follows_the_noise_of_all_tables(tables, near):
    assert near_zero(tables, ("c",))["c",][1] == near


def test_what_cannot_occur_or_was_not_measured_is_not_near_zero():
    zeros = StructuralZeros((Rule(("a", "c"), ((1,), (0,)), "rule"),))
    given = [table(("a", "c"), [100, 200, 300, 3, 200, 90])]
    assert not near_zero(given, ("a", "c"), zeros)["a", "c"].any()
    only = [table(("c",), [0, 0, 0])]
    assert [near_zero(only, clique) for clique in [("a",), ("a", "c"), ()]] == [{}] * 3


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
    assert found.mean == pytest.approx(u.mean() - x.mean(), abs=(off + 0.01) * x.std() + 1e-9)
    assert found.deviation == pytest.approx(x.std(), rel=0.02 + 2 * off)
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
    assert known.mean > 1
    assert unknown.mean == 0
    # Even within bins: the bound is the part of the variance within them.
    share, middle = counts / 1000, np.array([12.5, 37.5, 62.5, 87.5])
    between = share @ np.square(middle - share @ middle)
    assert unknown.predictor == pytest.approx(between / (between + 625 / 12))


def test_bins_of_one_whole_number_have_no_bias():
    found = bin_bias(column(5, high=5, kind="integer"), np.array([5.0, 9, 3, 2, 1]), 0.0)
    assert (found.mean, found.predictor, found.outcome) == pytest.approx((0, 1, 1))
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


def test_levels_and_empty_tables_have_no_bias_to_tell():
    levels = Column(name="x", kind="category", levels=(Level("a", "a"), Level("b", "b")))
    assert bin_bias(levels, np.array([5.0, 5]), 1.0) is None
    assert bin_bias(column(3), np.array([-1.0, -2, -3]), 1.0) is None
    assert bin_bias(column(3, high=3, kind="integer"), np.array([0.0, 4, 0]), 1.0) is None
