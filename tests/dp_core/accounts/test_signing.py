"""Keys as files, and what a signature of theirs is."""

from __future__ import annotations

import pytest

from dp_core.accounts.signatures import fingerprint, is_signed, make_key, read_key, read_public
from dp_core.errors import BadInput


@pytest.fixture
def signer(tmp_path):
    return make_key(tmp_path / "ledger.pem")


def test_a_key_is_read_back_and_only_its_owner_can_read_it(tmp_path):
    path = tmp_path / "ledger.pem"
    made = make_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path).public == made.public == read_public(tmp_path / "ledger.pem.pub")
    assert made.fingerprint == fingerprint(made.public)
    assert len(made.fingerprint) == 16
    assert "PRIVATE" not in repr(made)
    message = b"what is signed"
    assert is_signed(made.public, message, read_key(path).sign(message))


def test_a_key_is_never_written_over(tmp_path):
    made = make_key(tmp_path / "ledger.pem")
    with pytest.raises(BadInput, match="never written over"):
        make_key(tmp_path / "ledger.pem")
    assert read_key(tmp_path / "ledger.pem").public == made.public
    with pytest.raises(BadInput, match="could not be written"):
        make_key(tmp_path / "nowhere" / "ledger.pem")


def test_what_is_no_key_is_refused_in_one_sentence(tmp_path):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    made = make_key(tmp_path / "ledger.pem")
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for content in (b"", b"\xff\xfe", made.public.encode(), other):
        (tmp_path / "wrong").write_bytes(content)
        with pytest.raises(BadInput, match="no Ed25519 private key"):
            read_key(tmp_path / "wrong")
    for text in ("", made.public[:-2], made.public[:-2] + "xy", "a b" * 30):
        (tmp_path / "wrong").write_text(text)
        with pytest.raises(BadInput, match="no public key"):
            read_public(tmp_path / "wrong")
    with pytest.raises(BadInput, match="cannot be read"):
        read_key(tmp_path / "nothing")
    with pytest.raises(BadInput, match="cannot be read"):
        read_public(tmp_path / "nothing")
    (tmp_path / "loud").write_text(made.public.upper() + "\n")
    assert read_public(tmp_path / "loud") == made.public


def test_a_signature_has_one_spelling(signer):
    message = b"what is signed"
    signature = signer.sign(message)
    assert is_signed(signer.public, message, signature)
    spellings = (signature.upper(), signature + " ", signature[:2] + " " + signature[2:])
    for other in (None, "", "x", *spellings, signature[:-2]):
        assert not is_signed(signer.public, message, other)
    assert not is_signed(signer.public, message + b".", signature)
