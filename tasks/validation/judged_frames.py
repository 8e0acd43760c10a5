"""The frames that Great Expectations judges: the profile of a file, and pieces of its rows.

The frame of the profile has distinct values or bounds of each column, and counted problems. An
expectation about every value of a column holds of the rows exactly if it holds of this frame. It
has a few dozen rows however large the file is.

A team's own expectations about rows see one piece of the file after the other, with the columns
that these expectations name. Numbers are numbers, dates are dates, and a category has the file's
texts. A value that is missing or is not of the column's type is null; the schema's own rules decide
whether that is allowed. Values are those of the file, before `out_of_range` is applied.

The suite that judged the file judges the synthetic sets, too. Labels of a set are translated to the
texts of the file that they stand for, so the suite and a team's own expectations mean the same for
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.confidential.between_columns import DependencyCheck
from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.confidential.encoding import Encoder, settle_zeros
from dp_core.confidential.original_values import decimals
from dp_core.kernel.codes import code_type
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.raw_values import State, Values
from dp_core.kernel.counting.processors import threads
from dp_core.schema.bin_values import legal_range
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import (
    Rule,
    bounds,
    outside,
    rules_of,
    unlisted_column,
    unreadable,
)
from dp_core.schema.rules.file_rules import FileRules, file_rules
from tasks.validation.suite_judge import SuiteJudge

PIECE_ROWS = 1 << 17
"""Rows of a piece; the last one has up to twice as many, so that no piece is small."""

Frame = dict[str, NDArray[Any]]


class FileProfile:
    """The profile of a whole file, to which the partitions' profiles are added. Confidential.

    Attributes:
        profilers: One for each profiled column of the schema.
        rows: Number of rows so far.

    Args:
        schema: Schema of the file.
        rules: Rules of its suite.
        coded_by: Rules by which its values are coded; None (the default) for those of the schema.
    """

    def __init__(
        self, schema: Schema, rules: Sequence[Rule], coded_by: FileRules | None = None
    ) -> None:
        by = coded_by or file_rules(schema)
        self.profilers = [Profiler(column, by.column(column.name)) for column in schema.profiled]
        self._rules = [rule for rule in rules if rule.seen == "profile"]
        self.rows = 0
        self._names = {*schema.names}
        self._columns = [Profile() for _ in self.profilers]

    def begin(self) -> list[Profile]:
        """Return empty profiles of a partition."""
        return [Profile() for _ in self.profilers]

    def add(self, partition: Sequence[Profile]) -> None:
        """Add the finished profiles of a partition."""
        self.rows += max((profile.rows for profile in partition), default=0)
        for whole, profiler, part in zip(self._columns, self.profilers, partition, strict=True):
            profiler.merge(whole, part)

    def frame(self, broken: Mapping[str, int | None]) -> tuple[dict[str, list[Any]], int]:
        """Return the columns that the rules are about, all of one length, and that length.

        Args:
            broken: Rows that break each rule between columns, by what the rule is about (0 for
                those that are not among them); None for rules that were not checked.
        """
        columns: dict[str, list[Any]] = {}
        for profiler, profile in zip(self.profilers, self._columns, strict=True):
            column = profiler.column
            columns[column.name] = _profile_values(column, profile)
            if column.levels:
                columns[unlisted_column(column, self._names)] = [profile.problems[Problem.LEVEL]]
            else:
                columns[unreadable(column, self._names)] = [profile.problems[Problem.TYPE]]
                columns[outside(column, self._names)] = [profile.problems[Problem.RANGE]]
        for rule in self._rules:
            if rule.kind in ("identifier", "dependency", "impossible", "rule"):
                columns[rule.kwargs["column"]] = [broken.get(rule.about, 0)]
        needed = {rule.kwargs["column"]: columns[rule.kwargs["column"]] for rule in self._rules}
        length = max(map(len, needed.values()), default=0)
        return {name: _repeat_to_length(values, length) for name, values in needed.items()}, length


def _profile_values(column: Column, profile: Profile) -> list[Any]:
    """Return the distinct texts or the bounds of a column, and None if values are missing."""
    values = _values(column, profile)
    if profile.problems[Problem.MISSING]:
        return [*values, None]
    if values:
        return values
    # No row has a readable value; that must not look like a missing one.
    return [legal_value(column) if Problem.MISSING in column.refuses else None]


def _values(column: Column, profile: Profile) -> list[Any]:
    if column.levels:
        return sorted(profile.texts)
    ends = [end for end in (profile.low, profile.high) if end is not None]
    return [column.scale.python(end) for end in ends]


def legal_value(column: Column) -> Any:
    """Return a value that the column may have: its first level, or its least number or date."""
    if column.levels:
        return column.levels[0].text
    low, _ = bounds(column)
    return column.scale.python(int(legal_range(column)[0])) if column.type.own_texts else low


def _repeat_to_length(values: list[Any], length: int) -> list[Any]:
    """Return the values repeated up to a length; the first one is a value, if there is any."""
    return values + values[:1] * (length - len(values))


class RowPieces:
    """Cuts batches of rows into pieces of equal length, as frames. Confidential.

    Args:
        schema: Schema of the file.
        rules: Rules of its suite; those about rows say which columns are needed.
    """

    def __init__(self, schema: Schema, rules: Sequence[Rule]) -> None:
        about = [rule for rule in rules if rule.seen == "rows"]
        named = {name for rule in about for name in _columns(rule)}
        self._readers = [
            (column, Encoder(column).reader) for column in schema.released if column.name in named
        ]
        self._parts: list[Frame] = []
        self._rows = 0

    def add(self, records: pa.RecordBatch) -> Iterator[tuple[Frame, int]]:
        """Add a batch; yield the pieces that are complete, each with its number of rows."""
        if not self._readers:
            return
        self._parts.append(
            {
                column.name: _cells(column, reader.read(records.column(column.name)))
                for column, reader in self._readers
            }
        )
        self._rows += records.num_rows
        while self._rows >= 2 * PIECE_ROWS:
            whole = self._join_parts()
            yield {name: cells[:PIECE_ROWS] for name, cells in whole.items()}, PIECE_ROWS
            self._parts = [{name: cells[PIECE_ROWS:] for name, cells in whole.items()}]
            self._rows -= PIECE_ROWS

    def last(self) -> Iterator[tuple[Frame, int]]:
        """Yield the last piece, if there are rows."""
        if self._rows:
            yield self._join_parts(), self._rows

    def _join_parts(self) -> Frame:
        names = [column.name for column, _ in self._readers]
        return {name: np.concatenate([part[name] for part in self._parts]) for name in names}


def _columns(rule: Rule) -> Iterator[str]:
    for key in ("column", "column_A", "column_B"):
        if key in rule.kwargs:
            yield rule.kwargs[key]
    yield from rule.kwargs.get("column_list", ())


def _cells(column: Column, values: Values) -> NDArray[Any]:
    """Return a column of a frame: texts, numbers or dates; null where there is no value."""
    known = None if values.state is None else values.state == State.VALUE
    if column.levels:
        assert values.texts is not None
        cells = _texts(column, values, values.texts)
    elif column.type.own_texts:
        cells = _objects(column.scale, values.data)
        if known is not None:
            cells[~known] = None
    else:
        cells = decimals(values.data) if column.type.continuous else values.data
        if known is not None and not known.all():
            # Whole numbers beyond 2**53 are rounded here, as pandas rounds them beside a null.
            cells = np.where(known, cells.astype(np.float64), np.nan)
    return cells if values.index is None else cells[values.index]


def _texts(column: Column, values: Values, texts: pa.StringArray) -> NDArray[Any]:
    """Return the text of each entry of `values`; the last entry is for null."""
    assert values.state is not None
    levels = [level.text for level in column.levels]
    found = np.empty(values.data.size, dtype=object)
    for at, state in enumerate(values.state[:-1].tolist()):
        if state == State.VALUE:
            found[at] = levels[int(values.data[at])]
        elif state == State.UNKNOWN:
            found[at] = texts[at].as_py()
    return found


def _objects(scale: ValueType, values: NDArray[np.int64]) -> NDArray[Any]:
    """Return values as Python has them, such as dates."""
    distinct, place = np.unique(values, return_inverse=True)
    objects = np.empty(distinct.size, dtype=object)
    objects[:] = [scale.python(value) for value in distinct.tolist()]
    return objects[place]


def judge_sets(
    schema: Schema, files: Sequence[Path], progress: Callable[[float], None] = lambda _: None
) -> list[list[int]]:
    """Return the numbers of the expectations that each set does not meet.

    Args:
        schema: The schema as written, with the bins and levels that were chosen privately.
        files: The sets, as `dp_core.bundle.files.parquet_file.write_synthetic` writes them.
        progress: Called with the part that is done, 0 to 1; does nothing by default.

    Returns:
        For each set, the numbers of rules of `rules_of(schema, sets=True)`, ascending.
    """
    rules = rules_of(schema, sets=True)
    own = frozenset(number for number, rule in enumerate(rules) if rule.kind == "own")
    every = frozenset(range(len(rules)))
    failed: list[set[int]] = []
    frames = []
    for file in files:
        # One judge of a team's own for each set: their figures are those of one set.
        judge = SuiteJudge(schema.title, rules, only=own)
        one = _Set(schema, rules)
        failed.append(one.read(file, judge))
        frames.append(one.frame())
        columns, length = frames[-1]
        failed[-1] |= judge.judge("profile", columns, length)
        failed[-1] |= judge.judge("table", {}, one.profile.rows)
        progress(len(frames) / (len(files) + 1))
    # The schema's own rules say something of every value, so they hold of all sets together exactly
    # if they hold of each.
    if SuiteJudge(schema.title, rules, only=every - own).judge("profile", *_together(frames)):
        for found, (columns, length) in zip(failed, frames, strict=True):
            alone = SuiteJudge(schema.title, rules, only=every - own)
            found |= alone.judge("profile", columns, length)
    return [sorted(found) for found in failed]


def judge_linked_sets(
    schema: Schema, sets: Sequence[Sequence[Path]], progress: Callable[[float], None]
) -> list[list[int]]:
    """Return the numbers of the expectations that each set of linked tables does not meet.

    Args:
        schema: The schema of linked tables.
        sets: The files of each set: of households, and of persons.
        progress: Called with the part that is done, 0 to 1.

    Returns:
        For each set, the numbers of rules of `rules_of(schema, sets=True)`, ascending.
    """
    homes, persons = schema.household_schema, schema.person_schema
    first = judge_sets(homes, [files[0] for files in sets], lambda done: progress(0.3 * done))
    then = judge_sets(
        persons, [files[1] for files in sets], lambda done: progress(0.3 + 0.7 * done)
    )
    before = len(rules_of(homes, sets=True))
    return [
        [*one, *(before + number for number in other)]
        for one, other in zip(first, then, strict=True)
    ]


class _Set:
    """One set while it is read."""

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
        """Read the set; return the rules about rows that it breaks."""
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
