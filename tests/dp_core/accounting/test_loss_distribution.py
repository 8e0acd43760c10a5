from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.accounting import losses
from dp_core.accounting.currency import Currency, largest_limit
from dp_core.accounting.curves import gaussian_delta, zcdp_epsilon
from dp_core.accounting.events import Event, GaussianEvent, LaplaceEvent, NoisyMaxEvent
from dp_core.accounting.loss_distribution import (
    UNIT,
    _power,
    _transform_error,
    tightest_delta,
    tightest_epsilon,
)
from dp_core.accounting.losses import Gaussian, Response, loss_of
from dp_core.scores import InDif

BILLIONTH = Fraction(1, 10**9)
MILLIONTH = Fraction(1, 10**6)


def gaussian_atoms(scale: Fraction, up: bool) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """Return probabilities under P and Q of every output near one count, from the definition."""
    variance = mpmath.mpf(scale.numerator) ** 2 / mpmath.mpf(scale.denominator) ** 2
    bound = int(40 * scale) + 40
    norm = mpmath.fsum(mpmath.exp(-(z**2) / (2 * variance)) for z in range(-bound, bound + 1))

    def mass(z: int) -> mpmath.mpf:
        return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * variance)) / norm

    shift = 1 if up else -1
    return [(mass(z), mass(z - shift)) for z in range(-bound, bound + 1)]


def laplace_atoms(scale: Fraction, change: int) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    a = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    bound = int(80 * scale) + 80
    norm = (1 - a) / (1 + a)
    zs = range(-bound, bound + 1)
    return [(norm * a ** abs(z), norm * a ** abs(z - change)) for z in zs]


def hockey_stick(pairs: list[list[tuple[mpmath.mpf, mpmath.mpf]]], epsilon: Fraction) -> mpmath.mpf:
    """Return delta at an epsilon by the sum over every joint output."""
    factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    total = mpmath.mpf(0)
    for joint in itertools.product(*pairs):
        p, q = mpmath.mpf(1), mpmath.mpf(1)
        for one, other in joint:
            p, q = p * one, q * other
        total += max(p - factor * q, mpmath.mpf(0))
    return total


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize("scale", ["0.1", "0.3", "0.9", "1", "2.5", "6", "40"])
@pytest.mark.parametrize("delta", ["0.1", "1e-3", "1e-9", "1e-30", "1e-150"])
@pytest.mark.parametrize("up", [True, False])
def test_one_gaussian_table_is_stated_just_above_its_exact_loss_in_both_directions(
    scale, delta, up
):
    event = GaussianEvent(Fraction(scale), 1)
    epsilon = tightest_epsilon([event], "add-remove", Fraction(delta))
    with mpmath.workdps(200):
        atoms = [gaussian_atoms(Fraction(scale), up)]
        exact = hockey_stick(atoms, epsilon)
        assert exact <= real(Fraction(delta))
        # Not below, and close above; less close where noise and delta are both extremely small.
        if epsilon > 0 and Fraction(delta) > Fraction("1e-100"):
            assert hockey_stick(atoms, epsilon * Fraction(9999, 10000)) > real(Fraction(delta))


@pytest.mark.parametrize("scale", ["0.2", "1", "7", "1000"])
@pytest.mark.parametrize("delta", ["0.2", "0.01", "1e-6", "1e-30"])
def test_one_laplace_table_is_stated_by_its_closed_form(scale, delta):
    """The loss is 1/scale with probability p: delta(e) = p (1 - exp(e - 1/scale)), if e >= 0."""
    event = LaplaceEvent(Fraction(scale), 1)
    found = tightest_epsilon([event], "add-remove", Fraction(delta))
    with mpmath.workdps(60):
        most = 1 / real(Fraction(scale))
        p = 1 / (1 + mpmath.exp(-most))
        exact = max(most + mpmath.log(1 - real(Fraction(delta)) / p), mpmath.mpf(0))
        assert real(found) >= exact
        assert real(found) <= exact + most * mpmath.mpf("1e-6")


