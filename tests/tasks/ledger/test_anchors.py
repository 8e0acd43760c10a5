"""The anchor: a restored or copied ledger is refused until a person adopts it."""

import json
import os
import shutil
import subprocess
import threading
from contextlib import closing, contextmanager
from fractions import Fraction

import pytest
import sqlalchemy as sa

from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from tasks.ledger.anchors import ledger_anchor
from tasks.ledger.anchors.anchor_notes import read_notes
from tasks.ledger.database import sql_store
from tasks.ledger.database.ledger_place import difference, is_same_site, place_of, site_of
from tasks.ledger.export import read_export, write_export
from tasks.run.home import home_id, open_ledger
from tests.ledgers import LAPLACE, WHO, audited, execute, open_town, owner, spend
from tests.specs import plan_of


@pytest.fixture
def ledger(home):
    """An anchored SQLite ledger with one account."""
    found = open_ledger(home)
    open_town(found)
    return found


def refused(home, row):
    with pytest.raises(LedgerCorrupt) as found:
        open_ledger(home)
    assert found.value.row == row
    assert "dp-release ledger adopt --by NAME --reason TEXT" in found.value.message
    assert "\n" not in found.value.message
    assert found.value.exit_code == 5
    return found.value.message


def outside(tmp_path, ledger):
    return tmp_path / "state" / f"{ledger.identity()}.json"


def noted(tmp_path, ledger):
    """Return the position in each note."""
    identity = ledger.identity()
    files = tmp_path / "home" / "ledger.head", outside(tmp_path, ledger)
    return {read_notes(file)[identity].position for file in files}


# -- noting


def test_every_kind_of_write_moves_both_notes(ledger, tmp_path):
    def decide():
        ledger.raise_account("town", epsilon=Fraction(5, 2), **WHO)
        yield
        ledger.approve("plan", **WHO)
        yield
        ledger.withdraw("plan", **WHO)
        yield
        spend(ledger, plan_of(tmp_path, LAPLACE, release="r", privacy="{epsilon: 0.25}"))
        yield
        ledger.close_account("town", **WHO)
        yield

    before = ledger.head().position
    for _ in decide():
        assert noted(tmp_path, ledger) == {ledger.head().position}
        assert ledger.head().position > before
        before = ledger.head().position
    assert read_notes(outside(tmp_path, ledger))[ledger.identity()].closed == ("town",)


def test_what_could_not_be_noted_is_noted_by_the_next_write_also_if_it_adds_nothing(
    ledger, tmp_path, monkeypatch
):
    def full(*_arguments, **_options):
        raise StageFailed("The disk is full.")

    with ledger.lease("r", "home") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(ledger_anchor, "write_notes", full)
            with pytest.raises(StageFailed):
                writer.reserve(plan_of(tmp_path, release="r"))
        head = ledger.head()
        assert noted(tmp_path, ledger) == {head.position - 1}
        reservation = writer.reserve(plan_of(tmp_path, release="r"))
        assert reservation.position == head.position == ledger.head().position
        assert noted(tmp_path, ledger) == {head.position}


def test_every_transaction_of_a_release_is_noted_before_the_next_one(ledger, tmp_path, monkeypatch):
    """The head that a transaction finds is always the one that is noted."""
    seen = []
    check = ledger_anchor.LedgerAnchor.check

    def watched(self, book):
        seen.append((book.head().position, noted(tmp_path, ledger)))
        return check(self, book)

    monkeypatch.setattr(ledger_anchor.LedgerAnchor, "check", watched)
    spend(ledger, plan_of(tmp_path, LAPLACE, release="r", privacy="{epsilon: 0.25}"))
    assert len({head for head, _ in seen}) > 3
    assert all(notes == {head} for head, notes in seen)


def test_the_notes_are_for_their_owner_only_and_leave_no_other_file(ledger, tmp_path):
    state = tmp_path / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    file = outside(tmp_path, ledger)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home" / "ledger.head").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in state.iterdir()} == {file.name, file.with_suffix(".lock").name}


def test_nothing_is_written_where_nothing_was_appended(ledger, home):
    before = (home / "ledger.head").stat().st_ino
    with ledger.lease("r", "home"):
        pass
    with pytest.raises(BadInput):
        ledger.close_account("village", **WHO)
    assert (home / "ledger.head").stat().st_ino == before


