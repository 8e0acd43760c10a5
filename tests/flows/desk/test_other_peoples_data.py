"""A desk whose data belong to another account: refused at its opening, and counted once."""

from __future__ import annotations

import pytest

from dp_core.errors import BudgetRefused, DataRefused
from flows.desk.desk import find_desk, open_desk
from flows.desk.desk_answers import desk_answer
from tasks.run.declared_public.public_input import file_hashes
from tasks.run.home import home_key
from tests.both_writers import both_writers
from tests.flows.conftest import as_csv, survey
from tests.flows.desk.conftest import WHO, Office, fits
from tests.ledgers import HOME, LAPLACE
from tests.specs import plan_of

pytestmark = pytest.mark.runbook("data-of-another-account")


@pytest.fixture
def shut(project, quick) -> Office:  # noqa: ARG001
    """A project with the accounts `rand` and `town`, and no desk."""
    project.open_account("rand")
    return Office(project)


@pytest.fixture
def use(shut, tmp_path):
    """Return a function that binds a release of an account to data."""

    def bind(account="town", data="town.csv"):
        ledger, home = shut.project.ledger(), shut.project.home
        whole, *parts = file_hashes(data, shut.project.folder, ledger)
        name = f"{account}-{ledger.head().position}"
        plan = plan_of(tmp_path, LAPLACE, release=name, account=account, privacy="{epsilon: 0.01}")
        with both_writers(ledger, name, HOME) as writer:
            reservation = writer.reserve(plan)
            named = {f"file {number}": one for number, one in enumerate(parts)}
            writer.bind_input(reservation, whole, home_key(home, ledger), named)

    return bind


def refused(does, says):
    with pytest.raises(DataRefused) as found:
        does()
    says(found.value)
    assert found.value.exit_code == 2
    assert "belong to account 'town'" in found.value.message
    return found.value


def closed(does):
    with pytest.raises(BudgetRefused) as found:
        does()
    assert (found.value.row, "town" in found.value.message) == ("desk-closed", False)
    assert "another family" in found.value.message


def counted(office, account="rand"):
    return office.project.ledger().attempts(account).refused


def test_an_opening_is_recorded_and_then_refused_and_counted_once(shut, use, says):
    use("town")
    refused(shut.open, says)
    ledger = shut.project.ledger()
    _, opened, closed = ledger.entries(account="rand", kinds=("open-desk", "close-desk"))
    assert (opened.kind, closed.kind) == ("open-desk", "close-desk")
    assert opened.body["by"] == closed.body["by"] == WHO["by"]
    assert ledger.desk_terms("rand") is None
    assert not (shut.project.home / "questions" / "rand" / "desk.json").exists()
    assert (counted(shut), counted(shut, "town")) == (1, 0)
    ledger.verify(home_key(shut.project.home, ledger))


def test_three_refused_openings_stop_the_account(shut, use, says):
    use("town")
    for _ in range(3):
        refused(shut.open, says)
    before = shut.project.ledger().head().position
    with pytest.raises(BudgetRefused) as stopped:
        shut.open()
    assert stopped.value.row == "attempts-refused"
    # A stopped account learns nothing about a file of its own or a new one either.
    (shut.project.folder / "town.csv").write_text(as_csv(survey()[:-1]))
    with pytest.raises(BudgetRefused):
        shut.open()
    assert shut.project.ledger().head().position == before


@pytest.mark.parametrize("parts", [1, 2])
def test_a_file_of_several_that_another_account_read_is_known(shut, use, parts, says):
    """The desk has one of two files, or the other account has."""
    folder, rows = shut.project.folder, survey()
    (folder / "town.csv").write_text(as_csv(rows[:200]))
    (folder / "town-2.csv").write_text(as_csv(rows[200:]))
    use("town", "town*.csv" if parts == 1 else "town-2.csv")
    refused(lambda: open_with(shut, "town.csv" if parts == 1 else "town*.csv"), says)


def open_with(office, data):
    path = office.project.folder / "questions.yaml"
    path.write_text(
        f"version: 1\naccount: rand\ndata: '{data}'\nschema: town.schema.yaml\n"
        "privacy: {delta: 1e-9}\nlargest_epsilon: 1\n"
    )
    return open_desk(path, office.project.ledger(), **WHO, fits=fits)


def test_an_own_file_a_new_one_and_one_of_the_family_open(shut, use, says):
    shut.project.open_account("child", within="rand")
    for account in ("rand", "child"):
        use(account)
        assert shut.open().data
    (shut.project.folder / "town.csv").write_text(as_csv(survey()[:-1]))
    shut.open()
    assert counted(shut) == 0
    use("town")
    refused(shut.open, says)


def test_a_file_that_another_account_used_since_is_refused_at_a_plan(shut, use, says, command):
    desk = shut.open()
    (shut.project.folder / "town-2.csv").write_bytes(
        (shut.project.folder / "town.csv").read_bytes()
    )
    shut.plan("count by sex")
    use("town")
    first = command("desk", "ask", "rand", "count by sex", "--epsilon", "1", "--plan")
    assert (first.code, "(runbook: desk-closed)" in first.err) == (3, True)
    shown = desk_answer(find_desk("rand"), shut.project.ledger())
    assert (counted(shut), shown["closed"]) == (1, True)
    before = shut.project.ledger().head().position
    for _ in range(4):
        closed(lambda: shut.plan("count by sex"))
        closed(lambda: shut.ask("count by age"))
    assert (counted(shut), shut.made) == (1, [])
    assert shut.project.ledger().head().position == before
    ledger = shut.project.ledger()
    ledger.verify(home_key(shut.project.home, ledger))
    assert find_desk("rand").data == desk.data
    (shut.project.folder / "town.csv").write_text(as_csv(survey()[:-1]))
    shut.open()
    shut.plan("count by sex")
    refused(lambda: open_with(shut, "town-2.csv"), says)


def test_a_stopped_account_is_not_told_at_a_plan(shut, use, says):
    use("town")
    refused(shut.open, says)
    refused(shut.open, says)
    (shut.project.folder / "town.csv").write_text(as_csv(survey()[:-1]))
    shut.open()
    use("town")
    closed(lambda: shut.plan("count by sex"))
    assert counted(shut) == 3
    # It was told before, so it may be told again.
    closed(lambda: shut.plan("count by sex"))


def test_a_plan_opens_no_data(shut):
    shut.open()
    (shut.project.folder / "town.csv").unlink()
    shut.plan("count by sex")