@pytest.mark.parametrize(
    ("events", "change"),
    [
        ([GaussianEvent(Fraction("2.5"), 1), GaussianEvent(Fraction("2.5"), 1)], 1),
        ([GaussianEvent(Fraction(2), 1), GaussianEvent(Fraction("3.7"), 1)], 1),
        ([GaussianEvent(Fraction("0.4"), 1), LaplaceEvent(Fraction("1.3"), 1)], 1),
        ([LaplaceEvent(Fraction(2), 1), LaplaceEvent(Fraction("3.1"), 1)], 1),
    ],
)
@pytest.mark.parametrize("delta", ["1e-2", "1e-20"])
def test_two_tables_are_stated_just_above_the_exact_convolution(events, change, delta):
    with mpmath.workdps(80):
        pairs = [
            gaussian_atoms(event.scale, True)
            if isinstance(event, GaussianEvent)
            else laplace_atoms(event.scale, change)
            for event in events
        ]
        epsilon = tightest_epsilon(events, "add-remove", Fraction(delta))
        target = real(Fraction(delta))
        # Outputs below 1e-38 change nothing that is looked at.
        pairs = [[pair for pair in atoms if max(pair) > mpmath.mpf("1e-38")] for atoms in pairs]
        assert hockey_stick(pairs, epsilon) <= target
        assert hockey_stick(pairs, epsilon * Fraction(999, 1000)) > target


def test_a_replaced_row_moves_two_cells_of_each_table():
    two_cells = GaussianEvent(Fraction(3), 2), LaplaceEvent(Fraction(3), 2)
    one_cell = GaussianEvent(Fraction(3), 1), LaplaceEvent(Fraction(3), 1)
    for double, single in zip(two_cells, one_cell, strict=True):
        assert tightest_epsilon([double], "replace-one", MILLIONTH) == tightest_epsilon(
            [single, single], "add-remove", MILLIONTH
        )
    with mpmath.workdps(50):
        # One count up, one down, by the definition.
        pairs = [gaussian_atoms(Fraction(3), True), gaussian_atoms(Fraction(3), False)]
        pairs = [[pair for pair in atoms if max(pair) > mpmath.mpf("1e-30")] for atoms in pairs]
        epsilon = tightest_epsilon([two_cells[0]], "replace-one", MILLIONTH)
        assert hockey_stick(pairs, epsilon) <= mpmath.mpf("1e-6")
        assert hockey_stick(pairs, epsilon * Fraction(999, 1000)) > mpmath.mpf("1e-6")


@pytest.mark.parametrize("change", [1, 2, 4])
def test_a_vector_of_any_sensitivity_under_laplace_noise_is_dominated(change):
    """However a change is spread over cells, its delta is at most what is stated."""
    scale = Fraction(4)
    spreads = [s for s in ([change], [1, change - 1], [1] * min(change, 2)) if all(s)]
    for epsilon in (Fraction(0), Fraction(1, 5), Fraction(change, 5)):
        # Add-remove: only a sensitivity of 1 is a table's.
        stated = tightest_delta([LaplaceEvent(scale, change)], "add-remove", epsilon)
        for spread in spreads:
            with mpmath.workdps(30):
                pairs = [laplace_atoms(scale, moved) for moved in spread]
                pairs = [[p for p in a if max(p) > mpmath.mpf("1e-13")] for a in pairs]
                assert hockey_stick(pairs, epsilon) <= real(stated)


def test_no_statistic_but_a_table_has_the_sensitivity_of_a_table():
    """`loss_of` tells tables by it: under replace-one a table's two counts move by 1 each."""
    for neighbours, table in (("add-remove", 1), ("replace-one", 2)):
        assert InDif(()).largest_change(neighbours) > table


def test_a_choice_costs_no_more_than_randomised_response_at_its_epsilon():
    choice = NoisyMaxEvent(Fraction(20), 1, gumbel=True)
    assert loss_of(choice, "add-remove") == (Response(math.nextafter(0.1, 1)), 1)
    response = LaplaceEvent(Fraction(10), 1)
    found = tightest_epsilon([choice] * 30, "add-remove", MILLIONTH)
    assert found == tightest_epsilon([response] * 30, "add-remove", MILLIONTH)


