"""The built-in demos: their public files, an account, and a fresh home."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path

from dp_core.errors import BadInput
from dp_core.kernel.cost.composition import Terms
from tasks.run.home import STATE, open_ledger


@dataclass(frozen=True, slots=True)
class Demo:
    """What a demo releases.

    Attributes:
        name: Its account; its schema and spec are named after it.
        data: Names of its data files.
        unit: The unit that its account protects.
        questions: Commands to try on the bundle, each with its argument.
    """

    name: str
    data: tuple[str, ...]
    unit: str
    questions: tuple[tuple[str, str], ...] = ()


SURVEY = Demo("yrbss", ("yrbss.csv.gz",), "row")
HOUSEHOLDS = Demo(
    "households",
    ("households.csv.gz", "persons.csv.gz"),
    "household",
    (
        ("query", "share by income"),
        ("query", "count by activity"),
        ("infer", "rooms ~ members"),
        ("infer", "age ~ activity"),
    ),
)


def prepare_demo(home: Path, demo: Demo = SURVEY) -> tuple[Path, Path]:
    """Make a fresh home with an open account and a demo's files; return it and the spec.

    Args:
        home: The usual home, in which the fresh one is made.
        demo: The demo; that of the survey by default.

    Raises:
        BadInput: if no home can be made.
    """
    fresh = _fresh(home / "demo")
    spec = f"{demo.name}.release.yaml"
    for name in (*demo.data, f"{demo.name}.schema.yaml", spec):
        (fresh / name).write_bytes((resources.files("flows.demo") / name).read_bytes())
    (fresh / STATE).mkdir(mode=0o700)
    open_ledger(fresh, demo=True).open_account(
        demo.name,
        terms=Terms("basic", Fraction(1), Fraction("1e-9")),
        neighbours="add-remove",
        unit=demo.unit,
        by="demo",
        reason="to try dp-release",
    )
    return fresh, fresh / spec


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
