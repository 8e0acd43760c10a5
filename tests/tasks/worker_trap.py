"""What a Dask worker is given to be killed with: imported on the workers, so it imports little."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

from tasks import dask_counter


class Trap(WorkerPlugin):
    """Holds a worker at its n-th chunk until the file `go` is there, and notes what was begun.

    A worker that is started later, for one that died, gets it as well.
    """

    name = "trap"

    def __init__(self, folder: Path, *, at: int) -> None:
        self.folder = folder
        self.at = at

    def setup(self, worker: Any) -> None:
        del worker
        count, folder, pid = dask_counter._count_chunk, self.folder, os.getpid()
        begun = 0

        def held(store: Any, chunk: int, plan: Any) -> Any:
            nonlocal begun
            begun += 1
            (folder / f"begun-{pid}-{begun}").write_text(str(chunk))
            if begun == self.at:
                (folder / f"held-{pid}").touch()
                while not (folder / "go").exists():
                    time.sleep(0.01)
            return count(store, chunk, plan)

        dask_counter._count_chunk = held


def imported() -> tuple[str, ...]:
    """Return the modules of this process that can draw noise, or that decide to."""
    return tuple(name for name in sys.modules if name.startswith(("opendp", "dp_core.noise")))
