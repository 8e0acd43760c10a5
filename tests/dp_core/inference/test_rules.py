"""Which rule goes with which sets, and what is said of it."""

import pytest

from dp_core.inference.combine import RULES
from dp_core.inference.rules import WORDING, inference_statement, rule_of


def test_the_rule_follows_from_how_the_sets_were_made():
    assert [rule_of(mode, 5) for mode in ("shared", "split", "noise-aware")] == [
        "shared",
        "split",
        "noise-aware",
    ]
    assert {rule_of(mode, 1) for mode in ("shared", "split", "noise-aware")} == {"shared"}
    with pytest.raises(ValueError, match="no mode"):
        rule_of("other", 5)


def test_every_rule_has_its_words():
    assert set(WORDING) == set(RULES)


def test_the_statement_says_what_an_interval_misses():
    shared, aware = inference_statement("shared", 5), inference_statement("noise-aware", 5)

    assert (shared["rule"], shared["honest"], shared["sets"]) == ("shared", False, 5)
    assert "too narrow" in str(shared["covers"])
    assert (aware["rule"], aware["honest"]) == ("noise-aware", True)
    assert aware["variance"] == "T = W + (1 + 1/m) B"
    assert "too narrow" in str(inference_statement("split", 1)["covers"])


def test_records_that_are_private_draws_have_no_honest_interval_whatever_the_mode():
    drawn = inference_statement("split", 5, drawn=True)
    assert drawn["rule"] == "split"
    assert drawn["honest"] is False
    assert str(drawn["covers"]).startswith("Nothing")
    assert inference_statement("split", 5)["honest"] is True
