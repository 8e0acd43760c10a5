from __future__ import annotations

import dataclasses
import datetime
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dp_core.accounts.guarantee import Guarantee, implied
from dp_core.accounts.ledger_position import Total
from dp_core.accounts.requested import Privacy, unprotected
from dp_core.bundle.statement import spent_budget
from dp_core.bundle.statement.release_json import exact, file_record, in_words, over_all, statement
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.extensions import DRAWN_CELLS, DRAWN_RECORDS, SPARSE_TABLE
from dp_core.kernel.questions.vetted import VETTED
from tests.dp_core.bundle.conftest import make_published


@pytest.fixture
def document(bundle):
    return json.loads((bundle / "release.json").read_bytes())


def test_the_statement_lists_every_other_file_with_hash_and_size(bundle, document):
    found = {
        path.relative_to(bundle).as_posix(): file_record(path)
        for path in bundle.rglob("*")
        if path.is_file() and path.name != "release.json"
    }

    assert document["files"] == found


def test_epsilon_and_delta_are_exact_and_readable(document):
    enforced = document["guarantee"]["enforced"]

    assert enforced["epsilon"] == {"exact": "1", "decimal": 1.0}
    assert enforced["delta"] == {"exact": "1/1000000000", "decimal": 1e-9}
    assert enforced["theorem"]
    assert exact(Fraction(1, 3))["exact"] == "1/3"


def test_every_key_is_on_its_page(document):
    page = (Path(__file__).parents[3] / "docs" / "statement.md").read_text(encoding="utf-8")
    sections = ("release", "guarantee", "method", "accounting", "ledger", "sets", "refusals")
    names = {*document, *(name for section in sections for name in document[section])}
    names |= set(document["accounting"]["composition"])

    assert {name for name in names if f"`{name}`" not in page} == set()


def test_every_question_and_mechanism_has_its_reason():
    every = {"table", SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS, *VETTED}
    kinds = {"discrete-laplace", "discrete-gaussian", "noisy-max", "stability-histogram"}

    assert set(spent_budget.QUESTIONS) == every
    assert set(spent_budget.MECHANISMS) == {*kinds, "perturbed-draws", "polya-urn"}


def test_no_key_tells_durations_or_parts(document):
    def keys(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)

    for key in keys(document):
        assert not any(word in key for word in ("duration", "elapsed", "partition", "row_group"))


def test_pure_money_gives_a_pure_guarantee_even_if_a_delta_was_allowed():
    privacy = Privacy(epsilon=Fraction(1), delta=Fraction(1, 10**6), neighbours="add-remove")
    best = implied(Currency("pure", Fraction(1)), privacy)

    assert (best.epsilon, best.delta) == (1, 0)


def test_words_state_the_factor_and_the_exception():
    pure = Guarantee(epsilon=Fraction(1), delta=Fraction(0), theorem="t")
    words = in_words(pure, "add-remove", "one row")
    assert "one row added or removed" in words
    assert f"{math.e:.4g} times" in words
    assert "probability" not in words
    loose = Guarantee(epsilon=Fraction(1000), delta=Fraction(1, 1000), theorem="t")
    words = in_words(loose, "replace-one", "one row")
    assert "one row replaced" in words
    assert "e^1000" in words
    assert "apart from a probability of 0.001" in words
    assert words.endswith(unprotected(loose.epsilon, loose.delta))
    half = replace(pure, delta=Fraction(1, 2))
    assert "A delta of 0.5 is no protection" in in_words(half, "add-remove", "one row")


def test_words_about_all_releases_state_every_change_of_the_total():
    days = [datetime.date(2026, 1, day) for day in (1, 2, 3, 4)]
    total = Total(
        account="town",
        composition="basic",
        epsilon=Fraction(3),
        delta=Fraction(1, 10**5),
        own_delta=Fraction(0),
        opened=days[0],
    )
    plain_words = over_all(total)
    assert plain_words.endswith(
        "account town is protected by their sum: epsilon at most 3, delta at most 1e-05."
    )
    held = Fraction(3), Fraction(1, 10**5)
    raised = (days[1], "raise", "basic", *held)
    words = over_all(dataclasses.replace(total, changed=(raised,)))
    assert words == (
        f"{plain_words[:-1]}, a total that was raised on 2026-01-02 and may be raised again."
    )
    restated = (days[2], "restate", "zcdp", *held), (days[3], "restate", "basic", *held)
    words = over_all(dataclasses.replace(total, changed=restated))
    assert words.startswith(f"{plain_words} How they add up was restated for all of them on")
    assert "2026-01-03 (from then on by zcdp composition), 2026-01-04 (from then on by b" in words
    both = over_all(dataclasses.replace(total, changed=(raised, *restated)))
    assert "raised on 2026-01-02 and may be raised again. How they add up was restated" in both


def test_shared_sets_are_said_to_miss_the_common_noise():
    shared, split = (statement(make_published(mode=mode)[0], {}) for mode in ("shared", "split"))

    assert (shared["inference"]["rule"], shared["inference"]["sets"]) == ("shared", 2)
    assert "too small" in shared["inference"]["covers"]
    assert split["inference"]["rule"] == "split"
    assert "too small" not in split["inference"]["covers"]
    assert (
        "too small" in statement(make_published(mode="split", sets=1)[0], {})["inference"]["covers"]
    )


def test_a_moment_without_time_zone_is_refused(release):
    with pytest.raises(ValueError, match="time zone"):
        replace(release[0], created=datetime.datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "change", [{"sets": -1}, {"rows": -1}, {"rows": (300,)}, {"records": float("nan")}]
)
def test_a_release_of_nothing_is_refused(release, change):
    with pytest.raises(ValueError, match=r"release|records"):
        replace(release[0], **change)
