"""Records of the Prefect runs of a home: which process executes each run, and how it ended.

In Prefect, a slow run and a run whose process was killed are both RUNNING. So each run writes a
file that identifies its process, by which the sweep (`flows.sweep`) finds killed runs. The file
also keeps the date of the run's release, which must not change. The files hold no data.

The command line makes the settings of `flows.engine.settings` before Prefect is imported. In a
worker Prefect is already imported, so a flow can only check that the operator made them.
"""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect.exceptions import Pause
from prefect.runtime import flow_run
from prefect.states import State

from dp_core.errors import ReleaseError, StageFailed, without_detail
from dp_core.kernel.canonical import canonical_json
from flows.engine.settings import prepare, require_quiet_settings
from tasks.ledger.leases import Holder, is_gone, this_process
from tasks.run.home import home, home_id
from tasks.support.run_folder import keep_text, where_kept, write_atomically

FOLDER = "scheduled"
VERSION = 1
DEFECT = 1
"""Exit code of a run that an unexpected exception ended."""
SUSPENDED = -1
"""Code of a run that a person suspended; unlike the others it is no exit code of a command."""
INTERRUPTED = 130
"""Exit code of a run that was interrupted, because its worker ended or its server was lost."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of a Prefect run in this home, and of the latest process that executed it.

    Attributes:
        flow_run: Identifier of the run in Prefect.
        flow: Name of the flow.
        holder: Process that executes the run, or executed it.
        number: Number of processes that executed the run so far, this one included.
        began: When that process began the run; UTC, ISO 8601.
        moment: Time that names the release, in the schedule's time zone, ISO 8601; None for flows
            that make no release.
        release: Name of the release; None until it is known.
        spec: Path of the release's spec; None until it is known.
        waits: Whether the run ended because its plan awaits approval.
        failures: Number of its failures, without interruptions and kills.
        ended: Exit code, as the command returns it, or `SUSPENDED`; None while the process works,
            or if it was killed.
    """

    flow_run: str
    flow: str
    holder: Holder
    number: int
    began: str
    moment: str | None = None
    release: str | None = None
    spec: str | None = None
    waits: bool = False
    failures: int = 0
    ended: int | None = None

    def is_killed(self) -> bool:
        """Return whether the process is certain to have ended without recording how."""
        return self.ended is None and is_gone(self.holder)


class RunRecords:
    """The records of the Prefect runs of one home.

    Attributes:
        folder: Folder of the records; it is created when the first run starts.
    """

    def __init__(self, home: Path) -> None:
        """Open the records of a home.

        Args:
            home: The home.
        """
        self._home = home
        self.folder = home / FOLDER

    def find(self, flow_run: str) -> RunRecord | None:
        """Return the record of a run; None if it never started here, or cannot be read."""
        try:
            values = json.loads(self._path(flow_run).read_bytes())
            values.pop("version")
            return RunRecord(**(values | {"holder": Holder(**values["holder"])}))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def all(self) -> list[RunRecord]:
        """Return all records, in the order in which their latest processes started."""
        found = [self.find(path.stem) for path in self.folder.glob("*.json")]
        return sorted((each for each in found if each is not None), key=lambda each: each.began)

    def begin(self, flow_run: str, flow: str) -> RunRecord:
        """Record that this process executes a run; keep what is known of the run."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        holder = this_process(home_id(self._home))
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        before = self.find(flow_run) or RunRecord(flow_run, flow, holder, 0, began)
        now = replace(before, holder=holder, number=before.number + 1, began=began)
        return self.note(replace(now, waits=False, ended=None))

    def note(self, record: RunRecord) -> RunRecord:
        """Write the record of a run, and return it."""
        values = {"version": VERSION, **asdict(record)}
        write_atomically(self._path(record.flow_run), canonical_json(values))
        return record

    def forget(self, record: RunRecord) -> None:
        """Delete the record of a run."""
        self._path(record.flow_run).unlink(missing_ok=True)

    @contextlib.contextmanager
    def going_on(self, flow_run: str, flow: str) -> Iterator[Begun]:
        """Record that this process executes a run during a block, and how it ended."""
        begun = Begun(self, self.begin(flow_run, flow))
        code = INTERRUPTED
        try:
            yield begun
            code = 0
        except ReleaseError as error:
            code = error.exit_code
            raise
        except Exception:
            code = DEFECT
            raise
        except Pause:
            code = SUSPENDED
            raise
        finally:
            # If the record cannot be written, the error that stopped the run is still raised.
            with contextlib.suppress(ReleaseError, OSError):
                failed = begun.record.failures + (code not in (0, INTERRUPTED, SUSPENDED))
                begun.record = self.note(
                    replace(begun.record, ended=code, waits=begun.waits, failures=failed)
                )

    def keep_detail(self, flow_run: str, detail: str) -> Path | None:
        """Write the traceback of a failure to a file; return its path, None if that failed."""
        path = self.folder / f"{os.path.basename(flow_run)}.txt"
        return path if keep_text(path, detail) else None

    def _path(self, flow_run: str) -> Path:
        return self.folder / f"{os.path.basename(flow_run)}.json"


@dataclass(slots=True)
class Begun:
    """A run that this process executes.

    Attributes:
        records: Records of the home.
        record: Record of this run.
        waits: Whether the run ended because its plan awaits approval; set by the flow.
    """

    records: RunRecords
    record: RunRecord
    waits: bool = False

    def learn(self, *, moment: datetime | None = None, release: str, spec: Path) -> None:
        """Record the release and the spec of this run, and the date if it names the release."""
        known = replace(self.record, release=release, spec=str(spec))
        if moment is not None:
            known = replace(known, moment=moment.isoformat())
        self.record = self.records.note(known)


Work = Callable[[Begun], "State[Any] | None"]


def do_unattended(flow: str, work: Work) -> State[Any] | None:
    """Do the work of a flow run, and record its process and its end in the home.

    Args:
        flow: Name of the flow.
        work: All that the flow does. It returns the run's final state in Prefect, None for the
            default.

    Raises:
        ReleaseError: if the work failed; the error holds no data.
    """
    run = str(flow_run.id or uuid4())
    failure: ReleaseError
    try:
        require_quiet(home())
        with RunRecords(home()).going_on(run, flow) as begun:
            return work(begun)
    except ReleaseError as error:
        failure = without_detail(error)
    except Exception as error:
        kept = RunRecords(home()).keep_detail(run, traceback.format_exc())
        failure = StageFailed(
            f"The run of {flow} stopped ({type(error).__name__}); the detail {where_kept(kept)}."
            " Nothing is lost: repair the cause, then run it again.",
            row="run-stopped",
        )
    # privacy: raise outside the `except` blocks, because Prefect stores an error with its causes.
    raise failure


def require_quiet(home: Path) -> None:
    """Refuse to start if Prefect would store results or other logs, or send usage data.

    Then make the settings that can still be made.

    Args:
        home: The home.

    Raises:
        BadInput: if a setting is wrong; the message names it.

    Privacy:
        Many people can read what Prefect stores. Results could hold what a task returns, and the
        logs of other libraries what they read. The log of a run holds Prefect's lines and those of
        `flows.monitoring.log`: public values, and errors without data. Prefect reads its
        settings when it is imported, so here they can only be checked.
    """
    from prefect.settings import get_current_settings

    require_quiet_settings(get_current_settings())
    prepare(home)
