"""Which rule goes with which sets, and what is said of it."""

from typing import get_args

import pytest

from dp_core.inference.combine import RULES
from dp_core.inference.combining_rules import OFF, WORDING, Origin, inference_statement, rule_of


def test_the_rule_follows_from_how_the_sets_were_made():
    assert [rule_of(mode, 5) for mode in ("shared", "split", "posterior")] == [
        "shared",
        "split",
        "posterior",
    ]
    assert {rule_of(mode, 1) for mode in ("shared", "split", "posterior")} == {"shared"}
    with pytest.raises(ValueError, match="no mode"):
        rule_of("other", 5)


def test_every_rule_has_its_words():
    assert set(WORDING) == set(RULES)


def test_the_statement_says_what_an_interval_misses():
    shared, drawn = inference_statement("shared", 5), inference_statement("posterior", 5)

    assert (shared["rule"], shared["includes_noise"], shared["sets"]) == ("shared", False, 5)
    assert "too narrow" in str(shared["covers"])
    assert (drawn["rule"], drawn["includes_noise"]) == ("posterior", True)
    assert drawn["variance"] == "T = W + (1 + 1/m) B"
    assert "too narrow" in str(inference_statement("split", 1)["covers"])


@pytest.mark.parametrize("origin", get_args(Origin))
@pytest.mark.parametrize("mode", ["split", "posterior"])
def test_records_that_no_model_gave_have_no_honest_interval_whatever_the_mode(mode, origin):
    made = inference_statement(mode, 5, origin=origin)
    assert made["rule"] == mode
    assert made["includes_noise"] == (origin == "modelled")
    assert str(made["covers"]).startswith("Nothing: ") == (origin != "modelled")
    assert str(made["covers"]).endswith(OFF.get(origin, WORDING[mode].covers))
