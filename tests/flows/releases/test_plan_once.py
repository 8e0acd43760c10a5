"""One command reads the spec once, makes the plan once, and passes them on."""

from __future__ import annotations

import sys

import pytest

from dp_core.errors import Held
from dp_core.spec.plan import make_plan
from dp_core.spec.reading.spec_file import load_spec


@pytest.fixture
def calls(monkeypatch):
    """Return the calls of `load_spec` and `make_plan` so far, wherever they were imported."""
    found = []

    def count(function):
        def counted(*arguments, **named):
            found.append(function.__name__)
            return function(*arguments, **named)

        for name, module in list(sys.modules.items()):
            # Other packages may warn, or import more, when a module of theirs is asked for a name.
            ours = name.partition(".")[0] in ("dp_core", "tasks", "flows")
            # `auto` compares plans while the spec is read, to decide what it measures.
            ours = ours and name != "dp_core.spec.one_step"
            if ours and getattr(module, function.__name__, None) is function:
                monkeypatch.setattr(module, function.__name__, counted)

    import flows.cli.actions.publication_decisions
    import flows.cli.actions.run_release
    import flows.release  # noqa: F401

    count(load_spec)
    count(make_plan)
    return found


def test_run_reads_the_spec_and_makes_the_plan_once(project, command, calls):
    assert command("run", project.spec, "--out", project.out).code == 0
    assert sorted(calls) == ["load_spec", "make_plan"]


def test_publish_reads_the_spec_and_makes_the_plan_once(project, command, calls):
    project.write_spec(publish="after-approval")
    assert command("run", project.spec, "--out", project.out).code == Held.exit_code
    calls.clear()
    assert command("publish", "town", "--by", "officer", "--reason", "Fine.").code == 0
    assert sorted(calls) == ["load_spec", "make_plan"]
