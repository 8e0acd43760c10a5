"""Judges synthetic sets by the suite that judged the file; nothing here is confidential.

Labels of a set are translated to the texts of the file that they stand for, so the suite and a
team's own expectations mean the same for both. A process without confidential rows judges the
sets: what a set meets is then computed from the set alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.confidential.between_columns import DependencyCheck
from dp_core.confidential.encoding import settle_zeros
from dp_core.kernel.codes import code_type
from dp_core.kernel.counting.processors import threads
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule, rules_of
from dp_core.schema.rules.file_rules import file_rules
from tasks.validation.judged_frames import FileProfile, Frame, RowPieces
from tasks.validation.suite_judge import SuiteJudge


def judge_sets(
    schema: Schema,
    sets: Sequence[Sequence[Path]],
    progress: Callable[[float], None] = lambda _: None,
) -> list[list[int]]:
    """Return the numbers of the expectations that each set does not meet.

    Args:
        schema: The schema as written, with the bins and levels that were chosen privately.
        sets: The files of each set, as `dp_core.bundle.files.parquet_file.write_synthetic` writes
            them: one, or those of households and of persons.
        progress: Called with the part that is done, 0 to 1; does nothing by default.

    Returns:
        For each set, the numbers of rules of `rules_of(schema, sets=True)`, ascending.
    """
    if schema.linked is None:
        return _judge_tables(schema, [file for (file,) in sets], progress)
    homes, persons = schema.household_schema, schema.person_schema
    first = _judge_tables(homes, [file for file, _ in sets], lambda done: progress(0.3 * done))
    then = _judge_tables(
        persons, [file for _, file in sets], lambda done: progress(0.3 + 0.7 * done)
    )
    before = len(rules_of(homes, sets=True))
    return [
        [*one, *(before + number for number in other)]
        for one, other in zip(first, then, strict=True)
    ]


def _judge_tables(
    schema: Schema, files: Sequence[Path], progress: Callable[[float], None]
) -> list[list[int]]:
    """Return the numbers of the expectations that one table of each set does not meet."""
    rules = rules_of(schema, sets=True)
    own = frozenset(number for number, rule in enumerate(rules) if rule.kind == "own")
    every = frozenset(range(len(rules)))
    failed: list[set[int]] = []
    frames = []
    reader = _SetReader(schema, rules)
    for file in files:
        # One judge of a team's own for each set: their figures are those of one set.
        judge = SuiteJudge(schema.title, rules, only=own)
        failed.append(reader.read(file, judge))
        frames.append(reader.frame())
        columns, length = frames[-1]
        failed[-1] |= judge.judge("profile", columns, length)
        failed[-1] |= judge.judge("table", {}, reader.profile.rows)
        progress(len(frames) / (len(files) + 1))
    # The schema's own rules are about single values, so all sets together keep them exactly if each
    # set does.
    if SuiteJudge(schema.title, rules, only=every - own).judge("profile", *_together(frames)):
        for found, (columns, length) in zip(failed, frames, strict=True):
            alone = SuiteJudge(schema.title, rules, only=every - own)
            found |= alone.judge("profile", columns, length)
    return [sorted(found) for found in failed]


class _SetReader:
    """Reads one set after the other; what it keeps is about the latest one."""

    def __init__(self, schema: Schema, rules: Sequence[Rule]) -> None:
        self._schema = schema
        # A level of a set is one text, and what is missing is null.
        texts = replace(
            schema,
            columns=tuple(map(_own_texts, schema.columns)),
            dependents=tuple(
                replace(one, column=_own_texts(one.column)) for one in schema.dependents
            ),
        )
        self.profile = FileProfile(texts, rules)
        self._pieces = RowPieces(texts, rules)
        self._dependencies = DependencyCheck(texts)
        self._levels = {column.name: column.in_sets for column in schema.released if column.levels}
        # Only these have rules. Weights, which were raked, may be outside their bins.
        self._rules = file_rules(schema)
        between = self._rules.row_rules
        self._coded = {name for rule in between for name in rule.columns}
        self._units = {each.column: each for rule in between for each in rule.units}
        if any(rule.kind == "dependency" for rule in rules):
            self._coded |= {one.source for one in schema.dependents}
        self._broken: dict[str, int] = {}

    def read(self, file: Path, judge: SuiteJudge) -> set[int]:
        """Read a set; return the rules about rows that it breaks."""
        self.profile.forget()
        self._broken = {}
        profilers, partition = self.profile.profilers, self.profile.begin()
        failed: set[int] = set()

        def judge_pieces(pieces: Any) -> None:
            piece: Frame
            for piece, rows in pieces:
                failed.update(judge.judge("rows", piece, rows))

        with ThreadPoolExecutor(threads()) as pool:
            for batch in read_parquet(file, self._schema.names):
                texts = self._in_texts(batch)
                found = [texts.column(profiler.column.name) for profiler in profilers]
                for _ in pool.map(lambda one, *rest: one.add(*rest), profilers, partition, found):
                    pass
                self._count(batch, texts)
                judge_pieces(self._pieces.add(texts))
        self.profile.add(partition)
        judge_pieces(self._pieces.last())
        return failed

    def frame(self) -> tuple[dict[str, list[Any]], int]:
        """Return the frame of the set's profile, and its length."""
        return self.profile.frame(self._broken)

    def _in_texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            _file_texts(self._levels[name], array) if name in self._levels else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _count(self, batch: pa.RecordBatch, texts: pa.RecordBatch) -> None:
        """Count the rows that break rules between columns."""
        if not self._coded:
            return
        # Columns without a rule keep the code 0, which nothing looks at.
        codes = [
            codes_of(column, batch.column(column.name))
            if column.name in self._coded
            else np.zeros(batch.num_rows, code_type(column.size))
            for column in self._schema.columns
        ]
        counts = dict(self._dependencies.refused(texts, codes))
        units = {
            name: each.of(self._schema.column(name).scale.values_in(batch.column(name)))
            for name, each in self._units.items()
        }
        by_name = dict(zip(self._schema.domain.columns, codes, strict=True))
        for each in settle_zeros(self._rules, by_name, units):
            counts[each.rule.text] = counts.get(each.rule.text, 0) + each.refused + each.settled
        for about, rows in counts.items():
            self._broken[about] = self._broken.get(about, 0) + rows


def _own_texts(column: Column) -> Column:
    return replace(column.in_sets, stands_for=(), missing_values=(), format="")


def _file_texts(column: Column, labels: pa.Array) -> pa.DictionaryArray:
    """Return labels as the texts of the levels; a label that is no level stays as it is."""
    if not pa.types.is_dictionary(labels.type):
        labels = labels.dictionary_encode()
    # If two levels have the same label, it stands for the first one.
    texts = {level.label: level.text for level in reversed(column.levels)}
    names = [texts.get(label, label) for label in labels.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(labels.indices, pa.array(names, pa.string()))


def _together(
    frames: Sequence[tuple[dict[str, list[Any]], int]],
) -> tuple[dict[str, list[Any]], int]:
    columns: dict[str, list[Any]] = {}
    for frame, _ in frames:
        for name, values in frame.items():
            columns.setdefault(name, []).extend(values)
    return columns, sum(length for _, length in frames)
