"""What an audit finds: for every kind of question how close neighbours came to what was charged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dp_core.audit.changes import Reached
from dp_core.audit.configurations import MEMBERS
from dp_core.audit.neighbour_files import Pair
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.linked_columns import household_shares
from dp_core.kernel.extensions import DRAWN_CELLS, DRAWN_RECORDS, SPARSE_TABLE
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.grant import TABLE, Step
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import VETTED

Rows = list[list[int]]

MECHANISMS: Mapping[type[Event], str] = {
    LaplaceEvent: "Laplace noise",
    GaussianEvent: "Gaussian noise",
    NoisyMaxEvent: "private choice",
    StabilityEvent: "threshold",
    PerturbedDrawsEvent: "independent draws",
    PolyaUrnEvent: "urn",
}
QUESTIONS = (str(TABLE["name"]), SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS, *sorted(VETTED))
"""Everything that may be asked of the data, by the name in its receipt."""
UNITS = (
    Relation("add-remove"),
    Relation("replace-one"),
    Relation("add-remove", 3),
    Relation("replace-one", 3),
)
"""Whose privacy is audited in single tables: rows, and persons of up to 3 rows, under both
relations."""
HOUSEHOLDS = (
    Relation("add-remove", shares=household_shares(MEMBERS)),
    Relation("replace-one", shares=household_shares(MEMBERS)),
)
"""Whose privacy is audited in linked tables: households of up to 3 members."""
CLOSE = 0.9995
"""From this ratio, a bound counts as reached: it prints as 1.000."""


def unit_name(relation: Relation) -> str:
    """Return a unit of privacy and its relation, for people.

    >>> unit_name(Relation("add-remove", 3))
    'add-remove, 3 rows'
    >>> unit_name(HOUSEHOLDS[1])
    'replace-one, household'
    """
    if relation.shares > 1:
        return f"{relation.neighbours}, household"
    return f"{relation.neighbours}, {relation.max_rows} row{'s' if relation.max_rows > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question, as the report lists it.

    Attributes:
        question: Name of what is asked, as receipts have it.
        mechanism: Mechanism that pays, in words.
        bound: What of it is compared, see `Reached`.
        unit: Unit of privacy and relation, in words.
    """

    question: str
    mechanism: str
    bound: str
    unit: str


def _rows(units: Sequence[Codes]) -> Rows:
    """Return the different rows of a file, each with its number before its codes."""
    if not units or not sum(map(len, units)):
        return []
    rows, numbers = np.unique(np.concatenate(units), axis=0, return_counts=True)
    return [[int(code) for code in row] for row in np.column_stack([numbers, rows])]


def question_of(step: Step) -> tuple[str, str]:
    """Return the name of a step's question, and its mechanism in words."""
    return str(step.asks["name"]), MECHANISMS[type(step.event)]


@dataclass(slots=True)
class Closest:
    """The two files that came closest to a bound, or passed it by most.

    Attributes:
        ratio: Distance of their answers over the charged bound.
        where: Release, charge and files.
        asked: The question, as its receipt has it.
        files: Both files: each different row once, as the number of such rows and its codes, in the
            order of the schema's columns.
        compared: Number of pairs of files, of all releases.
        charges: Number of charges, of all releases.
    """

    ratio: float = 0.0
    where: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Rows, ...] = ()
    compared: int = 0
    charges: int = 0


@dataclass(slots=True)
class Findings:
    """All that an audit found so far.

    Attributes:
        closest: By kind.
        violations: Sentences, each with the release, the charge and the files.
        releases: Number of releases made.
        charges: Number of charges that were audited.
        refused: Releases that no plan allows, with their units.
        complete: Whether every configuration was audited, so that every question has been asked.
    """

    closest: dict[Kind, Closest] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    releases: int = 0
    charges: int = 0
    refused: list[str] = field(default_factory=list)
    complete: bool = False

    def charged(self, step: Step, bounds: Iterable[str], unit: str) -> None:
        """Count a charge."""
        self.charges += 1
        for bound in bounds:
            self.of(step, bound, unit).charges += 1

    def of(self, step: Step, bound: str, unit: str) -> Closest:
        """Return what was found of a step's kind of question."""
        return self.closest.setdefault(Kind(*question_of(step), bound, unit), Closest())

    def add(self, step: Step, found: Reached, unit: str, where: str, pair: Pair) -> None:
        """Add a comparison of two files."""
        closest = self.of(step, found.bound, unit)
        closest.compared += 1
        if found.ratio > closest.ratio:
            closest.ratio, closest.where, closest.asked = found.ratio, where, step.asks
            closest.files = (_rows(pair.one), _rows(pair.other))
        if found.exceeded:
            question, mechanism = question_of(step)
            self.violations.append(
                f"{question} ({mechanism}, {unit}): {found.bound} is {found.ratio:.4g} times what"
                f" was charged, in {where}."
            )

    @property
    def unasked(self) -> tuple[str, ...]:
        """Questions and mechanisms that no release used."""
        asked = {word for kind in self.closest for word in (kind.question, kind.mechanism)}
        return tuple(name for name in (*QUESTIONS, *MECHANISMS.values()) if name not in asked)

    @property
    def unmoved(self) -> tuple[Kind, ...]:
        """Kinds whose answers no two files changed: nothing was tested."""
        return tuple(kind for kind, found in self.closest.items() if not found.ratio)

    @property
    def passed(self) -> bool:
        """Whether no bound was exceeded, and a complete audit left nothing out."""
        blind = self.complete and (self.unasked or self.unmoved)
        return not self.violations and not blind
