"""A process that was taken for dead goes on: what it writes reaches nothing that others read."""

import os
import shutil
from fractions import Fraction

import pytest

from dp_core.bundle.files.marginals_file import read_marginals
from dp_core.client.released import tables_of
from dp_core.confidential.coding import write_codes
from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from dp_core.kernel.cost.composition import Terms
from flows.cli.actions.publication_decisions import abandon
from tests.confidential_side import confidential_run
from tests.flows.conftest import as_csv, plainly, stopping, survey
from tests.full import some
from tests.ledgers import set_lease

pytestmark = pytest.mark.usefixtures("quick")


def end_the_lease(project):
    """What a minute without renewal does to a holder that cannot be seen from here."""
    set_lease(f"sqlite:///{project.home / 'ledger.db'}", expires=0)


def test_codes_of_one_input_are_never_counted_for_another_account(project):
    """A stopped process writes its codes while another makes the release from other data."""
    village = survey()
    for row in village:
        row[2] = "1"
    (project.folder / "village.csv").write_text(as_csv(village))
    project.open_account("village", terms=Terms("basic", Fraction(5), Fraction("1e-5")))

    def late(stage, run, *given):
        if stage.name != "discretize":
            return plainly(stage, run, *given)
        end_the_lease(project)

        def meanwhile(other, other_run, *given):
            answer = plainly(other, other_run, *given)
            if other.name == "discretize":
                # Its work was begun before it was taken over, and goes on to its end.
                side = confidential_run(run)
                write_codes(side.source, run.spec.schema, side.codes, lambda _done: None)
            return answer

        project.write_spec(
            data="village.csv", account="village", privacy="{epsilon: 5, delta: 1e-6}"
        )
        project.release(perform=meanwhile)
        with pytest.raises(StageFailed, match="took over"):
            plainly(stage, run, *given)
        raise StageFailed("refused")

    with pytest.raises(StageFailed, match="refused"):
        project.release(perform=late)
    assert project.faults() == {}
    released = read_marginals(project.out / "marginals.parquet")
    tables = {table.clique: table.values for table in tables_of(released)}
    male, female = tables[("sex",)]
    assert male > 300
    assert female < 100
    balances = [project.ledger().account(name).balance.spent.main for name in ("town", "village")]
    assert balances == [0, 5]


BACKUPS = ("before any charge", "before the last")


@pytest.fixture
def forgotten(project):
    """A charged and stored result that the ledger, restored from a backup, knows nothing of."""
    file, backups = project.home / "ledger.db", {}

    def stops(stage, run, *given):
        if stage.name == "basics":
            backups["before any charge"] = file.read_bytes()
        if stage.name == "measure":
            backups["before the last"] = file.read_bytes()
        answer = plainly(stage, run, *given)
        if stage.name == "measure":
            raise StageFailed("outside")
        return answer

    with pytest.raises(StageFailed, match="outside"):
        project.release(perform=stops)
    return file, backups


@pytest.mark.parametrize(
    ("backup", "noted"),
    some(
        [(backup, noted) for backup in BACKUPS for noted in (True, False)],
        lambda case: case in ((BACKUPS[0], True), (BACKUPS[1], False)),
    ),
)
def test_a_ledger_that_forgot_a_charge_ends_no_release(project, forgotten, backup, noted):
    """Neither abandoning nor beginning anew gives back what a forgotten charge spent."""
    file, backups = forgotten
    file.write_bytes(backups[backup])
    end_the_lease(project)
    if not noted:
        (project.home / "ledger.head").unlink()
        shutil.rmtree(os.environ["DP_RELEASE_STATE"])

    with pytest.raises(LedgerCorrupt, match="older than"):
        abandon(project.home, project.ledger(), "town")
    (project.folder / "town.csv").rename(project.folder / "moved.csv")
    with pytest.raises(LedgerCorrupt, match="older than"):
        project.release()
    project.write_spec(privacy="{epsilon: 0.5, delta: 1e-6}")
    (project.folder / "moved.csv").rename(project.folder / "town.csv")
    with pytest.raises((LedgerCorrupt, BadInput), match=r"older than|another plan"):
        project.release()
    if not noted:
        assert project.ledger().account("town").balance.reserved.main == 1


def test_a_result_that_another_ledger_paid_for_stops_the_release(project, monkeypatch, tmp_path):
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{tmp_path / 'other.db'}")
    project.open_account(terms=Terms("basic", Fraction(50), Fraction("1e-5")))
    project.write_spec("select: {at_once: never}\n", privacy="{epsilon: 50, delta: 1e-6}")
    with pytest.raises(StageFailed, match="outside"):
        project.release(perform=stopping("basics", StageFailed("outside"), after=True))
    monkeypatch.delenv("DP_RELEASE_LEDGER")
    project.write_spec("select: {at_once: never}\n", privacy="{epsilon: 0.1, delta: 1e-6}")
    with pytest.raises(LedgerCorrupt, match="another ledger"):
        project.release()
    assert project.ledger().account("town").balance.used.main == 0
