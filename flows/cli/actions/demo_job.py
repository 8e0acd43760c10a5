"""The built-in demo: a public survey, an account, and a fresh home."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path

from dp_core.errors import BadInput
from dp_core.wall.accounting.composition import Terms
from tasks.run.home import open_ledger
from tasks.support.run_folder import RunFolder

ACCOUNT, RELEASE = "yrbss", "yrbss-demo"
FILES = ("yrbss.csv.gz", "yrbss.schema.yaml", "yrbss.release.yaml")


@dataclass(frozen=True, slots=True)
class DemoPlace:
    """Where one demo lives.

    Attributes:
        home: Its own home, with its own ledger.
        out: Where its bundle goes.
    """

    home: Path
    out: Path

    def utility(self) -> dict[str, float]:
        """Return the distances to the survey itself, which is public."""
        from flows.answers.release_answers import utility_means

        return utility_means(RunFolder(self.home, RELEASE).internal)


def prepare_demo(home: Path, out: Path | None) -> tuple[Path, DemoPlace]:
    """Make a fresh home with the demo's files and an open account; return the spec's path too."""
    fresh = _fresh(home / "demo")
    for name in FILES:
        (fresh / name).write_bytes((resources.files("flows.demo") / name).read_bytes())
    open_ledger(fresh).open_account(
        ACCOUNT,
        terms=Terms("basic", Fraction(1), Fraction("1e-9")),
        neighbours="add-remove",
        by="demo",
        reason="to try dp-release",
    )
    place = DemoPlace(fresh, (out or fresh / "bundle").absolute())
    return fresh / "yrbss.release.yaml", place


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
