"""Writes lines to Prefect's log of a run: what `dp-release status` shows, from public values only.

Everybody who can open Prefect's pages can read these lines. They state neither durations nor
numbers of repetitions. `flows.monitoring.log` writes the log for staff, which states both.

A line that cannot be written does not stop a release.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.kernel.privacy import cost_unit
from tasks.run.stage_table import stages_of

if TYPE_CHECKING:
    from dp_core.kernel.stage_grant import StageGrant
    from dp_core.plan.plan import Plan
    from tasks.ledger.reservations import Charge
    from tasks.run.release_run import Run

_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")
"""Prefect's loggers of flow runs and of task runs."""


def show_lines() -> None:
    """Let Prefect keep the runs' lines of level INFO, even if other loggers have a higher level.

    The level of Prefect's console handler decides whether a line also goes to the terminal.
    """
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)


def unit_words(plan: Plan) -> str:
    """Return what the budgets of a release's stages add up to, in their unit and as epsilon."""
    if plan.spec.measurements is not None:
        return "Its stages have no budget, because nothing is measured."
    unit, privacy = cost_unit(plan.currency.kind), plan.spec.privacy
    total = f"epsilon {float(privacy.epsilon):g}"
    if unit != "epsilon":
        total = (
            f"{float(plan.currency.limit):.4g}, which is {total} at delta {float(privacy.delta):g}"
        )
    return f"The budgets of its stages are in {unit} and add up to {total}."


def say_opening(run: Run) -> None:
    """Say which release is made, which account pays, and which stages are done already."""
    spec, privacy = run.spec, run.spec.privacy
    if spec.measurements is None:
        reserved = _amount(run, run.plan.currency.limit)
        pays = f"Account {spec.account} pays; {reserved} is reserved. {unit_words(run.plan)}"
    else:
        pays = f"Nothing is charged: the tables are those of release {spec.measurements.release}."
    _say(
        f"Release {spec.release}: method {spec.method}, epsilon {float(privacy.epsilon):g}, delta"
        f" {float(privacy.delta):g}, {privacy.neighbours}, unit {privacy.unit}. {pays}"
        f" Plan {run.plan.hash}."
    )
    stages = stages_of(run.plan.costs, spec.sets, reuses=run.reuses)
    done = [name for name in stages if run.folder.done(name) is not None]
    if done:
        _say(f"Done by an earlier run: {', '.join(done)}. Nothing is charged twice.")


def say_grant(run: Run, grant: StageGrant) -> None:
    """Say what the ledger allows a stage to charge."""
    shares = ", ".join(
        f"{_amount(run, left)} of {share}" for share, left in grant.left.items() if left
    )
    _say(f"Stage {grant.stage} may count records" + (f" and charge {shares}." if shares else "."))


def stage_done(run: Run, stage: str) -> None:
    """Say that a stage is done."""
    _say(f"Stage {stage} of release {run.spec.release} is done.")


def say_commit(run: Run, charges: Sequence[Charge]) -> None:
    """Say which charges have their results stored."""
    first, last = charges[0].number, charges[-1].number
    receipts = f"receipt {first}" if first == last else f"receipts {first} to {last}"
    cost = sum((charge.cost for charge in charges), Fraction(0))
    words = {charge.step: None for charge in charges}
    named = ", ".join([*words][:_NAMED]) + (", ..." if len(words) > _NAMED else "")
    _say(f"Charged {_amount(run, cost)} for {charges[0].stage} ({receipts}): {named}.")


def say_settlement(run: Run, charges: Sequence[Charge]) -> None:
    """Say what the finished release charged."""
    cost = sum((charge.cost for charge in charges), Fraction(0))
    _say(f"Release {run.spec.release} is settled: it charged {_amount(run, cost)}.")


def say_end(sentence: str) -> None:
    """Say how the run ended."""
    _say(sentence)


_NAMED = 6
"""Steps that a line names."""


def _amount(run: Run, cost: Fraction) -> str:
    """Return a cost as text, with its part of the release's budget; `nothing` without one."""
    currency = run.plan.currency
    if not currency.limit:
        return "nothing"
    part = 100 * float(cost / currency.limit)
    return f"{float(cost):.4g} {cost_unit(currency.kind)} ({part:.3g} % of the release)"


def _say(line: str) -> None:
    with suppress(Exception):
        from prefect.logging import get_run_logger

        get_run_logger().info(line)
