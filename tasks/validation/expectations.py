"""Checks whether the confidential file fits the schema, before anything is charged.

Great Expectations judges, by a suite that follows from the schema
(`dp_core.schema.expectations.suite`). One pass makes a profile of the file: distinct texts, bounds,
and counts of problems. The schema's own rules are judged on this small frame; frames of all rows
would take seconds and gigabytes. Only a team's own expectations about rows see rows.

The library's verdict alone decides. This module also counts the problems, to tell staff in the
internal folder how many rows have them. If a file passed although a row has no code, its codes
would stay incomplete, and the stage `discretize` would refuse it. So no row gets a wrong code.

Of linked tables, each is judged by the schema of that table alone. Then the keys and links are
checked, and the rules over columns of both tables (`dp_core.confidential.linked.linked_rows`). A
team's own expectations are tried on a row of public legal values before the data are opened, so
that a mistake in the schema is no attempt to use them.
"""

from __future__ import annotations

import datetime
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_core.confidential.coding import Coding, between_message, write_codes
from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.person_rows import identifying, without_identifier
from dp_core.confidential.source import Source
from dp_core.errors import BadInput, SchemaViolation
from dp_core.kernel.codes import code_type
from dp_core.kernel.coding.encoder import Encoded
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.kernel.counting.processors import threads
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule, rules_of, suite_document
from dp_core.schema.rules.file_rules import FileRules, file_rules
from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically
from tasks.validation.judged_frames import FileProfile, RowPieces, legal_value
from tasks.validation.suite_judge import SuiteJudge

SUITE, RESULTS = "expectations/suite.json", "expectations/results.json"
"""Files of the internal folder: the suite, and what Great Expectations found."""
TABLES = "tables"
"""Folder of the internal folder with the files of each linked table, in a folder of its name."""

_JUDGED = 0.7
"""Part of the work, roughly, after the values of both tables are judged."""

UNCODED = Encoded(np.empty(0, code_type()), None, {})


@dataclass(frozen=True, slots=True)
class ValidationSummary:
    """What was checked. It is public: it only says that the file passed.

    Attributes:
        columns: Number of columns that were checked.
        expectations: Number of expectations, all of which the file met.
    """

    columns: int
    expectations: int


def validate(
    source: Source,
    schema: Schema,
    internal: Path,
    progress: Callable[[float], None] | None = None,
    codes: Path | None = None,
    coded_by: FileRules | None = None,
) -> ValidationSummary:
    """Check every value of the file against the schema, and write its codes in the same pass.

    Args:
        source: The confidential files.
        schema: Schema of the files.
        internal: Internal folder. `validation.json` and, in `expectations`, the suite and the
            library's results are written there, also if the file does not pass.
        progress: Called with the part that is done, 0 to 1; None (the default) for no progress.
        codes: Confidential folder of the new code store; None (the default) for no store, and no
            check of the rules between columns, which `write_codes` makes as well.
        coded_by: Rules by which the file is coded, and rows without an identifier are found; None
            (the default) for those of the schema.

    Raises:
        SchemaViolation: if Great Expectations finds an expectation of the schema broken. The
            message names columns and rules, no value and no count.
    """
    rules = rules_of(schema)
    judge = SuiteJudge(schema.title, rules)
    by = coded_by or file_rules(schema)
    unit, nobody = by.unit, 0
    profile, pieces = FileProfile(schema, rules, by), RowPieces(schema, rules)
    report = Report(schema)
    names = [profiler.column.name for profiler in profile.profilers]
    failed: set[int] = set()
    partition: list[Profile] = []
    current = -1
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(threads()))
        coding = None if codes is None else stack.enter_context(Coding(by, codes))
        notes = None if coding is None else coding.notes
        coded = [coding is not None and name in by.domain for name in names]
        for batch in source.batches(notes):
            if batch.partition != current:
                _add(partition, profile, report)
                current, partition = batch.partition, profile.begin()
            found = [batch.records.column(name) for name in names]
            looked = pool.map(_look, profile.profilers, partition, found, coded)
            encoded = {name: its for name, its in zip(names, looked, strict=True)}
            if unit.column is not None:
                noted = notes or UnitNotes(unit, (), None, identifying(unit.column))
                nobody += noted.of(batch.records)[0].without
            if coding is not None and not nobody:
                coding.add(batch.records, [encoded[name] for name in by.domain.columns])
            for piece, rows in pieces.add(batch.records):
                failed |= judge.judge("rows", piece, rows)
            if progress is not None:
                progress(batch.done)
        _add(partition, profile, report)
        for piece, rows in pieces.last():
            failed |= judge.judge("rows", piece, rows)
        between = _between(rules, coding, nobody)
        frame, length = profile.frame(between)
        failed |= judge.judge("profile", frame, length)
        failed |= judge.judge("table", {}, profile.rows)
        broken = [rules[number] for number in sorted(failed)]
        text = report.text(broken, between)
        write_internal(internal, FILE, text)
        _write_results(internal, schema, judge)
        if not judge.success:
            raise SchemaViolation(_message(schema, broken), internal=text)
        # privacy: rows without a code never count: an incomplete store is not finished, and
        # `write_codes` then refuses the file.
        if coding is not None and not nobody and coding.violation is None:
            coding.finish()
    pa.default_memory_pool().release_unused()
    return ValidationSummary(len(schema.checked), len(rules))


