"""Writes the artifacts of a release in Prefect, from public values only.

Everybody who can open Prefect's pages can read artifacts. This module uses the plan (which is made
before data are read), the stages that are done, the ledger's charges and balances, and the public
figures of the stage `check`. It never uses the durations or the number of repetitions of stages.

An artifact that cannot be written does not stop a release; `dp-release status` shows the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import Task
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.utilities.annotations import quote

from dp_core.accounts.requested import cost_unit
from dp_core.kernel.cost.composition import Amount
from dp_core.plan.plan import Plan
from dp_core.policies.stage_grant import PAYS
from flows.monitoring import log
from flows.monitoring.log import unit_words
from flows.monitoring.outcome import STATES, Outcome
from flows.monitoring.prefect_runs import heed_requests, is_deployed
from tasks.ledger.accounts import Account
from tasks.run.release_run import Run

_PAID_IN = {share: stage for stage, shares in PAYS.items() for share in shares}
"""Stage of the flow that pays for a share of the plan; the last one, if there are two."""

_WIDTH = 40
"""Length of a budget bar in characters."""

_NOT_BEGUN = "This run stopped before its first stage."
"""The state of a run that failed before it reached its release, begun or not."""

_RETRY = (
    "press Retry on the page of this run. A worker continues the release where it stopped. Stages"
    " that are done return at once, and nothing is charged twice."
)
_NO_RETRY = "Prefect has no Retry for this run, because a command started it."

_BETWEEN = 1.0
"""Least seconds between two updates of the artifacts of a run that goes well."""


class ReleaseArtifacts:
    """The artifacts of one flow run: progress, stages, account, accuracy and outcome."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        """Prepare the artifacts of a run; nothing is written yet.

        Args:
            stages: Names of the flow's stages, in order. Those that the release does not have are
                left out.
        """
        self._stages = stages
        self._made: dict[str, UUID] = {}
        self._run: Run | None = None
        self._shown = -_BETWEEN

    def perform(self, task: Task[..., Any], subject: object, *given: object) -> Any:
        """Run a task of the flow, then show whether the stage is done or failed.

        Args:
            task: A stage, or a task of the ledger.
            subject: The run; for the task that opens it, the opening.
            given: Further arguments, from which Prefect draws its graph.

        Returns:
            The task's result.
        """
        # Without `quote` Prefect searches the whole argument for its own results, down to the last
        # number. The task receives the argument itself.
        call = partial(task, quote(subject), *given)
        if not isinstance(subject, Run):
            heed_requests()
            return call()
        run = subject
        if self._run is None:
            self._run = run
            self._stages = tuple(stage for stage in self._stages if run.has(stage))
            self._show(run, ended=None)
        done = run.folder.facts_of(task.name) is not None
        try:
            heed_requests()
            answer = call()
        except Exception:
            self._show(run, failed=task.name)
            raise
        except BaseException:
            self._show(run, stopped=task.name)
            raise
        if task.name in self._stages and not done:
            log.stage_done(run, task.name)
        self._show(run, ended=task.name)
        return answer

    def end(self, outcome: Outcome) -> None:
        """Show the outcome of the run, and a link to its bundle if it was published."""
        with suppress(Exception):
            run = self._run
            create_markdown_artifact(
                key="release-outcome",
                markdown=outcome_page(
                    outcome,
                    release=run.spec.release if run else None,
                    out=run.out if run else None,
                    deployed=is_deployed(),
                ),
                description=f"How this run ended: {outcome.name}.",
            )
            if run is None:
                return
            self._account(run)
            if outcome.name == "published":
                create_link_artifact(
                    key="release-bundle",
                    link=(run.out / "report.html").absolute().as_uri(),
                    link_text=str(run.out),
                    description="The bundle: its report, for whoever may read that folder from a"
                    " browser.",
                )

    def _show(
        self,
        run: Run,
        *,
        ended: str | None = None,
        failed: str | None = None,
        stopped: str | None = None,
    ) -> None:
        if ended is not None and ended not in self._stages:
            return
        # Each update is two requests. Stages that together take less than a second share one.
        now = time.monotonic()
        last = ended is not None and ended == self._stages[-1]
        broken = failed or stopped
        if ended not in (None, "check") and not last and now - self._shown < _BETWEEN:
            return
        self._shown = now
        with suppress(Exception):
            done = {stage for stage in self._stages if run.folder.facts_of(stage) is not None}
            part = 0.0
            if ended is not None:
                part = 100.0 * (self._stages.index(ended) + 1) / len(self._stages)
            if broken is None:
                self._progress(run.plan, part)
            spent = dict[str, Fraction]()
            for charge in run.ledger.charges(run.reservation):
                spent[charge.stage] = spent.get(charge.stage, Fraction(0)) + charge.cost
            self._table(
                "release-stages",
                stage_rows(
                    run.plan,
                    self._stages,
                    done=done,
                    failed=failed,
                    spent=spent,
                    stopped=stopped,
                ),
                f"{_words(run.plan)} {unit_words(run.plan)}",
            )
            if ended is None and broken is None:
                self._account(run)
            facts = run.folder.facts_of("check")
            if ended == "check" and facts is not None:
                rows = accuracy_rows(facts)
                words = (
                    "Planned and actual TVD of each noisy table, from published values. A ratio of"
                    " about 1 is a good fit. The worst tables are first."
                )
                if rows:
                    self._table("release-accuracy", rows, words)

    def _progress(self, plan: Plan, part: float) -> None:
        known = self._made.get("release-progress")
        if known is not None:
            update_progress_artifact(artifact_id=known, progress=part)
            return
        create = partial(create_progress_artifact, progress=part)
        self._create("release-progress", create, _words(plan))

    def _account(self, run: Run) -> None:
        page = account_page(run.ledger.lineage(run.spec.account))
        words = (
            "What the release's account has reserved, spent and left. The whole budget of an"
            " unfinished release is reserved, also what it has charged."
        )
        self._put("account-budget", page, partial(create_markdown_artifact, markdown=page), words)

    def _table(self, key: str, rows: list[dict[str, Any]], words: str) -> None:
        self._put(key, json.dumps(rows), partial(create_table_artifact, table=rows), words)

    def _put(self, key: str, data: str, create: Callable[..., object], words: str) -> None:
        """Create an artifact, or give the one that was created before other data."""
        known = self._made.get(key)
        if known is None:
            self._create(key, create, words)
        else:
            get_client(sync_client=True).update_artifact(known, ArtifactUpdate(data=data))

    def _create(self, key: str, create: Callable[..., object], words: str) -> None:
        made = create(key=key, description=words)
        # By its type it may be a coroutine; in a synchronous flow it is the identifier.
        assert isinstance(made, UUID)
        self._made[key] = made


def _words(plan: Plan) -> str:
    spec, privacy = plan.spec, plan.spec.privacy
    if spec.measurements is not None:
        return f"Release {spec.release}: no charge; tables of release {spec.measurements.release}."
    return (
        f"Release {spec.release}: epsilon {float(privacy.epsilon):g}, delta"
        f" {float(privacy.delta):g}, {privacy.neighbours}, account {spec.account}."
    )


def stage_rows(
    plan: Plan,
    stages: Sequence[str],
    *,
    done: Collection[str],
    failed: str | None,
    spent: Mapping[str, Fraction],
    stopped: str | None = None,
) -> list[dict[str, Any]]:
    """Return the table of stages: state, share in percent, budget, and budget spent so far.

    Args:
        plan: Plan of the release.
        stages: Names of the flow's stages, in order.
        done: Names of the stages that are done.
        failed: Name of the stage that failed; None if none did.
        spent: Budget charged so far by stage of the plan, in the release's currency.
        stopped: Name of the stage at which the run was interrupted or cancelled; None (the default)
            if it was not.

    Returns:
        One row for each stage, all values as texts. Budgets are in the release's unit, which has a
        column of its own.
    """
    paying: dict[str, list[str]] = {}
    for paid, cost in plan.costs.items():
        if cost:
            paying.setdefault(_PAID_IN.get(paid, paid), []).append(paid)
    rows, at_work = [], failed is not None or stopped is not None
    for stage in (*stages, *(name for name in paying if name not in stages)):
        if stage in done:
            state = "done"
        elif stage == failed:
            state = "failed"
        elif stage == stopped:
            state = "stopped"
        elif not at_work and stage in stages:
            state, at_work = "at work", True
        else:
            state = "open"
        pays = paying.pop(stage, [])
        budget = sum((plan.costs[paid] for paid in pays), Fraction(0))  # type: ignore[index]
        charged = sum((spent.get(paid, Fraction(0)) for paid in pays), Fraction(0))
        share = sum((plan.spec.shares[paid] for paid in pays), Fraction(0))  # type: ignore[index]
        rows.append(
            {
                "stage": stage,
                "state": state,
                "share of the release": f"{float(100 * share):.4g} %" if pays else "",
                "budget": f"{float(budget):.6g}" if pays else "",
                "spent": f"{float(charged):.6g}" if pays else "",
                "unit": cost_unit(plan.currency.kind) if pays else "",
            }
        )
    return rows


def account_page(accounts: Sequence[Account]) -> str:
    """Return a Markdown page with the balance of each account that pays.

    Args:
        accounts: The release's account, then the accounts that limit it.
    """
    return "\n\n".join(map(_account, accounts))


def _account(account: Account) -> str:
    terms, balance = account.terms, account.balance
    word = "epsilon" if terms.is_basic else "rho"
    whole, left = terms.limit, account.total_left
    parts = [("spent", balance.spent), ("reserved", balance.reserved), ("left", left)]
    lines = [
        f"**Account {account.name}**: {word} {float(whole.main):.4g}, delta"
        f" {float(terms.delta):.4g} ({account.charter.neighbours}, {terms.composition})",
        "",
        bar(whole, balance.spent, balance.reserved),
        "",
        f"| | {word} | of the total | delta |",
        "|---|---|---|---|",
        *(
            f"| {name} | {float(max(part.main, Fraction(0))):.4g} |"
            f" {_percent(part.main, whole.main)} | {float(max(part.delta, Fraction(0))):.4g} |"
            for name, part in parts
        ),
    ]
    calendar = account.calendar
    if calendar is not None:
        label = calendar.label(calendar.index(account.day))
        lines += ["", f"Left in {label}: {word} {float(account.left.main):.4g}."]
    return "\n".join(lines)


def bar(whole: Amount, spent: Amount, reserved: Amount) -> str:
    """Return a bar of text: █ spent, ▒ reserved, ░ left; a used part has at least one character.

    >>> tenth = Amount(Fraction(1, 10), Fraction(0))
    >>> bar(tenth.times(10), tenth.times(5), tenth)
    '`████████████████████▒▒▒▒░░░░░░░░░░░░░░░░` spent 50 %, reserved 10 %, left 40 %'
    """
    used = [_signs(part.main, whole.main) for part in (spent, reserved)]
    signs = ("█" * used[0] + "▒" * used[1])[:_WIDTH]
    left = whole - spent - reserved
    return (
        f"`{signs:░<{_WIDTH}}` spent {_percent(spent.main, whole.main)}, reserved"
        f" {_percent(reserved.main, whole.main)}, left {_percent(left.main, whole.main)}"
    )


def _signs(part: Fraction, whole: Fraction) -> int:
    return max(round(_WIDTH * part / whole), 1) if part > 0 else 0


def _percent(part: Fraction, whole: Fraction) -> str:
    return f"{float(100 * max(part, Fraction(0)) / whole):.0f} %"


def accuracy_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the table of planned and actual accuracy.

    Args:
        facts: Public figures that the stage `check` stored.
    """
    return [
        {
            # Runs of earlier versions lack this key, because they compared whole tables only.
            "table": " x ".join(fit["columns"])
            + (" (beyond its margins)" if fit.get("beyond") else ""),
            "cells": fit["cells"],
            "noise: a count is within": f"±{fit['within']}",
            "TVD planned (noise and drawing)": f"{fit['expected_tvd']:.4f}",
            "TVD found": f"{fit['tvd']:.4f}",
            "ratio": f"{fit['ratio']:.2f}",
        }
        for fit in facts.get("fits", ())
    ]


