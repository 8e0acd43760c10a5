from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dp_core.accounts.loss_distribution import (
    MOST_DIFFERENT,
    UNIT,
    _power,
    _transform_error,
    tightest_epsilon,
)
from dp_core.accounts.losses import CONTINUOUS_FROM, HISTOGRAMS, Gaussian, Response, loss_of
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.cost.curves import zcdp_epsilon
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from tests.gaussian_curve import gaussian_delta

BILLIONTH = Fraction(1, 10**9)
MILLIONTH = Fraction(1, 10**6)
ONE = Fraction(1)
Real = np.longdouble
Pair = tuple[NDArray[np.longdouble], NDArray[np.longdouble]]
TABLE = {"name": "table"}
ADDED, REPLACED = Relation("add-remove"), Relation("replace-one")
SCORES = {"name": "table-checks", "tables": [["a"]], "question": ""}


def of_tables(events: list[Event], neighbours: str, delta: Fraction) -> Fraction:
    """Return the epsilon of tables of counts."""
    return tightest_epsilon([(event, TABLE) for event in events], Relation(neighbours), delta)


def gaussian(scale: str | int | Fraction, cells: int = 1) -> GaussianEvent:
    return GaussianEvent(Fraction(scale), cells)


def laplace(scale: str | int | Fraction, cells: int = 1) -> LaplaceEvent:
    return LaplaceEvent(Fraction(scale), cells)


def real(value: Fraction) -> np.longdouble:
    return Real(value.numerator) / Real(value.denominator)


def cell(event: Event, moved: int, least: str = "1e-60") -> Pair:
    """Return probability under P, and log P/Q, of every noise of one cell, by the definition.

    Q's count is larger by `moved`. Noise whose probability is below `least` is left out.
    """
    assert isinstance(event, GaussianEvent | LaplaceEvent)
    scale, reach = real(event.scale), -math.log(float(least)) + 5
    if isinstance(event, GaussianEvent):
        bound = math.ceil(float(event.scale) * math.sqrt(2 * reach)) + 3
        z = np.arange(-bound, bound + 1).astype(Real)
        energy, other = z**2 / (2 * scale**2), (z - moved) ** 2 / (2 * scale**2)
    else:
        bound = math.ceil(float(event.scale) * reach) + 3
        z = np.arange(-bound, bound + 1).astype(Real)
        energy, other = np.abs(z) / scale, np.abs(z - moved) / scale
    masses = np.exp(-energy)
    masses /= masses.sum()
    likely = masses > Real(least)
    return masses[likely], (other - energy)[likely]


def merged(masses: NDArray[np.longdouble], losses: NDArray[np.longdouble]) -> Pair:
    """Return the distribution of a loss with equal losses as one: those of Laplace noise are few.

    Losses that differ by less than 1e-15 are rounding errors of one loss; the largest stays.
    """
    order = np.argsort(losses)
    masses, losses = masses[order], losses[order]
    starts = np.flatnonzero(np.append(True, np.diff(losses) > 1e-15))
    return np.add.reduceat(masses, starts), np.maximum.reduceat(losses, starts)


def exact_delta(cells: list[Pair], epsilon: Fraction) -> Fraction:
    """Return delta by a sum over every joint output; what is left out makes it smaller."""
    masses, losses = merged(*cells[0])
    for more_masses, more_losses in (merged(*each) for each in cells[1:]):
        masses = np.multiply.outer(masses, more_masses).ravel()
        losses = np.add.outer(losses, more_losses).ravel()
    over = np.maximum(losses - real(epsilon), 0)
    return Fraction(float((masses * -np.expm1(-over)).sum()))


def assert_just_above(cells: list[Pair], epsilon: Fraction, delta: Fraction) -> None:
    assert exact_delta(cells, epsilon) <= delta
    if epsilon > MILLIONTH:
        assert exact_delta(cells, epsilon * Fraction(9999, 10000)) > delta


@pytest.mark.parametrize("scale", ["0.5", "0.9", "1", "2.5", "6", "40", "255.9"])
@pytest.mark.parametrize("delta", ["0.01", "1e-3", "1e-9", "1e-30", "1e-40"])
def test_one_gaussian_table_is_stated_just_above_its_exact_loss_in_both_directions(scale, delta):
    epsilon = of_tables([gaussian(scale)], "add-remove", Fraction(delta))
    for moved in (1, -1):
        assert_just_above([cell(gaussian(scale), moved)], epsilon, Fraction(delta))


