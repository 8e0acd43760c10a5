"""Keys, signatures and exports: what holds also against who can rewrite the whole ledger."""

import json
from dataclasses import replace

import pytest

from dp_core.accounts.signatures import is_signed, key_proof, make_key, signed_message
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.entries import entry_link
from dp_core.kernel.ledger.receipts import receipt_hash
from tasks.ledger.export import read_export, write_export
from tasks.ledger.ledger import Ledger
from tests.full import at_full_size
from tests.ledgers import KEY, WHO, audited, open_town, reserve, spend
from tests.specs import plan_of

pytestmark = pytest.mark.any_database


@pytest.fixture
def signer(tmp_path):
    return make_key(tmp_path / "ledger.pem")


@pytest.fixture
def signed(ledger_url, tmp_path, signer):
    plain = Ledger(ledger_url)
    open_town(plain)
    plain.add_key(signer, replaces=None, **WHO)
    ledger = Ledger(ledger_url, signer)
    spend(ledger, plan_of(tmp_path))
    return ledger


def entries_of(ledger):
    return [entry for entry, _ in ledger.all_entries()]


def check(entries, **more):
    return audited(((entry, None) for entry in entries), **more)


def rewritten(entries, position, change, sign=None):
    """Return entries with one changed, and it and all later ones linked again."""
    found = list(entries[: position - 1])
    for entry in entries[position - 1 :]:
        receipt = entry.receipt
        if entry.position == position:
            receipt = replace(receipt, body=change(receipt.body))
        receipt = replace(receipt, hash=receipt_hash(receipt))
        forged = replace(entry, receipt=receipt)
        forged = replace(forged, link=entry_link(forged, found[-1].link if found else "0" * 64))
        if sign is not None:
            signature = sign.sign(signed_message(receipt.hash, forged.link))
            forged = replace(forged, signer=sign.fingerprint, signature=signature)
        found.append(forged)
    return found


# -- a ledger with keys


def test_every_entry_is_signed_from_the_key_on(signed, signer):
    found = [entry.signer for entry in signed.entries()]
    assert found[:2] == [None, None]
    assert set(found[2:]) == {signer.fingerprint}
    answer = signed.verify(KEY, trusted=[signer.public])
    assert answer.signed == answer.entries - 2
    assert answer.keys == (signer.public,)


def test_a_message_is_signed_by_a_key_that_stands_or_not_at_all(
    signed, signer, ledger_url, tmp_path
):
    public, signature = signed.sign(b"a statement")
    assert public == signer.public
    assert is_signed(public, b"a statement", signature)
    for other in (None, make_key(tmp_path / "other.pem")):
        with pytest.raises(BadInput, match="set DP_RELEASE_SIGNING_KEY"):
            Ledger(ledger_url, other).sign(b"a statement")
    new = make_key(tmp_path / "new.pem")
    signed.add_key(new, replaces=signer.fingerprint, **WHO)
    with pytest.raises(BadInput, match=new.fingerprint):
        signed.sign(b"a statement")


def test_a_ledger_without_keys_signs_nothing(ledger_url, signer):
    assert Ledger(ledger_url, signer).sign(b"a statement") is None


def test_without_the_key_or_with_another_nothing_is_written(signed, ledger_url, tmp_path):
    before = signed.verify()
    other = make_key(tmp_path / "other.pem")
    plan = plan_of(tmp_path, release="second", privacy="{epsilon: 0.5}")
    for ledger in (Ledger(ledger_url), Ledger(ledger_url, other)):
        for write in (
            lambda ledger=ledger: reserve(ledger, plan),
            lambda ledger=ledger: ledger.check(plan),
            lambda ledger=ledger: open_town(ledger, "village"),
            lambda ledger=ledger: ledger.approve(plan.hash, **WHO),
            lambda ledger=ledger: ledger.add_key(other, replaces=None, **WHO),
        ):
            with pytest.raises(BadInput, match="takes signed entries only"):
                write()
        assert ledger.account("town").name == "town"
    assert signed.verify() == before


