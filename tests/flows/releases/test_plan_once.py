"""One command reads the spec once, makes each plan once, and passes it on."""

import sys
from collections import Counter

import pytest

from dp_core.errors import Held
from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_plan, load_spec


@pytest.fixture
def calls(monkeypatch):
    """Return how often each spec was read and each plan was made, wherever it was imported."""
    found = Counter()

    def count(function):
        def counted(asked, **named):
            if function is make_plan:
                # Everything that plans of one release may differ in.
                found["plan", asked.noise, repr(asked.selector), repr(asked.shares)] += 1
            else:
                found["spec", asked.name] += 1
            return function(asked, **named)

        for name, module in list(sys.modules.items()):
            # Other packages may warn, or import more, when a module of theirs is asked for a name.
            ours = name.partition(".")[0] in ("dp_core", "tasks", "flows")
            if ours and getattr(module, function.__name__, None) is function:
                monkeypatch.setattr(module, function.__name__, counted)

    import flows.cli.actions.publication_decisions
    import flows.cli.actions.run_release
    import flows.release  # noqa: F401

    for function in (load_plan, load_spec, make_plan):
        count(function)
    return found


def test_run_reads_the_spec_and_makes_each_plan_once(project, command, calls):
    assert command("run", project.spec, "--out", project.out).code == 0
    assert {each[0] for each in calls} == {"spec", "plan"}
    # The process that may see the data reads for itself what the ledger reserved.
    assert set(calls.values()) == {2}


def test_plan_makes_a_plan_once_that_it_compared_with_others(project, command, calls):
    """`auto` compares looking first with measuring in one step while the spec is read."""
    schema = project.folder / "small.schema.yaml"
    schema.write_text(
        "version: 1\ntitle: t\nrows_about: 400\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 99, bins: 4}\n"
        "  sex: {type: category, levels: {1: male, 2: female}}\n"
    )
    project.write_spec(schema=schema.name)
    answer = command("plan", project.spec, "--json")
    assert answer.code == 0
    assert len([each for each in calls if each[0] == "plan"]) > 1
    assert set(calls.values()) == {1}


def test_publish_reads_the_spec_and_makes_each_plan_once(project, command, calls):
    project.write_spec(publish="after-approval")
    assert command("run", project.spec, "--out", project.out).code == Held.exit_code
    calls.clear()
    assert command("release", "publish", "town", "--by", "officer", "--reason", "Fine.").code == 0
    assert {each[0] for each in calls} == {"spec", "plan"}
    assert set(calls.values()) == {1}