@pytest.mark.parametrize("change", [4, 16, 49])
def test_gaussian_noise_on_scores_has_no_proved_distribution(change):
    with pytest.raises(ValueError, match="proved"):
        tightest_epsilon([GaussianEvent(Fraction(30), change)], "add-remove", BILLIONTH)


@pytest.mark.parametrize(
    "event", [GaussianEvent(Fraction(1, 100), 1), LaplaceEvent(Fraction(1, 1000), 1)]
)
def test_noise_too_small_to_matter_is_refused(event):
    with pytest.raises(ValueError, match="this small"):
        tightest_epsilon([event], "add-remove", BILLIONTH)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(1, 10**301), Fraction(-1)])
def test_a_delta_that_cannot_be_read_is_refused(delta):
    with pytest.raises(ValueError, match="delta from"):
        tightest_epsilon([GaussianEvent(Fraction(3), 1)], "add-remove", delta)
    with pytest.raises(ValueError, match="not negative"):
        tightest_delta([GaussianEvent(Fraction(3), 1)], "add-remove", Fraction(-1))


@pytest.mark.parametrize(("tables", "grid"), [(1, 1e-5), (14, 1e-5), (300, 1e-5)])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_an_independent_accountant_finds_the_same_epsilon(kind, tables, grid):
    """dp-accounting, also pessimistic, at a fine grid."""
    if kind == "gaussian":
        scale = 5.5 * math.sqrt(tables)
        event: Event = GaussianEvent(Fraction(scale), 1)
        one = pld.from_discrete_gaussian_mechanism(
            scale, value_discretization_interval=grid, use_connect_dots=True
        )
    else:
        scale = math.sqrt(tables) * 3
        event = LaplaceEvent(Fraction(scale), 1)
        one = pld.from_discrete_laplace_mechanism(
            1 / scale, value_discretization_interval=grid, use_connect_dots=True
        )
    theirs = one.self_compose(tables).get_epsilon_for_delta(1e-7)
    ours = float(tightest_epsilon([event] * tables, "add-remove", Fraction(1, 10**7)))
    assert ours == pytest.approx(theirs, rel=3e-5)
    assert float(tightest_delta([event] * tables, "add-remove", Fraction(ours))) == pytest.approx(
        1e-7, rel=2e-3
    )


def test_an_independent_accountant_finds_the_same_epsilon_of_a_mixture():
    scales = [3.0, 4.5, 7.1, 9.9]
    events: list[Event] = [GaussianEvent(Fraction(scale), 1) for scale in scales]
    events += [LaplaceEvent(Fraction(scale), 1) for scale in scales]
    events += [NoisyMaxEvent(Fraction(24), 1, gumbel=False)] * 3
    composed = None
    interval = {"value_discretization_interval": 1e-5, "use_connect_dots": True}
    for scale in scales:
        gaussian = pld.from_discrete_gaussian_mechanism(scale, **interval)
        laplace = pld.from_discrete_laplace_mechanism(1 / scale, **interval)
        both = gaussian.compose(laplace)
        composed = both if composed is None else composed.compose(both)
    response = pld.from_discrete_laplace_mechanism(1 / 12, **interval)
    composed = composed.compose(response.self_compose(3))
    for delta in (1e-3, 1e-8):
        theirs = composed.get_epsilon_for_delta(delta)
        ours = float(tightest_epsilon(events, "add-remove", Fraction(delta)))
        assert ours == pytest.approx(theirs, rel=2e-5)


