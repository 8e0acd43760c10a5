"""The nightly check of the ledger's chain and of every bundle that is still in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.states import Completed, State

from dp_core.accounts.signatures import read_public
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, LedgerCorrupt, ReleaseError
from dp_core.text.pages.number_texts import plural
from flows.monitoring.prefect_events import tell_check
from flows.releases.ledger_check import check_ledger
from flows.releases.run_records import Begun, do_unattended
from tasks.ledger.ledger import Ledger
from tasks.run.home import assert_not_lost, home, ledger_exists, open_ledger
from tasks.support.run_folder import RunFolder

FLOW = "verify-ledger"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check that found no fault.

    Attributes:
        entries: Number of entries in the ledger.
        head: Hash of the ledger's newest entry. A copy kept elsewhere reveals a truncated ledger.
        verified: Names of the releases whose bundles verify.
        elsewhere: Names of the releases whose bundles are no longer in the folder that they were
            written to.
        refused: Refused attempts of each account since a person last allowed further ones, by the
            account's name; accounts without one are left out.
    """

    entries: int
    head: str
    verified: tuple[str, ...]
    elsewhere: tuple[str, ...]
    refused: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """The result as a sentence for people."""
        moved = f" ({len(self.elsewhere)} moved away)" if self.elsewhere else ""
        counts = ", ".join(f"{name!r} {count}" for name, count in self.refused.items())
        refused = f" Refused attempts not yet allowed again: {counts}." if counts else ""
        return (
            f"The ledger and {plural(len(self.verified), 'bundle')}{moved} verify.{refused} Head of"
            f" {self.entries} entries: {self.head}"
        )


@flow(name=FLOW, flow_run_name=FLOW, persist_result=False, log_prints=False, retries=0)
def verify_ledger(public_keys: list[str] | None = None) -> State[Any] | None:
    """Check every entry of the ledger, and every published bundle that is still in its folder.

    If the check fails, the message of the failed run names the first entry, or the bundles, that do
    not verify.

    Args:
        public_keys: Paths of public keys. One of them must have signed the ledger's last entry and
            every bundle. If empty, signatures are checked, but any key is accepted.
    """
    keys = [Path(key) for key in public_keys or ()]

    def work(_begun: Begun) -> State[Any]:
        return Completed(message=check_all(home(), keys).sentence)

    return do_unattended(FLOW, work)


def check_all(at: Path, keys: list[Path]) -> Checked:
    """Check the ledger of a home and the bundles of its releases.

    Args:
        at: The home.
        keys: Paths of the public keys to trust; empty accepts any key.

    Raises:
        BadInput: if there is no ledger yet, or a file holds no public key.
        LedgerCorrupt: if an entry does not verify; the message names the first one.
        ReleaseError: if bundles do not verify; the message names them.
    """
    ledger = _open(at)
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
        tell_check("bundles", "verification-failed", sentence, "bundles-changed")
        raise ReleaseError(sentence, row="bundles-changed")
    return Checked(
        entries=found["entries"],
        head=found["head"],
        verified=tuple(verified),
        elsewhere=tuple(elsewhere),
        refused={
            account.name: recent
            for account in ledger.accounts()
            if (recent := ledger.attempts(account.name).recent)
        },
    )


def _open(at: Path) -> Ledger:
    """Return the ledger of a home; announce a lost or outdated ledger as a failed verification.

    Raises:
        BadInput: if there is no ledger yet.
        LedgerCorrupt: if the ledger is lost, or older than its anchor.
    """
    try:
        assert_not_lost(at)
        if not ledger_exists(at):
            raise BadInput(
                f"There is no ledger in {at} yet, so there is nothing to check.", row="no-ledger"
            )
        return open_ledger(at)
    except LedgerCorrupt as error:
        tell_check("ledger", "verification-failed", error.message, error.row)
        raise


def _bundle(at: Path, release: str) -> Path | None:
    """Return the folder that a release's bundle was written to, None if it is not published."""
    folder = RunFolder(at, release)
    if folder.facts_of("publish") is None:
        return None
    try:
        return folder.recorded_paths()[1]
    except BadInput:
        return None