def validate_linked(
    source: LinkedSource,
    schema: Schema,
    internal: Path,
    progress: Callable[[float], None],
    codes: Path,
    coded_by: FileRules | None = None,
) -> None:
    """Check both tables, their keys and their links, and write the codes of the pair rows.

    Args:
        source: The confidential tables.
        schema: Schema of linked tables.
        internal: Internal folder; what `validate` writes is in `tables/NAME` of each table.
        progress: Called with the part that is done, 0 to 1.
        codes: Confidential folder of the new code store.
        coded_by: Rules by which both tables are coded; None (the default) for those of the schema.

    Raises:
        SchemaViolation: if values are not in the schema, rows break a rule, or keys, links or sizes
            are not as the schema says. The message names tables, columns and rules, no value and no
            count.
    """
    linked = schema.linked
    assert linked is not None
    faults: list[SchemaViolation] = []

    def judge(name: str, each: Source, flat: Schema, start: float, end: float) -> None:
        # The rules over this table's columns are judged on its codes, which nothing else needs.
        alone = codes.with_name(f"{codes.name}-{name}")
        try:
            validate(
                each,
                replace(flat, title=f"{schema.title}, {name}"),
                internal / TABLES / name,
                lambda done: progress(start + (end - start) * done),
                alone if flat.rules or flat.zeros.rules or flat.nestings else None,
            )
        except SchemaViolation as error:
            faults.append(error)
        finally:
            shutil.rmtree(alone, ignore_errors=True)

    judge(linked.households, source.households, schema.household_schema, 0.0, 0.3 * _JUDGED)
    judge(linked.persons, source.persons, schema.person_schema, 0.3 * _JUDGED, _JUDGED)
    if faults:
        raise SchemaViolation(
            " ".join(error.message for error in faults),
            internal="\n".join(error.internal or "" for error in faults),
        )
    write_codes(
        source, coded_by or schema, codes, lambda done: progress(_JUDGED + (1 - _JUDGED) * done)
    )


def _look(profiler: Profiler, profile: Profile, values: pa.Array, coded: bool) -> Encoded:
    """Add values to a profile; return their codes, which are empty if `coded` is false."""
    typed = profiler.add(profile, values)
    return profiler.encoder.place(typed) if coded else UNCODED


def _add(partition: Sequence[Profile], profile: FileProfile, report: Report) -> None:
    """Add the profiles of a partition that is complete; nothing before the first one."""
    if partition:
        profile.add(partition)
        report.add(partition)


