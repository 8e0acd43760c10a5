"""Tiny generated files and their neighbours, as texts and as codes; nothing is read from disk.

Files are stored as programs do that choose a column's type from all its rows, so one unit may
change the types of all columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from dp_core.audit.configurations import COLUMNS, PERSON
from dp_core.audit.neighbour_files import BrokenCoding, NeighbourFiles, Pair, stored_columns
from dp_core.confidential.coding import Coding
from dp_core.kernel.codes import Codes
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.document import ProtectedUnit
from dp_core.kernel.privacy import Relation
from dp_core.schema.definition import Column, Schema
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.schema.rules.file_rules import file_rules
from dp_core.schema.structure.structural_zeros import StructuralZeros

Row = tuple[str, ...]
"""Texts of a row, in the order of `COLUMNS`."""
Texts = tuple[Row, ...]
"""All rows of one unit of privacy."""

MALE, FEMALE = "10000000001", "10000000002"
"""So long that a program writes them in scientific notation once they are floats."""
LOWEST: Row = ("0", MALE, "single", "0", "2000-01-01")
HIGHEST: Row = ("99", FEMALE, "married", "1000", "2009-12-31")
MIDDLE: Row = ("30", FEMALE, "single", "499.999999", "2004-07-15")
"""Its number rounds to a bin edge in 32 bits."""
ABOVE: Row = ("250", FEMALE, "married", "16777217.01", "2031-05-05")
"""Its number needs 64 bits."""
BELOW: Row = ("-7", MALE, "single", "-3", "1899-12-31")
LOST: Row = ("", MALE, "NA", "", "2005-05-05")
"""As many missing values as the schema allows."""
SETTLED: Row = ("3", MALE, "married", "NA", "2001-01-01")
"""It breaks the structural zero, and has a text that means missing for a number."""
RANDOM_FILES = 2
MANY = 60


class TinyFiles(NeighbourFiles[Texts]):
    """The generated files of a schema, coded as the stages of a release code them.

    Attributes:
        named: Units of each file, by its name.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        zeros: StructuralZeros,
        unit: ProtectedUnit,
        relation: Relation,
        seed: int,
        rules: tuple[ColumnRule, ...] = (),
    ) -> None:
        """Prepare the files.

        Args:
            columns: Columns of the schema as the file is stored.
            zeros: Its structural zeros.
            unit: Whether persons are identified.
            relation: Of the release: which files are neighbours.
            seed: Of the random files and neighbours.
            rules: Rules between its columns; none by default.
        """
        self._rules = file_rules(
            Schema(title="", columns=columns, zeros=zeros, unit=unit, rules=rules, document={})
        )
        self._relation = relation
        self._encoders = [RuleEncoder(column) for column in self._rules.columns]
        self._rng = np.random.default_rng(seed)
        self._complete = not any(column.missing == "level" for column in columns)
        self.named = dict(self._files())

    def code(self, units: Sequence[Texts], *, first: int = 0) -> tuple[Codes, ...]:
        """Return the codes of a file by unit; rows above a person's limit are left out.

        Args:
            units: Rows of each unit.
            first: Number of the first person, which identifies it.
        """
        rows = [row for unit in units for row in unit]
        owner = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
        names = [encoder.rule.name for encoder in self._encoders]
        texts = {name: [row[COLUMNS.index(name)] for row in rows] for name in names}
        values = {PERSON: [str(10**10 + first + each) for each in owner], **texts}
        records = pa.record_batch(stored_columns(values))
        with Coding(self._rules, None) as coding:
            found = (records.column(encoder.rule.name) for encoder in self._encoders)
            coding.add(records, list(map(RuleEncoder.encode, self._encoders, found)))
            if coding.violation is not None:
                raise BrokenCoding(f"A generated row is refused: {coding.violation.internal}")
            columns, kept = coding.in_memory()
        codes = np.ascontiguousarray(columns.T)
        return tuple(codes[kept & (owner == number)] for number in range(len(units)))

    def _files(self) -> Iterator[tuple[str, tuple[Texts, ...]]]:
        k = self._relation.max_rows
        yield "a few random rows", self._random(6)
        yield "equal rows", ((LOWEST,) * k,) * MANY
        if self._relation.neighbours == "add-remove":
            # It has no neighbours where the number of units is public.
            yield "no rows", ()
        yield "one row", ((MIDDLE,),)
        yield "extremes", tuple((row,) * k for row in (LOWEST, HIGHEST, ABOVE, BELOW))
        if not self._complete:
            yield "missing values", tuple((row,) * k for row in (LOST, LOST, SETTLED))
        if k > 1:
            yield (
                "persons above their limit",
                tuple((row,) * (k + 2) + (HIGHEST,) * 2 for row in (LOWEST, MIDDLE, ABOVE)),
            )
        for number in range(RANDOM_FILES):
            yield f"random rows {number + 1}", self._random(24)

    def _units(self) -> Iterator[tuple[str, Texts]]:
        k = self._relation.max_rows
        yield "lowest values", (LOWEST,) * k
        yield "highest values", (HIGHEST,) * k
        yield "beyond the bounds", (ABOVE,) * k
        if not self._complete:
            yield "missing values", (LOST,) * k
        if k > 1:
            yield "one row", (HIGHEST,)
            yield "different rows", (LOWEST, HIGHEST, MIDDLE, ABOVE, BELOW)[:k]
            yield "more rows than the limit", (HIGHEST, MIDDLE) * k
        for number in range(2):
            yield f"random {number + 1}", self._random_row(k)

    def _random(self, units: int) -> tuple[Texts, ...]:
        most = self._relation.max_rows
        return tuple(self._random_row(int(self._rng.integers(1, most + 1))) for _ in range(units))

    def _random_row(self, rows: int) -> Texts:
        rng = self._rng
        return tuple(
            (
                str(rng.integers(15, 100)),
                (MALE, FEMALE)[rng.integers(2)],
                ("single", "married")[rng.integers(2)],
                f"{rng.integers(0, 100_001) / 100:.2f}",
                f"200{rng.integers(10)}-0{rng.integers(1, 10)}-1{rng.integers(10)}",
            )
            for _ in range(rows)
        )

    def _check_units(self, pair: Pair) -> None:
        """Raise unless each unit has no more rows than the limit."""
        most = max((len(unit) for unit in (*pair.one, *pair.other)), default=0)
        if most > self._relation.max_rows:
            raise BrokenCoding(f"{pair.name}: rows above the limit of a person are kept.")
