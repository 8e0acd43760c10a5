"""Writes the code store of the confidential data, of one table or of two. Confidential side."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.between_columns import DependencyCheck, RuleCheck
from dp_core.confidential.code_store import CodeStore, StoreWriter
from dp_core.confidential.encoding import settle_zeros
from dp_core.confidential.linked.linked_source import LinkedSource, household_notes, read_households
from dp_core.confidential.person_rows import RowLimit, identifying, without_identifier
from dp_core.confidential.source import Source
from dp_core.errors import SchemaViolation
from dp_core.kernel.codes import Codes
from dp_core.kernel.coding.encoder import Encoded, RuleEncoder
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.processors import threads
from dp_core.schema.rules.file_rules import FileRules, Rules, file_rules
from dp_core.tables.household_rows import pair_row_pieces, to_pair_rows

SHOWN_RULES = 5
"""Number of columns or rules that a message names."""
_LINKED = 0.6
"""Part of the work, roughly, after two linked tables are read and linked."""


def write_codes(
    source: Source | LinkedSource,
    schema: Rules,
    folder: Path,
    progress: Callable[[float], None] | None = None,
) -> CodeStore:
    """Write the codes of every row, batch by batch.

    If the unit is a person, a person's rows above the limit are left out
    (`dp_core.confidential.person_rows`). Of linked tables the rows are the pair rows of all
    households.

    Args:
        source: The confidential data: files, snapshots or frames.
        schema: Rules of the data: those of the release's document, or a schema that is compiled.
        folder: Folder of the store, in the run's confidential folder.
        progress: Called with the part that is done, 0 to 1; None (the default) for no progress.

    Returns:
        The complete store; its rows are in the order of the file, of linked tables household by
        household.

    Raises:
        SchemaViolation: if a row has no identifier of its person, rows break an `impossible` rule
            that no policy settles, a column does not follow from another as the schema says, keys,
            links or sizes of households are not as the schema says, or a value is not in the schema
            (validation reports that in more detail). The store is then incomplete. The message
            names only tables, rules and columns; the counts are in `internal`.
    """
    told, rules = progress or (lambda _: None), file_rules(schema)
    if isinstance(source, LinkedSource):
        assert rules.linked is not None
        with StoreWriter(folder, rules.domain, document=rules.hash, units=True) as store:
            notes = household_notes(rules, folder)
            rows = read_households(rules, source, lambda done: told(_LINKED * done), notes)
            for each in notes:
                each.finish(folder)
            for piece, units, done in pair_row_pieces(rules.linked, rules.domain, rows):
                store.append([*piece.codes, units])
                told(_LINKED + (1 - _LINKED) * done)
    else:
        with Coding(rules, folder) as coding:
            _add_all(source, rules, coding, told)
            coding.finish()
    pa.default_memory_pool().release_unused()
    return CodeStore(folder, rules.domain, rules.hash)


def codes_in_memory(source: Source | LinkedSource, schema: Rules) -> Dataset:
    """Return the codes that `write_codes` writes; no file is written."""
    rules = file_rules(schema)
    if isinstance(source, LinkedSource):
        assert rules.linked is not None
        return to_pair_rows(rules.linked, rules.domain, read_households(rules, source))
    with Coding(rules, None) as coding:
        _add_all(source, rules, coding, lambda _: None)
        codes, kept = coding.in_memory()
    return Dataset(rules.domain, np.ascontiguousarray(codes[:, kept]))


def _add_all(
    source: Source, rules: FileRules, coding: Coding, progress: Callable[[float], None]
) -> None:
    """Add all rows, or raise that some do not fit."""
    encoders = [RuleEncoder(column) for column in rules.columns]
    with ThreadPoolExecutor(threads()) as pool:
        for batch in source.batches(coding.notes):
            found = [batch.records.column(name) for name in rules.domain.columns]
            # Arrow and NumPy release the interpreter lock in their long loops, so threads help.
            coding.add(batch.records, list(pool.map(RuleEncoder.encode, encoders, found)))
            progress(batch.done)
    if coding.violation is not None:
        raise coding.violation


class Coding:
    """Writes a code store from batches of rows, or keeps their codes; a context manager.

    The store is complete when `finish` was called.

    Args:
        schema: Rules of the data: those of the release's document, or a schema that is compiled.
        folder: Folder of the store; None to keep the codes in memory.

    Attributes:
        notes: Where the kernel notes the units of the rows that it reads, within the block.
    """

    notes: UnitNotes

    def __init__(self, schema: Rules, folder: Path | None) -> None:
        self._rules, self._folder = file_rules(schema), folder
        self._unit, self._person = self._rules.unit, self._rules.unit.column
        self._dependencies = DependencyCheck(self._rules)
        self._compared = RuleCheck(self._rules)
        self._misfits: dict[str, int] = {}
        self._broken: dict[str, int] = {}
        self._disobeyed: dict[str, int] = {}
        self._kept: list[Codes] = []
        self._ends = ExitStack()
        self._limit: RowLimit | None = None

    def __enter__(self) -> Coding:
        folder, who = self._folder, identifying(self._person or "")
        if folder is None:
            self.notes = UnitNotes(self._unit, (), None, who)
            if self._person:
                self._limit = RowLimit(None, self._unit.most)
            return self
        self._writer = self._begun(folder)
        if not self._person:
            self.notes = UnitNotes(self._unit, self._rules.columns, folder, who)
            return self
        for left in [*folder.glob("persons-*"), *folder.glob("everything-*")]:
            shutil.rmtree(left, ignore_errors=True)
        # Use folders of this attempt only, so that a process that lost its lease cannot add rows.
        token = secrets.token_hex(8)
        everything = folder / f"everything-{token}"
        self._ends.callback(shutil.rmtree, everything, ignore_errors=True)
        self._writer = self._begun(everything)
        self.notes = UnitNotes(self._unit, self._rules.columns, everything, who)
        self._limit = self._ends.enter_context(
            RowLimit(folder / f"persons-{token}", self._unit.most)
        )
        return self

    def _begun(self, folder: Path) -> StoreWriter:
        units = self._person is not None
        writer = StoreWriter(folder, self._rules.domain, document=self._rules.hash, units=units)
        writer.begin()
        return writer

    def __exit__(self, *_error: object) -> None:
        self._ends.close()

    def add(self, records: pa.RecordBatch, encoded: Sequence[Encoded]) -> None:
        """Add a batch of rows.

        Args:
            records: The rows, with the person's column and the dependent columns.
            encoded: Codes of each column of the schema; changed in place where a policy says so.

        Raises:
            SchemaViolation: if a row has no identifier of its person.
        """
        codes = [column.codes for column in encoded]
        self.notes.require_coded(records, codes)
        for column, result in zip(self._rules.columns, encoded, strict=True):
            if result.bad is not None:
                _count(self._misfits, column.name, int(result.bad.sum()))
        if not self._misfits:
            for name, rows in self._dependencies.refused(records, codes).items():
                _count(self._disobeyed, name, rows)
            by_name = dict(zip(self._rules.domain.columns, codes, strict=True))
            for rule in settle_zeros(self._rules, by_name, self._compared.units(records)):
                _count(self._broken, rule.rule.text, rule.refused)
        # After the first violation the pass continues only to count all violations.
        if not self._misfits and not self._broken and not self._disobeyed:
            units = self._units(records, codes)
            if self._folder is None:
                self._kept.append(np.stack(codes))
            else:
                self._writer.append([*codes, *units])

    def _units(
        self, records: pa.RecordBatch, codes: Sequence[Codes]
    ) -> tuple[NDArray[np.uint64], ...]:
        """Add rows to the limit of a person's rows; return the hashes of their units to store."""
        if self._limit is None or self._person is None:
            return ()
        whose, units = self.notes.of(records)
        if whose.without:
            raise SchemaViolation(without_identifier(self._person))
        self._limit.add(whose.hashes(2), codes)
        return (units,)

    @property
    def between(self) -> dict[str, int]:
        """Rows so far that break each rule between columns: dependent columns, zeros and rules.

        They are counted up to the first row whose values are not in the schema.
        """
        return {**self._disobeyed, **self._broken}

    @property
    def violation(self) -> SchemaViolation | None:
        """The error about the rows so far that break the schema; None if there are none."""
        if not (self._misfits or self._broken or self._disobeyed):
            return None
        return _violation(self._rules, self._misfits, self._broken, self._disobeyed)

    def in_memory(self) -> tuple[Codes, NDArray[np.bool_]]:
        """Return the codes that were kept in memory, and which rows the limit of rows keeps.

        Returns:
            Codes of all rows, shape (columns, rows), and a mask, shape (rows,).
        """
        codes = np.concatenate(self._kept, axis=1)
        everyone = np.ones(codes.shape[1], np.bool_)
        return codes, everyone if self._limit is None else self._limit.kept()

    def finish(self) -> None:
        """Complete the store."""
        assert self._folder is not None
        self._writer.finish()
        if self._limit is not None:
            everything = CodeStore(self._writer.folder, self._rules.domain, self._rules.hash)
            _keep(everything, self._limit, self._folder)
        self.notes.finish(self._folder)


