"""Tiny generated files of households with their members, as texts and as pair rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from dp_core.audit.neighbour_files import BrokenCoding, NeighbourFiles, Pair, stored_columns
from dp_core.audit.tiny_files import MANY, RANDOM_FILES
from dp_core.confidential.linked.linked_source import LinkedSource, read_households
from dp_core.confidential.sources.frame_source import frame_source
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import pair_rows
from dp_core.kernel.document import ProtectedUnit
from dp_core.kernel.privacy import Relation
from dp_core.schema.definition import Column, Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.schema.rules.file_rules import file_rules
from dp_core.schema.structure.households_with_members import domain_with_members
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows

HOME_COLUMNS = ("tenure", "income")
PERSON_COLUMNS = ("age", "work")
"""Columns of the two tables, in the order of the files."""


@dataclass(frozen=True, slots=True)
class Household:
    """Texts of one household.

    Attributes:
        home: In the order of `HOME_COLUMNS`.
        members: For each member the texts in the order of `PERSON_COLUMNS`.
        numbered: Whether the keys of its members are whole numbers, by which they are ordered.
    """

    home: tuple[str, str]
    members: tuple[tuple[str, str], ...]
    numbered: bool = True


CHILD, ADULT, OLD = ("3", "no"), ("30", "yes"), ("99", "no")
BEYOND, LOST = ("250", "yes"), ("", "NA")
SETTLED = ("3", "yes")
"""It breaks the structural zero: `work` becomes missing."""
POOR, RICH, UNKNOWN = ("1", "0"), ("2", "1000"), ("2", "NA")
ALONE = Household(POOR, (ADULT,))
VACANT = Household(RICH, ())
_FAMILY = (ADULT, OLD, CHILD)


class TinyHouseholds(NeighbourFiles[Household]):
    """The generated files of a schema of linked tables, coded as the stages of a release do it.

    Attributes:
        named: Households of each file, by its name.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        zeros: StructuralZeros,
        rules: tuple[ColumnRule, ...],
        unit: ProtectedUnit,
        linked: LinkedTables,
        relation: Relation,
        seed: int,
    ) -> None:
        """Prepare the files.

        Args:
            columns: Columns of the wide domain.
            zeros: Its structural zeros.
            rules: Rules between its columns.
            unit: Of the schema.
            linked: The two tables.
            relation: Of the release: which files are neighbours.
            seed: Of the random files and neighbours.
        """
        self._rules = file_rules(
            Schema(
                title="",
                columns=columns,
                zeros=zeros,
                unit=unit,
                rules=rules,
                order=linked.columns,
                linked=linked,
                document={},
            )
        )
        self._linked = linked
        self._relation = relation
        self._rng = np.random.default_rng(seed)
        self.named = {
            name: tuple(each for each in households if len(each.members) >= linked.min_members)
            for name, households in self._files()
        }

    def code(self, households: Sequence[Household], *, first: int = 0) -> tuple[Codes, ...]:
        """Return the pair rows of each household, shape (pair rows, columns of the wide domain).

        Args:
            households: The households; members above the limit are left out.
            first: Number of the first household, which identifies it.
        """
        linked = self._linked
        keys = [str(10**10 + first + number) for number in range(len(households))]
        homes = {linked.key: keys} | {
            name: [household.home[place] for household in households]
            for place, name in enumerate(HOME_COLUMNS)
        }
        rows = [
            (key, f"{'' if household.numbered else 'p'}{number}", *member)
            for key, household in zip(keys, households, strict=True)
            for number, member in enumerate(household.members, start=8)
        ]
        # In a file with an even number of households, members are in another order.
        rows = rows if len(households) % 2 else rows[::-1]
        names = (linked.link, linked.person_key, *PERSON_COLUMNS)
        persons = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        both = (frame_source(pa.table(stored_columns(each))) for each in (homes, persons))
        coded = read_households(self._rules, LinkedSource(*both))
        pairs = to_pair_rows(linked, self._rules.domain, coded).codes.T
        if not households:
            return ()
        ends = np.cumsum([pair_rows(int(size)) for size in coded.sizes])
        return tuple(np.split(pairs, ends[:-1]))

    def _files(self) -> Iterator[tuple[str, tuple[Household, ...]]]:
        yield "a few random households", self._random(6)
        yield "equal households", (Household(POOR, (ADULT,) * 3),) * MANY
        if self._relation.neighbours == "add-remove":
            # It has no neighbours where the number of households is public.
            yield "no households", ()
        yield "one household", (ALONE,)
        yield "vacant homes", (*(VACANT,) * MANY, ALONE)
        yield (
            "extremes",
            (
                Household(POOR, (CHILD,)),
                Household(RICH, (OLD, OLD)),
                Household(POOR, (BEYOND, CHILD, OLD)),
            ),
        )
        yield (
            "missing values",
            (Household(UNKNOWN, (LOST,) * 2), Household(POOR, (SETTLED, LOST, ADULT))),
        )
        yield (
            "households above their limit",
            (Household(RICH, _FAMILY * 2), Household(POOR, (OLD,) * 4), ALONE),
        )
        for number in range(RANDOM_FILES):
            yield f"random households {number + 1}", self._random(24)

    def _units(self) -> Iterator[tuple[str, Household]]:
        if not self._linked.min_members:
            yield "no member", VACANT
        yield "one member", ALONE
        yield "two equal members", Household(RICH, (OLD,) * 2)
        yield "three equal members", Household(RICH, (OLD,) * 3)
        yield "three equal members of lowest values", Household(POOR, (CHILD,) * 3)
        yield "different members", Household(RICH, _FAMILY)
        yield "beyond the bounds", Household(POOR, (BEYOND,) * 3)
        yield "missing values", Household(UNKNOWN, (LOST, SETTLED))
        yield "more members than the limit", Household(RICH, _FAMILY * 2)
        yield "members without numbers", Household(POOR, (*_FAMILY, CHILD), numbered=False)
        for number in range(2):
            yield f"random {number + 1}", self._random(1)[0]

    def _random(self, households: int) -> tuple[Household, ...]:
        rng, least = self._rng, self._linked.min_members
        return tuple(
            Household(
                (str(rng.integers(1, 3)), f"{rng.integers(0, 100_001) / 100:.2f}"),
                tuple(
                    (str(rng.integers(15, 100)), ("yes", "no")[rng.integers(2)])
                    for _ in range(int(rng.integers(least, self._linked.max_members + 1)))
                ),
            )
            for _ in range(households)
        )

    def _check_units(self, pair: Pair) -> None:
        """Raise unless each household has all its shares."""
        if any(not self._is_whole(unit) for unit in (*pair.one, *pair.other)):
            raise BrokenCoding(f"{pair.name}: a household has not the pair rows of its members.")

    def _is_whole(self, unit: Codes) -> bool:
        """Return whether pair rows are those of one household with its members."""
        data = Dataset(self._rules.domain, np.ascontiguousarray(unit.T))
        try:
            return from_pair_rows(self._linked, data).sizes.size == 1
        except (ValueError, IndexError):
            return False


