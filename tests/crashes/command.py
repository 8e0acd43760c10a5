"""One job under Prefect's engine, in an interpreter of its own: DO FOLDER URL [POINT]."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from flows.engine.settings import prepare
from tests.crashes.job import (
    Place,
    die_at,
    record,
    work_under_prefect,
)
from tests.crashes.points import Point
from tests.plain_judge import install


def main() -> None:
    """Do the job; as the command line does, it ends the interpreter."""
    do, folder, url, *point = sys.argv[1:]
    place = Place(Path(folder), url or None)
    # As the command does, before Prefect is imported.
    prepare(Path(os.environ["DP_RELEASE_HOME"]))
    install()
    if do == "record":
        record(place)
    elif do == "die":
        die_at(place, Point(*json.loads(point[0])))
    work_under_prefect(place)


if __name__ == "__main__":
    main()
