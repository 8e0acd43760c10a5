"""The process's side of the connection: it answers each message of its client."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import DataRefused, ReleaseError, StageFailed
from dp_core.kernel.kernel import Kernel
from dp_core.plan.reading.spec_file import load_spec
from dp_core.policies.stage_grant import PAYS, StageGrant
from tasks.confidential import file_work
from tasks.confidential.confidential_run import ConfidentialRun
from tasks.confidential.frames import Blocks, Gone, Malformed
from tasks.confidential.messages import (
    BEFORE_DATA,
    REQUESTS,
    VERSION,
    Codes,
    checked,
    error_message,
    failure_message,
    is_about_data,
)
from tasks.confidential.plain_values import (
    RECEIPTS,
    KeptParts,
    as_block,
    receipt_values,
    request_of,
)
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.run.earlier_releases import preview_plan
from tasks.run.home import home, open_ledger
from tasks.run.stage_failures import save_stage_detail, unexpected_failure
from tasks.support.dask_cluster import dask_client
from tasks.support.run_folder import RunFolder, disk_errors

_ROUNDING = 1e-9  # of a sum of parts of a stage
Result = TypeVar("Result")
Reply = tuple[dict[str, Any], Blocks]
Tell = Callable[[Mapping[str, Any]], None]
"""Sends a notice to the client."""


class Host:
    """Answers the messages of one client, about one release.

    Attributes:
        before_cluster: Called before a cluster is connected or started; does nothing by default.
    """

    def __init__(self, tell: Tell) -> None:
        """Wait for messages.

        Args:
            tell: Sends a notice to the client.
        """
        self._tell = tell
        self.before_cluster: Callable[[], object] = lambda: None
        self._until_the_end = ExitStack()
        self._dask: Any = None
        self._run: ConfidentialRun | None = None
        self._found = self._identified = False
        self._tenths: dict[str, int] = {}
        self._grants: dict[str, StageGrant] = {}
        self._kept = KeptParts()

    def answer(self, message: Mapping[str, Any], blocks: Blocks) -> Reply:
        """Return the reply to a message.

        Args:
            message: What the client sent.
            blocks: The blocks of its frame.

        Raises:
            Malformed: if it is no message of the protocol, or comes out of order.
            Gone: if the client has closed the connection.
        """
        fields = {name: value for name, value in message.items() if name != "type"}
        name = checked(message, REQUESTS)
        try:
            if name == "ask":
                return self._ask(blocks, **fields)
            reply: dict[str, Any] = getattr(self, f"_{name}")(**fields)
        except (Malformed, Gone):
            raise
        except Exception as error:
            reply = self._failed(error, name, fields)
        return reply, {}

    def _failed(self, error: Exception, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Save the message and the detail of an error; return the reply, which has neither.

        Privacy:
            Whatever reads the data may have put a value into either. So both stay in the internal
            folder of the release. That the data were refused, or cannot be read, is an answer about
            them. So the ledger counts it before anybody is told. If it cannot, its own error is
            told instead, and the next attempt finds the answer again.
        """
        verdict = None
        if name not in BEFORE_DATA and is_about_data(error):
            try:
                verdict = self._count(error)
            except Exception as of_ledger:
                error = of_ledger
        # privacy: one part, so that the folder lies in the home's runs whatever name was sent.
        folder = RunFolder(home(), Path(fields.get("release", "")).name.strip("."))
        if self._run is not None:
            folder = self._run.folder
        stage = fields.get("stage")
        what = f"Stage {stage!r}" if stage else "The process that reads the data"
        if isinstance(error, ReleaseError):
            save_stage_detail(what, error.internal or "", folder)
        else:
            error = unexpected_failure(what, error, folder)
        kept = folder.keep_message(error.message, error.row)
        if name in BEFORE_DATA:
            return error_message(error, kept=kept)
        if verdict is not None:
            return {"type": "verdict", "verdict": verdict, "kept": kept}
        return failure_message(error, kept=kept)

    def _count(self, error: Exception) -> str | None:
        """Return the verdict by which the ledger counts a failure as a refused attempt.

        None if the attempt has ended otherwise: the data were found to fit before.
        """
        run = self._opened
        ended = run.writer.judge(
            run.reservation, "refused" if isinstance(error, DataRefused) else "unreadable"
        )
        return ended if ended in ("refused", "unreadable") else None

    def close(self) -> None:
        """Close the cluster, if there is one."""
        self._until_the_end.close()

    def _cluster(
        self,
        release: str,  # noqa: ARG002 (names the folder of an error)
        address: str | None,
        spec: str,
    ) -> dict[str, Any]:
        self.before_cluster()
        asked = load_spec(Path(spec)).dask if address is None else None
        self._dask = self._until_the_end.enter_context(dask_client(address, asked))
        return _done()

    def _open(
        self, protocol: int, release: str, spec: str, out: str, reservation: str, fence: int
    ) -> dict[str, Any]:
        if protocol != VERSION or self._run is not None:
            raise Malformed("A release is opened once, in the version of its client.")
        where = home()
        ledger = open_ledger(where)
        plan, reserved = preview_plan(Path(spec)), ledger.reservation(release)
        # privacy: the ledger says what was promised, whatever the client has read.
        if reserved is None or reserved.link != reservation or reserved.plan != plan.hash:
            raise StageFailed(
                f"The spec of release {release!r} does not give the plan that the ledger reserved;"
                " undo the change and resume, or abandon the release and choose a new name.",
                row="plan-changed",
            )
        self._run = ConfidentialRun(
            planned=plan,
            spec_path=Path(spec),
            out=Path(out),
            home=where,
            ledger=ledger,
            writer=ledger.writer_under(release, fence, ChargingWriter),
            reservation=reserved,
            progress=self._tell_progress,
            committed=lambda charges: self._tell({"type": "committed", "batch": charges[0].batch}),
            client=self._dask,
        )
        return _done()

    def _tell_progress(self, stage: str, done: float) -> None:
        """Tell each tenth of a stage once, in order.

        Privacy:
            The very part that is done would tell the number of rows; so would tenths left out.
        """
        told = self._tenths.get(stage, 0)
        for tenth in range(told + 1, math.floor(10 * done + _ROUNDING) + 1):
            self._tell({"type": "progress", "stage": stage, "tenth": tenth})
            self._tenths[stage] = tenth

    @property
    def _opened(self) -> ConfidentialRun:
        if self._run is None:
            raise Malformed("No release is open.")
        return self._run

    @property
    def _bound(self) -> ConfidentialRun:
        # privacy: codes of an earlier process are those of the input that the ledger has bound.
        if not self._identified:
            raise Malformed("The input is not identified yet.")
        return self._opened

    def _find(self) -> dict[str, Any]:
        file_work.find(self._opened)
        self._found = True
        return _done()

    def _work(self, stage: str) -> dict[str, Any]:
        run = self._opened if stage == "identify" else self._bound
        work = file_work.WORK.get(stage)
        if work is None or (stage in PAYS and stage not in self._grants):
            raise Malformed(f"No stage {stage!r:.40} reads the file, or it has no grant.")
        if not self._found:
            raise Malformed("The data are not found yet.")
        attempt(stage, lambda: work(run), run)
        self._identified |= stage == "identify"
        if stage == "discretize":
            run.writer.judge(run.reservation, "fits")
        return _done()

    def _readable(self) -> dict[str, Any]:
        return _done(file_work.readable(self._opened))

    def _grant(self, stage: str) -> dict[str, Any]:
        run = self._bound
        # Whoever stored the codes may have ended before the verdict.
        run.require_own_codes()
        run.writer.judge(run.reservation, "fits")
        self._grants[stage] = run.writer.grant(run.reservation, run.planned.hash, stage)
        return _done()

    def _ask(self, blocks: Blocks, stage: str, codes: Codes, request: Mapping[str, Any]) -> Reply:
        asked = request_of(request, blocks, self._kept)
        kernel = self._kernel(stage, codes)
        found = attempt(stage, lambda: kernel.answer(asked), self._opened)
        values: dict[str, NDArray[Any]] = {
            str(at): np.asarray(value) for at, (_, value) in enumerate(found)
        }
        values[RECEIPTS] = as_block([receipt_values(grant) for grant, _ in found])
        return {"type": "answer"}, values

    def _rows(self, stage: str, codes: Codes) -> dict[str, Any]:
        kernel = self._kernel(stage, codes)
        return {"type": "rows", "rows": attempt(stage, kernel.public_rows, self._opened)}

    def _kernel(self, stage: str, codes: Codes) -> Kernel:
        """Return the kernel about one kind of codes, which charges under a stage's grant."""
        run, grant = self._bound, self._grants.get(stage)
        if grant is None:
            raise Malformed(f"Stage {stage!r:.40} has no grant.")
        return run.kernel(grant, codes)


def attempt(stage: str, work: Callable[[], Result], run: ConfidentialRun) -> Result:
    """Return what a stage's work returns; a process that lost its lease must not read the data."""
    run.writer.require()
    with disk_errors(f"stage {stage!r}"):
        return work()


def _done(found: bool = True) -> dict[str, Any]:
    return {"type": "done", "as": found}
