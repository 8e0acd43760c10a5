"""The records of a panel as a source: one file, or one for each wave. Confidential side."""

from __future__ import annotations

import hmac
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.confidential.source import Batch, Digests, MemorySource, Source
from dp_core.errors import SchemaViolation
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.schema.rules.file_rules import Rules, file_rules

NAME = "panel-"
"""Beginning of the name of a folder of records."""


class PanelSource(Source):
    """The records of a panel's persons, made from its rows when they are first read.

    Attributes:
        rows: The sources of rows.
        document: Hash of the rules by which records are made (`FileRules.hash`).
    """

    def __init__(
        self,
        schema: Rules,
        parts: Sequence[str | None],
        rows: Sequence[Source],
        folder: Path | None,
    ) -> None:
        """Open a panel.

        Args:
            schema: Rules of records: those of the release's document, or a schema.
            parts: Wave of each source; None if its rows name their wave.
            rows: The sources of rows.
            folder: Confidential folder for the records; None to keep them in memory.
        """
        rules = file_rules(schema)
        super().__init__([path for each in rows for path in each.files], "parquet", rules.reads)
        self.rows, self._parts, self.document = tuple(rows), tuple(parts), rules.hash
        self._rules, self._folder = rules, folder
        self._made: Source | None = None

    def batches(self, notes: UnitNotes | None = None) -> Iterator[Batch]:
        """Yield the records of all persons; see `Source.batches`.

        Args:
            notes: Where the kernel notes the persons of the rows of which records are made; None
                (the default) if no code store is made of them.

        Raises:
            BadInput: if a file is damaged, or has changed since it was opened.
            SchemaViolation: if rows do not fit the panel, or there is no row of its waves.
        """
        self.assert_unchanged()
        if self._made is None or notes is not None:
            self._made = self._records(notes)
        yield from self._made.batches()
        self.assert_unchanged()

    def digests(self, key: bytes) -> Digests:
        """Return the keyed hashes of the rows: of the one source, or of all waves and of each.

        Privacy:
            A panel in one file has the same hash as this file without a panel, so a second account
            cannot pay for it as a different input.
        """
        each = [rows.digests(key) for rows in self.rows]
        if len(each) == 1:
            return each[0]
        all_waves = f"panel: {' '.join(digests.whole for digests in each)}"
        parts: dict[str, str] = {}
        for wave, digests in zip(self._parts, each, strict=True):
            parts.update(digests.named(f"wave {wave}"))
        small = tuple(one for digests in each for one in digests.small)
        return Digests(hmac.new(key, all_waves.encode(), "sha256").hexdigest(), parts, small)

    def assert_unchanged(self) -> None:
        """Check that all files are as they were when they were opened.

        Raises:
            BadInput: if one of them is not.
        """
        for each in self.rows:
            each.assert_unchanged()

    def _records(self, notes: UnitNotes | None) -> Source:
        folder = None if self._folder is None else _own_folder(self._folder)
        with ExitStack() as on_failure, PersonRecords(self._rules, folder) as records:
            if folder is not None:
                on_failure.callback(shutil.rmtree, folder, ignore_errors=True)
            add_rows(self._parts, self.rows, records, notes)
            made: Source
            if folder is None:
                batches = [each for table in records.tables() for each in table.to_batches()]
                made = MemorySource(records.types, lambda: batches, self.columns)
            else:
                made = Source([records.finish()], "parquet", self.columns)
            if not records.persons:
                raise SchemaViolation(
                    "The panel has no row of a wave under `waves`. Name a file with such rows.",
                    internal="no row of a wave of the schema",
                )
            on_failure.pop_all()
        pa.default_memory_pool().release_unused()
        return made


def _own_folder(folder: Path) -> Path:
    """Return a new folder for the records of this attempt; delete those of earlier ones."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in folder.glob(f"{NAME}*"):
        shutil.rmtree(left, ignore_errors=True)
    # This attempt has its own folder, because a process that lost its lease may still write.
    own = folder / f"{NAME}{secrets.token_hex(8)}"
    own.mkdir(mode=0o700)
    return own


def add_rows(
    parts: Sequence[str | None],
    sources: Sequence[Source],
    records: PersonRecords,
    notes: UnitNotes | None = None,
) -> int:
    """Add the rows of all waves to records, and return their number.

    Args:
        parts: Wave of each source; None if its rows name their wave.
        sources: The sources of rows.
        records: Where they are added.
        notes: As `PanelSource.batches`.

    Raises:
        BadInput: if a file is damaged, or has changed since it was opened.
    """
    rows = 0
    for wave, source in zip(parts, sources, strict=True):
        records.begin(source.columns)
        for batch in source.batches(notes):
            rows += batch.records.num_rows
            records.add(batch.records, wave, None if notes is None else notes.of(batch.records)[0])
    return rows
