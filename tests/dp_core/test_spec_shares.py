from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.presets import PRESETS
from dp_core.privacy import PAYING_STAGES, Stage
from dp_core.spec_shares import resolve_shares

stage_shares = st.dictionaries(
    st.sampled_from(PAYING_STAGES), st.fractions(0, 1, max_denominator=1000)
)


@given(stated=stage_shares, preset=stage_shares)
def test_resolved_shares_sum_to_exactly_one_and_keep_what_was_stated(stated, preset):
    rest = [preset.get(stage, Fraction(0)) for stage in PAYING_STAGES if stage not in stated]
    total = sum(stated.values())
    if total > 1 or (total < 1 and not any(rest)):
        with pytest.raises(ValueError, match=f"the shares sum to {Fraction(total)}, "):
            resolve_shares(stated, preset)
        return

    shares = resolve_shares(stated, preset)

    assert sum(shares.values()) == 1
    named = {*PAYING_STAGES} - {"domain"} | {*stated, *preset}
    assert tuple(shares) == tuple(stage for stage in PAYING_STAGES if stage in named)
    assert {stage: shares[stage] for stage in stated} == stated
    given_out = [shares.get(stage, 0) for stage in PAYING_STAGES if stage not in stated]
    if rest and sum(rest):
        assert given_out == [(1 - total) * weight / sum(rest) for weight in rest]


def test_stated_shares_of_exactly_one_leave_nothing_to_the_others():
    stated: dict[Stage, Fraction] = {"select": Fraction(1, 10), "measure": Fraction(9, 10)}

    assert resolve_shares(stated, PRESETS["privsyn"].shares)["one_way"] == 0
