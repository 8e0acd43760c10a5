import shutil

import pytest

from dp_core.errors import LedgerCorrupt
from tasks.run.home import assert_not_lost, home_id, home_key, ledger_exists, open_ledger
from tests.ledgers import open_town


class Sealed:
    """A ledger that holds an input."""

    def knows_inputs(self):
        return True


def test_a_home_begins_with_a_ledger_and_a_key_that_nobody_else_may_read(home):
    assert not ledger_exists(home)
    ledger = open_ledger(home)
    key = home_key(home, ledger)
    assert len(key) == 32
    assert home_key(home, ledger) == key
    assert (home / "input.key").stat().st_mode & 0o777 == 0o600
    assert (home / "ledger.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("left", ["input.key", "runs"])
def test_a_lost_ledger_is_not_replaced_by_a_fresh_budget(home, left):
    ledger = open_ledger(home)
    home_key(home, ledger)
    (home / "runs").mkdir()
    for other in {"input.key", "runs"} - {left}:
        (home / other).rmdir() if other == "runs" else (home / other).unlink()
    (home / "ledger.db").unlink()
    with pytest.raises(LedgerCorrupt, match=r"ledger\.db"):
        open_ledger(home)
    with pytest.raises(LedgerCorrupt, match=r"ledger\.db"):
        assert_not_lost(home)
    assert not (home / "ledger.db").exists()


def test_a_lost_or_damaged_key_is_not_replaced(home):
    home.mkdir()
    with pytest.raises(LedgerCorrupt, match="is gone"):
        home_key(home, Sealed())
    assert not (home / "input.key").exists()
    (home / "input.key").write_bytes(b"short")
    with pytest.raises(LedgerCorrupt, match="is damaged"):
        home_key(home, Sealed())


def test_a_home_has_one_identifier_for_good_and_another_home_another(home, tmp_path):
    first = home_id(home)
    assert home_id(home) == first != home_id(tmp_path / "other")
    assert (home / "home.id").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == ["home.id"]


def test_what_a_killed_process_left_of_key_identity_and_note_is_cleared(home):
    ledger = open_ledger(home)
    home_key(home, ledger)
    home_id(home)
    for name in ("input.key.4711.tmp", "home.id.4711.tmp", "ledger.head.4711"):
        (home / name).write_bytes(b"left")
    home_key(home, ledger)
    home_id(home)
    open_town(ledger)
    names = {path.name for path in home.iterdir()}
    assert names == {"ledger.db", "input.key", "home.id", "ledger.head"}


def test_a_ledger_named_by_its_url_is_not_replaced_either(home, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{tmp_path / 'named.db'}")
    home_key(home, open_ledger(home))
    (tmp_path / "named.db").unlink()
    with pytest.raises(LedgerCorrupt, match=r"restore .*named\.db"):
        open_ledger(home)
    assert not (tmp_path / "named.db").exists()


def test_a_copy_of_a_home_is_another_home(home, tmp_path):
    """Results may be stored in the one that the other lacks."""
    first = home_id(home)
    shutil.copytree(home, tmp_path / "copy")
    assert home_id(tmp_path / "copy") != first
    home.rename(tmp_path / "moved")
    assert home_id(tmp_path / "moved") == first
