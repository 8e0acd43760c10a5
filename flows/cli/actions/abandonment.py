"""`abandon`: giving up a release."""

from __future__ import annotations

from pathlib import Path

from dp_core.errors import BadInput
from dp_core.text.pages.answer import CommandAnswer
from flows.answers.release_answers import ended_release, known_reservation
from flows.releases.start_check import require_known_results
from tasks.ledger.ledger import Ledger
from tasks.run.home import home_id
from tasks.run.release_cleanup import clear_leftovers
from tasks.support.run_folder import RunFolder


def abandon(home: Path, ledger: Ledger, name: str) -> CommandAnswer:
    """Give back what a release reserved and did not charge, and delete its confidential files.

    The charges stay spent, and the name stays used. Where the release pays on a curve (delta above
    0, Gaussian noise) and a result was seen, the whole reservation stays spent: the curve holds for
    a total fixed beforehand, not for one that was stopped after looking (`Terms.spent`).

    A release can be given up from any home, and after its folder was lost.

    Raises:
        BadInput: if there is no such release, or it is over.
    """
    reservation = known_reservation(ledger, name)
    if reservation.outcome is not None:
        clear_leftovers(home, ledger, name)
        raise BadInput(
            f"Release {name!r} is {reservation.outcome} already; there is nothing to abandon."
        )
    if ledger.gate(reservation).held is not None:
        raise BadInput(
            f"Release {name!r} is held for a person; `dp-release release withdraw {name} --by NAME"
            " --reason TEXT` ends it without a bundle, and records who decided."
        )
    folder = RunFolder(home, name, reservation.link)
    with ledger.lease(name, home_id(home)) as writer:
        here = folder.exists()
        if here:
            folder.bar_results()
            require_known_results(home, ledger, reservation)
        # privacy: a crash between storing and committing leaves a result that anyone here can
        # read. Where the folder is not here, nobody knows what was in it.
        stored = folder.has_results() if here else bool(ledger.charges(reservation))
        settled = writer.settle(reservation, "abandoned", stored=stored)
        folder.remove_confidential()
    began = ledger.entries(kinds=("input",), reservation=reservation.position)
    if here:
        files = "deleted"
    elif not began:
        files = "none"
    else:
        elsewhere = any(entry.body["home"] != home_id(home) for entry in began)
        files = "elsewhere" if elsewhere else "gone"
    return ended_release(ledger, settled, files=files)
