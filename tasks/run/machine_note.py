"""The speed of this machine, kept in the home so that `plan` need not measure it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from dp_core.plan.forecast.machine_speed import Machine, measure_machine
from dp_core.tables.processors import threads
from dp_core.text.canonical import canonical_json, digest
from tasks.support.run_folder import write_atomically

FOLDER = "machines"
VERSION = 1
THOROUGH = 20
"""Repetitions of a thorough measurement; it takes about 0.2 s."""


def machine_of(home: Path) -> Machine:
    """Return the speed of this machine: as measured before, otherwise from a short measurement.

    Args:
        home: The home, which need not exist.
    """
    return _read(home) or measure_machine(threads())


def calibrate(home: Path, *, times: int = THOROUGH) -> Machine:
    """Measure this machine, keep the result in the home, and return it.

    The fastest measurement of the machine counts, because other programs only slow it down. No time
    that a release took is kept, because it depends on the size of confidential data.

    Args:
        home: The home, which must exist.
        times: Number of repetitions.
    """
    known, measured = _read(home), measure_machine(threads(), times=times)
    machine = measured if known is None else measured.faster(known)
    values = {"version": VERSION, "machine": asdict(machine)}
    # A forecast is a convenience, so a full disk does not stop a release here.
    with contextlib.suppress(Exception):
        _path(home).parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(_path(home), canonical_json(values))
    return machine


def _read(home: Path) -> Machine | None:
    try:
        values = json.loads(_path(home).read_bytes())
        if values["version"] != VERSION:
            return None
        return Machine(**{**values["machine"], "processors": threads()})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(home: Path) -> Path:
    # A home may be on a disk that several machines share.
    name = digest([platform.node(), platform.machine(), platform.python_version(), os.cpu_count()])
    return home / FOLDER / f"{name[:16]}.json"
