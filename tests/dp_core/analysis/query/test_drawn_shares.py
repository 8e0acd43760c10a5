"""Shares of one column from sets that are private draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dp_core as dp

SCHEMA = {
    "version": 1,
    "title": "Two columns",
    "columns": {
        "smokes": {"type": "category", "levels": {"0": "no", "1": "yes"}},
        "health": {"type": "ordinal", "levels": ["poor", "good"]},
    },
}
YES = 0.15
ROWS = 2000


def people():
    rng = np.random.default_rng(2)
    smokes = (np.arange(ROWS) < YES * ROWS).astype(int)
    return pd.DataFrame({"smokes": smokes, "health": rng.choice(["poor", "good"], ROWS)})


PEOPLE = people()


def made(method="beta-binomial", schema=SCHEMA, **options):
    options = {"epsilon": 8, "delta": 0, "sets": 1, "mode": "shared", **options}
    return dp.release(PEOPLE, schema, method=method, **options)


def interval(answer):
    (cell,) = answer.cells
    return cell["low"], cell["high"]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", ["beta-binomial", "smoothed-histogram", "multinomial-dirichlet"])
@pytest.mark.parametrize("sets", [{}, {"sets": 3, "mode": "split"}, {"sets": 2}])
def test_the_share_of_the_file_is_found_where_the_sets_are_far_from_it(method, neighbours, sets):
    release = made(method, neighbours=neighbours, **sets)
    answer = release.query("share of smokes = yes", level=0.999999)
    low, high = interval(answer)
    assert low <= YES <= high
    assert high - low < 0.35
    if method != "multinomial-dirichlet":
        # Virtual records move every share towards a half.
        assert release.sets[0]["smokes"].eq("yes").mean() > YES + 0.03


def test_counts_and_all_levels_are_answered_too():
    release = made()
    shares = release.query("share of smokes").frame
    assert shares["smokes"].tolist() == ["no", "yes"]
    assert shares["estimate"].sum() == pytest.approx(1, abs=0.01)
    assert release.query("share by smokes").frame.equals(shares)
    (yes,) = release.query("count of smokes = yes").cells
    assert yes["estimate"] == pytest.approx(ROWS * shares["estimate"][1], rel=0.02)


def test_sampling_adds_the_error_of_the_file():
    release = made()
    alone, sampled = (
        interval(release.query("share of smokes = yes", sampling=each)) for each in (False, True)
    )
    assert sampled[1] - sampled[0] > alone[1] - alone[0]


@pytest.mark.parametrize(
    "question",
    ["share of smokes by health", "share of smokes where health = good", "count by smokes, health",
     "difference in share of smokes = yes between health = poor and health = good"],
)  # fmt: skip
def test_questions_about_several_columns_are_not_determined(question):
    assert not made("smoothed-histogram").query(question).determined


def test_sets_in_which_impossible_records_were_replaced_do_not_answer():
    ruled = {**SCHEMA, "impossible": [{"smokes": "yes", "health": "poor"}]}
    frame = PEOPLE[~((PEOPLE["smokes"] == 1) & (PEOPLE["health"] == "poor"))]
    release = dp.release(
        frame, ruled, method="smoothed-histogram", epsilon=8, delta=0, sets=1, mode="shared"
    )
    assert not release.query("share of smokes = yes").determined
