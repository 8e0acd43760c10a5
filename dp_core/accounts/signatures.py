"""Ed25519 signatures of the ledger's entries, by a key that the operator makes and keeps.

The hash chain reveals a changed entry unless all later entries are rewritten too. Signatures reveal
it even then, provided that the key is stored apart from the ledger.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.errors import BadInput
from dp_core.kernel.ledger.entries import CHAIN

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True, repr=False)
class Signer:
    """A private signing key.

    Attributes:
        public: Its public key, 64 hex digits.
    """

    public: str
    _key: Ed25519PrivateKey

    @property
    def fingerprint(self) -> str:
        """Name of the key: 16 hex digits."""
        return fingerprint(self.public)

    def sign(self, message: bytes) -> str:
        """Return the signature of a message, 128 hex digits."""
        return self._key.sign(message).hex()


def fingerprint(public: str) -> str:
    """Return the name of a public key: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()[:16]


def make_key(path: Path) -> Signer:
    """Write a new private key (PEM, mode 0600) and, beside it, the public one (`.pub`).

    Raises:
        BadInput: if the file exists or cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    signer = Signer(_public(private), private)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        path.with_name(path.name + ".pub").write_text(signer.public + "\n")
    except FileExistsError:
        raise BadInput(
            f"The file {path} exists already, and a key is never written over; choose a new name."
        ) from None
    except OSError as error:
        raise BadInput(f"The key {path} could not be written ({error.strerror}).") from None
    return signer


def read_key(path: Path) -> Signer:
    """Return the private key in a file.

    Raises:
        BadInput: if the file cannot be read or holds no unencrypted Ed25519 private key (PEM).
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        private = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise BadInput(
            f"The signing key {path} cannot be read ({error.strerror}).", row="key-of-the-ledger"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise BadInput(
            f"{path} holds no Ed25519 private key; `dp-release ledger keygen` makes one."
        )
    return Signer(_public(private), private)


def read_public(path: Path) -> str:
    """Return the public key in a file, 64 hex digits.

    Raises:
        BadInput: if the file cannot be read or holds no public key.
    """
    try:
        text = path.read_text(errors="replace").strip().lower()
    except OSError as error:
        raise BadInput(
            f"The public key {path} cannot be read ({error.strerror}).", row="public-key"
        ) from None
    if not _is_public(text):
        raise BadInput(
            f"{path} holds no public key of a ledger; it is the .pub file beside the private key.",
            row="public-key",
        )
    return text


def signed_message(receipt_hash: str, link: str) -> bytes:
    """Return the message that a signature covers: the receipt's hash and the entry's link."""
    return canonical_json(["dp-release ledger", CHAIN, receipt_hash, link])


def is_signed(public: str, message: bytes, signature: str | None) -> bool:
    """Return whether a signature of a message is valid under a public key.

    Args:
        public: Public key, 64 hex digits.
        message: The signed bytes.
        signature: Signature, 128 lower-case hex digits; None is invalid.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        content = bytes.fromhex(signature or "")
        key.verify(content, message)
    except (InvalidSignature, ValueError):
        return False
    return content.hex() == signature  # only one way to write it, so that no character can change


def key_proof(body: Mapping[str, object], link: str) -> bytes:
    """Return the message that a new key signs: the body of its own entry and the preceding link.

    Args:
        body: Body of the key's entry; a `proof` in it is left out.
        link: Link of the preceding entry.
    """
    stated = {name: value for name, value in body.items() if name != "proof"}
    return canonical_json(["dp-release key", 1, link, stated])


def is_proven(body: Mapping[str, object], link: str) -> bool:
    """Return whether the proof in an entry of kind `key` is signed by the key that it adds.

    Args:
        body: Body of the entry.
        link: Link of the preceding entry.
    """
    proof = body.get("proof")
    signature = proof if isinstance(proof, str) else None
    return is_signed(public_key_of(body), key_proof(body, link), signature)


def public_key_of(body: Mapping[str, object]) -> str:
    """Return the public key that an entry of kind `key` adds, 64 hex digits.

    Args:
        body: Body of the entry.

    Raises:
        ValueError: if the body holds no public key.
    """
    public = body.get("public_key")
    if not isinstance(public, str) or not _is_public(public):
        raise ValueError("Not a public key.")
    return public


def _is_public(text: str) -> bool:
    try:
        return len(text) == 64 and len(bytes.fromhex(text)) == 32
    except ValueError:
        return False


def _public(private: Ed25519PrivateKey) -> str:
    return private.public_key().public_bytes_raw().hex()
