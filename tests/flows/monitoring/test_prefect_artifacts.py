"""What a manager reads at night: stages, budget, accuracy, how it ended; public values only."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dp_core.bundle.quality.table_fit import MOST_FACTS, TableFit, fit_facts
from dp_core.kernel.cost.composition import Amount
from flows.monitoring.outcome import Outcome, OutcomeName
from flows.monitoring.prefect_artifacts import (
    account_page,
    accuracy_rows,
    bar,
    outcome_page,
    stage_rows,
)
from tasks.run.home import open_ledger
from tasks.run.stage_table import stages_of
from tests.ledgers import monthly, on, open_town, reserve, spend
from tests.specs import plan_of


@pytest.fixture
def plan(tmp_path):
    return plan_of(tmp_path / "specs")


@pytest.fixture
def stages(plan):
    return stages_of(plan.costs)


def of(rows, name):
    return {row["stage"]: row[name] for row in rows if row[name]}


def percents(rows):
    shares = of(rows, "share of the release")
    return {stage: float(share.removesuffix(" %")) for stage, share in shares.items()}


def test_the_stages_say_what_is_done_what_is_at_work_and_what_each_may_spend(plan, stages):
    half = plan.costs["one_way"] / 2
    rows = stage_rows(
        plan,
        stages,
        done={"validate", "discretize", "count"},
        failed=None,
        spent={"one_way": half},
    )
    assert of(rows, "state") == {
        **dict.fromkeys(stages, "open"),
        **dict.fromkeys(stages[:3], "done"),
        "basics": "at work",
    }
    # All that the plan pays stands somewhere, and only there.
    shares = percents(rows)
    assert sum(shares.values()) == pytest.approx(100)
    basics = plan.spec.shares["one_way"] + plan.spec.shares["total"]
    assert shares["basics"] == pytest.approx(float(100 * basics), rel=1e-3)
    assert set(of(rows, "unit").values()) == {"epsilon"}
    budgets = [float(budget) for budget in of(rows, "budget").values()]
    assert sum(budgets) == pytest.approx(float(plan.currency.limit), rel=1e-5)
    assert of(rows, "spent")["basics"] == f"{float(half):.6g}"
    assert of(rows, "spent")["measure"] == "0"


def test_a_stage_at_which_a_person_stopped_the_run_is_not_at_work(plan, stages):
    rows = stage_rows(plan, stages, done={"validate"}, failed=None, spent={}, stopped="discretize")
    states = of(rows, "state")
    assert (states["validate"], states["discretize"]) == ("done", "stopped")
    assert set(states.values()) == {"done", "stopped", "open"}


def test_a_stage_that_failed_is_the_one_that_is_named_and_none_is_at_work(plan, stages):
    rows = stage_rows(plan, stages, done={"validate"}, failed="discretize", spent={})
    states = of(rows, "state")
    assert (states["validate"], states["discretize"]) == ("done", "failed")
    assert "at work" not in states.values()


def test_the_account_shows_what_is_spent_reserved_and_left(home, tmp_path, monkeypatch, plan):
    on(monkeypatch, "2026-11-20")
    ledger = open_ledger(home)
    open_town(ledger, calendar=monthly("1.5"))
    spend(ledger, plan)
    reserve(ledger, plan_of(tmp_path / "specs", release="next", privacy="{epsilon: 0.25}"))
    page = account_page(ledger.lineage("town"))
    assert "spent 50 %, reserved 12 %, left 38 %" in page
    assert "| spent | 1 | 50 % | 0 |" in page
    assert "| left | 0.75 | 38 % | 1e-05 |" in page
    assert "Left in 2026-11: epsilon 0.25." in page


def fit(name, found, planned):
    return TableFit(
        clique=(name, "b"),
        stage="measure",
        replicate=0,
        cells=6,
        half_width=7,
        set_tvd=(found, found),
        expected_tvd=(planned, planned),
        outside=(0, 0),
    )


def test_accuracy_begins_with_the_table_that_is_furthest_from_its_plan():
    fits = [fit("a", 0.1, 0.1), fit("c", 0.3, 0.1), fit("d", 0.2, 0.4), fit("e", 0.2, np.nan)]
    rows = accuracy_rows({"fits": fit_facts(fits)})
    assert [(row["table"], row["ratio"]) for row in rows] == [
        ("c x b", "3.00"),
        ("a x b", "1.00"),
        ("d x b", "0.50"),
    ]
    related = accuracy_rows({"fits": fit_facts([replace(fits[0], beyond=True)])})
    assert related[0]["table"] == "a x b (beyond its margins)"
    assert rows[0]["noise: a count is within"] == "±7"
    assert (rows[0]["TVD found"], rows[0]["TVD planned (noise and drawing)"]) == (
        "0.3000",
        "0.1000",
    )
    many = fit_facts([fit(f"x{number}", 0.1, 0.1) for number in range(MOST_FACTS + 9)])
    assert len(many) == MOST_FACTS


@pytest.mark.parametrize(
    ("name", "sentence", "holds"),
    [
        ("published", "Release 'r' is published.", "dp-release verify /x/out"),
        ("failed", "The disk is full: …", "row `disk-full`"),
        ("failed", "The disk is full: …", "dp-release resume r"),
        ("refused", "Account 'a' is closed: no more releases can be made.", "account-closed"),
        ("waiting", "It waits.", "dp-release status r"),
        ("held", "It is held.", "a person decides"),
        ("withdrawn", "It is withdrawn.", "nothing is published"),
    ],
)
def test_the_outcome_says_what_happened_and_what_comes_next(name, sentence, holds):
    row = {"failed": "disk-full", "refused": "account-closed"}.get(name)
    outcome = Outcome(name, sentence, 0, row=row)
    page = outcome_page(outcome, release="r", out=Path("/x/out"))
    assert sentence in page
    assert holds in page
    assert ("dp-release verify" in page) == (name == "published")


@pytest.mark.parametrize("name", get_args(OutcomeName))
@pytest.mark.parametrize("release", ["r", None])
def test_the_pages_name_retry_only_where_prefect_has_that_button(name, release):
    """Prefect shows Retry for the runs of deployments only."""
    outcome, out = Outcome(name, "…", 4), Path("/x/out")
    deployed = outcome_page(outcome, release=release, out=out, deployed=True)
    assert ("press Retry" in deployed) == outcome.is_failure
    assert "dp-release resume" not in deployed
    by_hand = outcome_page(outcome, release=release, out=out)
    assert "press Retry" not in by_hand
    assert ("no Retry" in by_hand) == ("dp-release resume" in by_hand)


@pytest.mark.parametrize(
    ("spent", "reserved", "signs"),
    [
        (0, 0, "░" * 40),
        (1, 0, "█" * 40),
        (Fraction(1, 1000), Fraction(1, 1000), "█▒" + "░" * 38),
        (Fraction(1, 2), Fraction(1, 2), "█" * 20 + "▒" * 20),
        # Never longer than the bar.
        (Fraction(999, 1000), Fraction(1, 1000), "█" * 40),
    ],
)
def test_the_bar_is_as_long_as_what_was_used_and_shows_the_least_of_it(spent, reserved, signs):
    def amount(main):
        return Amount(Fraction(main), Fraction(0))

    assert bar(amount(1), amount(spent), amount(reserved)).split("`")[1] == signs
