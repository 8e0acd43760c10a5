"""What a release shows in Prefect: written here only, and from public values only.

Artifacts are for everybody who may open Prefect's pages. What this writer reads of a run is its
plan (made before any data is read), which stages are done, what the ledger charged and holds, and
the public figures of the check; never how long a stage took, nor how often it was tried.

A page that cannot be written is no reason to stop a release: what is shown here is shown by
`dp-release status` too.
"""

from __future__ import annotations

import json
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, cast
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

from dp_core.spec.plan import Plan
from flows.monitoring.artifact_pages import account_page, accuracy_rows, outcome_page, stage_rows
from flows.monitoring.outcome import Outcome
from tasks.run.release_run import Run

StageTask = Task[[Any], None]


class ReleaseArtifacts:
    """The pages of one flow run: progress, stages, account, accuracy, and how it ended."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        """Show these stages.

        Args:
            stages: Their names, in order; those that a release has not are left out.
        """
        self._stages = stages
        self._made: dict[str, UUID] = {}
        self._run: Run | None = None

    def perform(self, task: StageTask, run: Run) -> None:
        """Do a stage as a task of the flow, and show that it is done, or that it failed."""
        if self._run is None:
            self._run = run
            self._stages = tuple(stage for stage in self._stages if run.has(stage))
            self._show(run, ended=None)
        try:
            # Prefect looks for its own results in what a task is given, down to the last number,
            # unless that is quoted; the task gets it without the quotes.
            task(cast(Run, quote(run)))
        except Exception:
            self._show(run, failed=task.name)
            raise
        self._show(run, ended=task.name)

    def end(self, outcome: Outcome) -> None:
        """Show how the run ended, and where its bundle is."""
        with suppress(Exception):
            run = self._run
            create_markdown_artifact(
                key="release-outcome",
                markdown=outcome_page(
                    outcome,
                    release=run.spec.release if run else None,
                    out=run.out if run else None,
                ),
                description=f"How this run ended: {outcome.name}.",
            )
            if run is None:
                return
            self._account(run)
            if outcome.name == "published":
                link(run.out)

    def _show(self, run: Run, *, ended: str | None = None, failed: str | None = None) -> None:
        if ended is not None and ended not in self._stages:
            return
        with suppress(Exception):
            done = {stage for stage in self._stages if run.folder.done(stage) is not None}
            part = 0.0
            if ended is not None:
                part = 100.0 * (self._stages.index(ended) + 1) / len(self._stages)
            if failed is None:
                self._progress(run.plan, part)
            spent = dict[str, Fraction]()
            for charge in run.ledger.charges(run.reservation):
                spent[charge.stage] = spent.get(charge.stage, Fraction(0)) + charge.cost
            self._table(
                "release-stages",
                stage_rows(run.plan, self._stages, done=done, failed=failed, spent=spent),
                _words(run.plan),
            )
            if ended is None and failed is None:
                self._account(run)
            facts = run.folder.done("check")
            if ended == "check" and facts is not None:
                rows = accuracy_rows(facts)
                words = (
                    "Accuracy against plan, by published values: each noisy table's planned noise,"
                    " and how near the sets come to it. A ratio of about 1 is a good fit; the worst"
                    " are first."
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
        words = "What the release's account has reserved, spent and left."
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
        # Typed as perhaps a coroutine; a synchronous flow gets the identifier itself.
        assert isinstance(made, UUID)
        self._made[key] = made


def link(out: Path) -> None:
    """Show where the bundle is, as a link to its report."""
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
    return (
        f"Release {spec.release}: epsilon {float(privacy.epsilon):g}, delta"
        f" {float(privacy.delta):g}, {privacy.neighbours}, account {spec.account}."
    )