def test_a_crash_between_commit_and_note_is_accepted_and_made_up_for(
    ledger, home, tmp_path, monkeypatch
):
    def killed(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledger_anchor, "write_notes", killed)
        with pytest.raises(KeyboardInterrupt):
            ledger.close_account("town", **WHO)
    assert ledger.head().kind == "close"
    assert noted(tmp_path, ledger) == {ledger.head().position - 1}
    again = open_ledger(home)
    assert noted(tmp_path, ledger) == {again.head().position}
    assert read_notes(outside(tmp_path, ledger))[ledger.identity()].closed == ("town",)


def test_a_writer_that_was_open_before_notes_what_another_could_not(ledger, home, tmp_path):
    other = open_ledger(home)
    plain = type(ledger)(f"sqlite:///{home / 'ledger.db'}")  # as if killed before its note
    plain.close_account("town", **WHO)
    other.approve("plan", **WHO)
    note = read_notes(outside(tmp_path, ledger))[ledger.identity()]
    assert note.position == other.head().position
    assert note.closed == ("town",)


def test_writers_at_once_leave_the_newest_note(ledger, home, tmp_path):
    def approve(number):
        mine = open_ledger(home)
        for step in range(5):
            mine.approve(f"plan-{number}-{step}", **WHO)

    threads = [threading.Thread(target=approve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.head().position == 22
    assert noted(tmp_path, ledger) == {22}
    open_ledger(home)


# -- the state folder


@contextmanager
def read_only(folder):
    """Let a folder refuse to be written, also for root."""
    real = os.access

    def access(path, mode, **options):
        refused = str(path) == str(folder) and mode & os.W_OK
        return not refused and real(path, mode, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", access)
        yield


def test_without_the_state_folder_nothing_is_recorded_and_reading_works(ledger, home, tmp_path):
    before = ledger.head()
    with read_only(tmp_path / "state"):
        with pytest.raises(BadInput, match="so nothing was recorded") as found:
            ledger.close_account("town", **WHO)
        assert found.value.row == "state-folder"
        assert "DP_RELEASE_STATE" in found.value.message
        assert open_ledger(home).head() == before
    assert ledger.head() == before


def test_a_state_folder_that_cannot_be_made_is_refused(home, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(BadInput, match="state folder"):
        open_town(open_ledger(home))


def test_the_state_folder_is_the_users_by_default(home, tmp_path, monkeypatch):
    monkeypatch.delenv("DP_RELEASE_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    ledger = open_ledger(home)
    assert (tmp_path / "xdg" / "dp-release" / f"{ledger.identity()}.json").is_file()
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    open_ledger(home)
    assert (tmp_path / "user" / ".local" / "state" / "dp-release").is_dir()


@pytest.mark.usefixtures("ledger")
def test_a_folder_state_in_a_home_does_not_move_its_note_into_the_home(ledger, home, tmp_path):
    """Both notes would be restored together with the home, and nothing would reveal it."""
    (home / "state").mkdir()
    backup = tmp_path / "backup"
    open_ledger(home).approve("plan", **WHO)
    shutil.copytree(home, backup)
    open_ledger(home).close_account("town", **WHO)
    assert noted(tmp_path, ledger) == {4}
    assert not list((home / "state").iterdir())
    for file in home.rglob("*"):
        if file.is_file():
            file.write_bytes((backup / file.relative_to(home)).read_bytes())
    assert str(tmp_path / "state") in refused(home, "ledger-older")


def test_only_a_new_ledger_of_the_home_itself_is_that_of_a_demo(home, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{tmp_path / 'shared.db'}")
    assert not open_ledger(home, demo=True).is_of_demo()
    monkeypatch.delenv("DP_RELEASE_LEDGER")
    assert not open_ledger(home).is_of_demo()
    assert not open_ledger(home, demo=True).is_of_demo()
    assert open_ledger(tmp_path / "demo", demo=True).is_of_demo()


# -- deleted


def delete(home):
    (home / "ledger.db").unlink()
    (home / "ledger.head").unlink()


def test_a_deleted_ledger_is_not_replaced_by_a_new_one(ledger, home, tmp_path):
    """Nothing in the home tells of it: it has no runs, and its own note was deleted too."""
    backup = (home / "ledger.db").read_bytes()
    note = outside(tmp_path, ledger)
    delete(home)
    message = refused(home, "ledger-lost")
    assert str(note) in message
    assert "knows its entry 2" in message
    assert not list(home.iterdir())
    (home / "ledger.db").write_bytes(backup)
    refused(home, "ledger-copied")
    assert open_ledger(home, refuse=False).adopt(**WHO).behind == 0
    open_ledger(home).approve("plan", **WHO)


@pytest.mark.usefixtures("ledger")
def test_an_empty_file_is_no_new_ledger_in_the_place_of_a_deleted_one(home):
    delete(home)
    (home / "ledger.db").touch()
    refused(home, "ledger-lost")
    assert (home / "ledger.db").stat().st_size == 0


@pytest.mark.usefixtures("ledger")
def test_a_ledger_that_was_deleted_after_its_home_was_renamed_is_missed(home, tmp_path):
    home.rename(tmp_path / "moved")
    delete(tmp_path / "moved")
    refused(tmp_path / "moved", "ledger-lost")
    open_ledger(home)


@pytest.mark.usefixtures("ledger")
def test_the_note_in_the_home_alone_reveals_a_deleted_ledger(home, tmp_path):
    (home / "ledger.db").unlink()
    shutil.rmtree(tmp_path / "state")
    assert str(home / "ledger.head") in refused(home, "ledger-lost")


def test_a_home_that_was_deleted_and_made_again_is_another_one(ledger, home):
    with ledger._database.reading() as book:
        if place_of(book.store.connection)["born"] is None:
            pytest.skip("This file system has no times of birth.")
    before = ledger.identity()
    shutil.rmtree(home)
    assert open_ledger(home).identity() != before


@pytest.mark.usefixtures("ledger")
def test_other_homes_and_other_files_are_not_concerned(home, tmp_path, monkeypatch):
    delete(home)
    open_ledger(tmp_path / "other")
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{home / 'other.db'}")
    open_ledger(home)


@pytest.mark.parametrize("other", ["machine", "name", "folder", "folder_born", None])
def test_a_site_is_a_machine_a_folder_and_a_name(tmp_path, other):
    now = site_of(tmp_path / "ledger.db")
    now |= {"machine": "m", "folder_born": "1.5"}
    noted = {**now, **({other: "another"} if other else {})}
    for same_url in (True, False):
        assert is_same_site(noted, now, same_url=same_url) is (other is None)


def test_without_a_time_of_birth_the_url_decides_too(tmp_path):
    now = {**site_of(tmp_path / "ledger.db"), "folder_born": None}
    assert is_same_site(now, now, same_url=True)
    assert not is_same_site(now, now, same_url=False)
    assert not is_same_site({}, now, same_url=True)  # a note of an earlier program
    nowhere = site_of(tmp_path / "nowhere" / "ledger.db")
    assert not is_same_site(nowhere, nowhere, same_url=True)


# -- restored


def test_a_whole_home_restored_in_place_is_refused(ledger, home, tmp_path):
    """With its own note: only the one outside the home is newer."""
    kept = {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}
    ledger.close_account("town", **WHO)
    for name, content in kept.items():
        (home / name).write_bytes(content)
    assert str(tmp_path / "state") in refused(home, "ledger-older")


def test_a_process_that_runs_meanwhile_writes_nothing_into_a_restored_ledger(ledger, home):
    backup = (home / "ledger.db").read_bytes()
    ledger.raise_account("town", epsilon=Fraction(5, 2), **WHO)
    (home / "ledger.db").write_bytes(backup)
    with pytest.raises(LedgerCorrupt, match="older than"):
        ledger.approve("plan", **WHO)
    assert (home / "ledger.db").read_bytes() == backup


def test_an_adopted_ledger_keeps_closed_accounts_closed_and_says_what_is_missing(
    ledger, home, tmp_path
):
    backup = (home / "ledger.db").read_bytes()
    ledger.approve("plan", **WHO)
    ledger.close_account("town", **WHO)
    (home / "ledger.db").write_bytes(backup)
    refused(home, "ledger-older")
    found = open_ledger(home, refuse=False).adopt(by="officer", reason="the disk failed")
    assert (found.behind, found.head, found.noted, found.closed) == (2, 2, 4, ("town",))
    again = open_ledger(home)
    adopt, close = again.entries()[-2:]
    assert (adopt.kind, close.kind, close.receipt.account) == ("adopt", "close", "town")
    assert adopt.body["from"]["position"] == 4
    assert adopt.body["to"] == {"position": 2, "link": again.entries(position=2)[0].link}
    assert (adopt.body["by"], adopt.body["reason"]) == ("officer", "the disk failed")
    assert again.account("town").charter.closed
    assert again.verify().entries == 4
    assert noted(tmp_path, again) == {4}
    with pytest.raises(BudgetRefused):
        again.check(plan_of(tmp_path, LAPLACE, release="r", privacy="{epsilon: 0.25}"))


def test_nothing_is_adopted_that_is_not_refused(ledger):
    before = ledger.head()
    with pytest.raises(BadInput, match="nothing to adopt"):
        ledger.adopt(**WHO)
    assert ledger.head() == before


def test_a_ledger_that_does_not_verify_is_not_adopted(ledger, home):
    ledger.approve("plan", **WHO)
    with owner(f"sqlite:///{home / 'ledger.db'}") as connection:
        connection.exec_driver_sql("UPDATE entries SET salt = 'x' WHERE position = 2")
    content = (home / "ledger.db").read_bytes()
    with pytest.raises(LedgerCorrupt, match="Entry 2"):
        open_ledger(home, refuse=False).adopt(**WHO)
    assert (home / "ledger.db").read_bytes() == content


def test_a_damaged_note_is_replaced_by_an_adoption(ledger, home, tmp_path):
    for file in (home / "ledger.head", outside(tmp_path, ledger)):
        file.write_text("{")
    refused(home, "head-damaged")
    found = open_ledger(home, refuse=False).adopt(**WHO)
    assert (found.noted, found.behind) == (None, None)
    assert noted(tmp_path, open_ledger(home)) == {3}


def test_another_ledger_in_the_place_of_a_noted_one_can_be_adopted(home, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{tmp_path / 'shared.db'}")
    open_town(open_ledger(home))
    first = open_ledger(home).identity()
    with monkeypatch.context() as patch:
        patch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{tmp_path / 'new.db'}")
        patch.setenv("DP_RELEASE_STATE", str(tmp_path / "another"))
        open_ledger(tmp_path / "another home")
    (tmp_path / "new.db").rename(tmp_path / "shared.db")
    refused(home, "ledger-replaced")
    open_ledger(home, refuse=False).adopt(**WHO)
    adopted = open_ledger(home)
    assert adopted.head().body["replaced"] == [first]


# -- copied


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("left_out", ["nothing", "ledger.head", "state", "both"])
def test_a_copy_is_refused_without_its_notes_too(home, tmp_path, monkeypatch, left_out):
    """`cp -a` of a home gave a second budget."""
    subprocess.run(["cp", "-a", str(home), str(tmp_path / "copy")], check=True)
    if left_out in ("ledger.head", "both"):
        (tmp_path / "copy" / "ledger.head").unlink()
    if left_out in ("state", "both"):
        monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "another machine's"))
    refused(tmp_path / "copy", "ledger-copied")
    if left_out == "nothing":
        open_ledger(home)


def test_after_a_copy_was_adopted_the_original_is_refused(ledger, home, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    found = open_ledger(copy, refuse=False).adopt(**WHO)
    assert (found.behind, found.closed) == (0, ())
    assert "not the file" in found.elsewhere
    open_ledger(copy).approve("plan", **WHO)
    refused(home, "ledger-older")
    with pytest.raises(LedgerCorrupt):
        ledger.approve("plan", **WHO)
    back = open_ledger(home, refuse=False).adopt(**WHO)
    assert back.behind == 2
    open_ledger(home)
    refused(copy, "ledger-older")


@pytest.mark.usefixtures("ledger")
def test_a_home_that_was_renamed_is_the_same(home, tmp_path):
    identity = home_id(home)
    home.rename(tmp_path / "moved")
    moved = open_ledger(tmp_path / "moved")
    moved.approve("plan", **WHO)
    assert home_id(tmp_path / "moved") == identity


def test_a_restored_file_with_the_inode_number_of_the_deleted_one_is_refused(
    home, tmp_path, monkeypatch, ledger
):
    """A file system gives the number of a deleted file to the next one; notes may be lost too."""
    file, backup = home / "ledger.db", tmp_path / "backup.db"
    with ledger._database.reading() as book:
        if place_of(book.store.connection)["born"] is None:
            pytest.skip("This file system has no times of birth.")
    shutil.copy2(file, backup)
    number = file.stat().st_ino
    file.unlink()
    shutil.copy2(backup, file)
    (home / "ledger.head").unlink()
    monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "another"))
    monkeypatch.setattr("tasks.ledger.database.ledger_place._inode", lambda _: number)
    refused(home, "ledger-copied")


@pytest.mark.usefixtures("ledger")
def test_vacuum_makes_no_copy(home):
    with closing(sa.create_engine(f"sqlite:///{home / 'ledger.db'}").raw_connection()) as raw:
        raw.execute("VACUUM")
    open_ledger(home).approve("plan", **WHO)


def change_notes(tmp_path, ledger, **lives):
    """Change what both notes say of the place."""
    for file in (tmp_path / "home" / "ledger.head", outside(tmp_path, ledger)):
        values = json.loads(file.read_bytes())
        values["ledgers"][ledger.identity()]["lives"] |= lives
        file.write_text(json.dumps(values))


@pytest.mark.parametrize("mounted", [True, False])
def test_another_device_after_a_reboot_is_the_same_home(
    ledger, home, tmp_path, monkeypatch, mounted
):
    monkeypatch.setattr(ledger_anchor, "_is_mounted", lambda _device: mounted)
    change_notes(tmp_path, ledger, device=4711, boot="the boot before")
    open_ledger(home).approve("plan", **WHO)


def test_another_device_in_the_same_boot_is_a_copy_while_the_first_is_mounted(
    ledger, home, tmp_path, monkeypatch
):
    """The copy has the same inode number by chance."""
    change_notes(tmp_path, ledger, device=4711)
    monkeypatch.setattr(ledger_anchor, "_is_mounted", lambda _device: False)
    open_ledger(home)  # a network file system that was mounted again
    change_notes(tmp_path, ledger, device=4711)
    monkeypatch.setattr(ledger_anchor, "_is_mounted", lambda device: device == 4711)
    refused(home, "ledger-copied")


def test_the_devices_that_are_mounted_are_known():
    assert ledger_anchor._is_mounted(os.stat("/proc").st_dev)
    assert not ledger_anchor._is_mounted(os.makedev(4000, 4711))


def test_another_machine_is_refused_and_a_machine_without_identifier_is_not(home, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_MACHINE", "first")
    open_town(open_ledger(home))
    monkeypatch.setenv("DP_RELEASE_MACHINE", "second")
    assert "another machine" in refused(home, "ledger-copied")
    monkeypatch.setattr("tasks.ledger.database.ledger_place._machine", lambda: None)
    open_ledger(home)


def test_a_ledger_of_an_earlier_program_is_known_from_its_first_opening_on(home, tmp_path):
    """It records no place, and its home may have a note of the earlier format."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql_store, "place_of", lambda _connection: {})
        ledger = open_ledger(home)
    shutil.rmtree(tmp_path / "state")
    values = json.loads((home / "ledger.head").read_bytes())
    note = values["ledgers"][ledger.identity()]
    del note["lives"], note["closed"]
    (home / "ledger.head").write_text(json.dumps({**values, "version": 1}))
    open_town(open_ledger(home))
    shutil.copytree(home, tmp_path / "copy")
    refused(tmp_path / "copy", "ledger-copied")


# -- what is recorded


def test_an_export_with_an_adoption_verifies_and_a_false_count_does_not(ledger, home, tmp_path):
    backup = (home / "ledger.db").read_bytes()
    ledger.approve("plan", **WHO)
    (home / "ledger.db").write_bytes(backup)
    open_ledger(home, refuse=False).adopt(**WHO)
    adopted = open_ledger(home)
    entries = [entry for entry, _ in adopted.all_entries()]
    head = adopted.head()
    write_export(tmp_path / "export", entries, count=head.position, head=head.link)
    assert audited(read_export(tmp_path / "export")).head == head.link
    plain = type(ledger)(f"sqlite:///{home / 'ledger.db'}")
    body = {**head.body, "to": {"position": 3, "link": head.link}}
    for wrong in ({**body, "behind": 7}, {**body, "to": {"position": 2, "link": head.link}}):
        with plain._database.writing() as book, pytest.raises(LedgerCorrupt, match="was not added"):
            book.append("adopt", body=wrong)


def test_a_settlement_states_the_adoptions_before_it(ledger, home, tmp_path):
    first = plan_of(tmp_path, LAPLACE, release="first", privacy="{epsilon: 0.25}")
    second = plan_of(tmp_path, LAPLACE, release="second", privacy="{epsilon: 0.25}")
    spend(ledger, first)
    backup = (home / "ledger.db").read_bytes()
    ledger.approve("plan", **WHO)
    (home / "ledger.db").write_bytes(backup)
    open_ledger(home, refuse=False).adopt(**WHO)
    adopted = open_ledger(home)
    spend(adopted, second)
    before, after = (entry.body for entry in adopted.entries(kinds=("settle",)))
    assert "adopted" not in before
    day = adopted.entries(kinds=("adopt",))[0].receipt.at
    assert after["adopted"] == [{"day": day, "behind": 1}]
    assert adopted.verify().entries == adopted.head().position


# -- PostgreSQL


@pytest.fixture
def shared(home, postgres_url, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_LEDGER", postgres_url)
    found = open_ledger(home)
    open_town(found)
    return found


def test_a_database_knows_its_cluster_its_timeline_and_itself(shared):
    place = shared.entries(position=1)[0].body["place"]
    assert set(place) == {"database", "system", "timeline"}
    assert place["timeline"] == 1
    assert int(place["system"]) > 0
    assert shared.anchor_findings().now == place


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("system", "4711", "another PostgreSQL cluster"),
        ("timeline", 2, "timeline"),
        ("database", 3, "another database"),
    ],
)
def test_a_copied_or_promoted_database_is_refused_and_can_be_adopted(
    home, monkeypatch, name, value, words
):
    real = sql_store.place_of
    elsewhere = lambda connection: {**real(connection), name: value}  # noqa: E731
    monkeypatch.setattr(sql_store, "place_of", elsewhere)
    assert words in refused(home, "ledger-copied")
    open_ledger(home, refuse=False).adopt(**WHO)
    open_ledger(home).approve("plan", **WHO)
    monkeypatch.setattr(sql_store, "place_of", real)
    refused(home, "ledger-copied")


def test_a_role_that_may_not_ask_for_the_cluster_compares_the_rest(shared, home, postgres_url):
    engine = sa.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE ROLE blind LOGIN")
            connection.exec_driver_sql("GRANT ALL ON entries, totals, leases TO blind")
            connection.exec_driver_sql("GRANT SELECT ON alembic_version TO blind")
            connection.exec_driver_sql("REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC")
            connection.exec_driver_sql("SET LOCAL ROLE blind")
            found = place_of(connection)
        recorded = shared.entries(position=1)[0].body["place"]
        assert found == {**recorded, "system": None}
        assert difference(recorded, found) is None
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("GRANT EXECUTE ON FUNCTION pg_control_system TO PUBLIC")
            connection.exec_driver_sql("DROP OWNED BY blind")
            connection.exec_driver_sql("DROP ROLE blind")
        engine.dispose()
    open_ledger(home).approve("plan", **WHO)


def test_a_restored_database_is_refused_in_the_home_and_outside(shared, home, postgres_url):
    shared.close_account("town", **WHO)
    with owner(postgres_url) as connection:
        connection.exec_driver_sql("DELETE FROM entries WHERE kind = 'close'")
    refused(home, "ledger-older")
    (home / "ledger.head").unlink()
    refused(home, "ledger-older")
    found = open_ledger(home, refuse=False).adopt(**WHO)
    assert (found.behind, found.closed) == (1, ("town",))
    assert open_ledger(home).account("town").charter.closed


def test_one_home_adopts_a_promoted_database_for_the_others_too(shared, tmp_path, monkeypatch):
    other = tmp_path / "other"
    real, state = sql_store.place_of, os.environ["DP_RELEASE_STATE"]
    monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "state of the other"))
    open_ledger(other).approve("plan", **WHO)
    promoted = lambda connection: {**real(connection), "timeline": 2}  # noqa: E731
    monkeypatch.setattr(sql_store, "place_of", promoted)
    refused(other, "ledger-copied")
    refused(tmp_path / "home", "ledger-copied")
    open_ledger(other, refuse=False).adopt(**WHO)
    open_ledger(other)
    monkeypatch.setenv("DP_RELEASE_STATE", state)
    open_ledger(tmp_path / "home").withdraw("plan", **WHO)
    monkeypatch.setattr(sql_store, "place_of", real)
    refused(tmp_path / "home", "ledger-copied")
    assert shared.adoptions()[0].behind == 0


@pytest.mark.usefixtures("shared")
def test_tables_that_were_dropped_are_not_made_again_in_the_same_database(
    home, postgres_url, postgres_server, monkeypatch
):
    execute(postgres_url, "DROP TABLE entries, totals, leases, alembic_version CASCADE")
    (home / "ledger.head").unlink()
    assert "DP_RELEASE_LEDGER to another database" in refused(home, "ledger-lost")
    refused(home, "ledger-lost")
    monkeypatch.setenv("DP_RELEASE_LEDGER", postgres_server.create_database())
    open_ledger(home)
