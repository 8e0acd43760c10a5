"""Checks whether the confidential file fits the schema, before anything is charged.

Great Expectations judges a suite that is generated from the schema. It does not get the rows: one
pass makes a profile of each partition (distinct texts, bounds, counts of problems), and the
profiles of up to `WINDOW` partitions form one small frame. This takes about a tenth of a second for
the whole file; frames of the rows would take seconds and gigabytes.

Only which expectations failed is taken from the library's answer, never its values, exception texts
or fingerprints. This module counts the problems itself; the exact counts go to the internal folder.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.confidential.encoding import Encoded, Encoder, Problem, refused
from dp_core.confidential.person_rows import without, without_identifier
from dp_core.confidential.source import Source
from dp_core.errors import SchemaViolation
from dp_core.schema.definition import Column, Schema
from tasks.inputs.coding import Coding
from tasks.support.processors import threads
from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically
from tasks.validation.suite_judge import load_great_expectations

WINDOW = 64
"""Number of partitions whose profiles are judged together."""
NAMED = 5
"""Number of broken rules that a message names."""
FILE = "validation.json"

UNCODED = Encoded(np.empty(0, np.uint16), None, {})

Broken = tuple[str, Problem]
"""A column, and a problem that its values must not have."""


@dataclass(frozen=True, slots=True)
class ValidationSummary:
    """What was checked. It is public: it only says that the file passed.

    Attributes:
        columns: Number of columns that were checked.
        expectations: Number of expectations, all of which every partition met.
    """

    columns: int
    expectations: int


def validate(
    source: Source,
    schema: Schema,
    internal: Path,
    progress: Callable[[float], None] | None = None,
    codes: Path | None = None,
) -> ValidationSummary:
    """Check every value of the file against the schema, and write its codes in the same pass.

    Args:
        source: The confidential files.
        schema: Schema of the files.
        internal: Internal folder; `validation.json` is written there, also if values fail.
        progress: Called with the part that is done, 0 to 1; None (the default) for no progress.
        codes: Confidential folder of the new code store; None (the default) for no store, and no
            check of the rules between columns, which `write_codes` makes as well.

    Raises:
        SchemaViolation: if a value is not in the schema and no policy settles it, a row has no
            identifier of its person, or rows break a rule between columns. The message names
            columns and rules, no value and no count.
    """
    suite = Suite(schema)
    unit, nobody = schema.unit, 0
    profilers = [Profiler(column) for column in schema.checked]
    names = [column.name for column in schema.checked]
    report = Report(schema)
    pending: list[list[Profile]] = []
    current = -1
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(threads()))
        coding = None if codes is None else stack.enter_context(Coding(schema, codes))
        coded = [coding is not None and name in schema.domain for name in names]
        for batch in source.batches():
            if batch.partition != current:
                if len(pending) == WINDOW:
                    report.add(pending, suite.judge(pending))
                    pending = []
                current = batch.partition
                pending.append([Profile() for _ in profilers])
            found = [batch.records.column(name) for name in names]
            looked = pool.map(_look, profilers, pending[-1], found, coded)
            encoded = {name: its for name, its in zip(names, looked, strict=True)}
            if unit.column is not None:
                whose = batch.records.column(unit.column)
                nobody += without(unit.column, whose, unit.missing_values)
            if coding is not None and not nobody:
                coding.add(batch.records, [encoded[name] for name in schema.domain.columns])
            if progress is not None:
                progress(batch.done)
        report.add(pending, suite.judge(pending))
        report.write(internal)
        if report.broken:
            raise SchemaViolation(message(schema, report.broken), internal=report.text())
        if nobody and unit.column is not None:
            # privacy: the limit of rows per person cannot apply to rows without a person.
            raise SchemaViolation(
                without_identifier(unit.column), internal=f"{nobody} rows without an identifier"
            )
        if coding is not None:
            # Which stage fails is public, so this one reports the rules between columns as well.
            if coding.violation is not None:
                raise coding.violation
            coding.finish()
    pa.default_memory_pool().release_unused()
    return ValidationSummary(len(schema.checked), len(suite.rules))


def _look(profiler: Profiler, profile: Profile, values: pa.Array, coded: bool) -> Encoded:
    """Add values to a profile; return their codes, which are empty if `coded` is false."""
    typed = profiler.add(profile, values)
    return profiler.encoder.place(typed) if coded else UNCODED


class Suite:
    """The Great Expectations suite of a schema, which judges frames of profiles.

    Attributes:
        schema: The schema.
        rules: The rules that the suite checks, one for each expectation.
    """

    def __init__(self, schema: Schema) -> None:
        self._judge = load_great_expectations()
        self.schema = schema
        self._encoders = [Encoder(column) for column in schema.checked]
        self._suite = [
            expectation
            for number, column in enumerate(schema.checked)
            for expectation in self._expectations(number, column)
        ]
        self.rules: tuple[Broken, ...] = tuple(
            (column.name, problem)
            for column in schema.checked
            for problem in Problem
            if problem in refused(column) and _applies(problem, column)
        )

    def judge(self, profiles: Sequence[Sequence[Profile]]) -> set[Broken]:
        """Return the rules that at least one partition breaks.

        Args:
            profiles: One sequence for each partition, with one profile for each checked column.

        Raises:
            RuntimeError: if Great Expectations fails to judge a rule.
        """
        frame = self._frame(profiles)
        results = self._judge.results(frame, self._suite)
        if len(results) != len(self._suite):
            raise RuntimeError("Great Expectations did not judge every rule.")
        failed: set[Broken] = set()
        for result in results:
            # If a metric failed, the flag is missing, and there is a dictionary for each metric.
            if result.exception_info.get("raised_exception", True):
                # privacy: the library's text may hold values of the frame, so it is dropped.
                raise RuntimeError("Great Expectations could not judge a profile.")
            if not result.success:
                meta = result.expectation_config.meta
                failed.add((meta["column"], Problem(meta["problem"])))
        return failed

    def _expectations(self, number: int, column: Column) -> list[Any]:
        expected = []
        for problem in Problem:
            if problem not in refused(column) or not _applies(problem, column):
                continue
            meta = {"column": column.name, "problem": problem.value}
            if problem is Problem.LEVEL:
                texts = [level.text for level in column.levels]
                name = f"{number} value"
                expected.append(self._judge.in_set(column=name, value_set=texts, meta=meta))
            elif problem is Problem.RANGE:
                low, high = self._encoders[number].low, self._encoders[number].high
                expected.append(
                    self._judge.between(
                        column=f"{number} value", min_value=low, max_value=high, meta=meta
                    )
                )
            else:
                expected.append(
                    self._judge.between(column=f"{number} {problem}", max_value=0, meta=meta)
                )
        return expected

    def _frame(self, profiles: Sequence[Sequence[Profile]]) -> Any:
        """Return a frame with the distinct values, bounds and problem counts of all partitions.

        All columns are padded to the same length with a legal value, which does not change the
        verdict.
        """
        import pandas as pd

        columns: dict[str, list[Any]] = {}
        for number, column in enumerate(self.schema.checked):
            mine = [partition[number] for partition in profiles]
            values: list[Any]
            if column.levels:
                values = sorted({text for profile in mine for text in profile.texts})
                legal: Any = column.levels[0].text
            else:
                bounds = [bound for profile in mine for bound in (profile.low, profile.high)]
                values = [bound for bound in bounds if bound is not None]
                legal = self._encoders[number].low
            columns[f"{number} value"] = [*values, legal]
            for problem in (Problem.MISSING, Problem.TYPE):
                columns[f"{number} {problem}"] = [*(p.problems[problem] for p in mine), 0]
        length = max(map(len, columns.values()))
        return pd.DataFrame(
            {
                name: [*cells, *[cells[-1]] * (length - len(cells))]
                for name, cells in columns.items()
            }
        )


class Report:
    """The findings of a validation. Confidential: exact counts go to the internal folder only."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._partitions: list[dict[str, object]] = []
        self._rows: Counter[Broken] = Counter()
        self._strangers: dict[str, set[str]] = {}
        self._failed: set[Broken] = set()

    @property
    def broken(self) -> list[Broken]:
        """Rules that stop the release, in the schema's order, by the suite or by our own counts."""
        stop = self._failed | {rule for rule in self._rows if self._is_refused(rule)}
        order = [column.name for column in self.schema.checked]
        return sorted(stop, key=lambda rule: (order.index(rule[0]), rule[1]))

    def add(self, profiles: Sequence[Sequence[Profile]], failed: set[Broken]) -> None:
        """Add the profiles of some partitions, and the rules that the suite found broken."""
        self._failed |= failed
        for partition in profiles:
            found: Counter[Broken] = Counter()
            for column, profile in zip(self.schema.checked, partition, strict=True):
                found.update({(column.name, p): rows for p, rows in profile.problems.items()})
                if column.levels:
                    levels = {level.text for level in column.levels}
                    self._strangers.setdefault(column.name, set()).update(profile.texts - levels)
            self._rows += found
            rows = partition[0].rows if partition else 0
            self._partitions.append({"rows": rows, "problems": self._listed(found)})

    def text(self) -> str:
        """Return the whole report. Confidential."""
        document = {
            "confidential": INTERNAL_NOTICE,
            "format": 1,
            "passed": not self.broken,
            "problems": self._listed(self._rows),
            "texts_that_are_no_levels": {
                name: sorted(texts) for name, texts in self._strangers.items() if texts
            },
            "partitions": self._partitions,
        }
        return json.dumps(document, indent=1, ensure_ascii=False)

    def write(self, internal: Path) -> None:
        """Write the report to the internal folder, mode 0600."""
        internal.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(internal / FILE, self.text().encode())

    def _is_refused(self, rule: Broken) -> bool:
        return rule[1] in refused(self.schema.column(rule[0]))

    def _listed(self, rows: Mapping[Broken, int]) -> list[dict[str, object]]:
        return [
            {
                "column": rule[0],
                "problem": rule[1].value,
                "rows": count,
                "outcome": "refused" if self._is_refused(rule) else "settled by the schema",
            }
            for rule, count in rows.items()
        ]


