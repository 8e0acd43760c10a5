"""A release that is killed between declared sums goes on: nothing is repeated or drawn again.

`tests/crashes` kills the other stages.
"""

from __future__ import annotations

import os
import signal
import textwrap

import pytest

from tests.flows.releases.test_resume import assert_complete, noisy
from tests.flows.test_declared_analyses import STEPS, TEXT, charged, questions
from tests.full import some

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

KILLED = """
import os, signal, sys
from pathlib import Path
from flows.release import carry_out
from tasks.ledger import ledger_session

def perform(stage, run, *given):
    if stage.name == "analyses":
        {trap}
    return stage.fn(run, *given)

carry_out(Path({spec!r}), Path({out!r}), perform=perform)
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


TRAPS = {
    # Where the crash comes, and how many draws that costs.
    "charged, not drawn": (f"ledger_session._draw_and_store = lambda *_: {KILL}", 1),
    "stored, not committed": (f"type(run.writer).commit = lambda *_: {KILL}", 0),
    "asked, not charged": (f"type(run.writer).charge = lambda *_: {KILL}", 0),
    "all measured, not written": (
        "import dp_core.bundle.files.marginals_file as file; "
        f"file.write_marginals = lambda *_: {KILL}",
        0,
    ),
    "between two sums": (
        "import dp_core.plan.steps.declared_measurement as file; near = file.coefficients_near; "
        f"file.coefficients_near = lambda *_: {KILL}",
        0,
    ),
}


@pytest.mark.parametrize(
    "where", some(TRAPS, lambda where: where in ("charged, not drawn", "between two sums"))
)
def test_a_process_that_is_killed_between_sums_loses_and_repeats_nothing(
    gaussian_project, fork_server, tmp_path, where
):
    project = gaussian_project
    project.write_spec(TEXT)
    trap, draws = TRAPS[where]
    script = textwrap.dedent(KILLED).format(trap=trap, spec=str(project.spec), out=str(project.out))
    environment = {**os.environ, "DP_RELEASE_HOME": str(project.home)}
    ended = fork_server.run(script, [], tmp_path, environment)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    measured = {name: data for name, data in noisy(project).items() if name.endswith(".noise")}
    asked = questions(project)

    project.release()

    assert_complete(project)
    assert {name: noisy(project)[name] for name in measured} == measured
    assert {name: questions(project)[name] for name in asked} == asked
    assert [*charged(project)] == STEPS
    assert project.redraws() == draws
