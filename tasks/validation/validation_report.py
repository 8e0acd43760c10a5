"""What a validation found: a report for staff, and a message that names no value and no count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from dp_core.confidential.column_profiles import Profile
from dp_core.kernel.coding.problems import Problem
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule
from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically

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
        self._partitions.append({"rows": rows, "problems": self._listed(found)})

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
            "problems": self._listed(self._rows),
            "rules": [{"about": about, "rows": rows} for about, rows in between.items() if rows],
            "texts_that_are_no_levels": {
                name: sorted(texts) for name, texts in self._strangers.items() if texts
            },
            "partitions": self._partitions,
        }
        return json.dumps(document, indent=1, ensure_ascii=False)

    def _listed(self, rows: Mapping[Broken, int]) -> list[dict[str, object]]:
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
        what, remedy = _said(column, problem)
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