def message(schema: Schema, broken: Sequence[Broken]) -> str:
    """Return the message for people: columns, broken rules and what to do; no value, no count."""
    parts = []
    remedies: dict[str, None] = {}
    for name, problem in broken[:NAMED]:
        what, remedy = _said(schema.column(name), problem)
        parts.append(f"column {name!r} {what}")
        remedies[remedy] = None
    if len(broken) > NAMED:
        parts.append(f"{len(broken) - NAMED} more rules are broken")
    text = "; ".join(parts)
    advice = ", or ".join(["correct the file", *remedies])
    return f"{text[0].upper()}{text[1:]}; {advice}."


def _said(column: Column, problem: Problem) -> tuple[str, str]:
    """Return what is wrong and by which rule, and a change of the schema that would settle it."""
    policy = f"(rule out_of_range: {column.out_of_range})"
    to_missing = (
        "set out_of_range to missing"
        if column.missing == "level"
        else "set out_of_range to missing with missing: level"
    )
    if problem is Problem.MISSING:
        return "has missing values (rule missing: reject)", "set missing to level"
    if problem is Problem.LEVEL:
        return (
            f"holds texts that are not among its levels {policy}",
            f"add levels that are publicly known, or {to_missing}",
        )
    if problem is Problem.TYPE:
        dates = f"dates ({column.format or 'YYYY-MM-DD'})"
        kinds = {"integer": "whole numbers", "number": "numbers", "date": dates}
        return f"holds values that are not {kinds[column.kind]} {policy}", to_missing
    clip = "clip or missing" if column.missing == "level" else "clip"
    return f"holds values outside {_bounds(column)} {policy}", f"set out_of_range to {clip}"


def _bounds(column: Column) -> str:
    encoder = Encoder(column)
    low, high = encoder.low, encoder.high
    if column.kind == "date":
        return f"{date.fromordinal(int(low))} to {date.fromordinal(int(high))}"
    if column.kind == "integer":
        return f"{low} to {high}"
    return f"{low:.10g} to {high:.10g}"


def _applies(problem: Problem, column: Column) -> bool:
    """Return whether values of a column can have a problem of this kind."""
    if problem is Problem.MISSING:
        return True
    return (problem is Problem.LEVEL) == bool(column.levels)
