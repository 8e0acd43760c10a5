"""Giving up a release."""

from __future__ import annotations

from pathlib import Path

from dp_core.errors import BadInput
from tasks.places import home_id
from tasks.stores.artifacts import RunFolder
from tasks.stores.ledger import Ledger
from tasks.stores.reservations import Reservation


def abandon(home: Path, ledger: Ledger, name: str) -> Reservation:
    """Give back what a release reserved and did not charge, and delete its confidential files.

    The charges stay spent, and the name stays used. Where the release pays on a curve (delta above
    0, Gaussian noise) and a result was seen, the whole reservation stays spent: the curve holds for
    a total fixed beforehand, not for one that was stopped after looking (`Ledger.settle`).

    Raises:
        BadInput: if there is no such release, or it is over.
    """
    held = ledger.reservation(name)
    if held is None:
        raise BadInput(
            f"There is no release {name!r} in this ledger; `dp-release status` lists them."
        )
    if held.outcome is not None:
        raise BadInput(f"Release {name!r} is {held.outcome} already; there is nothing to abandon.")
    folder = RunFolder(home, name)
    with ledger.hold(name, home_id(home)) as hold:
        # privacy: a crash between storing and committing leaves a result that anyone here can read.
        settled = hold.settle(held, "abandoned", stored=folder.has_results())
        folder.remove_confidential()
    return settled
