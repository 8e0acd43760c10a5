"""Three tiers of figures, the tables that are checked by rule, and what thresholds decide."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.client.released import Charged
from dp_core.confidential.utility import Utility
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.mechanisms.additive_noise import LaplaceEvent
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.metrics.marginal_error import MarginalError, Tally
from dp_core.metrics.quality_figures import Public, charged_figure, charged_json
from dp_core.plan.quality_checks import (
    Threshold,
    chosen_tables,
    countable,
    public_figures,
    read_tables,
    reference_counts,
    verdicts,
)
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import parse

ASKS = {"name": "table-checks", "tables": [["a", "b"]], "question": "0" * 64}
STEP = Step("checks", "distances", Fraction(1), LaplaceEvent(Fraction(5), 1), (1,), ASKS)


# -- the tiers


@pytest.mark.parametrize(
    "grant",
    [None, 3, "receipt 3", Grant(3, Step("measure", "a", Fraction(1), STEP.event, (1,), ASKS))],
)
def test_a_charged_figure_cannot_be_made_without_its_receipt(grant):
    with pytest.raises(TypeError, match="grant of a check"):
        Charged(grant, ("a", "b"), 12)


def test_a_charged_figure_is_of_what_was_paid_for():
    with pytest.raises(ValueError, match="charged figure"):
        Charged(Grant(3, STEP), ("a",), 12)


def test_what_is_internal_cannot_be_printed_pickled_or_published():
    secret = Utility(((MarginalError(1, 0.1234, 0.5678, ("a",), 1, 0),),), {("a",): (0.1234,)})
    assert "1234" not in f"{secret!r} {secret} {[secret]}"
    with pytest.raises(TypeError, match="confidential"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert not isinstance(secret, Public | Charged)


def test_a_charged_figure_has_the_interval_of_its_noise():
    figure = charged_figure(Charged(Grant(3, STEP), ("a", "b"), 40), 1000)
    # P(|Z| > t) = 2 q^(t + 1) / (1 + q), q = e^(-1/5): 95 in 100 are within 15 records.
    assert figure["interval"] == [0.0125, 0.0275]
    assert (figure["tvd"], figure["receipt"], figure["confidence"]) == (0.02, 3, 0.95)
    assert charged_json(("a",), -90, "laplace", 5.0, 1000, 3)["interval"] == [0.0, 0.0]
    assert charged_json(("a",), 9000, "laplace", 5.0, 1000, 3)["tvd"] == 1.0


# -- which tables, against what


@given(st.integers(1, 30), st.integers(0, 9), st.integers(2, 200))
def test_chosen_tables_spread_over_the_columns(columns, seed, size):
    domain = Domain(tuple(f"c{i}" for i in range(columns)), (size,) * columns)
    tables = chosen_tables(domain, seed)
    assert 1 <= len(tables) <= 20
    assert len(set(tables)) == len(tables)
    assert tables == chosen_tables(domain, seed)
    if 3 <= columns <= 20 and size <= 100:
        named = [name for table in tables for name in table]
        assert {named.count(name) for name in domain.columns} == {2}


def test_the_seed_decides_which_tables():
    domain = Domain(tuple("abcdefgh"), (2,) * 8)
    assert len({frozenset(chosen_tables(domain, seed)) for seed in range(5)}) > 1


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=3),
    st.integers(0, 10**12),
)
def test_reference_counts_are_the_pooled_sets_for_as_many_records(sets, records):
    domain = Domain(("a",), (3,))
    tallies = [
        Tally(domain, [("a",)]).add(Dataset(domain, np.array([codes], dtype=np.uint16)))
        for codes in sets
    ]
    (found,) = reference_counts(tallies, [("a",)], records)
    rows = sum(map(len, sets))
    for code, count in enumerate(found.tolist()):
        exact = Fraction(records * sum(codes.count(code) for codes in sets), rows)
        assert abs(count - exact) <= Fraction(1, 2)


@pytest.mark.parametrize("raked", [False, True])
def test_weights_that_are_raked_are_in_no_table_that_is_checked(raked):
    columns = {
        "sex": {"type": "category", "levels": ["f", "m"]},
        "weight": {"type": "number", "min": "0", "max": "9", "bins": "3", "role": "weight"},
    }
    document = {"version": "1", "title": "t", "columns": columns}
    totals = {"calibrate": [{"sex": {"f": "10", "m": "20"}}]} if raked else {}
    schema = parse_schema({**document, **totals})
    assert countable(schema).columns == (("sex",) if raked else ("sex", "weight"))
    section = parse("share: 0.1\ntables: [[sex, weight]]", source="spec")
    assert read_tables(parse("share: 0.1", source="spec"), schema, Fraction(1, 10), 1) == (
        (("sex",),) if raked else (("sex", "weight"),)
    )
    if not raked:
        assert read_tables(section, schema, Fraction(1, 10), 1) == (("sex", "weight"),)
        return
    with pytest.raises(BadInput, match="'weight' is not a column"):
        read_tables(section, schema, Fraction(1, 10), 1)


# -- what thresholds decide


def stated(upper=0.1, fit=0.02):
    charged = [{"interval": [0.0, upper]}, {"interval": [0.0, upper / 2]}]
    return {"public": [Public("fit", fit).to_json()], "charged": charged}


@pytest.mark.parametrize(
    ("hold", "fail", "verdict"),
    [
        ("0.05", "0.2", "hold"),
        ("0.1", "0.2", "publish"),
        ("0.02", "0.05", "fail"),
        (None, "0.0999", "fail"),
        (None, "0.1", "publish"),
        ("0.0999", None, "hold"),
    ],
)
def test_a_threshold_is_on_the_upper_end_of_the_worst_interval(hold, fail, verdict):
    threshold = Threshold("worst_tvd", hold and Fraction(hold), fail and Fraction(fail))
    said, found = verdicts([threshold], stated())
    assert found == verdict == said[0]["verdict"]
    assert said[0]["value"] == 0.1
    assert Threshold.from_json(threshold.to_json()) == threshold


def test_the_strictest_threshold_decides_and_none_publishes():
    mild = Threshold("mean_tvd", None, Fraction("0.9"))
    assert verdicts([], stated())[1] == "publish"
    assert verdicts([mild, Threshold("fit", Fraction("0.01"), None)], stated())[1] == "hold"
    # What could not be computed is for a person.
    assert verdicts([Threshold("fit", None, Fraction("0.9"))], stated(fit=None))[1] == "hold"


def test_the_fit_is_what_noise_and_drawing_do_not_explain():
    values = {one.name: one.value for one in public_figures([0.3, 0.5], [0.1, 0.2], 2)}
    assert values == {
        "tables": 2,
        "mean_tvd_to_noisy": 0.4,
        "mean_expected_tvd": 0.15,
        "fit": 0.25,
    }
    assert public_figures([], [], 0)[-1].value is None
    assert public_figures([0.1], [0.2], 1)[-1].value == 0.0


def test_a_table_too_large_to_tell_anything_is_passed_over():
    domain = Domain(("a", "b", "c"), (200, 200, 3))

    assert set(chosen_tables(domain, 1)) == {("a", "c"), ("b", "c")}
    assert set(chosen_tables(Domain(("a", "b"), (200, 200)), 1)) == {("a",), ("b",)}