def test_a_key_replaces_another_which_then_signs_no_more(signed, signer, ledger_url, tmp_path):
    new = make_key(tmp_path / "new.pem")
    signed.add_key(new, replaces=signer.fingerprint, **WHO)
    # Both signed the entry of the change, so whoever trusts either can check up to there.
    for key in (signer, new):
        assert signed.verify(trusted=[key.public]).keys == (new.public,)
    with pytest.raises(BadInput, match=f"its key \\({new.fingerprint}\\)"):
        signed.approve("plan", **WHO)
    rotated = Ledger(ledger_url, new)
    rotated.approve("plan", **WHO)
    assert rotated.verify(KEY, trusted=[new.public]).keys == (new.public,)
    with pytest.raises(LedgerCorrupt, match="not signed by the key that was given"):
        rotated.verify(trusted=[signer.public])
    with pytest.raises(BadInput, match="knows key"):
        rotated.add_key(signer, replaces=None, **WHO)


def test_a_new_key_vouches_for_nothing_that_the_old_one_made_up(signed, signer, tmp_path):
    new = make_key(tmp_path / "new.pem")
    signed.add_key(new, replaces=signer.fingerprint, **WHO)
    entries = entries_of(signed)
    end = entries[-1].position
    assert check(entries, trusted=[new.public]).keys == (new.public,)
    for position, change in (
        (end - 1, lambda body: {**body, "seen": True, "extra": 1}),  # another history before it
        (end, lambda body: {**body, "reason": "another"}),
        (end, lambda body: {**body, "replaces": None}),  # so that the old key would stay
        (end, lambda body: {**body, "proof": signer.sign(key_proof(body, entries[-2].link))}),
        (end, lambda body: {name: body[name] for name in body if name != "proof"}),
        (end, lambda body: {**body, "proof": None}),
    ):
        forged = rewritten(entries, position, change, sign=signer)
        with pytest.raises(LedgerCorrupt, match=rf"^Entry {end} \(key\) is not signed by the key"):
            check(forged)
    # Without the entry of the change: the old key signed the last one, not the new one.
    with pytest.raises(LedgerCorrupt, match="not signed by the key that was given"):
        check(entries[:-1], trusted=[new.public])


def test_two_keys_can_sign_side_by_side(signed, signer, ledger_url, tmp_path):
    second = make_key(tmp_path / "second.pem")
    signed.add_key(second, replaces=None, **WHO)
    signed.approve("plan", **WHO)
    Ledger(ledger_url, second).approve("other plan", **WHO)
    assert set(signed.verify(trusted=[second.public]).keys) == {signer.public, second.public}


def test_what_replaces_nothing_is_refused(signed, signer, tmp_path):
    new = make_key(tmp_path / "new.pem")
    for unknown in ("0" * 16, new.fingerprint):
        with pytest.raises(BadInput, match=f"{unknown} does not sign this ledger"):
            signed.add_key(new, replaces=unknown, **WHO)
    with pytest.raises(BadInput, match="knows key"):
        signed.add_key(signer, replaces=signer.fingerprint, **WHO)
    signed.verify(trusted=[signer.public])


def test_a_first_key_cannot_replace_itself_and_leave_the_ledger_without(ledger_url, signer):
    ledger = Ledger(ledger_url)
    with pytest.raises(BadInput, match="does not sign this ledger"):
        ledger.add_key(signer, replaces=signer.fingerprint, **WHO)
    assert ledger.verify().keys == ()


