"""Where the home and its state folder are; what needs no ledger finds them here."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the folder of the ledger and of all runs."""
    return Path(os.environ.get("DP_RELEASE_HOME") or Path.home() / ".dp-release").expanduser()


def state_folder() -> Path:
    """Return the folder outside the home that has the notes of the ledgers' heads.

    DP_RELEASE_STATE names it; the default is `dp-release` in the user's state folder
    (XDG_STATE_HOME, else `~/.local/state`).
    """
    named = os.environ.get("DP_RELEASE_STATE")
    if named:
        return Path(named).expanduser()
    above = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (above if above.is_absolute() else Path.home() / ".local" / "state") / "dp-release"


def is_used(at: Path) -> bool:
    """Return whether a ledger was ever in use here: a file or a database may hold one.

    Args:
        at: The home.
    """
    if os.environ.get("DP_RELEASE_LEDGER") or at.is_file():
        return True
    return any((at / name).exists() for name in ("ledger.db", "input.key", "runs"))
