"""The client's way to the confidential process, and what it says when the process ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dp_core.errors import StageFailed, without_detail
from dp_core.plan.data_location import DatabaseTable, places_of, store_of
from dp_core.plan.plan import Plan
from tasks.confidential.confinement import Reach
from tasks.confidential.frames import MOST_BYTES, Blocks, Gone, Malformed, receive, send
from tasks.confidential.messages import NOTICES, REPLIES, checked
from tasks.confidential.process import Started, start
from tasks.run.home import home, ledger_url
from tasks.support.run_folder import where_kept

Notice: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Takes a notice of the process."""


def connect(plan: Plan, dask: str | None) -> Connection:
    """Start a process that may see the data of a plan, and return the connection to it.

    Args:
        plan: Plan of the release.
        dask: Address of a running Dask scheduler; None for what the plan's spec says.
    """
    places = () if plan.spec.data is None else places_of(plan.spec.data)
    databases = [place.variable for place in places if isinstance(place, DatabaseTable)]
    remote = bool(databases) or any(store_of(place) for place in places)
    reach: Reach = "home"
    if dask is None and plan.spec.dask is not None:
        reach = "programs"
    elif remote or dask is not None or not ledger_url(home()).startswith("sqlite:"):
        reach = "network"
    return Connection(start(plan.spec.release, reach, databases))


def _accept(message: Mapping[str, Any]) -> int:
    """Return how many bytes of blocks a reply may have; refuse what is no reply or notice."""
    return MOST_BYTES if checked(message, {**NOTICES, **REPLIES}) == "answer" else 0


class Connection:
    """The connection to a confidential process that was started."""

    def __init__(self, started: Started) -> None:
        """Use a process.

        Args:
            started: The process; `close` ends it.
        """
        self._started = started
        self._ended: StageFailed | None = None

    def exchange(
        self, message: Mapping[str, Any], blocks: Blocks, notice: Notice
    ) -> tuple[dict[str, Any], Blocks]:
        """Send a request, pass on each notice, and return the reply and its blocks.

        Raises:
            StageFailed: if the process has ended.
        """
        if self._ended is not None:
            raise without_detail(self._ended)
        try:
            send(self._started.connection, message, blocks)
            while True:
                reply, found = receive(self._started.connection, _accept)
                if reply["type"] in REPLIES:
                    return reply, found
                notice(reply)
        except (Gone, Malformed) as error:
            code = self._started.end()
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            what = "sent an unreadable message" if isinstance(error, Malformed) else f"ended {how}"
            if code == -signal.SIGKILL:
                what += "; perhaps memory was short"
            self._ended = StageFailed(
                f"The process that reads the data {what}. If it gave a reason, that"
                f" {where_kept(self._started.errors)}. Repair the cause, then resume the release."
                " What was paid for is not paid for again.",
                row="stage-failed",
            )
            raise self._ended from None
        except BaseException:
            # The reply of an interrupted request would be taken for that of the next one.
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        if self._ended is None:
            self._ended = StageFailed(
                "The process that reads the data was ended. Resume the release."
            )
            self._started.end()
