"""The sources of two linked tables, and their codes household by household. Confidential side.

Each table is read once, batch by batch. Keys and links are kept in memory as texts, and values as
codes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.between_columns import RuleCheck
from dp_core.confidential.linked.key_links import key_texts, linked_members
from dp_core.confidential.linked.linked_rows import SHOWN, linked_codes
from dp_core.confidential.source import Digests, Source
from dp_core.errors import SchemaViolation
from dp_core.kernel.codes import Codes
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.schema.rules.file_rules import FileRules, Rules, file_rules
from dp_core.tables.household_rows import HouseholdRows


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSource:
    """The sources of a table of households and of the persons in them.

    Attributes:
        households: Source of the table of households.
        persons: Source of the table of persons.
    """

    households: Source
    persons: Source

    @property
    def files(self) -> tuple[Path, ...]:
        """Paths of the files of both tables."""
        return (*self.households.files, *self.persons.files)

    def digests(self, key: bytes) -> Digests:
        """Return the keyed hashes of both tables together, of each, and of each one's files."""
        households, persons = self.households.digests(key), self.persons.digests(key)
        both = f"linked tables: {households.whole} {persons.whole}"
        return Digests(
            hmac.new(key, both.encode(), "sha256").hexdigest(),
            {**households.named("households"), **persons.named("persons")},
            households.small + persons.small,
        )

    def assert_unchanged(self) -> None:
        """Check that the files of both tables are as they were when they were opened.

        Raises:
            BadInput: if one of them is not.
        """
        self.households.assert_unchanged()
        self.persons.assert_unchanged()


def read_households(
    schema: Rules,
    source: LinkedSource,
    progress: Callable[[float], None] | None = None,
    notes: Sequence[UnitNotes] = (),
) -> HouseholdRows:
    """Return the codes of two linked tables, household by household in the order of the file.

    Args:
        schema: Rules of linked tables: those of the release's document, or a schema.
        source: Both tables.
        progress: Called with the part that is done, 0 to 1; None (the default) for no progress.
        notes: Where the kernel notes the households of both tables' rows (`household_notes`); empty
            (the default) if no code store is made of them.

    Raises:
        BadInput: if a key is neither text nor a whole number, or a file changes or is damaged.
        SchemaViolation: if keys, links or sizes are not as the schema says, values are not in the
            schema, or rows break a rule. The message names no value and no count.
    """
    rules = file_rules(schema)
    linked = rules.linked
    if linked is None:
        raise ValueError("The rules are of a single table.")
    of_homes, of_persons = notes or (None, None)
    homes = _Columns(rules, linked.households, (linked.key,), linked.household_columns)
    told = progress or (lambda _: None)
    homes.read(source.households, lambda done: told(0.3 * done), of_homes)
    keys = (linked.link, linked.person_key)
    persons = _Columns(rules, linked.persons, keys, linked.person_columns)
    persons.read(source.persons, lambda done: told(0.3 + 0.7 * done), of_persons)
    links = linked_members(
        linked, homes.key(linked.key), persons.key(linked.link), persons.key(linked.person_key)
    )
    rows = linked_codes(
        rules, links, homes.codes(), persons.codes(), homes.units(), persons.units()
    )
    return replace(rows, units=homes.hashes())


def household_notes(rules: FileRules, folder: Path) -> tuple[UnitNotes, UnitNotes]:
    """Return where the kernel notes the households of the rows of both tables.

    Args:
        rules: The rules of linked tables.
        folder: Folder of the code store.
    """
    linked = rules.linked
    assert linked is not None
    what = f"Column {linked.key!r} of the table {linked.households} is a key and"
    columns = [rules.column(name) for name in linked.household_columns]
    homes = UnitNotes(rules.unit, columns, folder, what)
    what = f"Column {linked.link!r} of the table {linked.persons} is a key and"
    columns = [rules.column(name) for name in linked.person_columns]
    return homes, UnitNotes(rules.unit, columns, folder, what, "link", homes.key)


class _Columns:
    """The keys, codes and compared values of one table, batch by batch. Confidential."""

    def __init__(
        self,
        rules: FileRules,
        table: str,
        keys: Sequence[str],
        names: Sequence[str],
    ) -> None:
        self._table, self._missing = table, rules.unit.missing_values
        self._encoders = {name: RuleEncoder(rules.column(name)) for name in names}
        self._check = RuleCheck(rules)
        self._keys: dict[str, list[pa.Array]] = {key: [] for key in keys}
        self._hashes = [np.empty(0, np.uint64)]
        self._codes: dict[str, list[Codes]] = {name: [] for name in names}
        self._units: dict[str, list[NDArray[np.int64]]] = {}

    def read(
        self, source: Source, progress: Callable[[float], None], notes: UnitNotes | None
    ) -> None:
        """Read the table, and hash the household of each row if there are notes.

        Raises:
            SchemaViolation: if values are not in the schema; the message names the columns only.
        """
        for batch in source.batches(notes):
            misfits = {}
            for key, texts in self._keys.items():
                texts.append(key_texts(self._table, key, batch.records.column(key), self._missing))
            if notes is not None:
                self._hashes.append(notes.of(batch.records)[1])
            for name, encoder in self._encoders.items():
                stored = batch.records.column(name)
                self._check.assert_exact(name, stored)
                values = encoder.reader.read(stored)
                encoded = encoder.place(values)
                if encoded.bad is not None:
                    misfits[name] = int(encoded.bad.sum())
                self._codes[name].append(np.ascontiguousarray(encoded.codes))
                if name in self._check.columns:
                    self._units.setdefault(name, []).append(self._check.units_of(name, values))
            if notes is not None:
                notes.require_coded(batch.records, [found[-1] for found in self._codes.values()])
            if misfits:
                said = ", ".join(repr(name) for name in list(misfits)[:SHOWN])
                raise SchemaViolation(
                    f"Values of {said} in the table {self._table} are not in the schema; correct"
                    " the file or the schema.",
                    internal="\n".join(f"{count} rows: {name}" for name, count in misfits.items()),
                )
            progress(batch.done)

    def key(self, name: str) -> pa.Array:
        """Return a column of keys, which is no longer kept afterwards."""
        return pa.concat_arrays(self._keys.pop(name))

    def hashes(self) -> NDArray[np.uint64]:
        """Return the hash of each row's household; none without notes."""
        return np.concatenate(self._hashes)

    def codes(self) -> Mapping[str, Codes]:
        """Return the codes of each column."""
        return {name: np.concatenate(self._codes.pop(name)) for name in self._encoders}

    def units(self) -> Mapping[str, NDArray[np.int64]]:
        """Return the compared values of each column that a rule compares."""
        return {name: np.concatenate(units) for name, units in self._units.items()}
