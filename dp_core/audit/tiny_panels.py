"""Tiny generated panels and their neighbours, as texts and as records of persons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from dp_core.audit.neighbour_files import BrokenCoding, NeighbourFiles, Pair, stored_columns
from dp_core.audit.tiny_files import FEMALE, MALE
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.kernel.codes import Codes
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.privacy import Relation
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.file_rules import file_rules

Row = tuple[str, ...]
Texts = tuple[Row, ...]
"""The rows of a person, each with its texts in the order of `COLUMNS`."""

COLUMNS = ("year", "sex", "age", "pay")
WAVES = ("2023", "2024")
_SETTLED = {"missing": "level", "out_of_range": "missing"}
_DOCUMENT = {
    "version": "1",
    "title": "Tiny panel",
    "missing_values": ["", "NA"],
    "panel": {"person": "person", "wave": "year", "waves": [*WAVES], "repeated": "keep_one"},
    "columns": {
        "sex": {"type": "category", "levels": [MALE, FEMALE], "constant": "true", **_SETTLED},
        "age": {"type": "integer", "min": "0", "max": "99", "bins": "50", **_SETTLED},
        "pay": {"type": "number", "min": "0", "max": "9", "bins": "9", **_SETTLED},
    },
}
PERSONS = 30


class TinyPanels(NeighbourFiles[Texts]):
    """Generated panels, coded as the stages of a release code them.

    Args:
        relation: Which files are neighbours.
        seed: Of the random rows.

    Attributes:
        named: Persons of each file, by its name.
    """

    def __init__(self, relation: Relation, seed: int) -> None:
        self._rules = file_rules(parse_schema(_DOCUMENT))
        self._encoders = [RuleEncoder(column) for column in self._rules.columns]
        self._relation = relation
        self._rng = np.random.default_rng(seed)
        self.named = {
            "one person": (self._person(6),),
            "several rows in a wave": tuple(self._person(6) for _ in range(PERSONS)),
        }

    def code(self, units: Sequence[Texts], *, first: int = 0) -> tuple[Codes, ...]:
        """Return the codes of each person's record.

        Args:
            units: Rows of each person.
            first: Number of the first person, which identifies it.
        """
        owners = [str(10**10 + first + at) for at, unit in enumerate(units) for _ in unit]
        rows = [row for unit in units for row in unit]
        texts = {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}
        stored = pa.record_batch(stored_columns({"person": owners, **texts}))
        with PersonRecords(self._rules, None) as records:
            records.begin(stored.schema.names)
            records.add(stored)
            nobody = records.types.empty_table()
            made = pa.concat_tables([nobody, *records.tables()]).combine_chunks()
        encoded = [each.encode(made.column(each.rule.name)) for each in self._encoders]
        if any(each.bad is not None for each in encoded):
            raise BrokenCoding("A generated value of a panel is refused.")
        codes = np.stack([each.codes for each in encoded], axis=1)
        persons = np.array(made.column("person").to_pylist(), dtype=np.int64) - 10**10 - first
        return tuple(codes[persons == number] for number in range(len(units)))

    def _units(self) -> Iterator[tuple[str, Texts]]:
        yield "one row", (("2023", FEMALE, "30", "1"),)
        yield "a missing number", (("2023", FEMALE, "", "1"),)
        yield "a missing code", (("2024", "", "30", "1"),)
        yield "a text", (("2023", FEMALE, "NA", "1"), ("2024", FEMALE, "30", "NA"))
        yield "a number with decimals", (("2023", FEMALE, "30", "1.5"),)
        yield "several rows in a wave", self._person(6)

    def _person(self, rows: int) -> Texts:
        rng = self._rng
        return tuple(
            (
                WAVES[rng.integers(2)],
                (MALE, FEMALE)[rng.integers(2)],
                str(rng.integers(0, 100)),
                str(rng.integers(0, 10)),
            )
            for _ in range(rows)
        )

    def _check_units(self, pair: Pair) -> None:
        """Raise unless each person has one record."""
        if any(len(unit) != 1 for unit in (*pair.one, *pair.other)):
            raise BrokenCoding(f"{pair.name}: a person of a panel has not one record.")
