"""What a home remembers of the runs that Prefect started in it: who does them, and how they ended.

Prefect cannot tell a run that is slow from one whose process was killed: both say RUNNING. Here
each run leaves a file with the process that does it, so that whoever looks after crashed runs
(`flows.sweep`) can tell, and the date of a run stays what it was at first. No file holds anything
of the data.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from dp_core.documents.canonical import canonical_json
from dp_core.errors import ReleaseError
from tasks.ledger.leases import Holder, is_gone, this_process
from tasks.run.home import home_id
from tasks.support.run_folder import keep_text, write_atomically

FOLDER = "scheduled"
VERSION = 1
DEFECT = 1
INTERRUPTED = 130
"""Exit code of what was told to end: its worker was, or its server was lost."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of Prefect in this home, as it was last begun.

    Attributes:
        flow_run: Its identifier in Prefect.
        flow: Name of the flow.
        holder: The process that does it, or did.
        number: How many times it was begun.
        failures: How many of these ended in a failure, not counting those that were killed.
        began: UTC, ISO 8601.
        moment: The time it was scheduled for, in the schedule's time zone; None for other flows.
        release: The release it makes, once that is known.
        spec: Path of the spec it makes it by.
        waits: Whether it ended because its plan waits for an approval.
        ended: Exit code of its end, as the command's; None while it goes on, or if it was killed.
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
        """Whether its process surely ended without saying how."""
        return self.ended is None and is_gone(self.holder)


class Attempts:
    """The runs of one home."""

    def __init__(self, home: Path) -> None:
        """Name the folder; it is made when the first run begins.

        Args:
            home: Of the ledger and of all runs.
        """
        self._home = home
        self.folder = home / FOLDER

    def find(self, flow_run: str) -> Attempt | None:
        """Return what is known of a run, None if it never began here."""
        try:
            values = json.loads(self._path(flow_run).read_bytes())
            values.pop("version")
            return Attempt(**(values | {"holder": Holder(**values["holder"])}))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def all(self) -> list[Attempt]:
        """Return every run that is remembered, in the order in which they were last begun."""
        found = [self.find(path.stem) for path in self.folder.glob("*.json")]
        return sorted((each for each in found if each is not None), key=lambda each: each.began)

    def begin(self, flow_run: str, flow: str) -> Attempt:
        """Note that this process does a run now; what was known of it otherwise is kept."""
        before = self.find(flow_run)
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = Attempt(
            flow_run=flow_run,
            flow=flow,
            holder=this_process(home_id(self._home)),
            number=before.number + 1 if before else 1,
            began=datetime.now(UTC).isoformat(timespec="milliseconds"),
            moment=before.moment if before else None,
            release=before.release if before else None,
            spec=before.spec if before else None,
            failures=before.failures if before else 0,
        )
        return self.note(now)

    def note(self, attempt: Attempt) -> Attempt:
        """Write down what is known of a run."""
        values = {"version": VERSION, **asdict(attempt)}
        write_atomically(self._path(attempt.flow_run), canonical_json(values))
        return attempt

    def forget(self, attempt: Attempt) -> None:
        """Forget a run that needs nobody any more."""
        self._path(attempt.flow_run).unlink(missing_ok=True)

    @contextlib.contextmanager
    def going_on(self, flow_run: str, flow: str) -> Iterator[Begun]:
        """Remember a run for the length of a block, and how it ended."""
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
        finally:
            # What stops the run must not be hidden by a note that could not be written.
            with contextlib.suppress(ReleaseError, OSError):
                failed = begun.attempt.failures + (code not in (0, INTERRUPTED))
                begun.attempt = self.note(
                    replace(begun.attempt, ended=code, waits=begun.waits, failures=failed)
                )

    def keep_detail(self, flow_run: str, detail: str) -> Path | None:
        """Keep the detail of a failure for staff; return where, None if it could not be kept."""
        path = self.folder / f"{os.path.basename(flow_run)}.txt"
        return path if keep_text(path, detail) else None

    def _path(self, flow_run: str) -> Path:
        return self.folder / f"{os.path.basename(flow_run)}.json"


@dataclass(slots=True)
class Begun:
    """A run that goes on, and what is learned of it meanwhile."""

    attempts: Attempts
    attempt: Attempt
    waits: bool = False

    def learn(self, *, moment: datetime, release: str, spec: Path) -> None:
        """Note the date and the release of this run."""
        known = replace(self.attempt, moment=moment.isoformat(), release=release, spec=str(spec))
        self.attempt = self.attempts.note(known)
