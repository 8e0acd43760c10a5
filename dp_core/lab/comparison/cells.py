"""Cells of a comparison, each one run of a method at one epsilon, and their result files."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from dp_core.kernel.canonical import digest
from dp_core.text.pages.answer import plain

FORMAT = 1
BOOTSTRAP = "bootstrap"
"""The reference that resamples the real file: it shows the sampling error alone."""
PLAIN = "independent"
"""The reference preset that accepts every domain and models no dependence."""

RunOutcome = Literal["done", "refused", "not finished", "failed"]
OUTCOMES: Mapping[RunOutcome, str] = {
    "done": "it has figures",
    "refused": "the method does not support this file or guarantee",
    "not finished": "it was stopped at the time limit",
    "failed": "it stopped with an error",
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declaration that the data are public.

    Attributes:
        by: Name of the person who declares it.
        day: ISO date.
        reason: Why they are public.
    """

    by: str
    day: str
    reason: str

    @property
    def sentence(self) -> str:
        """The first line of everything that a comparison writes."""
        return f"Data declared public by {self.by} on {self.day}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a method.

    Attributes:
        file: Short name of the data, for people.
        label: Name of the method, for people.
        method: Preset, or `BOOTSTRAP`.
        epsilon: Exact epsilon as a text; None for the bootstrap.
        delta: Exact delta as a text; None for the bootstrap.
        neighbours: Neighbouring relation; None for the bootstrap.
        run: Number of the run, from 1.
        reference: Whether it was added as a reference.
        definition: Everything that determines its result; its hash names its file.
        spec: Spec that is run; None for the bootstrap.
        refusal: Why it cannot be run; None if it can.
    """

    file: str
    label: str
    method: str
    epsilon: str | None
    delta: str | None
    neighbours: str | None
    run: int
    reference: bool
    definition: Mapping[str, object]
    spec: Path | None
    refusal: str | None

    @property
    def key(self) -> str:
        """Name of the cell's file."""
        return digest(dict(self.definition))[:32]

    @property
    def seed(self) -> int:
        """Seed of its post-processing; noise takes none."""
        seed = self.definition["seed"]
        assert isinstance(seed, int)
        return seed

    def head(self) -> dict[str, object]:
        """Return the first keys of a cell's file, which identify the run."""
        return {
            "file": self.file,
            "method": self.label,
            "preset": self.method,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "run": self.run,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a cell.

    Attributes:
        outcome: See `OUTCOMES`.
        figures: Figures by name; empty unless the outcome is "done".
        sentence: Why there are no figures, or what some of them leave out; usually empty.
        limit: Seconds after which the run was stopped; None if it was not.
    """

    outcome: RunOutcome
    figures: Mapping[str, float | None]
    sentence: str = ""
    limit: float | None = None


class CellStore:
    """Stores each finished cell in a file, which is complete or absent."""

    def __init__(self, folder: Path) -> None:
        """Store cells in a folder, which is created if necessary."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, cell: Cell) -> Path:
        """Return the file of a cell."""
        return self.folder / f"{cell.key}.json"

    def read(self, cell: Cell) -> Result | None:
        """Return a cell's result; None if there is no readable one."""
        try:
            values = json.loads(self.path(cell).read_bytes())
            if values["format"] != FORMAT or values["definition"] != plain(cell.definition):
                return None
            return Result(values["outcome"], values["figures"], values["sentence"], values["limit"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, cell: Cell, declaration: Declaration, result: Result) -> None:
        """Store a cell's result."""
        write_result(self.path(cell), document(cell, declaration), result)


def document(cell: Cell, declaration: Declaration) -> dict[str, object]:
    """Return the content of a cell's file except its result."""
    return {
        "declared_public": declaration.sentence,
        "format": FORMAT,
        **cell.head(),
        "definition": dict(cell.definition),
    }


def write_result(path: Path, head: Mapping[str, object], result: Result) -> None:
    """Write a cell's file completely or not at all."""
    values = {
        **head,
        "outcome": result.outcome,
        "sentence": result.sentence,
        "limit": result.limit,
        "figures": dict(result.figures),
    }
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a public file completely or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def program() -> str:
    """Return the version of the program with a hash of its source code."""
    root = Path(__file__).parents[2]
    found = sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return f"{importlib.metadata.version('dp-release')}+{found.hexdigest()[:16]}"
