from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.accounts.requested import OCCASIONAL, PAYING_STAGES
from dp_core.errors import BadInput
from dp_core.kernel.privacy import Stage
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.share_reader import resolve_shares
from dp_core.plan.reading.spec_file import load_spec

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
    named = {*PAYING_STAGES} - {*OCCASIONAL} | {*stated, *preset}
    assert tuple(shares) == tuple(stage for stage in PAYING_STAGES if stage in named)
    assert {stage: shares[stage] for stage in stated} == stated
    given_out = [shares.get(stage, 0) for stage in PAYING_STAGES if stage not in stated]
    if rest and sum(rest):
        assert given_out == [(1 - total) * weight / sum(rest) for weight in rest]


def test_stated_shares_of_exactly_one_leave_nothing_to_the_others():
    stated: dict[Stage, Fraction] = {"select": Fraction(1, 10), "measure": Fraction(9, 10)}

    assert resolve_shares(stated, PRESETS["privsyn"].shares)["one_way"] == 0


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("one_way: {share: 0}", "line 7, one_way.share: `select: auto`"),
        # A total alone would not help it.
        ("total: {share: 0}\none_way:\n  share: 0", "line 9, one_way.share: `select: auto`"),
        ("select: {share: 0.1}\nmeasure: {share: 0.9}\ntotal: {share: 0}", "line 7, select: "),
        ("method: mwem\nselect: {share: 0.5}\ntotal: {share: 0}", "line 9, total.share: This"),
        # There is more to mend, and one thing is said at a time.
        ("one_way: {share: 0}\nselect: {method: privbayes, score: mi}", "line 7, one_way.share: T"),
        ("select: {method: privbayes, score: mi}\ntotal: {share: 0}", "line 7, select: Mutual"),
    ],
)
def test_a_selection_that_knows_too_little_is_refused_where_the_share_is_0(tmp_path, lines, place):
    (tmp_path / "s.yaml").write_text(
        "version: 1\ntitle: T\ncolumns: {a: {type: category, levels: [x, y]}}\n"
    )
    (tmp_path / "r.yaml").write_text(
        "version: 1\nrelease: r\ndata: d.csv\nschema: s.yaml\naccount: a\n"
        f"privacy: {{epsilon: 1, delta: 1.0e-9}}\n{lines}\n"
    )
    with pytest.raises(BadInput) as refused:
        load_spec(tmp_path / "r.yaml")
    assert f"r.yaml, {place}" in refused.value.message
