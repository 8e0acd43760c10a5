"""Which sets an earlier release's tables can make: modes, methods, relations, private choices."""

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, Held
from flows.cli.actions import publication_decisions
from tests.flows.test_private_domain import PRIVATE
from tests.flows.test_reuse import FIRST, Second
from tests.full import some

pytestmark = pytest.mark.usefixtures("quick")
BY = {"by": "Ana Officer", "reason": "read it"}
PRIVSYN = "method: privsyn\nmeasure: {noise: gaussian}\n"
TABLES = "tables:\n  - {of: [sex, age]}\nsynthesize: {sets: 0}\n"
SPLIT = "synthesize: {sets: 3, mode: split}\n"


def made(project, text, **changes):
    project.write_spec(text, **changes)
    project.release()
    (project.folder / "town.csv").unlink()
    return Second(project)


@pytest.mark.parametrize(
    ("first", "second"),
    some(
        [
            (FIRST, "reconstruct: {method: pgm}\nsynthesize: {mode: shared, sets: 4}\n"),
            (PRIVSYN + SPLIT, SPLIT + "reconstruct: {method: independent}\n"),
            ("method: auto\n", "synthesize: {sets: 2, rows: 50}\n"),
            ("method: auto\n", "synthesize: {mode: posterior, sets: 2}\n"),
            (TABLES, "synthesize: {sets: 2}\n"),
            ("method: mwem\n", "synthesize: {sets: 2}\n"),
            ("method: privbayes\n", "synthesize: {sets: 2}\n"),
            ("method: fdh\nprivacy: {epsilon: 1}\n", "synthesize: {sets: 2}\n"),
        ],
        # Sets of the default are in `test_reuse.py`.
        lambda case: case[0] in (FIRST, PRIVSYN + SPLIT, TABLES),
    ),
)
def test_new_sets_are_made_from_the_tables_of_every_kind(project, first, second):
    again = (
        made(project, first)
        if "privacy" not in first
        else made(project, first.partition("privacy")[0], privacy="{epsilon: 1}")
    )
    again.write(second)

    again.make()

    found = verify(again.out, measurements=project.out)
    assert found.passed, found.failures


def test_privately_chosen_bins_and_levels_are_those_of_the_first_release(project):
    (project.folder / "town.schema.yaml").write_text(PRIVATE)
    again = made(project, PRIVSYN)
    again.write("synthesize: {sets: 2, seed: 5}\n")

    run = again.make()

    assert verify(again.out, measurements=project.out).passed
    assert again.statement()["method"]["domain"]
    assert run.plan.spec.schema.columns != run.planned.spec.schema.columns


def test_a_public_number_of_rows_is_taken_over(project):
    project.open_account("people", neighbours="replace-one")
    replaced = {
        "account": "people",
        "privacy": "{epsilon: 1, delta: 1e-6, neighbours: replace-one}",
    }
    again = made(project, FIRST, **replaced)
    again.write(account="people")

    again.make()

    assert verify(again.out, measurements=project.out).passed
    assert set(again.statement()["sets"]["rows"]) == {400}


@pytest.mark.parametrize(
    ("first", "second", "named"),
    some(
        [
            (PRIVSYN + SPLIT, "", "mode: split, sets: 3"),
            (PRIVSYN + SPLIT, "synthesize: {mode: split, sets: 2}\n", "sets: 3"),
            ("method: mst\n", "synthesize: {mode: posterior}\n", "make all others strong"),
            ("method: modips\n", "", "parametric"),
            ("method: dualquery\n", "", "records"),
        ],
        lambda case: case[2] in ("mode: split, sets: 3", "parametric"),
    ),
)
def test_sets_that_the_tables_cannot_make_honestly_are_refused(project, first, second, named):
    again = made(project, first)
    again.write(second)

    with pytest.raises(BadInput) as refused:
        again.make()

    assert named in refused.value.message
    assert "again.yaml" in refused.value.message
    assert project.ledger().reservation("again") is None


def test_new_sets_wait_for_approval_and_are_published_unchanged(project):
    again = made(project, FIRST)
    again.write("publish: after-approval\n")
    with pytest.raises(Held):
        again.make()
    with pytest.raises(BadInput, match="no internal report"):
        publication_decisions.look(project.home, project.ledger(), "again", **BY)

    publication_decisions.publish(project.home, project.ledger(), "again", out=None, **BY)

    assert verify(again.out, measurements=project.out).passed
    project.ledger().verify()
