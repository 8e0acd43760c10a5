"""The flow `compare`: compares methods on public data, for use on a schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from dp_core.errors import ReleaseError, without_detail
from flows.comparison.comparison import ComparisonProgress, lock_folder, report, run
from flows.comparison.comparison_layout import prepare
from flows.comparison.comparison_request import request_of

Value = TypeVar("Value")
_quiet: dict[str, Any] = {
    "persist_result": False,
    "cache_policy": NO_CACHE,
    "retries": 0,
    "log_prints": False,
}


def _run_name() -> str:
    """Return the run's name in Prefect: `compare` and the last part of the output folder's path."""
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
    """Compare methods on public data, and write tables and plots to a folder.

    Args:
        specs: Paths of release specs.
        by: Name of the person who declares the data public.
        reason: Why the data are public.
        out: Folder of the results. Runs that it already holds are not repeated.
        public_data: Declares that the data are public. The flow refuses to start without it.
        methods: Presets to compare; by default each spec's own.
        epsilons: Epsilons to compare, as exact decimal texts; by default each spec's own.
        runs: Number of runs of each method at each epsilon; 3 by default.
        target: Column that classifiers predict; none by default.
        formulas: Regressions that are fitted to the file and to each method's sets.
        hold_out: Share of records that are kept for testing, as a decimal text; needs `target`.
        seed: Seed of the first run's post-processing; by default the spec's.
        jobs: Number of runs at the same time; 1 by default.
        limit: Seconds after which a run is stopped; 1800 by default.

    Raises:
        BadInput: if an argument is invalid, or `public_data` is false.
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
    with lock_folder(prepared.out):
        _step("compare", partial(run, prepared, ComparisonProgress(quiet=True)))
        _step("report", partial(report, prepared))


def _step(name: str, work: Callable[[], Value]) -> Value:
    """Run a step as a Prefect task, and return its value."""
    done: list[Value] = []

    # The task takes no parameters and returns nothing, so Prefect has no value to store.
    def perform() -> None:
        done.append(_without_detail(work))

    task(name=name, task_run_name=name, **_quiet)(perform)()
    return done[0]


def _without_detail(work: Callable[[], Value]) -> Value:
    """Call `work`; remove the internal detail from a `ReleaseError`, because Prefect stores it."""
    failure: ReleaseError
    try:
        return work()
    except ReleaseError as error:
        failure = without_detail(error)
    raise failure
