"""What several benchmarks share."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dp_core.plan.plan import Plan

MIXED_SIZES = (2, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 30, 50, 100)
"""Levels of 20 columns, as a survey may have them."""


def cpu_of_children() -> float:
    """Return the CPU seconds of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class StageTimes:
    """What a release took.

    Attributes:
        plan: Its plan.
        cpu: CPU seconds of all threads, by stage.
        wall: Seconds by stage.
        silence: Longest time between two reports of progress, by stage: the smaller of seconds and
            CPU seconds, so that other programs on the machine do not lengthen it.
    """

    plan: Plan
    cpu: dict[str, float]
    wall: dict[str, float]
    silence: dict[str, float]


def release_by_stages(
    spec: Path, scratch: Path, began: Callable[[str], None] = lambda _stage: None
) -> StageTimes:
    """Make a release in this process, without Prefect's engine, and time its stages.

    Args:
        spec: Path of the spec, whose account is `a`; at most epsilon 1 and delta 1e-9.
        scratch: An empty folder for home, state and bundle; it may contain the spec.
        began: Called with the name of each stage when it begins; does nothing by default.
    """
    os.environ["DP_RELEASE_HOME"] = str(scratch / "home")
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")
    from dp_core.plan.plan import make_plan
    from flows.release import called_with, carry_out
    from tasks.ledger.account_decisions import Terms
    from tasks.run.earlier_releases import load_release
    from tasks.run.home import open_ledger

    open_ledger().open_account(
        "a",
        terms=Terms("basic", Fraction(1), Fraction("1e-9")),
        neighbours="add-remove",
        by="benchmark",
        reason="to measure",
    )
    plan = make_plan(load_release(spec))
    cpu: dict[str, float] = {}
    wall: dict[str, float] = {}
    silence: dict[str, float] = {}
    told = "", 0.0, 0.0

    def progress(stage: str, _done: float) -> None:
        nonlocal told
        now = time.process_time(), time.perf_counter()
        if told[0] == stage:
            silent = min(now[0] - told[1], now[1] - told[2])
            silence[stage] = max(silence.get(stage, 0.0), silent)
        told = stage, *now

    def perform(task: Any, *given: Any) -> Any:
        name = task.name.removeprefix("ledger: ")
        began(name)
        before = time.process_time(), time.perf_counter()
        answer = task.fn(*given)
        cpu[name] = cpu.get(name, 0.0) + time.process_time() - before[0]
        wall[name] = wall.get(name, 0.0) + time.perf_counter() - before[1]
        return answer

    with called_with(progress, plan):
        carry_out(spec, scratch / "out", plan=plan, perform=perform)
    return StageTimes(plan, cpu, wall, silence)
