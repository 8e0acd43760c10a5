"""Making the key that signs a ledger's entries."""

from __future__ import annotations

from pathlib import Path

from dp_core.errors import BadInput, nearest
from dp_core.wall.ledger.signatures import make_key
from tasks.ledger.database.transaction import valid_keys
from tasks.ledger.ledger import Ledger
from tasks.run.home import SIGNING_KEY


def make_signing_key(
    ledger: Ledger, home: Path, file: Path, *, replaces: str | None, by: str, reason: str
) -> dict[str, object]:
    """Make a key and make it known to the ledger; where the ledger refuses, no key is left.

    Args:
        ledger: Whose entries it signs from now on.
        home: Folder of the ledger.
        file: Of the private key; the public one goes beside it, with `.pub` added.
        replaces: Fingerprint of the key that signs no longer.
        by: Who makes it.
        reason: Why.

    Raises:
        BadInput: if there is such a file, no key to replace, or no right to add one.
    """
    standing = valid_keys([entry.body for entry in ledger.entries(kinds=("key",))])
    if replaces is not None and replaces not in standing:
        hint = nearest(replaces, standing) or " The ledger has no key yet: leave --replaces out."
        raise BadInput(f"--replaces {replaces!r} is no key that signs this ledger.{hint}")
    public = file.with_name(file.name + ".pub")
    for path in (file, public):
        if path.exists() or path.is_symlink():
            raise BadInput(
                f"There is a file {path} already, and a key is never written over; name another."
            )
    signer = make_key(file)
    try:
        ledger.add_key(signer, replaces=replaces, by=by, reason=reason)
    except BaseException:
        # A key that the ledger does not know would be taken for the one that signs. One that it
        # may know, since it was interrupted or did not answer, is the only one that there is.
        if not ledger.entries(kinds=("key",), about=signer.fingerprint):
            for path in (file, public):
                path.unlink(missing_ok=True)
        raise
    return {
        "key": str(file.absolute()),
        "public_key_file": str(public.absolute()),
        "public_key": signer.public,
        "fingerprint": signer.fingerprint,
        "replaces": replaces,
        "found_by_itself": file.absolute() == (home / SIGNING_KEY).absolute(),
        "signing": sorted((standing - {str(replaces)}) | {signer.fingerprint}),
    }
