"""The version of a ledger: what a newer program makes of an older ledger, and the other way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dp_core.accounts import ledger_version
from dp_core.accounts.ledger_version import not_known, version_of
from dp_core.accounts.plain_entries import plain_entry
from dp_core.accounts.signatures import signed_message
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.ledger.entries import Entry, entry_link, make_entry, unique_key
from dp_core.kernel.ledger.receipts import START, make_receipt
from tasks.ledger.export import read_export, write_export
from tests.ledgers import audited

LINKS = (
    "cb177810a8337e44006a7e6f69f6865b7d2e7372bdb2cca4e9bd3d18d0aba609",
    "b159df4379458e2d2c43242d8af62f6156e44ee0b6d3b93eacaf0bcbf82d97f8",
)
"""Of `ledger_of(2, 2)`, as the first program with ledgers of version 2 computed them."""


def ledger_of(size: int, version: object = 2) -> list[Entry]:
    """Entries of a ledger: its beginning, then decisions about plans."""
    found: list[Entry] = []
    for position in range(1, size + 1):
        kind = "ledger" if position == 1 else "approve"
        body: dict[str, Any] = {"plan": f"plan {position}", "by": "officer", "reason": "test"}
        if position == 1:
            body = {"version": version, "id": "a ledger"}
        receipt = make_receipt(
            number=0,
            kind=kind,
            account="",
            release="",
            at="2026-11-20",
            body=body,
            previous=START,
        )
        about = None if position == 1 else f"plan {position}"
        draft = Entry(
            position=position,
            receipt=receipt,
            reservation=None,
            about=about,
            key=unique_key(receipt, about, None),
            recorded="2026-11-20T12:00:00+00:00",
            salt=f"{position:032x}",
        )
        found.append(make_entry(draft, found[-1].link if found else START))
    return found


def check(found: list[Entry]) -> str:
    return audited((entry, None) for entry in found).head


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later program, whose own ledgers are of version 3."""
    monkeypatch.setattr(ledger_version, "LEDGER_VERSION", 3)


def export(path: Path, found: list[Entry]) -> Path:
    write_export(path, found, count=len(found), head=found[-1].link)
    return path


@pytest.mark.parametrize("program", [ledger_version.LEDGER_VERSION, 3])
def test_links_and_signed_messages_are_what_they_were_from_the_first_version_on(
    monkeypatch, program
):
    monkeypatch.setattr(ledger_version, "LEDGER_VERSION", program)
    assert tuple(entry.link for entry in ledger_of(2)) == LINKS
    assert signed_message("a", "b") == b'["dp-release ledger",2,"a","b"]'


def test_a_ledger_and_its_export_of_before_verify_in_a_later_version_and_go_on(
    tmp_path, monkeypatch
):
    old = ledger_of(3)
    path = export(tmp_path / "old", old)
    monkeypatch.setattr(ledger_version, "LEDGER_VERSION", 3)
    assert check(old) == old[-1].link
    assert audited(read_export(path)).head == old[-1].link
    longer = ledger_of(5)
    assert longer[:3] == old
    assert check(longer) == longer[-1].link
    assert audited(read_export(export(tmp_path / "longer", longer))).entries == 5


@pytest.mark.usefixtures("newer")
def test_an_export_has_the_version_of_its_ledger_and_not_of_the_program(tmp_path):
    for version in (2, 3):
        path = export(tmp_path / f"of {version}", ledger_of(2, version))
        assert f'"version":{version}'.encode() in path.read_bytes().splitlines()[0]
        assert audited(read_export(path)).entries == 2


@pytest.mark.usefixtures("newer")
def test_an_export_whose_first_line_names_another_version_was_changed(tmp_path):
    path = export(tmp_path / "export", ledger_of(2))
    head, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head.replace(b'"version":2', b'"version":3') + b"".join(rest))
    with pytest.raises(LedgerCorrupt, match="first line of the export was changed"):
        audited(read_export(path))


def test_a_program_of_before_says_that_it_is_to_be_updated(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_version, "LEDGER_VERSION", 3)
    found = ledger_of(2, 3)
    path = export(tmp_path / "export", found)
    monkeypatch.undo()
    for look in (lambda: check(found), lambda: audited(read_export(path))):
        with pytest.raises(BadInput, match=r"has format 3, .*; update dp-release"):
            look()


def test_a_ledger_from_before_the_first_release_is_not_to_be_read_with_an_update():
    with pytest.raises(BadInput, match="before the first release") as refused:
        check(ledger_of(2, 1))
    assert "update" not in refused.value.message
    assert not_known(2) is None


@pytest.mark.parametrize("version", ["2", 2.0, True, None])
def test_a_version_that_is_no_whole_number_is_none(version, tmp_path):
    found = ledger_of(2, version)
    with pytest.raises(LedgerCorrupt, match=r"Entry 1 \(ledger\) was changed"):
        check(found)
    with pytest.raises(LedgerCorrupt, match="Entry 1"):
        export(tmp_path / "export", found)
    assert not (tmp_path / "export").exists()
    with pytest.raises(ValueError, match="not the first one"):
        version_of(found[0].receipt)


def test_a_link_covers_all_that_stands_in_an_entry():
    entry = ledger_of(2)[1]
    changes: dict[str, Any] = {
        "position": 3,
        "receipt": replace(entry.receipt, hash="other"),
        "reservation": 1,
        "about": "other",
        "key": "other",
        "recorded": "other",
        "salt": "other",
    }
    assert {*changes, "link", "signer", "signature"} == set(plain_entry(entry))
    for name, value in changes.items():
        assert entry_link(replace(entry, **{name: value}), LINKS[0]) != entry.link, name
    assert entry_link(entry, START) != entry.link == entry_link(entry, LINKS[0])