def test_a_ledger_without_keys_has_no_trusted_signer(ledger_url, signer):
    ledger = Ledger(ledger_url)
    open_town(ledger)
    with pytest.raises(LedgerCorrupt, match="not signed by the key that was given"):
        ledger.verify(trusted=[signer.public])


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_rewritten_ledger_is_found_by_its_signatures(signed, signer, tmp_path):
    entries = entries_of(signed)
    opening = next(entry for entry in entries if entry.kind == "open")

    def other(body):
        return {**body, "reason": "another"}

    # Links made again, signatures kept: the first signed entry after it is wrong.
    with pytest.raises(LedgerCorrupt, match=r"^Entry 3 \(key\) has an invalid signature"):
        check(rewritten(entries, opening.position, other))
    # Signed again with a key of one's own, which the ledger does not know.
    own = make_key(tmp_path / "own.pem")
    end = entries[-1].position
    with pytest.raises(LedgerCorrupt, match=rf"^Entry {end} \(settle\) is not signed by a key of"):
        check(rewritten(entries, end, dict, sign=own))

    # With one's own key made known in the place of the other: whoever has the true one sees it.
    def swap(body):
        body = {**body, "public_key": own.public, "fingerprint": own.fingerprint}
        return {**body, "proof": own.sign(key_proof(body, plain[-1].link))}

    plain = rewritten(entries[:2], 2, other)
    key = replace(entries[2], about=own.fingerprint, key=f"key/{own.fingerprint}")
    forged = rewritten([*plain, key, *entries[3:]], 3, swap, sign=own)
    assert check(forged).keys == (own.public,)
    with pytest.raises(LedgerCorrupt, match="not signed by the key that was given"):
        check(forged, trusted=[signer.public])


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_signature_that_is_gone_or_of_another_entry_is_found(signed):
    entries = entries_of(signed)
    for place in range(2, len(entries)):
        for values in (
            {"signature": None},
            {"signature": entries[place - 1].signature or "00"},
            {"signer": None},
            {"signer": None, "signature": None},
            {"signature": entries[place].signature.upper()},
        ):
            forged = [*entries[:place], replace(entries[place], **values), *entries[place + 1 :]]
            with pytest.raises(LedgerCorrupt, match=rf"^Entry {place + 1} \("):
                check(forged)
    for values in ({"signer": "x"}, {"signature": "00"}, {"signer": "x", "signature": "00"}):
        forged = [entries[0], replace(entries[1], **values), *entries[2:]]
        with pytest.raises(LedgerCorrupt, match=r"^Entry 2 \(open\) is signed by an unknown key"):
            check(forged)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_key_entry_that_breaks_its_rules_is_found(signed, signer):
    entries = entries_of(signed)[:3]
    for change, sentence in (
        (lambda body: {**body, "replaces": "0" * 16}, "replaces an unknown key"),
        (lambda body: {**body, "replaces": signer.fingerprint}, "replaces an unknown key"),
        (lambda body: {**body, "fingerprint": "0" * 16}, "was changed"),
        (lambda body: {**body, "public_key": "no key"}, "was changed"),
        (lambda body: {**body, "proof": "00"}, "is not signed by the key that it adds"),
    ):
        with pytest.raises(LedgerCorrupt, match=rf"^Entry 3 \(key\) {sentence}"):
            check(rewritten(entries, 3, change, sign=signer))


# -- exports


@pytest.fixture
def export(signed, tmp_path):
    path = tmp_path / "export.jsonl"
    head = signed.head()
    write_export(path, iter(entries_of(signed)), count=head.position, head=head.link)
    return path


def changed(path, content):
    other = path.with_name("changed.jsonl")
    other.write_bytes(content)
    return other


def test_an_export_is_checked_like_the_database_and_by_its_key(signed, signer, export):
    assert audited(read_export(export), trusted=[signer.public]) == signed.verify(KEY)
    assert [entry for entry, _ in read_export(export)] == entries_of(signed)
    assert export.stat().st_mode & 0o777 == 0o600


def test_an_export_is_not_written_over_nor_half_written(signed, export, tmp_path):
    head = signed.head()
    with pytest.raises(BadInput, match="already"):
        write_export(export, [], count=0, head="")
    with pytest.raises(BadInput, match="could not be written"):
        write_export(tmp_path / "no" / "x", [], count=0, head="")

    def failing():
        yield entries_of(signed)[0]
        raise LedgerCorrupt("Entry 2 of the ledger cannot be read.")

    with pytest.raises(LedgerCorrupt):
        write_export(tmp_path / "half", failing(), count=head.position, head=head.link)
    assert not (tmp_path / "half").exists()


