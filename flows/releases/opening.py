"""Opens the run of a release under its lease, and gives back a reservation without charges.

Finished stages whose results are missing or damaged are run again: codes, models and synthetic sets
are made again at no cost. A committed noisy result is never drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import StageFailed
from dp_core.plan.plan import Plan
from flows.monitoring import log
from flows.monitoring.prefect_events import tell_release
from flows.monitoring.prefect_runs import end_dead_runs
from flows.releases.start_check import check_start, is_publishing, require_known_results
from tasks.confidential.client import Client
from tasks.confidential.public_run import PublicRun
from tasks.ledger.ledger import Ledger
from tasks.ledger.release_writer import ReleaseWriter
from tasks.ledger.reservations import Reservation
from tasks.run.earlier_releases import keep_plan
from tasks.run.home import home, home_id, open_ledger
from tasks.run.home_notes import remove_stop
from tasks.run.public_files import read_released, synthetic_codes, synthetic_files
from tasks.run.release_run import Progress, silent
from tasks.run.stage_table import CONFIDENTIAL_STAGES
from tasks.stages.choose_domain import read_domain
from tasks.stages.measure_analyses import read_analyses
from tasks.stages.measure_marginals import read_selections
from tasks.stages.reconstruct import restored_models
from tasks.support.run_folder import RunFolder

if TYPE_CHECKING:
    from dp_core.confidential.code_store import CodeStore


@dataclass(eq=False, repr=False)
class Opening:
    """A release that is about to be opened under its lease; the task `reserve` opens it.

    Attributes:
        plan: Plan of the release.
        spec: Path of its spec.
        out: Folder of the bundle.
        until_the_end: Gives up the lease when the flow ends.
        confidential: Client of the process that may see the data.
        keep_confidential: Keep the confidential folder (codes, and rows copied from a database or
            panel) when the release is finished; False by default.
        progress: Called with a stage's name and the part of it that is done; by default nothing.
    """

    plan: Plan
    spec: Path
    out: Path
    until_the_end: ExitStack
    confidential: Client
    keep_confidential: bool = False
    progress: Progress = silent
    _run: PublicRun | None = field(default=None, init=False)

    @property
    def folder(self) -> RunFolder:
        """The release's folder, which may not exist yet."""
        return RunFolder(home(), self.plan.spec.release)

    @property
    def run(self) -> PublicRun:
        """The run, once it is open."""
        assert self._run is not None
        return self._run

    def open(self) -> None:
        """Take the lease, reserve the cost, and open the run; if it is refused, write nothing.

        Raises:
            BadInput: if the output folder cannot be used, or the name is used.
            BudgetRefused: if the account does not allow the release.
            StageFailed: if the release was charged in another home, or its folder is gone.
            ReleaseError: if the release may not start or continue for another reason.
        """
        check_start(self.plan, self.out)
        ledger, where = open_ledger(home()), home()
        # Take the lease before making or returning a reservation: another process may be working on
        # this release.
        lease = ledger.lease(self.plan.spec.release, home_id(where))
        writer = self.until_the_end.enter_context(lease)
        # Check again under the lease: another process may have changed what the first check saw.
        check_start(self.plan, self.out)
        reservation = _reserve(self.plan, where, ledger, writer)
        folder = RunFolder(where, self.plan.spec.release, reservation.link)
        if folder.exists():
            tell_release("resumed", reservation.release, reservation.account)
            end_dead_runs(reservation.release)
        spec, out = self.spec.absolute(), self.out.absolute()
        folder.begin(spec=spec, out=out)
        remove_stop(folder)
        keep_plan(folder, self.plan.document())
        self._run = PublicRun(
            planned=self.plan,
            spec_path=spec,
            out=out,
            home=where,
            ledger=ledger,
            writer=writer,
            reservation=reservation,
            keep_confidential=self.keep_confidential,
            progress=self.progress,
            confidential=self.confidential,
        )
        log.say_opening(self._run)


def _reserve(plan: Plan, where: Path, ledger: Ledger, writer: ReleaseWriter) -> Reservation:
    """Return the reservation of a release that may start or continue."""
    reservation = writer.reservation()
    if reservation and not reservation.outcome and ledger.charges(reservation):
        folder = RunFolder(where, plan.spec.release, reservation.link)
        if not folder.exists():
            # privacy: the results of its charges are stored elsewhere, so drawing noise here would
            # be a second draw.
            raise StageFailed(
                f"Release {plan.spec.release!r} was started in another home, or its folder"
                f" {folder.path} is gone. Resume it in the home that started it, or restore the"
                " folder. Noisy results that were paid for are never drawn again.",
                row="other-home",
            )
    if is_publishing(reservation, plan):
        assert reservation is not None
        return reservation
    if (
        reservation
        and not reservation.outcome
        and reservation.plan != plan.hash
        and not ledger.charges(reservation)
    ):
        # Nothing was charged, so the release may start again with a corrected spec.
        require_known_results(where, ledger, reservation)
        reservation = writer.settle(reservation, "returned")
    if reservation is None or reservation.outcome is not None:
        RunFolder(where, plan.spec.release).refuse_results()
    return writer.reserve(plan)


def give_back(run: PublicRun) -> bool:
    """Return the reservation to the account if nothing was charged.

    Args:
        run: The run, with its reservation.

    Returns:
        Whether the reservation was returned.

    Raises:
        LedgerCorrupt: if a noisy result is stored that the ledger has no charge for.
    """
    require_known_results(run.home, run.ledger, run.reservation)
    if run.ledger.charges(run.reservation):
        return False
    run.writer.settle(run.reservation, "returned")
    run.folder.remove_confidential()
    return True


def forget_lost(run: PublicRun) -> None:
    """Mark finished stages as not done if their result is still needed and cannot be read."""
    if run.folder.facts_of("publish") is not None:
        return
    products: dict[str, Callable[[PublicRun], object]] = {
        "domain": read_domain,
        "select": read_selections,
        "measure": read_released,
        "analyses": read_analyses,
        "reuse": read_released,
        "reconstruct": restored_models,
        "synthesize": _open_sets,
    }
    for stage, read in products.items():
        _forget_unless(read, run, stage)
    coded = run.folder.facts_of("discretize") is not None
    if coded and needs_data(run) and not run.confidential.readable(run):
        run.folder.forget("discretize")


def needs_data(run: PublicRun) -> bool:
    """Return whether a stage that reads the confidential data is not done yet."""
    if run.reuses:
        return False
    stages = [stage for stage in CONFIDENTIAL_STAGES if run.has(stage)]
    return any(run.folder.facts_of(stage) is None for stage in stages)


def _forget_unless(read: Callable[[PublicRun], object], run: PublicRun, stage: str) -> None:
    if run.folder.facts_of(stage) is None:
        return
    try:
        read(run)
    except Exception:  # each reader of a damaged file raises its own kind of error
        run.folder.forget(stage)


def _open_sets(run: PublicRun) -> None:
    import pyarrow.parquet as pq

    for number in run.spec.set_numbers:
        _require_chunks(synthetic_codes(run, number))
        for file in synthetic_files(run, number):
            with pq.ParquetFile(file):
                pass


def _require_chunks(store: CodeStore) -> None:
    """Read every chunk of a set's codes, so that a missing or damaged file raises an error."""
    for chunk in range(store.chunks):
        store.read(chunk)