@pytest.mark.parametrize("scale", ["0.05", "1", "7", "1000"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-6", "0.0001", "0.2"])
def test_one_laplace_table_is_stated_just_above_its_exact_loss_in_both_directions(scale, delta):
    epsilon = of_tables([laplace(scale)], "add-remove", Fraction(delta))
    for moved in (1, -1):
        pair = cell(laplace(scale), moved, least="1e-30")
        assert exact_delta([pair], epsilon) <= Fraction(delta)
        if epsilon > MILLIONTH:
            smaller = epsilon * Fraction(999, 1000)
            assert exact_delta([pair], smaller) > Fraction(delta)


@pytest.mark.parametrize(
    "events",
    [
        [gaussian("2.5"), gaussian("2.5")],
        [gaussian(2), gaussian("3.7")],
        [gaussian("0.6"), gaussian(20)],
        [gaussian("0.6"), laplace("1.3")],
        [gaussian(9), laplace("0.2")],
        [laplace(2), laplace("3.1")],
        [gaussian("1.5"), gaussian("1.5"), gaussian("1.5")],
        [gaussian("1.5"), gaussian("2.2"), laplace("0.8")],
        [gaussian("0.5"), laplace("0.5"), laplace("1.7")],
    ],
    ids=str,
)
@pytest.mark.parametrize("delta", ["1e-2", "1e-9", "1e-15"])
def test_two_and_three_tables_are_stated_just_above_the_exact_sum(events, delta):
    epsilon = of_tables(events, "add-remove", Fraction(delta))
    # Whichever way each count moves.
    for directions in ((1, 1, 1), (1, -1, -1)):
        pairs = zip(events, directions, strict=False)
        cells = [cell(event, moved, least="1e-19") for event, moved in pairs]
        assert_just_above(cells, epsilon, Fraction(delta))


noises = st.fractions(Fraction(1, 2), 6, max_denominator=50)


@given(
    events=st.lists(
        st.builds(gaussian, noises) | st.builds(laplace, noises), min_size=1, max_size=2
    ),
    digits=st.integers(1, 14),
)
@settings(max_examples=25, deadline=None)
def test_small_mixtures_are_never_stated_below_the_exact_sum(events, digits):
    epsilon = of_tables(events, "add-remove", Fraction(1, 10**digits))
    cells = [cell(event, 1, least="1e-18") for event in events]
    assert exact_delta(cells, epsilon) <= Fraction(1, 10**digits)
    if epsilon > Fraction(1, 100):
        assert exact_delta(cells, epsilon * Fraction(999, 1000)) > Fraction(1, 10**digits)


@pytest.mark.parametrize("kind", [gaussian, laplace])
def test_a_replaced_row_moves_two_cells_of_each_table(kind):
    epsilon = of_tables([kind(3, 2)], "replace-one", MILLIONTH)
    assert epsilon == of_tables([kind(3), kind(3)], "add-remove", MILLIONTH)
    least = "1e-15"
    one_up_one_down = [cell(kind(3), 1, least), cell(kind(3), -1, least)]
    assert_just_above(one_up_one_down, epsilon, MILLIONTH)


def test_a_shift_of_two_in_one_entry_is_not_taken_for_two_shifts_of_one():
    """Ten charged checks of one table: at the epsilon of ten tables delta is 1.7e-4, not 1e-6."""
    events = [laplace(20, 2)] * 10
    tables = of_tables(events, "replace-one", MILLIONTH)
    assert float(tables) == pytest.approx(0.872, abs=5e-4)
    found = tightest_epsilon([(event, SCORES) for event in events], REPLACED, MILLIONTH)

    masses, _ = shift_of_two(20)
    mass = masses
    for _ in range(9):
        mass = np.convolve(mass, masses)
    # Losses are multiples of 1/10: the sums of ten are 21 atoms.
    sums = np.arange(10, -11, -1).astype(Real) / 10
    assert float(exact_delta([(mass, sums)], tables)) == pytest.approx(1.66e-4, rel=5e-3)
    assert_just_above([(mass, sums)], found, MILLIONTH)


def shift_of_two(scale: int) -> Pair:
    """Return probability and loss of one entry that moves by 2, added up by loss."""
    masses, losses = cell(laplace(scale), 2, "1e-30")
    whole = np.rint(losses * scale / 2).astype(int)
    assert np.abs(losses * scale / 2 - whole).max() < 1e-12
    return np.array([masses[whole == each].sum() for each in (1, 0, -1)]), np.array(
        [2, 0, -2]
    ) / Real(scale)


@pytest.mark.parametrize("scale", ["0.4", "1", "3", "20"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.01", "0.3"])
def test_an_entry_that_moves_by_two_is_stated_just_above_its_exact_loss(scale, delta):
    delta = Fraction(delta)
    for asks in (SCORES, {"name": "cell-sums"}, {}):
        epsilon = tightest_epsilon([(laplace(scale, 2), asks)], REPLACED, delta)
        assert_just_above([cell(laplace(scale), 2, least="1e-30")], epsilon, delta)
        # It covers two entries that move by 1 as well, whichever way.
        for directions in ((1, 1), (1, -1)):
            pairs = [cell(laplace(scale), moved, least="1e-15") for moved in directions]
            assert exact_delta(pairs, epsilon) <= delta


@pytest.mark.parametrize("spread", [(3,), (2, 1), (1, -1, 1), (2, -1)], ids=str)
@pytest.mark.parametrize("scale", ["1", "5"])
@pytest.mark.parametrize("delta", ["1e-6", "0.05"])
def test_laplace_noise_covers_every_spread_of_a_larger_change(spread, scale, delta):
    epsilon = tightest_epsilon([(laplace(scale, 3), SCORES)], ADDED, Fraction(delta))
    cells = [cell(laplace(scale), moved, least="1e-9") for moved in spread]
    assert exact_delta(cells, epsilon) <= Fraction(delta)
    assert epsilon <= 3 / Fraction(scale) * (1 + MILLIONTH)


@pytest.mark.parametrize("spread", [(2,), (1, 1, 1, 1), (1, -1, 1), (2, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("scale", ["16", "18.5"])
@pytest.mark.parametrize("delta", ["1e-4", "0.01"])
def test_gaussian_noise_covers_every_spread_of_a_larger_change(spread, scale, delta):
    squared = sum(moved**2 for moved in spread)
    charge = gaussian(scale, squared), SCORES
    epsilon = tightest_epsilon([charge], ADDED, Fraction(delta))
    whole = max(range(len(spread)), key=lambda entry: abs(spread[entry]))
    # Entries that move by 1 are one Gaussian of the summed noise, as its loss is linear.
    cells = [cell(gaussian(scale), spread[whole], least="1e-12")]
    others = [moved for entry, moved in enumerate(spread) if entry != whole]
    if others:
        noise = np.ones(1, dtype=Real)
        for _ in others:
            noise = np.convolve(noise, _masses(gaussian(scale)))
        z = np.arange(len(noise)) - len(noise) // 2
        losses = (len(others) - 2 * z.astype(Real)) / (2 * Real(float(Fraction(scale))) ** 2)
        likely = noise > Real("1e-12")
        cells.append((noise[likely], losses[likely]))
    assert exact_delta(cells, epsilon) <= Fraction(delta)
    # The smoothing costs about 3/scale^2 of epsilon squared.
    continuous = math.sqrt(squared) / float(Fraction(scale))
    assert gaussian_delta(continuous, float(epsilon) * 0.985) > float(delta)


def _masses(event: GaussianEvent) -> NDArray[np.longdouble]:
    """Return the probabilities of the noise of one cell, symmetric about the middle."""
    scale = real(event.scale)
    z = np.arange(-math.ceil(8 * float(event.scale)), math.ceil(8 * float(event.scale)) + 1)
    masses = np.exp(-(z.astype(Real) ** 2) / (2 * scale**2))
    return masses / masses.sum()


@pytest.mark.parametrize("kind", [gaussian, laplace])
def test_noise_of_a_histogram_below_its_sensitivity_is_refused(kind):
    for asks in ({"name": name} for name in HISTOGRAMS):
        with pytest.raises(ValueError, match="less than its sensitivity"):
            tightest_epsilon([(kind(20, 1), asks)], REPLACED, BILLIONTH)


def test_the_histograms_are_the_questions_whose_every_record_is_in_one_entry():
    from dp_core.kernel.mechanisms.grant import TABLE as ASKED
    from dp_core.kernel.questions.linear_questions import BinnedCounts, CellCounts

    assert {ASKED["name"], BinnedCounts.NAME, CellCounts.NAME} == HISTOGRAMS


def test_only_noise_has_a_known_loss():
    others: list[Event] = [
        NoisyMaxEvent(Fraction(9), 1, gumbel=True),
        StabilityEvent(Fraction(9), 1, 40),
        PolyaUrnEvent(Fraction(9), 2),
        gaussian(15, 4),
        gaussian(99, 2**31 + 1),
        laplace("0.05", 2),
    ]
    for event in others:
        with pytest.raises(ValueError, match="is known"):
            tightest_epsilon([(gaussian(9), TABLE), (event, SCORES)], ADDED, BILLIONTH)


@pytest.mark.parametrize("k", [2, 5])
def test_a_person_of_several_rows_may_spread_them_over_a_table(k):
    relation = Relation("add-remove", k)
    spreads = [(k,), (1,) * k if k < 3 else (k - 1, 1)]
    for kind, least in ((laplace, "1e-10"), (gaussian, "1e-10")):
        event = kind(20, k if kind is laplace else k**2)
        epsilon = tightest_epsilon([(event, TABLE)], relation, Fraction(1, 1000))
        for spread in spreads:
            cells = [cell(kind(20), moved, least) for moved in spread]
            assert exact_delta(cells, epsilon) <= Fraction(1, 1000)


@pytest.mark.parametrize("event", [gaussian("0.49"), laplace("0.03")])
def test_noise_too_small_to_protect_is_refused(event):
    with pytest.raises(ValueError, match="is known"):
        of_tables([event], "add-remove", BILLIONTH)


def test_too_many_kinds_of_noise_are_refused():
    events = [gaussian(3 + Fraction(index, 1000)) for index in range(MOST_DIFFERENT + 1)]
    with pytest.raises(ValueError, match="too many"):
        of_tables(events, "add-remove", BILLIONTH)


@pytest.mark.parametrize("delta", ["0", "1", "1e-41", "-1"])
def test_a_delta_that_cannot_be_read_is_refused(delta):
    with pytest.raises(ValueError, match="delta from"):
        of_tables([gaussian(3)], "add-remove", Fraction(delta))


@pytest.mark.parametrize("delta", ["0.001", "1e-9", "1e-30"])
@pytest.mark.parametrize("tables", [10, 100, 1000])
def test_many_equal_laplace_tables_are_stated_just_above_the_binomial_sum(tables, delta):
    """Each has loss 1/scale or -1/scale, so their sum counts one of the two."""
    one = 1 / Real(30)
    likely = 1 / (1 + np.exp(-one))
    unlikely = np.arange(tables + 1)
    ways = np.array([Real(math.comb(tables, int(k))) for k in unlikely])
    masses = ways * likely ** (tables - unlikely) * (1 - likely) ** unlikely
    epsilon = of_tables([laplace(30)] * tables, "add-remove", Fraction(delta))
    assert_just_above([(masses, (tables - 2 * unlikely) * one)], epsilon, Fraction(delta))


@pytest.mark.parametrize("delta", ["0.001", "1e-9", "1e-30"])
@pytest.mark.parametrize("tables", [8, 64])
def test_many_equal_gaussian_tables_are_stated_just_above_the_exact_convolution(tables, delta):
    """The loss is linear in the noise, so the sum of all noise decides."""
    scale = 2
    masses, _ = cell(gaussian(scale), 1)
    for _ in range(tables.bit_length() - 1):
        masses = np.convolve(masses, masses)
        masses = masses[masses > Real("1e-50")]  # symmetric; what is left out makes delta smaller
    noise = np.arange(len(masses)) - len(masses) // 2
    losses = (tables - 2 * noise.astype(Real)) / (2 * Real(scale) ** 2)
    epsilon = of_tables([gaussian(scale)] * tables, "add-remove", Fraction(delta))
    assert_just_above([(masses, losses)], epsilon, Fraction(delta))


@pytest.mark.parametrize("tables", [10, 100, 1000])
@pytest.mark.parametrize("kind", [gaussian, laplace])
def test_an_independent_accountant_finds_the_same_epsilon(kind, tables):
    """dp-accounting, also pessimistic, at a fine grid."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    grid = {"value_discretization_interval": 2e-5, "use_connect_dots": True}
    if kind is gaussian:
        scale = Fraction(5.5 * math.sqrt(tables))
        theirs = pld.from_discrete_gaussian_mechanism(float(scale), **grid)
    else:
        scale = Fraction(3 * math.sqrt(tables))
        theirs = pld.from_discrete_laplace_mechanism(1 / float(scale), **grid)
    theirs = theirs.self_compose(tables).get_epsilon_for_delta(1e-7)
    ours = of_tables([kind(scale)] * tables, "add-remove", Fraction("1e-7"))
    assert float(ours) == pytest.approx(theirs, rel=4e-5)


def test_an_independent_accountant_finds_the_same_epsilon_of_a_mixture():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    grid = {"value_discretization_interval": 1e-5, "use_connect_dots": True}
    scales = [3.0, 4.5, 7.1, 9.9]
    theirs = pld.identity(1e-5)
    events: list[Event] = []
    for scale in scales:
        theirs = theirs.compose(pld.from_discrete_gaussian_mechanism(scale, **grid))
        theirs = theirs.compose(pld.from_discrete_laplace_mechanism(1 / scale, **grid))
        events += [gaussian(Fraction(scale)), laplace(Fraction(scale))]
    for delta in (1e-3, 1e-8):
        ours = float(of_tables(events, "add-remove", Fraction(delta)))
        assert ours == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=3e-5)


@pytest.mark.parametrize("scale", [300, 10**4, 10**7])
@pytest.mark.parametrize("tables", [1, 30, 1000])
def test_wide_noise_has_the_exact_curve_of_the_continuous_gaussian(scale, tables):
    found = float(of_tables([gaussian(scale)] * tables, "add-remove", MILLIONTH))
    mu = math.sqrt(tables) / scale
    assert gaussian_delta(mu, found) <= 1e-6 * (1 + 1e-9)
    # `LENT` is 3e-5 of the variance at a scale of 300.
    if found > 1e-12:
        assert gaussian_delta(mu, found * (1 - 2e-4)) > 1e-6


@pytest.mark.parametrize("scale", [256, 700])
@pytest.mark.parametrize("delta", ["1e-3", "1e-9", "1e-30"])
def test_wide_noise_is_stated_just_above_its_exact_loss(scale, delta):
    """The two ways to take a Gaussian apart meet at 256."""
    epsilon = of_tables([gaussian(scale)], "add-remove", Fraction(delta))
    assert_just_above([cell(gaussian(scale), 1)], epsilon, Fraction(delta))


def test_every_distribution_sums_to_one_and_has_the_likelihood_ratio_of_a_pair():
    """Under Q the same atoms have mass exp(-loss), which sums to 1 as well: nothing is lost."""
    single = [Gaussian(scale) for scale in (3.0, 255.0, 256.0, 1e6)]
    for loss in (Response(0.3), Response(0.3, 2), *single, Gaussian(199.0, 40)):
        atoms = loss.atoms(200.0)
        values = atoms.offset + atoms.relative
        masses = np.exp(atoms.log_mass)
        assert float(masses.sum()) == pytest.approx(1, abs=1e-11)
        assert float((masses * np.exp(-values)).sum()) == pytest.approx(1, abs=1e-11)
        mean = float(masses @ values)
        variance = float(masses @ (values - mean) ** 2)
        assert loss.cumulants(0.0) == pytest.approx((0, mean, variance), rel=1e-4, abs=1e-11)
        assert np.abs(atoms.relative).max() <= loss.span(200.0) * (1 + 1e-2)


def test_wide_noise_is_continuous_and_one_loss_serves_all_cells_of_an_event():
    assert len(Gaussian(CONTINUOUS_FROM).atoms(100.0).relative) == len(
        Gaussian(100 * CONTINUOUS_FROM).atoms(100.0).relative
    )
    assert loss_of(gaussian(9, 2), TABLE, REPLACED) == (Gaussian(9.0), 2)
    assert loss_of(laplace(4), TABLE, ADDED) == (Response(math.nextafter(0.25, 1)), 1)


@given(
    events=st.lists(
        st.builds(gaussian, st.fractions(1, 400, max_denominator=9))
        | st.builds(laplace, st.fractions(1, 90, max_denominator=9)),
        min_size=1,
        max_size=6,
    ),
    digits=st.integers(1, 39),
)
@settings(max_examples=8, deadline=None)
def test_the_statement_is_monotone_in_delta_and_blind_to_the_order(events, digits):
    small, large = Fraction(1, 10 ** (digits + 1)), Fraction(1, 10**digits)
    epsilon = of_tables(events, "add-remove", small)
    assert epsilon >= of_tables(events, "add-remove", large) * (1 - MILLIONTH)
    assert epsilon == of_tables(events[::-1], "add-remove", small)
    more = of_tables([*events, events[0]], "add-remove", small)
    assert epsilon <= more * (1 + Fraction(1, 10**4))
    pure = [event.epsilon() for event in events]
    if None not in pure:
        assert epsilon <= sum(pure) * (1 + BILLIONTH)
    # Concentrated privacy knows less.
    assert epsilon <= zcdp_epsilon(sum(event.rho() for event in events), small)


@pytest.mark.parametrize(
    ("kind", "delta"), [("gaussian", "1e-9"), ("zcdp", "1e-9"), ("zcdp", "1e-30")]
)
@pytest.mark.parametrize("tables", [1, 30])
def test_the_statement_is_below_what_was_enforced(kind, delta, tables):
    limit = largest_limit(kind, ONE, Fraction(delta))
    event = Currency(kind, limit).noise_event(limit / tables, l1=2, l2_squared=2)
    found = of_tables([event] * tables, "replace-one", Fraction(delta))
    assert Fraction(8, 10) < found < 1


def test_nothing_released_is_nothing_lost():
    assert of_tables([], "add-remove", BILLIONTH) == 0
    for event in (gaussian(10**12), gaussian(10**400), laplace(10**400)):
        assert of_tables([event], "add-remove", BILLIONTH) < BILLIONTH
    # What is next to nothing adds next to nothing.
    alone = of_tables([gaussian(2)], "add-remove", BILLIONTH)
    both = of_tables([gaussian(2), laplace(10**400)], "add-remove", BILLIONTH)
    assert both == pytest.approx(alone, rel=1e-4)


def test_purely_private_tables_never_cost_more_than_the_sum_of_their_epsilons():
    events = [laplace(Fraction(7, 3))] * 5
    for delta in ("1e-40", "1e-9", "1e-3"):
        found = of_tables(events, "add-remove", Fraction(delta))
        assert found <= Fraction(15, 7) * (1 + BILLIONTH)
    assert found < Fraction(15, 7)


@pytest.mark.parametrize("copies", [1, 2, 37, 300])
def test_the_error_of_the_transform_is_within_its_bound(copies):
    """Against whole-number arithmetic: the power of a polynomial, exact."""
    size, small = 2**10, np.array([3, 1, 0, 7, 2], dtype=np.int64)
    masses = np.zeros(size)
    masses[: len(small)] = small / small.sum()
    spectrum = np.fft.rfft(masses)
    tolerance = 8 * math.log2(size) * UNIT
    bound = np.abs(spectrum) + tolerance
    relative = copies * (tolerance / bound + 4 * UNIT)
    error = _transform_error(copies * np.log(bound), relative, tolerance, size)
    computed = np.fft.irfft(_power(spectrum, copies), size)

    exact = [0] * size
    exact[0] = 1
    for _ in range(copies):
        nonzero = [(index, int(value)) for index, value in enumerate(small) if value]
        exact = [sum(v * exact[(j - i) % size] for i, v in nonzero) for j in range(size)]
    whole = int(small.sum()) ** copies
    worst = max(
        abs(float(Fraction(value, whole) - Fraction(float(got))))
        for value, got in zip(exact, computed, strict=True)
    )
    assert worst <= error
    assert error < 1e-12 * copies


@pytest.mark.slow
def test_ten_thousand_tables_are_stated():
    """Also of many different kinds of noise."""
    for kinds in (1, 100):
        scales = [550 + Fraction(index % kinds, 10) for index in range(10_000)]
        events = [gaussian(scale) for scale in scales]
        found = float(of_tables(events, "add-remove", BILLIONTH))
        mu = math.sqrt(sum(1 / float(scale) ** 2 for scale in scales))
        assert gaussian_delta(mu, found) <= 1e-9 * (1 + 1e-6)
        assert gaussian_delta(mu, found * 0.9997) > 1e-9
