"""Tiny generated panels and their neighbours, as texts and as records of persons."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from dp_core.audit.neighbour_files import BrokenCoding, NeighbourFiles, Pair, stored_columns
from dp_core.audit.tiny_files import FEMALE, MALE
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.errors import SchemaViolation
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
_PANEL = {"person": "person", "wave": "year", "waves": [*WAVES]}
_DOCUMENT = {
    "version": "1",
    "title": "Tiny panel",
    "missing_values": ["", "NA"],
    "columns": {
        "sex": {"type": "category", "levels": [MALE, FEMALE], "constant": "true", **_SETTLED},
        "age": {"type": "integer", "min": "0", "max": "99", "bins": "50", **_SETTLED},
        "pay": {"type": "number", "min": "0", "max": "9", "bins": "9", **_SETTLED},
    },
}
PERSONS = 30
_ONCE = (WAVES[:1], WAVES[1:], WAVES)
FORMS: Mapping[str, tuple[Mapping[str, str], tuple[tuple[str, ...], ...]]] = {
    "repeated: keep_one": ({"repeated": "keep_one"}, (*_ONCE, WAVES * 3, WAVES[1:] * 6)),
    "repeated: reject": ({"repeated": "reject"}, _ONCE),
    "everyone: true": ({"everyone": "true", "repeated": "keep_one"}, (WAVES, WAVES * 3)),
}
"""Keys of a panel by their name, and the waves of the rows of persons who fit it."""


class TinyPanels(NeighbourFiles[Texts]):
    """Generated panels, coded as the stages of a release code them, but all rows in one part.

    Args:
        form: Name of the panel's keys in `FORMS`.
        relation: Which files are neighbours.
        seed: Of the random rows and of their order, which differs between any two files.

    Attributes:
        named: Persons of each file, by its name.
    """

    def __init__(self, form: str, relation: Relation, seed: int) -> None:
        keys, self._histories = FORMS[form]
        self._rules = file_rules(parse_schema({**_DOCUMENT, "panel": {**_PANEL, **keys}}))
        self._encoders = [RuleEncoder(column) for column in self._rules.columns]
        self._relation = relation
        self._rng = np.random.default_rng(seed)
        persons = itertools.islice(itertools.cycle(self._histories), PERSONS)
        self.named = {form: tuple(map(self._person, persons))}

    def code(self, units: Sequence[Texts], *, first: int = 0) -> tuple[Codes, ...]:
        """Return the codes of each person's record.

        Args:
            units: Rows of each person.
            first: Number of the first person, which identifies it.
        """
        rows = [(str(10**10 + first + at), *row) for at, unit in enumerate(units) for row in unit]
        self._rng.shuffle(rows)
        texts = {name: [row[at] for row in rows] for at, name in enumerate(("person", *COLUMNS))}
        stored = pa.record_batch(stored_columns(texts))
        try:
            with PersonRecords(self._rules, None, buckets=1) as records:
                records.begin(stored.schema.names)
                records.add(stored)
                nobody = records.types.empty_table()
                made = pa.concat_tables([nobody, *records.tables()]).combine_chunks()
        except SchemaViolation as error:
            raise BrokenCoding(f"A generated panel is refused: {error.message}") from error
        encoded = [each.encode(made.column(each.rule.name)) for each in self._encoders]
        if any(each.bad is not None for each in encoded):
            raise BrokenCoding("A generated value of a panel is refused.")
        codes = np.stack([each.codes for each in encoded], axis=1)
        persons = np.array(made.column("person").to_pylist(), dtype=np.int64) - 10**10 - first
        return tuple(codes[persons == number] for number in range(len(units)))

    def _units(self) -> Iterator[tuple[str, Texts]]:
        for what, values in {
            "a missing number": (FEMALE, "", "1"),
            "a missing code": ("", "30", "1"),
            "texts": (FEMALE, "NA", "NA"),
            "a number with decimals": (FEMALE, "30", "1.5"),
        }.items():
            yield what, tuple((wave, *values) for wave in self._histories[0])
        for waves in self._histories:
            yield f"rows in {', '.join(waves)}", self._person(waves)

    def _person(self, waves: Sequence[str]) -> Texts:
        rng = self._rng
        return tuple(
            (
                wave,
                (MALE, FEMALE)[rng.integers(2)],
                str(rng.integers(0, 100)),
                str(rng.integers(0, 10)),
            )
            for wave in waves
        )

    def _check_units(self, pair: Pair) -> None:
        """Raise unless each person has one record."""
        if any(len(unit) != 1 for unit in (*pair.one, *pair.other)):
            raise BrokenCoding(f"{pair.name}: a person of a panel has not one record.")
