"""Attacks: rates against published numbers, and power against files that leak or do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.attacks.attack_audit import (
    AttackResult,
    Predicate,
    attack_audit,
    inference,
    linkability,
    singling_out,
)
from dp_core.lab.attacks.membership import (
    Attacked,
    Rate,
    RecordDistances,
    advantage,
    distance_attack,
    mean_interval,
    permitted_advantage,
    residual_risk,
    shadow_attack,
    unusual_records,
)
from dp_core.lab.field_scores.code_values import CodeValues
from tests.full import at_full_size

SIZES = (12, 9, 7, 6, 5, 4)
DOMAIN = Domain(tuple("abcdef"), SIZES)
VALUES = CodeValues(DOMAIN, {"a": np.arange(12.0), "b": np.arange(9.0)})


def population(rows, seed):
    rng = np.random.default_rng(seed)
    return Dataset(
        DOMAIN, np.stack([rng.integers(0, size, rows) for size in SIZES]).astype(np.uint16)
    )


def rng(seed=1):
    return np.random.default_rng(seed)


# -- rates


def test_a_rate_is_of_attempts():
    assert Rate(0, 100).value == pytest.approx(0.0185, abs=5e-5)
    with pytest.raises(ValueError, match="no rate"):
        Rate(3, 2)


def test_the_risk_is_the_excess_over_the_control():
    """By hand: 300 of 500 and 100 of 500."""
    found = residual_risk(Rate(300, 500), Rate(100, 500))
    attack, control = Rate(300, 500).value, Rate(100, 500).value
    assert found.value == pytest.approx((attack - control) / (1 - control))
    assert found.low < found.value < found.high
    assert residual_risk(Rate(10, 500), Rate(100, 500)).value == 0


def test_newcombe_s_interval_is_the_published_one():
    """Newcombe (1998), Table II, example (a): 56/70 - 48/80 = .2, method 10: .0524 to .3339."""
    found = advantage(Rate(56, 70), Rate(48, 80))
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == (
        pytest.approx(0.0524, abs=5e-5),
        pytest.approx(0.3339, abs=5e-5),
    )


def test_what_the_guarantee_permits():
    assert permitted_advantage(1.0, 0.0) == pytest.approx(math.tanh(0.5))
    assert permitted_advantage(0.0, 0.01) == pytest.approx(0.01)
    assert permitted_advantage(5_000.0, 0.0) == 1


def test_an_interval_of_a_mean_is_student_s():
    found = mean_interval([1.0, 2.0, 3.0])
    assert (found.value, found.high - 2) == (2, pytest.approx(4.302653 / math.sqrt(3), rel=1e-6))
    with pytest.raises(ValueError, match="two values"):
        mean_interval([1.0])


# -- distances


def test_gower_by_hand():
    domain = Domain(("n", "k"), (5, 3))
    values = CodeValues(domain, {"n": np.array([0.0, 1, 2, 10, math.nan])})
    file = Dataset(domain, np.array([[0, 2, 4], [0, 1, 1]], np.uint16))
    target = Dataset(domain, np.array([[3], [1]], np.uint16))
    ((_, found),) = RecordDistances(file, values).blocks(target)
    assert found[0] == pytest.approx([1 + 1, 0.8, 1])
    assert RecordDistances(file, values, ("k",)).closest(target) == pytest.approx([0])
    assert RecordDistances(file, values).nearest(target, rng=rng()) == [1]


# -- membership


def test_the_area_under_the_curve_counts_ties_as_half():
    domain = Domain(("n",), (3,))
    one, two, three = (Dataset(domain, np.array([x], np.uint16)) for x in ([0], [0, 1], [1, 2]))
    values = CodeValues(domain, {"n": np.arange(3.0)})
    found = distance_attack(Attacked(two, three, one, values), rng=rng())
    assert found.auc == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    with pytest.raises(ValueError, match="two members"):
        distance_attack(Attacked(one, three, one, values), rng=rng())


def test_a_copy_gives_every_member_away_and_another_sample_nobody():
    members, control = population(400, 1), population(400, 2)
    leak = distance_attack(Attacked(members, control, members, VALUES), rng=rng())
    safe = distance_attack(Attacked(members, control, population(400, 3), VALUES), rng=rng())
    assert leak.advantage.value > 0.95
    assert leak.auc > 0.99
    assert safe.advantage.low < 0 < safe.advantage.high
    assert abs(safe.auc - 0.5) < 0.1


def test_rare_records_are_the_unusual_ones():
    codes = np.zeros((6, 50), np.uint16)
    codes[:, 7] = 3
    assert unusual_records(Dataset(DOMAIN, codes), 1, rng=rng()).tolist() == [7]


def test_shadow_files_find_members_in_a_copy_and_not_in_a_constant_file():
    data, fixed = population(400, 1), population(200, 9)
    common = {"files": 24, "targets": 10}

    def copied(part, _):
        return Dataset(DOMAIN, np.ascontiguousarray(data.codes[:, part]))

    leak = shadow_attack(copied, data, VALUES, rng=rng(), **common)
    safe = shadow_attack(lambda *_: fixed, data, VALUES, rng=rng(), **common)
    assert leak.advantage.value > 0.8
    assert leak.advantage.low > 0.5
    assert safe.advantage.low <= 0 <= safe.advantage.high
    assert (leak.files_learnt, leak.files_judged, leak.targets) == (16, 8, 10)
    with pytest.raises(ValueError, match="8 files"):
        shadow_attack(copied, data, VALUES, files=7, targets=10, rng=rng())


# -- the three attacks


def test_attacks_on_a_copy_succeed_on_members_only():
    members, control = population(300, 1), population(300, 2)
    given = Attacked(members, control, members, VALUES)
    singled = singling_out(given, rng=rng())
    assert singled is not None
    assert singled.members.share == 1
    assert singled.risk.value > 0.9
    linked = linkability(given, rng=rng())
    assert linked.members.share > 0.2 > linked.control.share
    assert not linked.weak
    (guessed,) = inference(given, secrets=("a",), rng=rng())
    assert guessed.members.share > 0.9
    assert guessed.control.share < 0.3
    assert guessed.risk.low > 0.8


def test_attacks_on_another_sample_have_no_risk():
    rows = 500 if at_full_size() else 250
    given = Attacked(population(rows, 1), population(rows, 2), population(rows, 3), VALUES)
    results = [singling_out(given, rng=rng()), linkability(given, rng=rng())]
    results += inference(given, secrets=("a", "f"), rng=rng())
    for found in results:
        assert found is not None
        assert found.risk.low == 0


def test_an_attack_no_better_than_guessing_is_called_weak():
    assert AttackResult("x", Rate(5, 100), Rate(5, 100), Rate(5, 100)).weak
    assert AttackResult("x", Rate(6, 100), Rate(5, 100), Rate(5, 100)).to_json()["weak"] is False


def test_no_predicate_singles_out_of_equal_records():
    codes = np.zeros((6, 50), np.uint16)
    same = Dataset(DOMAIN, codes)
    assert singling_out(Attacked(same, same, same, VALUES), rng=rng()) is None


def test_a_predicate_is_counted_once_and_all_that_single_out_are_found(monkeypatch):
    """Of three columns with two codes there are eight records, and every one is there once."""
    domain = Domain(("x", "y", "z"), (2, 2, 2))
    cube = np.array(np.unravel_index(np.arange(8), domain.sizes), dtype=np.uint16)
    data, counted = Dataset(domain, cube), []
    count = Predicate.count

    def noting(one, records):
        counted.append(one.columns + tuple(tuple(codes) for codes in one.codes))
        return count(one, records)

    monkeypatch.setattr(Predicate, "count", noting)
    found = singling_out(Attacked(data, data, data, CodeValues(domain, {})), rng=rng())
    assert found is not None
    assert (found.members.successes, found.members.attempts) == (8, 8)
    assert len(counted) == 4 * 8  # in the sets; then on members and control, and the guesses
    assert len(set(counted[:8])) == 8


def test_the_audit_has_every_attack_and_its_reference(monkeypatch):
    monkeypatch.setattr("dp_core.lab.attacks.attack_audit.SHADOW_FILES", 8)
    members, control = population(150, 1), population(150, 2)
    found = attack_audit(
        members,
        control,
        population(150, 3),
        VALUES,
        permitted=0.4,
        make=lambda part, number: population(int(part.sum()), number),
    )
    values = found.to_json()
    assert all(value is not None for value in values.values())
    assert len(found.inference) == 6
    resampled = found.membership_by_distance_of_a_resample.advantage
    assert resampled.value > found.membership_by_distance.advantage.value
    assert found.headline()["permitted"] == 0.4
    with pytest.raises(ValueError, match="100 members"):
        attack_audit(population(99, 1), control, control, VALUES)