def outcome_page(
    outcome: Outcome, *, release: str | None, out: Path | None, deployed: bool = False
) -> str:
    """Return a Markdown page about how a run ended and what to do next.

    Args:
        outcome: How the run ended.
        release: Name of the release; None if the run stopped before its first stage.
        out: Folder of the bundle; None if the run stopped before its first stage.
        deployed: Whether the run belongs to a deployment; False (the default) if a command
            started it.
    """
    state = STATES[outcome.name]
    if outcome.name == "failed" and release is None:
        state = _NOT_BEGUN
    lines = [f"**{state}**", "", outcome.sentence]
    if outcome.row is not None:
        lines += ["", f"What to do: docs/runbook.md, row `{outcome.row}`."]
    if outcome.name == "published" and out is not None:
        lines += ["", f"Bundle: `{out}`", "", f"Check it: `dp-release verify {out}`"]
    elif outcome.is_failure and deployed:
        lines += ["", f"After the cause is repaired: {_RETRY}"]
    elif outcome.name == "failed" and release is not None:
        resume = f"`dp-release resume {release}`"
        lines += ["", f"After the cause is repaired: {resume}. {_NO_RETRY}"]
    elif outcome.name == "failed":
        lines += ["", "After the cause is repaired: repeat the same command."]
    elif outcome.name in ("held", "waiting", "refused") and release is not None:
        lines += ["", f"Current state: `dp-release status {release}`"]
    return "\n".join(lines)
