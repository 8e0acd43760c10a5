"""The nightly check: the ledger's chain, and every bundle made from it that is where it was put."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.states import Completed, State

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, LedgerCorrupt, ReleaseError
from dp_core.wall.ledger.signatures import read_public
from flows.monitoring.prefect_events import tell_bundles, tell_ledger
from flows.releases.attempts import Begun
from flows.releases.ledger_check import check_ledger
from flows.releases.unattended import unattended
from tasks.ledger.ledger import Ledger
from tasks.run.home import assert_not_lost, home, ledger_exists, open_ledger
from tasks.support.run_folder import RunFolder

FLOW = "verify-ledger"


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check found in order.

    Attributes:
        entries: Of the ledger.
        head: Link of its last entry; to be kept elsewhere.
        verified: Releases whose bundles verify.
        elsewhere: Releases whose bundles are not where they were written.
    """

    entries: int
    head: str
    verified: tuple[str, ...]
    elsewhere: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is told to people."""
        moved = f" ({len(self.elsewhere)} moved away)" if self.elsewhere else ""
        return (
            f"The ledger verifies, and so do {len(self.verified)} bundles{moved}. Head of"
            f" {self.entries} entries: {self.head}"
        )


@flow(name=FLOW, flow_run_name=FLOW, persist_result=False, log_prints=False, retries=0)
def verify_ledger(public_keys: list[str] | None = None) -> State[Any] | None:
    """Check every entry of the ledger, and every published bundle that is where it was written.

    Fails with one sentence that names the first entry, or the bundles, that do not verify.

    Args:
        public_keys: Files of public keys, one of which must have signed the ledger's last entry and
            every bundle. Empty: signatures are checked, but not whose they are.
    """
    keys = [Path(key) for key in public_keys or ()]

    def work(_begun: Begun) -> State[Any]:
        return Completed(message=check_all(home(), keys).sentence)

    return unattended(FLOW, work)


def check_all(at: Path, keys: list[Path]) -> Checked:
    """Check the ledger of a home and the bundles of its releases.

    Raises:
        BadInput: if there is no ledger yet, or a file holds no public key.
        LedgerCorrupt: naming the first entry that does not fit.
        ReleaseError: naming the bundles that do not verify.
    """
    ledger = _opened(at)
    found = check_ledger(ledger, at, keys, quiet=True)
    trusted = [read_public(key) for key in keys]
    verified, elsewhere, wrong = [], [], []
    for release in ledger.releases():
        folder = _bundle(at, release)
        if folder is None:
            continue
        if not folder.is_dir():
            elsewhere.append(release)
            continue
        failures = verify(folder, trusted=trusted).failures
        if failures:
            wrong.append(f"{release} in {folder} ({failures[0].name})")
        else:
            verified.append(release)
    if wrong:
        sentence = (
            f"{len(wrong)} of {len(wrong) + len(verified)} bundles do not verify:"
            f" {'; '.join(wrong)}. Tell whoever publishes them; `dp-release verify DIR` shows each."
        )
        tell_bundles("verification-failed", sentence, row="bundles-changed")
        raise ReleaseError(sentence, row="bundles-changed")
    return Checked(
        entries=found.entries,
        head=found.head,
        verified=tuple(verified),
        elsewhere=tuple(elsewhere),
    )


def _opened(at: Path) -> Ledger:
    """Return the ledger of a home; one that is lost or older than it was is told as a changed one.

    Raises:
        BadInput: if there is none yet.
        LedgerCorrupt: if there was one, or a later one.
    """
    try:
        assert_not_lost(at)
        if not ledger_exists(at):
            raise BadInput(f"There is no ledger in {at} yet, so nothing to check.", row="no-ledger")
        return open_ledger(at)
    except LedgerCorrupt as error:
        tell_ledger("verification-failed", error.message, row=error.row)
        raise


def _bundle(at: Path, release: str) -> Path | None:
    """Return where the bundle of a published release was written, None for any other."""
    folder = RunFolder(at, release)
    if folder.done("publish") is None:
        return None
    try:
        return folder.remembered()[1]
    except BadInput:
        return None
