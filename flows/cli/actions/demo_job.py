"""The built-in demo: a public survey, an account, and a fresh home."""

from __future__ import annotations

import time
from fractions import Fraction
from importlib import resources
from pathlib import Path

from dp_core.errors import BadInput
from dp_core.wall.accounting.composition import Terms
from tasks.run.home import STATE, open_ledger

FILES = ("yrbss.csv.gz", "yrbss.schema.yaml", "yrbss.release.yaml")


def prepare_demo(home: Path) -> tuple[Path, Path]:
    """Make a fresh home with an open account and the demo's files; return it and the spec."""
    fresh = _fresh(home / "demo")
    for name in FILES:
        (fresh / name).write_bytes((resources.files("flows.demo") / name).read_bytes())
    (fresh / STATE).mkdir(mode=0o700)
    open_ledger(fresh, demo=True).open_account(
        "yrbss",
        terms=Terms("basic", Fraction(1), Fraction("1e-9")),
        neighbours="add-remove",
        by="demo",
        reason="to try dp-release",
    )
    return fresh, fresh / "yrbss.release.yaml"


def _fresh(above: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        folder = above / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise BadInput(
                f"No home can be made in {above} ({error.strerror}); set DP_RELEASE_HOME to a"
                " folder in which you may write."
            ) from None
        return folder
    raise BadInput(f"Too many demos in {above}; delete some of them.")