@given(
    scales=st.lists(
        st.tuples(st.booleans(), st.fractions(Fraction(1, 4), 3, max_denominator=50)),
        min_size=1,
        max_size=2,
    ),
    digits=st.integers(1, 12),
)
@settings(max_examples=5, deadline=None)
def test_small_mixtures_are_never_stated_below_brute_force(scales, digits):
    events: list[Event] = [
        GaussianEvent(scale, 1) if gaussian else LaplaceEvent(scale, 1)
        for gaussian, scale in scales
    ]
    epsilon = tightest_epsilon(events, "add-remove", Fraction(1, 10**digits))
    pairs = []
    with mpmath.workdps(40):
        for gaussian, scale in scales:
            atoms = gaussian_atoms(scale, True) if gaussian else laplace_atoms(scale, 1)
            pairs.append([pair for pair in atoms if max(pair) > mpmath.mpf("1e-18")])
        # What was left out is below 1e-15 of delta.
        allowed = mpmath.mpf(10) ** -digits
        assert hockey_stick(pairs, epsilon) <= allowed
        if epsilon > 0:
            tighter = epsilon * Fraction(995, 1000) - Fraction(1, 10**9)
            assert hockey_stick(pairs, tighter) > allowed * (1 - mpmath.mpf("1e-4"))


@given(
    events=st.lists(
        st.one_of(
            st.builds(GaussianEvent, st.fractions(1, 400, max_denominator=9), st.integers(1, 3)),
            st.builds(LaplaceEvent, st.fractions(1, 90, max_denominator=9), st.integers(1, 9)),
        ),
        min_size=1,
        max_size=6,
    ),
    digits=st.integers(1, 40),
    neighbours=st.sampled_from(["add-remove", "replace-one"]),
)
@settings(max_examples=6, deadline=None)
def test_the_statement_is_monotone_in_delta_and_blind_to_the_order(events, digits, neighbours):
    small, large = Fraction(1, 10 ** (digits + 1)), Fraction(1, 10**digits)
    epsilon = tightest_epsilon(events, neighbours, small)
    assert epsilon >= tightest_epsilon(events, neighbours, large)
    assert epsilon == tightest_epsilon(events[::-1], neighbours, small)
    assert epsilon <= tightest_epsilon([*events, events[0]], neighbours, small)
    # Just as tight the other way round, up to both roundings.
    assert tightest_delta(events, neighbours, epsilon * (1 + MILLIONTH)) <= small
    pure = [event.epsilon() for event in events]
    if None not in pure:
        assert epsilon <= sum(pure)
    # Concentrated privacy knows less. A count that Laplace noise covers is no exception.
    assert epsilon <= zcdp_epsilon(sum(event.rho() for event in events), small)


@pytest.mark.parametrize(
    ("kind", "delta"), [("gaussian", "1e-9"), ("zcdp", "1e-9"), ("zcdp", "1e-30")]
)
@pytest.mark.parametrize("tables", [1, 30])
def test_the_statement_is_below_what_was_enforced(kind, delta, tables):
    limit = largest_limit(kind, Fraction(1), Fraction(delta))
    event = Currency(kind, limit).noise_event(limit / tables, l1=2, l2_squared=2)
    found = tightest_epsilon([event] * tables, "replace-one", Fraction(delta))
    assert Fraction(8, 10) < found < 1


def test_nothing_released_is_nothing_lost():
    assert tightest_epsilon([], "add-remove", BILLIONTH) == 0
    assert tightest_delta([], "add-remove", Fraction(0)) == 0
    assert tightest_epsilon([GaussianEvent(Fraction(10**12), 1)], "add-remove", BILLIONTH) == 0
    assert tightest_epsilon([LaplaceEvent(Fraction(10**400), 1)], "add-remove", BILLIONTH) < 1e-90
    assert tightest_epsilon([GaussianEvent(Fraction(10**400), 1)], "add-remove", BILLIONTH) == 0


def test_purely_private_events_are_certain_at_the_sum_of_their_epsilons():
    events = [LaplaceEvent(Fraction(7, 3), 1)] * 5
    assert tightest_delta(events, "add-remove", Fraction(15, 7)) == 0
    assert 0 < tightest_delta(events, "add-remove", Fraction(14, 7)) < 1
    assert tightest_epsilon(events, "add-remove", Fraction(1, 10**30)) <= Fraction(15, 7)


@pytest.mark.parametrize("scale", [300.0, 1e4, 1e7])
def test_wide_noise_has_the_curve_of_the_continuous_gaussian(scale):
    for epsilon in (Fraction(1, 10) / Fraction(scale), 5 / Fraction(scale)):
        found = float(tightest_delta([GaussianEvent(Fraction(scale), 1)], "add-remove", epsilon))
        exact = gaussian_delta(1 / scale, float(epsilon))
        assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-3)


