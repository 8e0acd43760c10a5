"""Making the key that signs a ledger's entries."""

from __future__ import annotations

from pathlib import Path

from dp_core.accounts.signatures import make_key
from dp_core.errors import BadInput, nearest
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Fact, Sentence
from tasks.ledger.database.transaction import valid_keys
from tasks.ledger.ledger import Ledger
from tasks.run.home import SIGNING_KEY


def make_signing_key(
    ledger: Ledger, home: Path, file: Path, *, replaces: str | None, by: str, reason: str
) -> CommandAnswer:
    """Make a key and add it to the ledger; if the ledger refuses it, delete the key.

    Args:
        ledger: The ledger whose entries the key will sign.
        home: The ledger's folder.
        file: New file of the private key; the public key's file has `.pub` added to its name.
        replaces: Fingerprint of the key that it replaces, None for an additional key.
        by: Who makes the key.
        reason: Why.

    Raises:
        BadInput: if there is such a file, no key to replace, or no right to add one.
    """
    current = valid_keys([entry.body for entry in ledger.entries(kinds=("key",))])
    if replaces is not None and replaces not in current:
        hint = nearest(replaces, current) or " The ledger has no key yet; leave --replaces out."
        raise BadInput(f"--replaces {replaces!r} is not a key that signs this ledger.{hint}")
    public = file.with_name(file.name + ".pub")
    for path in (file, public):
        if path.exists() or path.is_symlink():
            raise BadInput(
                f"The file {path} exists, and a key is never overwritten; name another file."
            )
    signer = make_key(file)
    try:
        ledger.add_key(signer, replaces=replaces, by=by, reason=reason)
    except BaseException:
        # A key that the ledger does not know must not look like one that signs. A key that the
        # ledger may know, because it was interrupted or did not answer, must be kept.
        if not ledger.entries(kinds=("key",), about=signer.fingerprint):
            for path in (file, public):
                path.unlink(missing_ok=True)
        raise
    signing = sorted((current - {str(replaces)}) | {signer.fingerprint})
    key, in_place = file.absolute(), file.absolute() == (home / SIGNING_KEY).absolute()
    values = {
        "key": key,
        "public_key_file": public.absolute(),
        "public_key": signer.public,
        "fingerprint": signer.fingerprint,
        "replaces": replaces,
        # Whether it is in the default place, so that no setting is needed.
        "found_by_itself": in_place,
        "signing": signing,
    }
    page = [
        Fact("Key", f"{key} (mode 0600)", whole=True),
        Fact("Public", str(public.absolute()), whole=True),
        Fact("Name", f"{signer.fingerprint} (fingerprint)", whole=True),
    ]
    if replaces:
        page.append(Fact("Replaces", f"{replaces}, which no longer signs"))
    if others := [each for each in signing if each != signer.fingerprint]:
        page.append(Fact("Beside", f"{', '.join(others)}: any of these keys may sign"))
    sign = Fact("- Sign", f"export DP_RELEASE_SIGNING_KEY={key}", whole=True)
    if in_place:
        sign = Fact("- Sign", "nothing to set: the key is in its default place.")
    return CommandAnswer(
        values,
        (*page, Sentence("From now on every entry of this ledger is signed."), sign, *_ADVICE),
    )


_ADVICE = (
    Fact(
        "- Keep",
        "the key out of the backups of the ledger, and one copy in a safe: anyone with the key and"
        " the ledger can forge entries, and without the key no entry can be added.",
    ),
    Fact("- Give", "the public key to auditors: dp-release ledger verify --public-key FILE"),
)
