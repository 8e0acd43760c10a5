"""Table 1 of the CIPHER paper, row by row."""

import itertools
import math

import pytest

from dp_core.lab.measures.inference_agreement import MEANING, Outcome, outcome, shares

TABLE_1 = {
    # signs match, significant before, significant after
    (True, True, True): "Best",
    (True, False, False): "Best",
    (False, False, False): "Neutral",
    (True, True, False): "II+",
    (True, False, True): "I+",
    (False, True, False): "II-",
    (False, False, True): "I-",
    (False, True, True): "Worst",
}


def of(before, after, clear_before, clear_after):
    return outcome(before, after, significant_before=clear_before, significant_after=clear_after)


@pytest.mark.parametrize(("combination", "name"), TABLE_1.items())
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_combination_is_named_as_in_table_1(combination, name, sign):
    match, before, after = combination

    assert of(sign * 0.4, sign * (0.9 if match else -0.9), before, after) == name


def test_seven_outcomes_cover_the_eight_combinations():
    found = {
        of(1.0, sign, before, after)
        for sign, before, after in itertools.product((1.0, -1.0), (True, False), (True, False))
    }

    assert found == set(Outcome) == set(MEANING)
    assert [str(kind) for kind in Outcome] == list(dict.fromkeys(TABLE_1.values()))


@pytest.mark.parametrize("other", [-2.0, 0.0, 2.0])
def test_an_estimate_of_zero_contradicts_neither_sign(other):
    assert of(0.0, other, False, False) == Outcome.BEST
    assert of(other, -0.0, True, False) == Outcome.TYPE_2_SAME


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (1.0, math.nan)])
def test_what_is_no_number_has_no_sign(pair):
    with pytest.raises(ValueError, match="no sign"):
        of(*pair, True, True)


def test_shares_name_all_outcomes_and_sum_to_one():
    found = shares([Outcome.BEST, Outcome.WORST, Outcome.BEST, Outcome.TYPE_2_SAME])

    assert list(found) == list(Outcome)
    assert found[Outcome.BEST] == 0.5
    assert found[Outcome.WORST] == found[Outcome.TYPE_2_SAME] == 0.25
    assert sum(found.values()) == 1
    assert set(shares([]).values()) == {0.0}
