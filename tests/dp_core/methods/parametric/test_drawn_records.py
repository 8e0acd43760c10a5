"""Methods whose drawn records are the release."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.released import Records
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.kernel import Kernel
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric import drawn_records
from dp_core.methods.parametric.beta_binomial import BetaBinomial
from dp_core.methods.parametric.drawn_records import edges_of, number_of_cells
from dp_core.methods.parametric.multinomial_dirichlet import MultinomialDirichlet
from dp_core.methods.parametric.smoothed_histogram import SmoothedHistogram
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables
from tests.measured import curator_of, method_inputs, noisy_table
from tests.memory_measurement import measure_in_memory
from tests.statistical import FALSE_ALARM

MIXED = Variables(
    (
        Variable(name="sex", size=2),
        Variable(
            name="age", size=101, positions=100, high=100, bins=(0, 20, 65, 100), missing=True
        ),
        Variable(name="hours", size=50, positions=50, high=50),
    )
)
BINARY = Variables(tuple(Variable(name=name, size=2) for name in ("a", "b", "c")))
FROM_TABLE = (SmoothedHistogram, MultinomialDirichlet)
EVENTS = {
    SmoothedHistogram: PerturbedDrawsEvent,
    MultinomialDirichlet: PolyaUrnEvent,
    BetaBinomial: PerturbedDrawsEvent,
}


def people(rows, seed=3):
    rng = np.random.default_rng(seed)
    sex = rng.random(rows) < 0.3
    age = np.where(rng.random(rows) < 0.1, 100, rng.integers(0, 60, rows) + 20 * sex)
    codes = [sex, age, rng.integers(0, 10, rows)]
    return Dataset(MIXED.domain, np.stack(codes).astype(np.uint16))


def survey(rows, seed=3):
    rng = np.random.default_rng(seed)
    codes = rng.random((3, rows)) < np.array([[0.1], [0.5], [0.8]])
    return Dataset(BINARY.domain, codes.astype(np.uint16))


def released(method, variables, data, epsilon, *, replicate=1, neighbours="add-remove", rows=None):
    return measure_in_memory(
        method,
        variables,
        data,
        epsilon,
        neighbours=neighbours,
        seed=1,
        replicate=replicate,
        stated_rows=rows or data.rows,
    )


def model_of(method, variables, data, epsilon, *, zeros=None, **options):
    found, _ = released(method, variables, data, epsilon, **options)
    return method.model_of(
        variables, FitInputs(variables.domain, found, None, zeros or StructuralZeros())
    ), found[0]


def table(data, variables):
    """Return counts by bins, in the order of cells."""
    cells = np.zeros(data.rows, dtype=np.int64)
    for codes, edges, variable in zip(data.codes, edges_of(variables), variables, strict=True):
        binned = codes if edges is None else np.searchsorted(edges, codes, side="right") - 1
        cells = cells * (variable.size if edges is None else len(edges) - 1) + binned
    return np.bincount(cells, minlength=number_of_cells(variables))


def test_bins_are_those_of_the_schema_or_equal_ones_and_missing_is_one_of_its_own():
    ten = tuple(range(0, 51, 5))
    assert edges_of(MIXED) == (None, (0, 20, 65, 100, 101), ten)
    assert edges_of(MIXED, 3) == (None, (0, 33, 66, 100, 101), (0, 16, 33, 50))
    assert edges_of(MIXED, 1000)[2] == tuple(range(51))
    assert number_of_cells(MIXED) == 2 * 4 * 10
    assert edges_of(BINARY, 7) == (None, None, None)


@pytest.mark.parametrize("method", FROM_TABLE)
def test_a_release_with_epsilon_to_spare_is_nearly_a_sample_of_the_file(method):
    data = people(4000)
    model, _ = model_of(method(), MIXED, data, 4000 * 20)
    sets = [model.sample(4000, rng=np.random.default_rng(seed)) for seed in (1, 2)]
    for found in sets:
        # Resampling 4,000 records over at most 16 cells that hold one: about .03.
        assert np.abs(table(found, MIXED) - table(data, MIXED)).sum() / 8000 < 0.1
        # Positions are even within their bins: hours of the file are below 10 of 50. A virtual
        # record is at least 1/1024 of one: in 6 % of the runs one is drawn, and once or twice here.
        assert (found.codes[2] >= 10).sum() < 20
        assert len(np.unique(found.codes[1])) > 90
    assert (sets[0].codes != sets[1].codes).any()


@pytest.mark.parametrize("method", FROM_TABLE)
@pytest.mark.parametrize("replicate", [0, 2])
def test_a_set_is_the_released_records_whether_its_release_is_shared_or_its_own(method, replicate):
    data = people(300)
    own, records = model_of(method(), MIXED, data, 1, replicate=replicate)
    assert records.replicate == replicate
    drawn = table(records.dataset, MIXED)
    for seed in (1, 2):
        found = own.sample(300, rng=np.random.default_rng(seed))
        np.testing.assert_array_equal(table(found, MIXED), drawn)
    np.testing.assert_array_equal(
        table(own.sample(900, rng=np.random.default_rng(1)), MIXED), 3 * drawn
    )
    assert (table(own.sample(100, rng=np.random.default_rng(1)), MIXED) <= drawn).all()
    more = table(own.sample(450, rng=np.random.default_rng(1)), MIXED)
    assert ((more >= drawn) & (more <= 2 * drawn)).all()


def test_missing_stays_missing_and_positions_are_even_within_their_bins():
    rows = 30_000
    codes = np.array([[0] * rows, [100] * 10_000 + [20] * 20_000, [49] * rows], dtype=np.uint16)
    records = Records(Dataset(MIXED.domain, codes), 1)
    model = SmoothedHistogram().model_of(
        MIXED, FitInputs(MIXED.domain, (records,), None, StructuralZeros())
    )
    found = model.sample(rows, rng=np.random.default_rng(5))
    assert (found.codes[1] == 100).sum() == 10_000
    seen = np.bincount(found.codes[1], minlength=101)[20:65]
    assert seen.sum() == 20_000
    # 444 in each of 45 positions, standard deviation 21.
    assert np.abs(seen - 20_000 / 45).max() < 6.5 * 21
    assert set(np.unique(found.codes[2])) == set(range(45, 50))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", [*FROM_TABLE, BetaBinomial])
def test_exactly_the_budget_is_set_aside_and_records_are_given_back(method, neighbours):
    variables, data = (BINARY, survey(200)) if method is BetaBinomial else (MIXED, people(200))
    epsilon = Fraction(1, 3)
    session = MemorySession(Currency("pure", epsilon), neighbours)
    inputs = method_inputs(
        Curator(Kernel(variables.domain, MemoryCounter(data), session)),
        variables.domain,
        measure_cost=epsilon,
        rng=np.random.default_rng(1),
        replicate=1,
        stated_rows=200,
    )
    first, again = (method().measure(inputs, variables) for _ in range(2))
    assert session.spent() == epsilon
    events = [grant.step.event for grant in session.charges]
    assert len(events) == (3 if method is BetaBinomial else 1)
    assert all(isinstance(event, EVENTS[method]) for event in events)
    assert epsilon * Fraction(9999, 10**4) < sum(event.epsilon() for event in events) <= epsilon
    np.testing.assert_array_equal(first[0].dataset.codes, again[0].dataset.codes)


def test_each_binary_column_is_drawn_at_its_own_proportion():
    """McClure & Reiter: (n_1 + a)/(n + 2a), a = 1/(e^(epsilon/(p k)) - 1)."""
    data, epsilon = survey(5000), 600
    _, records = model_of(BetaBinomial(), BINARY, data, epsilon)
    a = 1 / np.expm1(epsilon / 3 / 5000)
    share = (data.codes.sum(axis=1) + a) / (5000 + 2 * a)
    error = np.sqrt(share * (1 - share) / 5000)
    assert (np.abs(records.dataset.codes.mean(axis=1) - share) < 6.5 * error).all()
    # The pull is far more than that: .1 becomes .104 and .8 becomes .797 at least.
    assert np.abs(share - data.codes.mean(axis=1))[0] > 3e-3
    even = BetaBinomial().evenness(
        BINARY, Currency("pure", Fraction(epsilon)), Fraction(epsilon), 5000
    )
    assert even == pytest.approx(2 * a / (5000 + 2 * a), rel=1e-3)


@pytest.mark.parametrize(
    ("method", "bins", "expected"),
    [
        (SmoothedHistogram, 20, 0.9524),
        (MultinomialDirichlet, 20, 0.9209),
        (SmoothedHistogram, 5, 0.8333),
    ],
)
def test_the_part_that_tells_nothing_is_that_of_the_documentation(method, bins, expected):
    """1,000 records, epsilon 1."""
    edges = tuple(range(0, 1001, 1000 // bins))
    one = Variables((Variable(name="x", size=1000, positions=1000, bins=edges),))
    pure = Currency("pure", Fraction(1))
    found = method().evenness(one, pure, Fraction(1), 1000)
    assert found == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("method", FROM_TABLE)
def test_as_many_records_are_drawn_as_the_spec_says(method):
    (records,), session = released(method(), MIXED, people(500), 1, rows=20)
    assert records.dataset.rows == 20
    assert session.charges[0].step.shape == (20, 3)
    total = noisy_table(Domain((), ()), np.array(507), noise="laplace", stage="total", replicate=1)

    def rows_of(told, rows):
        inputs = FitInputs(MIXED.domain, told, rows, StructuralZeros())
        return method().model_of(MIXED, inputs).rows

    assert rows_of((total, records), None) == 507
    assert rows_of((total, records), 500) == 500
    assert rows_of((records,), None) == 20


def test_what_does_not_fit_is_refused_with_what_does(monkeypatch):
    numeric = Variables((Variable(name="x", size=10, positions=10),))
    for variables, why in ((numeric, "is numeric"), (MIXED, "'age' is numeric")):
        with pytest.raises(BadInput, match=f"{why}.*multinomial_dirichlet or smoothed_histogram"):
            BetaBinomial().check(variables, "add-remove")
    with pytest.raises(BadInput, match="'c' has 3 codes"):
        BetaBinomial().check(Variables((Variable(name="c", size=3),)), "add-remove")
    with pytest.raises(BadInput, match="'c' has 1 code;"):
        BetaBinomial().check(Variables((Variable(name="c", size=1),)), "add-remove")
    BetaBinomial().check(BINARY, "replace-one")
    for method in FROM_TABLE:
        monkeypatch.setattr(drawn_records, "MOST_CELLS", 80)
        method().check(MIXED, "add-remove")
        monkeypatch.setattr(drawn_records, "MOST_CELLS", 79)
        with pytest.raises(BadInput, match=r"of 80 cells, more than 79.*privsyn"):
            method().check(MIXED, "add-remove")


def test_a_smoothed_histogram_is_that_of_the_paper():
    """K 10, n = k = 100, epsilon 1: lambda .9086764941."""
    ten = Variables((Variable(name="x", size=10, positions=10, bins=tuple(range(11))),))
    pure = Currency("pure", Fraction(1))
    found = SmoothedHistogram().evenness(ten, pure, Fraction(1), 100)
    assert found == pytest.approx(0.9086764941, abs=1e-6)
    # All 100 records in one bin: it is drawn with probability 1 - lambda + lambda/10 = .182.
    data = Dataset(ten.domain, np.full((1, 100), 7, dtype=np.uint16))
    draws = 60
    seen = sum(
        int((released(SmoothedHistogram(), ten, data, 1)[0][0].dataset.codes == 7).sum())
        for _ in range(draws)
    )
    chance = 1 - 0.9 * found
    assert stats.binomtest(seen, 100 * draws, chance).pvalue > FALSE_ALARM
    assert stats.binomtest(seen, 100 * draws, 1 - found).pvalue < FALSE_ALARM


@pytest.mark.parametrize("method", [SmoothedHistogram, MultinomialDirichlet, BetaBinomial])
def test_a_file_without_records_is_refused_before_anything_is_charged(method):
    """Under replace-one their number is public, and as many are drawn."""
    nobody = Dataset(BINARY.domain, np.zeros((3, 0), dtype=np.uint16))
    curator, session = curator_of(nobody, Fraction(1), "pure", "replace-one")
    inputs = method_inputs(
        curator, BINARY.domain, measure_cost=Fraction(1), rng=np.random.default_rng(1)
    )

    with pytest.raises(BadInput, match="has no rows"):
        method().measure(inputs, BINARY)

    assert not session.charges