def test_what_was_added_meanwhile_is_not_in_the_export(signed, tmp_path):
    head = signed.head()
    signed.approve("plan", **WHO)
    path = tmp_path / "later.jsonl"
    write_export(path, iter(entries_of(signed)), count=head.position, head=head.link)
    assert audited(read_export(path)).head == head.link


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_any_changed_byte_of_an_export_is_found(export):
    content = export.read_bytes()
    first = content.index(b"\n")
    for offset in [*range(0, first + 1), *range(first + 1, len(content), 47)]:
        for bits in (1, 32, 128) if at_full_size() else (1 << offset % 8,):
            damaged = bytearray(content)
            damaged[offset] ^= bits
            path = changed(export, bytes(damaged))
            with pytest.raises((LedgerCorrupt, BadInput)) as found:
                audited(read_export(path))
            assert "\n" not in found.value.message
            if offset > first:
                # A line end more or less moves all entries after it, so it is told as the first.
                line = content[:offset].count(b"\n")
                assert isinstance(found.value, LedgerCorrupt)
                assert found.value.message.startswith((f"Entry {line} ", f"Entry {line + 1} "))


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_an_export_that_was_cut_or_redirected_is_found(export):
    lines = export.read_bytes().splitlines(keepends=True)
    count = len(lines) - 1
    for cut in (1, 2, count - 1):
        path = changed(export, b"".join(lines[:-cut]))
        with pytest.raises(LedgerCorrupt, match=rf"^Entry {count - cut + 1} .*is missing"):
            audited(read_export(path))
    with pytest.raises(LedgerCorrupt, match=rf"^Entry {count} .*changed"):
        audited(read_export(changed(export, b"".join(lines)[:-1])))
    with pytest.raises(LedgerCorrupt, match="Entry 1 of the export is missing"):
        audited(read_export(changed(export, lines[0])))
    with pytest.raises(LedgerCorrupt, match=r"^Entry 3 of the ledger is missing"):
        audited(read_export(changed(export, b"".join([*lines[:3], *lines[4:]]))))
    header = json.loads(lines[0])
    for values, sentence in (
        ({"head": "0" * 64}, f"Entry {count}, the last one of the export, differs"),
        ({"entries": count - 1}, f"The export has an entry {count}, but"),
        ({"entries": count + 1}, f"Entry {count + 1} of the export is missing"),
        ({"entries": True}, "first line of the export was changed"),
        ({"entries": str(count)}, "first line of the export was changed"),
        ({"extra": 1}, "first line of the export was changed"),
    ):
        path = changed(export, b"".join([canonical_json({**header, **values}), b"\n", *lines[1:]]))
        with pytest.raises(LedgerCorrupt, match=sentence):
            audited(read_export(path))
    # Cut, and its first line made to fit: only who noted the head, or the totals, can tell.
    shorter = {**header, "entries": count - 1, "head": json.loads(lines[-2])["link"]}
    path = changed(export, b"".join([canonical_json(shorter), b"\n", *lines[1:-1]]))
    assert audited(read_export(path)).head != header["head"]


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_what_is_no_export_is_refused_in_one_sentence(export, tmp_path):
    header = json.loads(export.read_bytes().splitlines()[0])
    without = {name: value for name, value in header.items() if name != "head"}
    for content, error, sentence in (
        (b"", BadInput, "not an export"),
        (b"[]\n", BadInput, "not an export"),
        (b"\xff\n", BadInput, "not an export"),
        (b"[" * 100_000, BadInput, "not an export"),
        (b'{"format":"x"}\n', BadInput, "not an export"),
        (b'{"format":"dp-release ledger"}\n', BadInput, "not an export"),
        (canonical_json({**header, "version": 3}) + b"\n", BadInput, "update dp-release"),
        (canonical_json({**header, "version": 1}) + b"\n", BadInput, "before the first release"),
        (canonical_json({**header, "version": "2"}) + b"\n", BadInput, "not an export"),
        (canonical_json(without) + b"\n", LedgerCorrupt, "first line"),
    ):
        with pytest.raises(error, match=sentence):
            audited(read_export(changed(export, content)))
    with pytest.raises(BadInput, match="cannot be read"):
        audited(read_export(tmp_path / "nothing"))
    empty = {**header, "entries": 0, "head": ""}
    with pytest.raises(LedgerCorrupt, match="Entry 1 of the ledger is missing"):
        audited(read_export(changed(export, canonical_json(empty) + b"\n")))
