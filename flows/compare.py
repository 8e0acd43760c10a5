"""The comparison as a Prefect flow, for comparisons on a schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from dp_core.errors import ReleaseError
from flows.comparison.comparison import locked, report, run
from flows.comparison.comparison_layout import Prepared, prepare
from flows.comparison.comparison_progress import ComparisonProgress
from flows.comparison.comparison_request import request_of

Value = TypeVar("Value")
_quiet: dict[str, Any] = {
    "persist_result": False,
    "cache_policy": NO_CACHE,
    "retries": 0,
    "log_prints": False,
}


def _run_name() -> str:
    """Return a run's name in Prefect: the folder's of the results, without those above it."""
    from prefect.runtime import flow_run

    return f"compare {Path(str(flow_run.parameters['out'])).name}"


@flow(
    name="compare",
    flow_run_name=_run_name,
    persist_result=False,
    log_prints=False,
    validate_parameters=True,
)
def compare(
    specs: list[str],
    by: str,
    reason: str,
    out: str,
    public_data: bool = False,
    methods: list[str] | None = None,
    epsilons: list[str] | None = None,
    runs: int = 3,
    target: str | None = None,
    formulas: list[str] | None = None,
    hold_out: str | None = None,
    seed: int | None = None,
    jobs: int = 1,
    limit: float = 1800,
) -> None:
    """Compare methods on data that may be looked at; the results are in the folder.

    Args:
        specs: Paths of release specs.
        by: Who declares the data public.
        reason: Why they are.
        out: Folder of the results; what is finished in it is kept.
        public_data: That the data may be looked at; without it nothing is done.
        methods: Presets; none: each spec's own.
        epsilons: As texts, so that they are exact; none: each spec's own.
        runs: Of each method at each epsilon.
        target: Column that classifiers predict.
        formulas: Regressions, fitted to the file and to each method's sets.
        hold_out: Share of records that no method sees; needs a target.
        seed: Of the first run's post-processing.
        jobs: Processes at a time.
        limit: Seconds after which a run is stopped.
    """
    request = _without_detail(
        partial(
            request_of,
            specs=[Path(spec) for spec in specs],
            public_data=public_data,
            by=by,
            reason=reason,
            out=Path(out),
            methods=methods or (),
            epsilons=epsilons or (),
            runs=str(runs),
            target=target,
            formulas=formulas or (),
            hold_out=hold_out,
            seed=None if seed is None else str(seed),
            jobs=str(jobs),
            limit=str(limit),
        )
    )
    prepared = _step("prepare", partial(prepare, request))
    with locked(prepared.out):
        _step("compare", partial(_run, prepared))
        _step("report", partial(_report, prepared))


def _run(prepared: Prepared) -> None:
    progress = ComparisonProgress(quiet=True)
    try:
        run(prepared, progress)
    finally:
        progress.stop()


def _report(prepared: Prepared) -> None:
    report(prepared)


def _step(name: str, work: Callable[[], Value]) -> Value:
    """Do a step as a task of the flow."""
    done: list[Value] = []

    # The value stays here: Prefect is given neither parameters nor results to keep.
    def perform() -> None:
        done.append(_without_detail(work))

    task(name=name, task_run_name=name, **_quiet)(perform)()
    return done[0]


def _without_detail(work: Callable[[], Value]) -> Value:
    """Do some work; an error of ours leaves without what is for staff, which Prefect would keep."""
    failure: ReleaseError
    try:
        return work()
    except ReleaseError as error:
        failure = error.without_detail()
    raise failure