@pytest.mark.parametrize("scale", [256.0, 700.0])
def test_wide_noise_is_stated_above_its_exact_distribution(scale):
    """The two ways to take a Gaussian apart meet: the discrete sum is below, by a hair."""
    z = np.arange(-12 * int(scale), 12 * int(scale) + 1, dtype=np.longdouble)
    halves = 2 * np.longdouble(scale) ** 2
    masses = np.exp(-(z**2) / halves)
    masses /= masses.sum()
    loss = (1 - 2 * z) / halves
    for epsilon in (0.5 / scale, 3 / scale, 6 / scale):
        over = np.maximum(loss - np.longdouble(epsilon), 0)
        exact = float((masses * -np.expm1(-over)).sum())
        found = float(
            tightest_delta([GaussianEvent(Fraction(scale), 1)], "add-remove", Fraction(epsilon))
        )
        assert exact <= found <= exact * 1.002


def test_every_distribution_sums_to_one_and_has_the_likelihood_ratio_of_a_pair():
    """Under Q the same atoms have mass exp(-loss), which sums to 1 as well: nothing is lost."""
    for loss in (Response(0.3), Gaussian(0.5), Gaussian(20.0), Gaussian(256.0), Gaussian(1e6)):
        atoms = loss.atoms(200.0)
        values = atoms.offset + atoms.relative
        assert float(np.exp(atoms.log_mass).sum()) == pytest.approx(1, abs=1e-11)
        assert float(np.exp(atoms.log_mass - values).sum()) == pytest.approx(1, abs=1e-11)
        mean = float(np.exp(atoms.log_mass) @ values)
        variance = float(np.exp(atoms.log_mass) @ (values - mean) ** 2)
        assert loss.cumulants(0.0) == pytest.approx((0, mean, variance), rel=1e-4, abs=1e-11)


def test_events_that_are_nearly_alike_count_as_the_worse():
    for scale in (256.0, 300.3, 511.9, 1e9):
        coarser = Gaussian(scale).coarser()
        assert losses.CONTINUOUS_FROM <= coarser.scale <= scale
        assert coarser.scale > scale * 0.998
    assert Gaussian(255.9).coarser() == Gaussian(255.9)
    for epsilon in (1e-9, 0.3, 0.5, 7.1):
        assert epsilon <= Response(epsilon).coarser().epsilon < epsilon * 1.002


@pytest.mark.parametrize("copies", [1, 2, 37, 300])
def test_the_error_of_the_transform_is_within_its_bound(copies):
    """Against whole-number arithmetic: the power of a polynomial, exact."""
    size, small = 2**10, np.array([3, 1, 0, 7, 2], dtype=np.int64)
    masses = np.zeros(size)
    masses[: len(small)] = small / small.sum()
    spectrum = np.fft.rfft(masses)
    tolerance = 8 * math.log2(size) * UNIT
    bound = np.abs(spectrum) + tolerance
    error = _transform_error(
        bound**copies, copies * (tolerance / bound + 4 * UNIT), tolerance, size
    )
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
    """Also of different noise each: those nearly alike are treated as the worse."""
    scales = [550 + index % 2500 / 50 for index in range(10_000)]
    events = [GaussianEvent(Fraction(scale), 1) for scale in scales]
    found = float(tightest_epsilon(events, "add-remove", BILLIONTH))
    mu = math.sqrt(sum(1 / scale**2 for scale in scales))
    assert gaussian_delta(mu, found) <= 1e-9 * (1 + 1e-6)
    assert gaussian_delta(mu, found * 0.995) > 1e-9

    equal = float(
        tightest_epsilon([GaussianEvent(Fraction(550), 1)] * 10_000, "add-remove", BILLIONTH)
    )
    mu = 100 / 550
    assert gaussian_delta(mu, equal) <= 1e-9 * (1 + 1e-6)
    assert gaussian_delta(mu, equal * 0.9995) > 1e-9
