"""Which methods and options of a spec do not go with noise-aware sets."""

from __future__ import annotations

import pytest

from dp_core.errors import BadInput
from tests.specs import FIXED, write_spec

AWARE = "synthesize: {sets: %d, mode: %s}\n"


def spec_of(tmp_path, text=FIXED, *, sets=5, mode="noise-aware", **changes):
    return write_spec(tmp_path, text + AWARE % (sets, mode), **changes)


def test_one_noise_aware_set_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"synthesize\.mode: .*sets: 20"):
        spec_of(tmp_path, sets=1)
    assert spec_of(tmp_path, sets=2).sets == 2
    assert spec_of(tmp_path, sets=1, mode="shared").sets == 1


def test_noise_of_what_a_threshold_kept_is_not_drawn_again(tmp_path):
    kept = {"method": "sba", "privacy": "{epsilon: 1, delta: 1e-6}"}
    with pytest.raises(BadInput, match=r"synthesize\.mode: .*sba.*split"):
        spec_of(tmp_path, "", **kept)
    assert spec_of(tmp_path, "", mode="split", **kept).mode == "split"


@pytest.mark.parametrize("method", ["pgm", "gum"])
def test_shrinking_is_refused_where_it_is_asked_for_and_left_out_where_it_is_not(tmp_path, method):
    asked = f"{FIXED}reconstruct: {{method: {method}, shrink: true}}\n"
    with pytest.raises(BadInput, match=r"reconstruct\.shrink: must be false for noise-aware sets"):
        spec_of(tmp_path, asked)

    assert spec_of(tmp_path, asked, mode="split").reconstructor.shrink
    for stated in ("", ", shrink: false"):
        text = f"{FIXED}reconstruct: {{method: {method}{stated}}}\n"
        assert not spec_of(tmp_path, text).reconstructor.shrink
