"""Writes the artifacts of a release in Prefect, from public values only.

Everybody who can open Prefect's pages can read artifacts. This module uses the plan (which is made
before data are read), the stages that are done, the ledger's charges and balances, and the public
figures of the stage `check`. It never uses the durations or the number of repetitions of stages.

An artifact that cannot be written does not stop a release; `dp-release status` shows the same.
"""

from __future__ import annotations

import json
import time
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

from dp_core.plan.plan import Plan
from flows.monitoring import run_log
from flows.monitoring.artifact_pages import (
    account_page,
    accuracy_rows,
    outcome_page,
    stage_rows,
    unit_words,
)
from flows.monitoring.outcome import Outcome
from flows.monitoring.prefect_runs import heed_requests, is_deployed
from tasks.run.release_run import Run

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
        done = run.folder.done(task.name) is not None
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
            run_log.stage_done(run, task.name)
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
                link(run.out)

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
            done = {stage for stage in self._stages if run.folder.done(stage) is not None}
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
            facts = run.folder.done("check")
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
        made = create_progress_artifact(
            progress=part, key="release-progress", description=_words(plan)
        )
        self._remember("release-progress", made)

    def _account(self, run: Run) -> None:
        page = account_page(run.ledger.lineage(run.spec.account))
        known = self._made.get("account-budget")
        if known is not None:
            _update(known, page)
            return
        words = (
            "What the release's account has reserved, spent and left. The whole budget of an"
            " unfinished release is reserved, also what it has charged."
        )
        self._remember(
            "account-budget",
            create_markdown_artifact(key="account-budget", markdown=page, description=words),
        )

    def _table(self, key: str, rows: list[dict[str, Any]], words: str) -> None:
        known = self._made.get(key)
        if known is not None:
            _update(known, json.dumps(rows))
            return
        self._remember(key, create_table_artifact(key=key, table=rows, description=words))

    def _remember(self, key: str, made: object) -> None:
        # By its type it may be a coroutine; in a synchronous flow it is the identifier.
        assert isinstance(made, UUID)
        self._made[key] = made


def link(out: Path) -> None:
    """Create an artifact that links to the report of the bundle in the folder `out`."""
    create_link_artifact(
        key="release-bundle",
        link=(out / "report.html").absolute().as_uri(),
        link_text=str(out),
        description="The bundle: its report, for whoever may read that folder from a browser.",
    )


def _update(made: UUID, data: str) -> None:
    get_client(sync_client=True).update_artifact(made, ArtifactUpdate(data=data))


def _words(plan: Plan) -> str:
    spec, privacy = plan.spec, plan.spec.privacy
    if spec.measurements is not None:
        return f"Release {spec.release}: no charge; tables of release {spec.measurements.release}."
    return (
        f"Release {spec.release}: epsilon {float(privacy.epsilon):g}, delta"
        f" {float(privacy.delta):g}, {privacy.neighbours}, account {spec.account}."
    )
