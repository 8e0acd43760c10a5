"""The client of the confidential process: one request at a time, each answered by one reply."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.requests import Request
from dp_core.policies.stage_grant import PAYS, StageGrant
from tasks.confidential.frames import Blocks, Malformed
from tasks.confidential.messages import VERSION, checked_reply, error_of
from tasks.confidential.plain_values import (
    RECEIPTS,
    KeptParts,
    of_block,
    receipt_of,
    request_values,
)
from tasks.run.home import home
from tasks.run.release_run import Run
from tasks.support.run_folder import RunFolder

if TYPE_CHECKING:
    from tasks.confidential.connection import Connection


class Client:
    """Asks the confidential process of one release; starts it when it is needed first."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """Wait for the first request.

        Args:
            connect: Starts the process, or uses one that was started.
        """
        self._connect = connect
        self._connection: Connection | None = None
        self._opened: Run | None = None
        self._kept = KeptParts()
        self._lock = threading.RLock()

    def close(self) -> None:
        """End the process."""
        if self._connection is not None:
            self._connection.close()

    def cluster(self, release: str, address: str | None, spec: Path) -> None:
        """Let the process connect to a Dask cluster, or start it.

        Args:
            release: Name of the release.
            address: Address of a running scheduler; None for the cluster that the spec names.
            spec: Path of the spec.

        Raises:
            BadInput: if the cluster cannot be used.
            StageFailed: if the scheduler does not answer, or the cluster does not start.
        """
        message = {"type": "cluster", "release": release, "address": address, "spec": str(spec)}
        self._answer(RunFolder(home(), release), "done", message)

    def find(self, run: Run) -> None:
        """Find the data, without opening them.

        Raises:
            ReleaseError: if they cannot be found, or the release may not open them.
        """
        self._run_reply(run, "done", {"type": "find"})

    def work(self, run: Run, stage: str) -> None:
        """Do the work of a stage that reads the file.

        Raises:
            ReleaseError: if it failed.
        """
        self._run_reply(run, "done", {"type": "work", "stage": stage})

    def readable(self, run: Run) -> bool:
        """Return whether the stored codes can be read."""
        found: bool = self._run_reply(run, "done", {"type": "readable"})[0]["as"]
        return found

    def grant(self, run: Run, stage: str) -> StageGrant:
        """Return the ledger's grant for a stage, which the process keeps.

        Raises:
            ReleaseError: if the ledger refuses.
        """
        self._run_reply(run, "done", {"type": "grant", "stage": stage})
        of, fence = run.reservation, run.writer.lease.fence
        left = {share: of.costs.get(share, Fraction(0)) for share in PAYS[stage]}
        for charge in run.ledger.charges(of):
            if charge.stage in left:
                left[charge.stage] -= charge.cost
        return StageGrant(stage, of.release, of.link, of.plan, fence, left)

    def ask(
        self, run: Run, stage: str, codes: str, request: Request
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Return what was drawn for each step of a request, and the grant that paid for it.

        Raises:
            ReleaseError: if the ledger refuses, or the kernel does.
        """
        with self._lock:  # what is kept is in the order in which it was sent
            values, blocks = request_values(request, self._kept)
            message = {"type": "ask", "stage": stage, "codes": codes, "request": values}
            _, found = self._run_reply(run, "answer", message, blocks)
        grants = [receipt_of(each) for each in of_block(found[RECEIPTS])]
        return tuple((grant, found[str(at)]) for at, grant in enumerate(grants))

    def rows(self, run: Run, stage: str, codes: str) -> int | None:
        """Return the number of rows if it is public, otherwise None."""
        message = {"type": "rows", "stage": stage, "codes": codes}
        found: int | None = self._run_reply(run, "rows", message)[0]["rows"]
        if run.spec.privacy.relation.rows_public:
            _require("rows", found is not None and found >= 0)
        else:
            _require("rows", found is None)
        return found

    def _run_reply(
        self,
        run: Run,
        expected: str,
        message: Mapping[str, Any],
        blocks: Blocks | None = None,
    ) -> tuple[dict[str, Any], Blocks]:
        """Return the reply to a message about a release, which is opened first."""
        self._open(run)
        return self._answer(run.folder, expected, message, blocks)

    def _open(self, run: Run) -> None:
        """Open the release in the process, once."""
        if self._opened is run:
            return
        self._answer(
            run.folder,
            "done",
            {
                "type": "open",
                "protocol": VERSION,
                "release": run.planned.spec.release,
                "spec": str(run.spec_path),
                "out": str(run.out),
                "reservation": run.reservation.link,
                "fence": run.writer.lease.fence,
            },
        )
        self._opened = run

    def _answer(
        self,
        folder: RunFolder,
        expected: str,
        message: Mapping[str, Any],
        blocks: Blocks | None = None,
    ) -> tuple[dict[str, Any], Blocks]:
        """Return the reply to a message; raise its error, whose own message is in the folder."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            reply, found = self._connection.exchange(message, blocks or {}, self._notice)
        told = checked_reply(reply, message["type"])
        if told == "verdict":
            self._require_counted()
        if told in ("error", "verdict", "failed"):
            raise error_of(reply, folder, message.get("stage"))
        if told != expected:
            raise Malformed(f"{reply['type']!r} is no answer to {message['type']!r}.")
        return reply, found

    def _require_counted(self) -> None:
        """Raise Malformed unless the ledger has counted the refused attempt."""
        run = self._opened
        counted = run is not None and run.ledger.examination(run.reservation)
        _require("verdict", counted in ("refused", "unreadable"))

    def _notice(self, notice: Mapping[str, Any]) -> None:
        run = self._opened
        assert run is not None
        if notice["type"] == "progress":
            run.progress(notice["stage"], notice["tenth"] / 10)
        else:
            # The ledger says what was charged; the process only that it was stored.
            charges = run.ledger.charges(run.reservation, notice["batch"])
            _require("committed", bool(charges))
            run.tell_committed(charges)


def _require(name: str, holds: bool) -> None:
    """Raise Malformed unless a message has what the client's own files allow."""
    if not holds:
        raise Malformed(f"A message {name!r} has a value that it may not have.")