def household_like(schema: Schema, unit: Codes, rng: np.random.Generator) -> Codes:
    """Return the pair rows of a possible household: with some codes changed, or other members.

    Args:
        schema: Of linked tables.
        unit: Pair rows of a household; without columns, another household is made.
        rng: Of the search.
    """
    linked, domain = schema.linked, schema.domain
    assert linked is not None
    home_sizes, person_sizes = _sizes(domain)
    kind = domain.code_type
    known = None
    if unit.shape[1] and len(unit):
        known = from_pair_rows(linked, Dataset(domain, np.ascontiguousarray(unit.T)))
    for _ in range(20):
        size = int(rng.integers(linked.min_members, linked.max_members + 1))
        if known is not None and rng.random() < 0.7:
            size = int(known.sizes[0])
        home, persons = _ends(home_sizes, 1, rng), _ends(person_sizes, size, rng)
        if known is not None and size and known.sizes[0] and rng.random() < 0.7:
            mine = known.persons[:, np.arange(size) % known.sizes[0]]
            persons = np.where(rng.random(persons.shape) < 0.6, mine, persons)
            home = np.where(rng.random(home.shape) < 0.6, known.households, home)
        if size and rng.random() < 0.5:
            persons = np.repeat(persons[:, :1], size, axis=1)
        rows = HouseholdRows(home.astype(kind), np.array([size], np.int64), persons.astype(kind))
        data = to_pair_rows(linked, domain, rows)
        if not schema.zeros.violations(data).any():
            return np.ascontiguousarray(data.codes.T)
    assert known is not None, "No possible household was found."
    return unit


@cache
def _sizes(domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of codes of the household columns and of a member's columns."""
    assert domain.linked is not None
    own = domain_with_members(domain)
    names = domain.linked.household_columns, domain.linked.person_columns
    homes, persons = (np.array(own.project(each).sizes) for each in names)
    return homes, persons


def _ends(sizes: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return random codes, often the first or the last one, shape (columns, number)."""
    most = sizes[:, None]
    fresh = rng.integers(0, most, (len(sizes), number))
    ends = rng.random(fresh.shape)
    return np.where(ends < 0.2, 0, np.where(ends > 0.8, most - 1, fresh))
