"""Check of `expectations.json`: its suite, and what it says of each set.

What the schema itself expects of single values is recomputed from the sets. A team's own
expectations and rules between columns are compared in form only: Great Expectations judges them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dp_core.bundle.files.codebook import set_paths
from dp_core.bundle.files.expectations_file import EXPECTATIONS, expectations_document
from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.bundle.verification.claims import Claims
from dp_core.kernel.coding.problems import Problem
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import rules_of


def check_expectations(
    folder: Path, listed: Collection[str], claims: Claims
) -> str | tuple[str, ...]:
    """Return that the file agrees with schema and sets, or what does not.

    Args:
        folder: The bundle.
        listed: Files that the statement lists.
        claims: Its claims.
    """
    if EXPECTATIONS not in listed:
        judged = "The sets were not judged by a suite of expectations."
        return judged if claims.sets else "There are no sets to which expectations apply."
    stated = json.loads((folder / EXPECTATIONS).read_bytes().decode("utf-8"))
    schema = claims.schema.coarse or claims.schema
    rules = rules_of(schema, sets=True)
    failed = [list(map(int, one["not_met"])) for one in stated["sets"]]
    if stated != expectations_document(schema, failed) or len(failed) != claims.sets:
        return (f"{EXPECTATIONS} does not agree with the schema in the statement.",)
    wrong = []
    of_values = {at for at, rule in enumerate(rules) if rule.kind == "value"}
    for number, numbers in enumerate(failed, start=1):
        if not set(numbers) <= set(range(len(rules))) or numbers != sorted(set(numbers)):
            wrong.append(f"{EXPECTATIONS} names expectations of set {number} that do not exist.")
            continue
        try:
            problems = _problems_of_set(folder, schema, number)
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
            wrong.append(f"Set {number} cannot be compared with {EXPECTATIONS}.")
            continue
        found = {at for at in of_values if (rules[at].about, rules[at].problem) in problems}
        if found != set(numbers) & of_values:
            wrong.append(f"{EXPECTATIONS} does not say which expectations set {number} meets.")
    if wrong:
        return tuple(wrong)
    own = sum(rule.kind != "value" for rule in rules)
    stated_only = f"; {own} more are as stated" if own else ""
    return (
        f"{len(of_values)} expectations about values, recomputed from the sets, agree with"
        f" {EXPECTATIONS}{stated_only}."
    )


def _problems_of_set(folder: Path, schema: Schema, number: int) -> set[tuple[str, Problem | None]]:
    """Return the problems of the values of a set, of linked tables those of both tables."""
    tables: tuple[Schema, ...] = (schema,)
    if schema.linked is not None:
        tables = (schema.household_schema, schema.person_schema)
    paths = set_paths(schema, number)
    found = [_problems(folder / path, each) for path, each in zip(paths, tables, strict=True)]
    return set().union(*found)


def _problems(path: Path, schema: Schema) -> set[tuple[str, Problem | None]]:
    """Return the problems of the values of a set that its schema does not allow."""
    found: set[tuple[str, Problem | None]] = set()
    for batch in read_parquet(path, [column.name for column in schema.checked]):
        for column in schema.checked:
            values = batch.column(column.name)
            if values.null_count:
                found.add((column.name, Problem.MISSING))
            if column.levels:
                if not _labels(values) <= {level.label for level in column.in_sets.levels}:
                    found.add((column.name, Problem.LEVEL))
            elif not _within(column, values):
                found.add((column.name, Problem.RANGE))
    return found


def _labels(values: pa.Array) -> set[Any]:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary.take(values.indices.drop_null().unique())
    return set(values.drop_null().unique().to_pylist())


def _within(column: Column, values: pa.Array) -> bool:
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return True
    scale = column.scale
    found = scale.values_in(pa.array([ends["min"], ends["max"]], scale.stored))
    low, high = map(float if scale.continuous else int, legal_range(column))
    return bool(low <= found[0] and found[1] <= high)
