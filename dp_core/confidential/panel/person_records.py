"""Makes one record of each person from the rows of a panel, a row for each person and wave.

Rows are first distributed to parts on disk by a hash of the person, as `person_rows` does; then
each part is sorted by person and wave, and its records are written. So neither the order of the
rows nor that of the files matters: records are in the order of the hash.

Privacy:
    Every record depends on the rows of one person only: a constant column has the value of the
    person's first wave, and of several rows in one wave one is kept by a hash of this person's
    rows, or the file is refused. So files that differ in the rows of one person give records that
    differ in one record: under add-remove it is there or not, under replace-one it is another
    record. Everything after this is calibrated for a person with one row
    (`dp_core.schema.privacy.Relation`, `max_rows` 1). Whether a file is refused is decided from all
    its rows; like every refusal, it is outside epsilon.

    Under replace-one the number of persons is public, and the number of rows in a wave is not: it
    is a count of the column that says whether the person takes part.

Cost: about 3 microseconds for a row of six columns (`benchmarks/panel.py`). On disk the rows once
and the records once, in the run's confidential folder; in memory a 64th of the rows, and one batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.confidential.panel.misfits import Misfits
from dp_core.confidential.person_rows import BUCKETS, hashes
from dp_core.confidential.raw_values import as_texts, is_text
from dp_core.errors import BadInput
from dp_core.schema.definition import Schema
from dp_core.schema.panel.panel_waves import ABSENT, TAKES_PART

GROUP_ROWS = 1 << 17
"""Approximate number of records of a row group, which is in memory until it is full."""
_PERSON = ("person 1", "person 2", "wave", "identifier")
"""Columns of a part besides those of the file, whose names are numbers."""


class PersonRecords:
    """Makes the records of a panel's persons; used as a context manager.

    Args:
        schema: The schema of records.
        folder: Existing, empty folder for the parts and the records.
        keep_going: Whether to make records of the rows that fit even if others do not, to check a
            file; False by default.

    Attributes:
        misfits: What does not fit.
        persons: Number of records made.
    """

    def __init__(self, schema: Schema, folder: Path, *, keep_going: bool = False) -> None:
        assert schema.panel is not None
        self._schema, self._panel, self._folder = schema, schema.panel, folder
        self._wave_numbers = {wave: number for number, wave in enumerate(self._panel.waves)}
        names = schema.reads[:-1]
        self._sources = self._panel.sources(names)
        self._writers: dict[tuple[int, int], pa.ipc.RecordBatchStreamWriter] = {}
        self._files: list[tuple[pa.Schema, tuple[str, ...]]] = []
        self._ends = ExitStack()
        self._keep_going = keep_going
        self.misfits = Misfits()
        self.persons = 0

    def __enter__(self) -> PersonRecords:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.close()

    def begin(self, types: Mapping[str, pa.DataType]) -> None:
        """Begin the rows of one source, whose columns have these types.

        Args:
            types: Type of each column of the file that is read, besides `person` and `wave`.
        """
        columns = tuple(name for name in self._sources if name in types)
        kinds = [pa.string() if self._levelled(name) else types[name] for name in columns]
        self._files.append(
            (
                pa.schema(
                    [
                        *zip(_PERSON, (*[pa.uint64()] * 2, pa.int16(), pa.string()), strict=True),
                        *((str(number), kind) for number, kind in enumerate(kinds)),
                    ]
                ),
                columns,
            )
        )

    def add(self, records: pa.RecordBatch, wave: str | None = None) -> None:
        """Add rows of the source whose rows were begun last.

        Args:
            records: The rows, with the columns of the file.
            wave: Their wave; None if the rows name it.
        """
        panel, missing = self._panel, self._schema.unit.missing_values
        column = records.column(panel.person)
        persons, without = hashes(panel.person, column, missing)
        self.misfits.without += without
        if wave is None:
            assert panel.wave is not None
            waves = self._waves(records.column(panel.wave))
            rows = np.flatnonzero((waves >= 0) & persons.any(axis=1))
        else:
            rows = np.flatnonzero(persons.any(axis=1))
            waves = np.full(records.num_rows, self._wave_numbers[wave], np.int16)
        if rows.size < len(waves):
            records, persons, waves = records.take(rows), persons[rows], waves[rows]
        if not records.num_rows or (self._stopped and not self._keep_going):
            return
        number = len(self._files) - 1
        kind, columns = self._files[number]
        bucket = (persons[:, 0] % np.uint64(BUCKETS)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
        texts = pc.utf8_trim_whitespace(as_texts(records.column(panel.person)))
        arrays = [pa.array(persons[:, 0]), pa.array(persons[:, 1]), pa.array(waves), texts]
        arrays += [
            self._cast(name, records.column(name), to.type)
            for name, to in zip(columns, list(kind)[len(_PERSON) :], strict=True)
        ]
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
        self._ends.close()
        path = self._folder / "records.parquet"
        target = self._types()
        waiting: list[pa.Table] = []
        with pq.ParquetWriter(path, target) as writer:
            for part in range(BUCKETS):
                found = self._part(part)
                if found is not None:
                    waiting.append(self._records(found, target))
                if waiting and (
                    part == BUCKETS - 1 or sum(each.num_rows for each in waiting) >= GROUP_ROWS
                ):
                    if self._keep_going or not self._stopped:
                        writer.write_table(pa.concat_tables(waiting))
                    waiting = []
        violation = self.misfits.violation(self._panel)
        if violation is not None and not self._keep_going:
            raise violation
        return path

    @property
    def _stopped(self) -> bool:
        """Whether some rows do not fit, so that no more records need to be made."""
        return self.misfits.violation(self._panel) is not None

    def _levelled(self, source: str) -> bool:
        names = self._panel.columns.get(source, {}).values()
        name = next((one for one in names if one in self._schema.reads), source)
        return bool(self._schema.column(name).levels)

    def _waves(self, values: pa.Array) -> NDArray[np.int16]:
        """Return the number of each row's wave, -1 for a row that is left out, and note misfits."""
        encoded = as_texts(values).dictionary_encode()
        texts = ["" if text is None else text.strip() for text in encoded.dictionary.to_pylist()]
        ignored = {*self._panel.ignore_waves}
        known = [
            self._wave_numbers.get(text, -1 if text in ignored else -2) for text in (*texts, "")
        ]
        index = np.asarray(encoded.indices.fill_null(len(texts)))
        found: NDArray[np.int16] = np.asarray(known, np.int16)[index]
        counts = np.bincount(index, minlength=len(known))
        for text, number, rows in zip((*texts, ""), known, counts.tolist(), strict=True):
            if number == -2 and rows:
                self.misfits.unknown[text] = self.misfits.unknown.get(text, 0) + rows
        return found

    def _cast(self, name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
        if self._levelled(name):
            return as_texts(values)
        if pa.types.is_dictionary(values.type):
            values = pc.dictionary_decode(values)
        return values.cast(kind)

    def _writer(self, number: int, part: int, kind: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        if (number, part) not in self._writers:
            sink = self._ends.enter_context(pa.OSFile(str(self._place(number, part)), "wb"))
            writer = self._ends.enter_context(pa.ipc.new_stream(sink, kind))
            self._writers[number, part] = writer
        return self._writers[number, part]

    def _place(self, number: int, part: int) -> Path:
        return self._folder / f"rows-{number}-{part:02d}"

    def _part(self, part: int) -> list[pa.Table | None] | None:
        """Return the rows of one part, a table for each source; None if there are none."""
        tables: list[pa.Table | None] = []
        for number in range(len(self._files)):
            place = self._place(number, part)
            if not place.exists():
                tables.append(None)
                continue
            with pa.OSFile(str(place)) as raw:
                tables.append(pa.ipc.open_stream(raw).read_all().combine_chunks())
            place.unlink()
        return tables if any(table is not None for table in tables) else None

    def _types(self) -> pa.Schema:
        """Return the types of the records."""
        types = {name: pa.string() for name in self._panel.takes_part.values()}
        types[self._panel.person] = pa.string()
        for name in self._schema.reads:
            if name in types:
                continue
            place = self._panel.place(name)
            source = name if place is None else place[0]
            found = {
                kind.field(str(columns.index(source))).type
                for number, (kind, columns) in enumerate(self._files)
                if source in columns and self._holds(number, None if place is None else place[1])
            }
            found = {one for one in found if not pa.types.is_null(one)} or {pa.string()}
            if len(found) > 1:
                raise BadInput(
                    f"Column {source!r} is stored as {' and as '.join(sorted(map(str, found)))} in"
                    " files of the panel; store it as one type.",
                    row="columns-differ",
                )
            types[name] = found.pop()
        return pa.schema([(name, types[name]) for name in self._schema.reads])

    def _holds(self, number: int, wave: str | None) -> bool:
        """Return whether a source may hold rows of a wave."""
        return self._panel.wave is not None or wave in (None, self._panel.waves[number])

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
                values = self._column(tables, name, target.field(name).type)
                made[name] = values.take(pa.array(begins))
                if panel.disagreeing == "reject":
                    self._compare(name, values, order, of, begins, made[panel.person])
                continue
            where = places[panel.waves.index(place[1])]
            values = self._column(tables, place[0], target.field(name).type)
            taken = values.take(pa.array(where, mask=where < 0))
            if any(level.text == ABSENT for level in self._schema.column(name).levels):
                taken = pc.if_else(pa.array(where < 0), pa.scalar(ABSENT), taken)
            made[name] = taken
        found = pa.table([made[name] for name in target.names], schema=target)
        if panel.balanced and (places < 0).any():
            found = found.filter(pa.array((places >= 0).all(axis=0)))
        self.persons += found.num_rows
        return found

    def _column(
        self, tables: Sequence[pa.Table | None], source: str, kind: pa.DataType
    ) -> pa.Array:
        """Return a column of the file in all rows of a part; null where a source lacks it."""
        found = []
        for table, (_, columns) in zip(tables, self._files, strict=True):
            if table is None:
                continue
            if source not in columns:
                found.append(pa.nulls(table.num_rows, kind))
                continue
            values = table.column(str(columns.index(source)))
            # Another type belongs to another wave, whose column of the record has it.
            same = values.type == kind or pa.types.is_null(values.type)
            found.append(values.cast(kind) if same else pa.nulls(table.num_rows, kind))
        pieces = [
            chunk
            for each in found
            for chunk in (each.chunks if isinstance(each, pa.ChunkedArray) else [each])
        ]
        return pa.concat_arrays(pieces)

    def _keep_one(
        self,
        tables: Sequence[pa.Table | None],
        rows: pa.Table,
        order: NDArray[np.intp],
        again: NDArray[np.bool_],
    ) -> NDArray[np.intp]:
        """Return the order with one row for each person and wave.

        The row is the first by a hash of the person and of the row's values.
        """
        starts = np.flatnonzero(~again)
        group = np.cumsum(~again) - 1
        several = np.unique(group[again])
        sizes = np.diff([*starts, len(order)])
        columns = [
            each for each in self._sources if any(each in columns for _, columns in self._files)
        ]
        chosen = order[starts].copy()
        among = np.concatenate(
            [order[starts[one] : starts[one] + sizes[one]] for one in several.tolist()]
        )
        texts = {
            name: [
                str(value)
                for table, (_, own) in zip(tables, self._files, strict=True)
                if table is not None
                for value in _chosen_values(table, own, name)
            ]
            for name in columns
        }
        persons = np.stack([np.asarray(rows.column(name)) for name in _PERSON[:2]], axis=1)

        def key(row: int) -> bytes:
            digest = hashlib.blake2b(persons[row].tobytes(), digest_size=16)
            for name in columns:
                part = texts[name][row].encode()
                digest.update(len(part).to_bytes(8, "big") + part)
            return digest.digest()

        keys = {row: key(row) for row in among.tolist()}
        for one in several.tolist():
            mine = order[starts[one] : starts[one] + sizes[one]].tolist()
            chosen[one] = min(mine, key=lambda row: keys[row])
        return chosen

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

        Blanks around texts do not count, and a number that is NaN is missing.
        """
        if is_text(values.type):
            values = pc.utf8_trim_whitespace(values)
        elif pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), None, values)
        own = values.take(pa.array(order))
        first = values.take(pa.array(begins)).take(pa.array(of))
        differs = pc.not_equal(own, first).fill_null(False)
        differs = pc.or_(differs, pc.xor(own.is_null(), first.is_null()))
        who = np.unique(of[np.asarray(differs)])
        self.misfits.note("disagreeing", name, persons.take(pa.array(who)))


def stored_types(schema: pa.Schema, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the type in which columns of a file are kept: text as text, whole numbers in one type.

    Args:
        schema: Schema of a Parquet file.
        names: Columns.
    """
    found = {}
    for name in names:
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if is_text(kind) or pa.types.is_decimal(kind):
            kind = pa.string()
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            kind = pa.int64()
        elif pa.types.is_float16(kind):
            kind = pa.float32()
        found[name] = kind
    return found


def _joined(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    return pa.concat_tables([table.select(list(names)) for table in tables]).combine_chunks()


def _chosen_values(table: pa.Table, columns: Sequence[str], name: str) -> Sequence[object]:
    if name not in columns:
        return [None] * table.num_rows
    values: list[object] = table.column(str(columns.index(name))).to_pylist()
    return values


def _changes(*keys: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where sorted keys begin a new group; the first is always one."""
    found = np.ones(len(keys[0]), np.bool_)
    found[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return found
