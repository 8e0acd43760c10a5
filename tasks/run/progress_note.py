"""The note of how far the running stage of a release is, which `dp-release status` reads.

It lies in the run's own folder, which only staff can read, because the duration of a stage depends
on the size of the data. The process that makes the release deletes it at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from dp_core.plan.forecast.stage_pace import Moment
from tasks.support.run_folder import RunFolder

NOTE = "progress.json"
VERSION = 1


def write_note(folder: RunFolder, moment: Moment, process: int) -> None:
    """Write how far the running stage is; a note that cannot be written is left out.

    Args:
        folder: Folder of the run.
        moment: How far the stage is.
        process: Number of the process that makes the release.
    """
    path = _path(folder)
    values = {
        "version": VERSION,
        "process": process,
        "stage": moment.stage,
        "done": moment.done,
        "seconds": moment.seconds,
        "left": moment.left,
    }
    temporary = path.with_name(f"{path.name}.{process}.tmp")
    with contextlib.suppress(OSError):
        # Nothing depends on the note, so it is not synced to the disk.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(values, file)
        os.replace(temporary, path)


def read_note(folder: RunFolder, process: int) -> Moment | None:
    """Return how far the running stage is; None if the process left no note.

    Args:
        folder: Folder of the run.
        process: Number of the process that makes the release; notes of others are old.
    """
    try:
        values = json.loads(_path(folder).read_bytes())
        if values["version"] != VERSION or values["process"] != process:
            return None
        done, left = (
            None if values[key] is None else float(values[key]) for key in ("done", "left")
        )
        return Moment(str(values["stage"]), done, float(values["seconds"]), left)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_note(folder: RunFolder) -> None:
    """Delete the note, if there is one."""
    with contextlib.suppress(OSError):
        _path(folder).unlink(missing_ok=True)


def _path(folder: RunFolder) -> Path:
    return folder.public.parent / NOTE