def _keep(everything: CodeStore, limit: RowLimit, folder: Path) -> None:
    """Write the store of the rows that the limit of rows per person keeps."""
    kept, start = limit.kept(), 0
    document = everything.document
    with StoreWriter(folder, everything.domain, document=document, units=True) as writer:
        for chunk in range(everything.chunks):
            columns = everything.read_whole(chunk)
            part = kept[start : start + len(columns[0])]
            start += len(part)
            writer.append([column[part] for column in columns])


def _count(counts: dict[str, int], name: str, rows: int) -> None:
    if rows:
        counts[name] = counts.get(name, 0) + rows


def _violation(
    rules: FileRules,
    misfits: Mapping[str, int],
    broken: Mapping[str, int],
    disobeyed: Mapping[str, int],
) -> SchemaViolation:
    named = {f"{name} does not follow from its source": rows for name, rows in disobeyed.items()}
    counts = {**misfits, **broken, **named}
    detail = "\n".join(f"{rows} rows: {name}" for name, rows in counts.items())
    if misfits:
        names = ", ".join(repr(name) for name in list(misfits)[:SHOWN_RULES])
        message = f"Values of {names} are not in the schema; validate the file against it."
    else:
        message = between_message(rules, list(disobeyed), list(broken))
    return SchemaViolation(message, internal=detail)


