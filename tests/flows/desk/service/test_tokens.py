"""Tokens are kept as hashes, end, and can be revoked."""

import json
import stat
import threading
from datetime import date, timedelta

import pytest

from dp_core.errors import BadInput, StageFailed
from flows.desk.service.tokens import FOLDER, MOST_TOKENS, TokenStore, UnknownToken


@pytest.fixture
def store(tmp_path):
    return TokenStore(tmp_path)


def test_a_token_names_its_holder_until_it_is_revoked(store):
    secret, made = store.issue("rand", "anna")
    store.issue("rand", "ben")
    assert store.holder(secret) == made
    assert (made.account, made.user) == ("rand", "anna")
    assert store.revoke("rand", "anna") == 1
    with pytest.raises(UnknownToken):
        store.holder(secret)
    assert store.revoke("rand", "anna") == 0
    assert [each.user for each in store.valid()] == ["ben"]


def test_tokens_differ_and_are_long(store):
    secrets = {store.issue("rand", "anna")[0] for _ in range(MOST_TOKENS)}
    assert len(secrets) == MOST_TOKENS
    assert min(map(len, secrets)) >= 43


@pytest.mark.parametrize("wrong", ["", "x", "é", "\udc80", "a" * 10_000])
def test_another_text_is_no_token(store, wrong):
    store.issue("rand", "anna")
    with pytest.raises(UnknownToken):
        store.holder(wrong)


def test_no_file_has_the_token_and_others_cannot_read_the_files(store, tmp_path):
    secret, _ = store.issue("rand", "anna")
    files = [path for path in (tmp_path / FOLDER).iterdir() if path.is_file()]
    assert any(path.name == "tokens.json" for path in files)
    for path in files:
        assert secret.encode() not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700


def test_a_token_ends_after_its_days(tmp_path):
    day = date(2026, 11, 27)
    now = [day]
    store = TokenStore(tmp_path, today=lambda: now[0])
    secret, made = store.issue("rand", "anna", days=3)
    assert (made.created, made.expires) == (day, day + timedelta(days=3))
    now[0] = day + timedelta(days=2)
    assert store.holder(secret) == made
    now[0] = day + timedelta(days=3)
    with pytest.raises(UnknownToken):
        store.holder(secret)
    assert store.valid() == []


@pytest.mark.parametrize("days", [0, -1, 4000])
def test_days_out_of_range_are_refused(store, days):
    with pytest.raises(BadInput, match="--days"):
        store.issue("rand", "anna", days=days)


def test_a_user_has_a_limited_number_of_tokens(store):
    for _ in range(MOST_TOKENS):
        store.issue("rand", "anna")
    with pytest.raises(BadInput, match="revoke"):
        store.issue("rand", "anna")
    store.issue("rand", "ben")


def test_a_damaged_file_is_named_and_lets_nobody_in(store, tmp_path):
    secret, _ = store.issue("rand", "anna")
    (tmp_path / FOLDER / "tokens.json").write_text(json.dumps({"tokens": [{"hash": 1}]}))
    with pytest.raises(StageFailed, match="damaged"):
        store.holder(secret)


def test_revoking_waits_for_what_holds_the_token(store):
    secret, _ = store.issue("rand", "anna")
    order = []
    revoked = threading.Event()

    def revoke():
        store.revoke("rand", "anna")
        order.append("revoked")
        revoked.set()

    with store.hold(secret):
        thread = threading.Thread(target=revoke)
        thread.start()
        assert not revoked.wait(0.2)
        order.append("admitted")
    thread.join()
    assert order == ["admitted", "revoked"]
    with pytest.raises(UnknownToken), store.hold(secret):
        pass


def test_tokens_made_at_the_same_time_are_all_kept(store):
    made = []
    threads = [
        threading.Thread(target=lambda user=user: made.append(store.issue("rand", f"u{user}")))
        for user in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {store.holder(secret).user for secret, _ in made} == {f"u{user}" for user in range(8)}
