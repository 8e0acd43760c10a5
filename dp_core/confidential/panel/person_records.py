"""Makes one record of each person from the rows of a panel, a row for each person and wave.

Rows are first distributed to parts by a hash of the person, as `person_rows` does; then
each part is sorted by person and wave, and its records are made. So neither the order of the
rows nor that of the files matters: records are in the order of the hash. Values are kept as texts
that are read as the values themselves are (`Reader.texts`), so the types in which files store a
column do not matter either.

Privacy:
    Every record depends on the rows of one person only: a constant column has the value of the
    person's first wave, and of several rows in one wave one is kept by a hash of the person and of
    the row's codes, or the file is refused. So files that differ in the rows of one person give
    records that differ in one record: under add-remove it is there or not, under replace-one it is
    another record. Everything after this is calibrated for a person with one row
    (`dp_core.kernel.privacy.Relation`, `max_rows` 1). Whether a file is refused is decided from all
    its rows; like every refusal, it is outside epsilon.

    Under replace-one the number of persons is public, and the number of rows in a wave is not: it
    is a count of the column that says whether the person takes part.

Cost: about 3 microseconds for a row of six columns (`benchmarks/panel.py`). On disk the rows once
and the records once, in the run's confidential folder; in memory a 64th of the rows, and one batch.
Without a folder no file is written: the rows are in memory once, compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.confidential.between_columns import RuleCheck
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.panel.misfits import Misfits
from dp_core.confidential.person_rows import BUCKETS, identifying, orders
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.coding.raw_values import State, Values
from dp_core.kernel.coding.stored_texts import identifier_texts
from dp_core.kernel.coding.unit_hashes import Identifiers, identifiers
from dp_core.schema.definition import Column, Level
from dp_core.schema.panel.panel_waves import ABSENT, TAKES_PART
from dp_core.schema.rules.file_rules import Rules, file_rules

GROUP_ROWS = 1 << 17
"""Approximate number of records of a row group, which is in memory until it is full."""
_PERSON = ("person 1", "person 2", "wave", "identifier")
"""Columns of a part besides those of the file, whose names are numbers."""


class PersonRecords:
    """Makes the records of a panel's persons; used as a context manager.

    Args:
        schema: Rules of records: those of the release's document, or a schema that is compiled.
        folder: Existing, empty folder for the parts and the records; None to keep the parts in
            memory.
        keep_going: Whether to make records of the rows that fit even if others do not, to check a
            file; False by default.
        buckets: Number of parts; `BUCKETS` by default.

    Attributes:
        misfits: What does not fit.
        persons: Number of records made.
    """

    def __init__(
        self,
        schema: Rules,
        folder: Path | None,
        *,
        keep_going: bool = False,
        buckets: int = BUCKETS,
    ) -> None:
        self._rules = rules = file_rules(schema)
        self._folder = folder
        assert rules.panel is not None
        self._panel = panel = rules.panel
        names = rules.reads[:-1]
        waves = (*panel.waves, *panel.ignore_waves)
        levels = tuple(Level(one, one) for one in waves)
        wave = Column(name=panel.wave or "", kind="category", levels=levels)
        self._wave_reader = Encoder(wave).reader
        self._sources = panel.sources(names)
        self._compared = RuleCheck(rules)
        made = {name: (*panel.columns.get(name, {}).values(), name) for name in self._sources}
        self._made = made
        # Columns of a record that are made from one column of the file have the same rule.
        self._encoders = {
            name: RuleEncoder(rules.column(next((one for one in ours if one in names), name)))
            for name, ours in made.items()
        }
        self._writers: dict[tuple[int, int], pa.ipc.RecordBatchStreamWriter] = {}
        self._in_memory: dict[tuple[int, int], pa.BufferOutputStream] = {}
        self._files: list[tuple[pa.Schema, tuple[str, ...]]] = []
        self._ends = ExitStack()
        self._keep_going, self._buckets = keep_going, buckets
        self.misfits = Misfits()
        self.persons = 0

    def __enter__(self) -> PersonRecords:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.close()

    def begin(self, columns: Sequence[str]) -> None:
        """Begin the rows of one source.

        Args:
            columns: Columns of the file that are read; `person` and `wave` may be among them.
        """
        columns = tuple(name for name in self._sources if name in columns)
        kinds = (pa.uint64(), pa.uint64(), pa.int16(), pa.string())
        texts = ((str(number), pa.string()) for number in range(len(columns)))
        self._files.append((pa.schema([*zip(_PERSON, kinds, strict=True), *texts]), columns))

    def add(
        self, records: pa.RecordBatch, wave: str | None = None, whose: Identifiers | None = None
    ) -> None:
        """Add rows of the source whose rows were begun last.

        Args:
            records: The rows, with the columns of the file.
            wave: Their wave; None (the default) if the rows name it.
            whose: Identifiers of their persons; None (the default) to read them.
        """
        panel = self._panel
        if whose is None:
            column, missing = records.column(panel.person), self._rules.unit.missing_values
            whose = identifiers(identifying(panel.person), column, missing)
        persons = whose.hashes(2)
        self.misfits.without += whose.without
        if wave is None:
            assert panel.wave is not None
            waves = self._waves(records.column(panel.wave))
            rows = np.flatnonzero((waves >= 0) & persons.any(axis=1))
        else:
            rows = np.flatnonzero(persons.any(axis=1))
            waves = np.full(records.num_rows, panel.waves.index(wave), np.int16)
        if rows.size < len(waves):
            records, persons, waves = records.take(rows), persons[rows], waves[rows]
        if not records.num_rows or (self._stopped and not self._keep_going):
            return
        number = len(self._files) - 1
        kind, columns = self._files[number]
        bucket = (persons[:, 0] % np.uint64(self._buckets)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self._buckets))
        texts = identifier_texts(records.column(panel.person), identifying(panel.person))
        arrays = [pa.array(persons[:, 0]), pa.array(persons[:, 1]), pa.array(waves), texts]
        for name in columns:
            stored = records.column(name)
            for one in self._made[name]:
                self._compared.assert_exact(one, stored, name)
            arrays.append(self._encoders[name].reader.texts(stored))
        batch = pa.RecordBatch.from_arrays(arrays, schema=kind).take(pa.array(order))
        start = 0
        for part, end in enumerate(ends.tolist()):
            if end > start:
                self._writer(number, part, kind).write_batch(batch.slice(start, end - start))
            start = end

    def finish(self) -> Path:
        """Write the records, and return the Parquet file with them.

        Raises:
            SchemaViolation: if rows do not fit the panel. The message names no value and no count.
        """
        assert self._folder is not None
        path = self._folder / "records.parquet"
        with pq.ParquetWriter(path, self.types) as writer:
            for table in self.tables():
                writer.write_table(table)
        return path

    def tables(self) -> Iterator[pa.Table]:
        """Yield the records, about `GROUP_ROWS` at a time, when all rows are added.

        Without a folder they can be read again.

        Raises:
            SchemaViolation: if rows do not fit the panel. The message names no value and no count.
        """
        self._ends.close()
        target = self.types
        waiting: list[pa.Table] = []
        self.persons = 0
        for part in range(self._buckets):
            found = self._part(part)
            if found is not None:
                waiting.append(self._records(found, target))
            if waiting and (
                part == self._buckets - 1 or sum(each.num_rows for each in waiting) >= GROUP_ROWS
            ):
                if self._keep_going or not self._stopped:
                    yield pa.concat_tables(waiting)
                waiting = []
        violation = self.misfits.violation(self._panel)
        if violation is not None and not self._keep_going:
            raise violation

    @property
    def _stopped(self) -> bool:
        """Whether some rows do not fit, so that no more records need to be made."""
        return self.misfits.violation(self._panel) is not None

    def _waves(self, values: pa.Array) -> NDArray[np.int16]:
        """Return the number of each row's wave, -1 for a row that is left out, and note misfits."""
        found = self._wave_reader.read(pc.utf8_trim_whitespace(self._wave_reader.texts(values)))
        assert found.state is not None
        assert found.index is not None
        assert found.texts is not None
        rows = np.bincount(found.index, minlength=found.data.size)
        for at in np.flatnonzero((found.state != State.VALUE) & (rows > 0)).tolist():
            text = (found.texts[at].as_py() if at < len(found.texts) else None) or ""
            self.misfits.unknown[text] = self.misfits.unknown.get(text, 0) + int(rows[at])
        known = (found.state == State.VALUE) & (found.data < len(self._panel.waves))
        return np.where(known, found.data, -1).astype(np.int16)[found.index]

    def _writer(self, number: int, part: int, kind: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        if (number, part) not in self._writers:
            if self._folder is None:
                sink = self._in_memory[number, part] = pa.BufferOutputStream()
                options = pa.ipc.IpcWriteOptions(compression="lz4")
            else:
                path = self._place(self._folder, number, part)
                sink = self._ends.enter_context(pa.OSFile(str(path), "wb"))
                options = None
            writer = self._ends.enter_context(pa.ipc.new_stream(sink, kind, options=options))
            self._writers[number, part] = writer
        return self._writers[number, part]

    def _place(self, folder: Path, number: int, part: int) -> Path:
        return folder / f"rows-{number}-{part:02d}"

    def _part(self, part: int) -> list[pa.Table | None] | None:
        """Return the rows of one part, a table for each source; None if there are none."""
        tables: list[pa.Table | None] = []
        for number in range(len(self._files)):
            if (number, part) not in self._writers:
                tables.append(None)
            elif self._folder is None:
                raw = self._in_memory[number, part].getvalue()
                tables.append(pa.ipc.open_stream(raw).read_all().combine_chunks())
            else:
                place = self._place(self._folder, number, part)
                with pa.OSFile(str(place)) as file:
                    tables.append(pa.ipc.open_stream(file).read_all().combine_chunks())
                place.unlink()
        return tables if any(table is not None for table in tables) else None

    @property
    def types(self) -> pa.Schema:
        """The types of the records: texts."""
        return pa.schema([(name, pa.string()) for name in self._rules.reads])

    def _records(self, tables: Sequence[pa.Table | None], target: pa.Schema) -> pa.Table:
        """Return the records of one part, and note what does not fit."""
        panel = self._panel
        rows = _joined([table for table in tables if table is not None], _PERSON)
        first, second, waves = (np.asarray(rows.column(name)) for name in _PERSON[:3])
        identifiers = rows.column("identifier").combine_chunks()
        order = np.lexsort((waves, second, first))
        new = _changes(first[order], second[order])
        again = np.concatenate(([False], ~_changes(waves[order])[1:] & ~new[1:]))
        of = np.cumsum(new) - 1
        if again.any():
            if panel.repeated == "keep_one":
                order = self._keep_one(tables, rows, order, again)
                new = _changes(first[order], second[order])
                of = np.cumsum(new) - 1
            else:
                for number in np.unique(waves[order[again]]):
                    persons = np.unique(of[again & (waves[order] == number)])
                    who = identifiers.take(pa.array(order[new][persons]))
                    self.misfits.note("repeated", panel.waves[number], who)
        begins = order[new]
        places = np.full((len(panel.waves), len(begins)), -1, np.int64)
        places[waves[order], of] = order
        made: dict[str, pa.Array] = {panel.person: identifiers.take(pa.array(begins))}
        for number, wave in enumerate(panel.waves):
            absent = places[number] < 0
            if panel.balanced:
                who = made[panel.person].filter(pa.array(absent))
                self.misfits.note("absent", wave, who)
            else:
                taken = pa.array(np.where(absent, 1, 0).astype(np.int32))
                levels = pa.array(TAKES_PART)
                made[panel.takes_part[wave]] = levels.take(taken)
        for name in target.names:
            if name in made:
                continue
            place = panel.place(name)
            if place is None:
                values = self._column(tables, name)
                made[name] = values.take(pa.array(begins))
                if panel.disagreeing == "reject":
                    self._compare(name, values, order, of, begins, made[panel.person])
                continue
            where = places[panel.waves.index(place[1])]
            values = self._column(tables, place[0])
            taken = values.take(pa.array(where, mask=where < 0))
            if ABSENT in self._rules.column(name).texts:
                taken = pc.if_else(pa.array(where < 0), pa.scalar(ABSENT), taken)
            made[name] = taken
        found = pa.table([made[name] for name in target.names], schema=target)
        if panel.balanced and (places < 0).any():
            found = found.filter(pa.array((places >= 0).all(axis=0)))
        self.persons += found.num_rows
        return found

    def _column(self, tables: Sequence[pa.Table | None], source: str) -> pa.Array:
        """Return a column of the file in all rows of a part; null where a source lacks it."""
        found = []
        for table, (_, columns) in zip(tables, self._files, strict=True):
            if table is None:
                continue
            if source in columns:
                found += table.column(str(columns.index(source))).chunks
            else:
                found.append(pa.nulls(table.num_rows, pa.string()))
        return pa.concat_arrays(found)

    def _keep_one(
        self,
        tables: Sequence[pa.Table | None],
        rows: pa.Table,
        order: NDArray[np.intp],
        again: NDArray[np.bool_],
    ) -> NDArray[np.intp]:
        """Return the order with one row for each person and wave.

        The row is the first by a hash of the person and of the row's codes. Of rows with the same
        codes it is the first by a hash of their values, which rules between columns may compare.
        """
        group = np.cumsum(~again) - 1
        several = np.bincount(group)[group] > 1
        among = order[several]
        codes, values = [], []
        for name in self._sources:
            if any(name in columns for _, columns in self._files):
                encoder = self._encoders[name]
                typed = encoder.reader.read(self._column(tables, name).take(pa.array(among)))
                codes.append(encoder.place(typed).codes)
                values.append(_identities(typed))
        persons = np.stack([np.asarray(rows.column(name)) for name in _PERSON[:2]], axis=1)[among]
        # privacy: codes and values depend on the schema and on the cell alone.
        keys = (orders(persons, values), orders(persons, codes))
        place = np.lexsort((*keys, group[several]))
        kept = order.copy()
        kept[several] = among[place]
        return kept[~again]

    def _compare(
        self,
        name: str,
        values: pa.Array,
        order: NDArray[np.intp],
        of: NDArray[np.intp],
        begins: NDArray[np.intp],
        persons: pa.Array,
    ) -> None:
        """Note the persons whose values of a constant column differ between waves.

        Values are compared as they are read, so 7 and 7.0 are equal, and blanks do not count.
        """
        own = _identities(self._encoders[name].reader.read(pc.utf8_trim_whitespace(values)))
        who = np.unique(of[own[order] != own[begins][of]])
        self.misfits.note("disagreeing", name, persons.take(pa.array(who)))


def _joined(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    return pa.concat_tables([table.select(list(names)) for table in tables]).combine_chunks()


def _identities(typed: Values) -> NDArray[np.uint64]:
    """Return a number for the value of each row, equal for equal values of the column.

    All texts that are no value of the column have the same number.
    """
    found = typed.data.astype(np.float64 if typed.data.dtype.kind == "f" else np.int64)
    bits = (found + 0).view(np.uint64)  # so that -0.0 is 0.0
    if typed.state is not None:
        bits[typed.state == State.MISSING] = np.uint64(2**63 + 1)
        bits[typed.state == State.UNKNOWN] = np.uint64(2**63 + 2)
    return bits if typed.index is None else bits[typed.index]


def _changes(*keys: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where sorted keys begin a new group; the first is always one."""
    found = np.ones(len(keys[0]), np.bool_)
    found[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return found