def between_message(schema: Rules, disobeyed: Sequence[str], broken: Sequence[str]) -> str:
    """Return the message about rules between columns, which names no count.

    Args:
        schema: The rules of the file.
        disobeyed: Dependent columns that do not follow from their source; they are named first.
        broken: Texts of the `impossible` rules, and of the rules between columns, that rows break.
    """
    stated = file_rules(schema)
    if disobeyed:
        sources = {one.column.name: one.source for one in stated.dependents}
        said = "; ".join(
            f"column {name!r} does not follow from {sources[name]!r} in every row"
            for name in disobeyed[:SHOWN_RULES]
        )
        return (
            f"{said[0].upper()}{said[1:]}; correct the file or the schema's map, or give the column"
            " `out_of_range: missing`, by which the value that follows replaces the file's."
        )
    rules = stated.row_rules
    between = {rule.text for rule in rules if rule.key != "impossible"}
    named = [
        f"rule `{text}`" if text in between else f"`impossible` rule {{{text}}}" for text in broken
    ]
    places = {rule.text for rule in rules if rule.key == "within"}
    if places.issuperset(broken):
        lines = "; ".join(f"`{text}`" for text in broken[:SHOWN_RULES])
        return (
            f"The file has rows whose areas do not lie where the schema's map says ({lines});"
            " correct the file or the map."
        )
    texts = "; the ".join(named[:SHOWN_RULES])
    more = f" and {len(broken) - SHOWN_RULES} more" if len(broken) > SHOWN_RULES else ""
    return (
        f"The file has rows that break the {texts}{more}; correct the file"
        " or the rule, or give the rule's last column `missing: level` and"
        " `out_of_range: missing`."
    )