def _between(rules: Sequence[Rule], coding: Coding | None, nobody: int) -> dict[str, int | None]:
    """Return the rows that break each rule between columns; None where they were not counted."""
    counts: Mapping[str, int] | None = None if coding is None else coding.between
    found: dict[str, int | None] = {}
    for rule in rules:
        if rule.kind == "identifier":
            found[rule.about] = nobody
        elif rule.kind in ("dependency", "impossible", "rule"):
            found[rule.about] = None if counts is None else counts.get(rule.about, 0)
    return found


def _message(schema: Schema, broken: Sequence[Rule]) -> str:
    """Return the message about the broken rules, those about single values first."""
    values = [(rule.about, rule.problem) for rule in broken if rule.problem is not None]
    own = [rule for rule in broken if rule.kind == "own"]
    parts = []
    if values:
        parts.append(values_message(schema, values))
    elif any(rule.kind == "identifier" for rule in broken):
        parts.append(without_identifier(str(schema.unit.column)))
    elif len(own) < len(broken):
        disobeyed = [rule.about for rule in broken if rule.kind == "dependency"]
        impossible = [rule.about for rule in broken if rule.kind in ("impossible", "rule")]
        parts.append(between_message(schema, disobeyed, impossible))
    if own:
        parts.append(own_message(own))
    return " ".join(parts) or "The file does not meet the expectations of its schema; correct it."


def _write_results(internal: Path, schema: Schema, judge: SuiteJudge) -> None:
    """Write the suite and the library's results to the internal folder."""
    document = {
        "confidential": INTERNAL_NOTICE,
        "format": 1,
        "success": judge.success,
        "results": judge.results,
    }
    (internal / SUITE).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    suite = json.dumps(suite_document(schema), indent=1, ensure_ascii=False)
    write_internal(internal, SUITE, suite)
    write_internal(internal, RESULTS, json.dumps(document, ensure_ascii=False, default=str))


def try_expectations(schema: Schema) -> None:
    """Let the library judge a row of legal values by a team's own expectations. Public.

    Whether the row meets them does not matter. Without own expectations nothing is imported.

    Args:
        schema: The schema whose file will be validated.

    Raises:
        BadInput: if the library cannot build or judge one of them; it names the expectation.
    """
    rules = rules_of(schema)
    own = [number for number, rule in enumerate(rules) if rule.kind == "own"]
    if not own or _judge_trial(schema, rules, own) is None:
        return
    for number in own:
        error = _judge_trial(schema, rules, [number])
        if error is not None:
            about = rules[number]
            raise BadInput(
                f"{schema.title}: Great Expectations cannot judge {about.about} with the arguments"
                f" {dict(about.kwargs)!r} ({type(error).__name__}); correct or remove it under"
                " `expectations` of the schema. The data were not opened."
            )
    raise BadInput(
        f"{schema.title}: Great Expectations cannot judge the schema's `expectations` together;"
        " remove some of them. The data were not opened."
    )


def _judge_trial(schema: Schema, rules: tuple[Rule, ...], only: list[int]) -> Exception | None:
    """Return the library's error, if it cannot judge these rules."""
    row = {column.name: _trial_cells(column) for column in schema.released}
    try:
        judge = SuiteJudge(schema.title, rules, only=only)
        judge.judge("rows", row, 1)
        judge.judge("profile", *FileProfile(schema, rules).frame({}))
        judge.judge("table", {}, 1)
    except Exception as error:  # the library raises what its parts raise
        return error
    return None


def _trial_cells(column: Column) -> np.ndarray[Any, Any]:
    value = legal_value(column)
    plain = isinstance(value, (str, datetime.date))
    return np.array([value], dtype=object if plain else None)


NAMED = 5
"""Number of broken rules that a message names."""
FILE = "validation.json"

Broken = tuple[str, Problem]
"""A column, and a problem that its values must not have."""


