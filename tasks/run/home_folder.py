"""Where the home and its state folder are; what needs no ledger finds them here."""

from __future__ import annotations

import os
from pathlib import Path

from dp_core.errors import BadInput


def home() -> Path:
    """Return the folder of the ledger and of all runs."""
    return _folder(os.environ.get("DP_RELEASE_HOME") or "~/.dp-release", "DP_RELEASE_HOME")


def state_folder() -> Path:
    """Return the folder outside the home that has the notes of the ledgers' heads.

    DP_RELEASE_STATE names it; the default is `dp-release` in the user's state folder
    (XDG_STATE_HOME, else `~/.local/state`).
    """
    above = os.environ.get("XDG_STATE_HOME", "")
    usual = f"{above if Path(above).is_absolute() else '~/.local/state'}/dp-release"
    return _folder(os.environ.get("DP_RELEASE_STATE") or usual, "DP_RELEASE_STATE")


def _folder(path: str, variable: str) -> Path:
    """Return the path of a folder, which may begin with ~ for that of the user.

    Raises:
        BadInput: if the user has no such folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadInput(
            f"HOME is not set, and this user has no home folder; set {variable} to a folder.",
            row="environment",
        ) from None


def is_used(at: Path) -> bool:
    """Return whether a ledger was ever in use here: a file or a database may hold one.

    Args:
        at: The home.
    """
    if os.environ.get("DP_RELEASE_LEDGER") or at.is_file():
        return True
    return any((at / name).exists() for name in ("ledger.db", "input.key", "runs"))