class Report:
    """The counts of a validation. Confidential: they go to the internal folder only.

    They say how many rows have a problem. Whether the file passed is Great Expectations' verdict.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._partitions: list[dict[str, object]] = []
        self._rows: Counter[Broken] = Counter()
        self._strangers: dict[str, set[str]] = {}

    def add(self, partition: Sequence[Profile]) -> None:
        """Add the profiles of a partition, one for each profiled column of the schema."""
        found: Counter[Broken] = Counter()
        for column, profile in zip(self.schema.profiled, partition, strict=True):
            found.update({(column.name, p): rows for p, rows in profile.problems.items()})
            if column.levels:
                levels = {level.text for level in column.levels}
                self._strangers.setdefault(column.name, set()).update(profile.texts - levels)
        self._rows += found
        rows = partition[0].rows if partition else 0
        self._partitions.append({"rows": rows, "problems": self._listing(found)})

    def text(self, broken: Sequence[Rule], between: Mapping[str, int | None]) -> str:
        """Return the whole report. Confidential.

        Args:
            broken: The rules that Great Expectations found broken.
            between: Rows that break each rule between columns, by what it is about.
        """
        document = {
            "confidential": INTERNAL_NOTICE,
            "format": 2,
            "passed": not broken,
            "broken": [
                {"says": rule.kind, "about": rule.about, **_detail(rule)} for rule in broken
            ],
            "problems": self._listing(self._rows),
            "rules": [{"about": about, "rows": rows} for about, rows in between.items() if rows],
            "texts_that_are_no_levels": {
                name: sorted(texts) for name, texts in self._strangers.items() if texts
            },
            "partitions": self._partitions,
        }
        return json.dumps(document, indent=1, ensure_ascii=False)

    def _listing(self, rows: Mapping[Broken, int]) -> list[dict[str, object]]:
        return [
            {
                "column": name,
                "problem": problem.value,
                "rows": count,
                "outcome": "refused"
                if problem in self.schema.column(name).refuses
                else "settled by the schema",
            }
            for (name, problem), count in rows.items()
        ]


def write_internal(folder: Path, name: str, text: str) -> None:
    """Write a file to the internal folder, mode 0600."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(folder / name, text.encode())


def values_message(schema: Schema, broken: Sequence[Broken]) -> str:
    """Return the message about values: columns, broken rules and what to do; no value, no count."""
    parts = []
    remedies: dict[str, None] = {}
    for name, problem in broken[:NAMED]:
        column = schema.column(name)
        what, remedy = _sentence(column, problem)
        parts.append(f"column {name!r} {what}")
        if not column.role or problem is Problem.RANGE:  # a weight or stratum cannot be missing
            remedies[remedy] = None
    if len(broken) > NAMED:
        parts.append(f"{len(broken) - NAMED} more rules are broken")
    text = "; ".join(parts)
    advice = ", or ".join(["correct the file", *remedies])
    return f"{text[0].upper()}{text[1:]}; {advice}."


def own_message(broken: Sequence[Rule]) -> str:
    """Return the message about a team's own expectations."""
    named = "; ".join(_own(rule) for rule in broken[:NAMED])
    more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
    return (
        f"The file does not meet the schema's expectations: {named}{more}; correct the file, or"
        " change these expectations."
    )


def _detail(rule: Rule) -> dict[str, object]:
    if rule.problem is not None:
        return {"problem": rule.problem.value}
    return {"arguments": dict(rule.kwargs)} if rule.kind == "own" else {}


def _own(rule: Rule) -> str:
    columns = [rule.kwargs[key] for key in ("column", "column_A", "column_B") if key in rule.kwargs]
    columns += rule.kwargs.get("column_list", ())
    return f"{rule.type} of {', '.join(map(repr, columns))}" if columns else rule.type


def _sentence(column: Column, problem: Problem) -> tuple[str, str]:
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
        form = f" ({column.format or column.scale.form})" if column.type.own_texts else ""
        level = "" if column.missing == "level" else " with missing: level"
        return (
            f"holds values that are not {column.scale.values}{form}",
            f"list texts that mean missing under missing_values{level}",
        )
    clip = "clip or missing" if column.missing == "level" else "clip"
    return f"holds values outside {_bounds(column)} {policy}", f"set out_of_range to {clip}"


def _bounds(column: Column) -> str:
    return " to ".join(column.scale.text(end) for end in legal_range(column))
