"""Small schemas with random rules, and a judge of the rules in plain Python."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema

SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
EDGES = {"a": [0, 2, 3, 6], "b": [0, 1, 4, 5], "c": [0, 3, 4, 7]}
LEVELS = ("x", "y", "z")
COLUMNS = {
    **{
        name: {
            "type": "integer",
            "min": 0,
            "max": edges[-1] - 1,
            "edges": edges,
            "missing": missing,
        }
        for (name, edges), missing in zip(EDGES.items(), ("reject", "level", "level"), strict=True)
    },
    "d": {"type": "category", "levels": list(LEVELS), "missing": "level"},
}
Row = Mapping[str, Any]
Judge = Callable[[Row], bool]


@dataclass(frozen=True)
class Stated:
    """A rule as text, and whether a row obeys it."""

    text: str
    obeyed: Judge
    columns: tuple[str, ...] = ()


def schema_of(*rules: str, **columns: Any) -> Schema:
    """Return a schema of the columns with some rules."""
    return parse_schema(
        {"version": 1, "title": "small", "columns": {**COLUMNS, **columns}, "rules": list(rules)}
    )


def values() -> list[dict[str, Any]]:
    """Return every row that the columns allow; None is missing."""
    each = {
        "a": [*range(EDGES["a"][-1])],
        "b": [*range(EDGES["b"][-1]), None],
        "c": [*range(EDGES["c"][-1]), None],
        "d": [*LEVELS, None],
    }
    return [dict(zip(each, row, strict=True)) for row in itertools.product(*each.values())]


def codes_of_row(row: Row) -> tuple[int, ...]:
    """Return the codes of a row."""
    found = []
    for name, edges in EDGES.items():
        value = row[name]
        found.append(
            len(edges) - 1 if value is None else np.searchsorted(edges, value, "right") - 1
        )
    return (*map(int, found), 3 if row["d"] is None else LEVELS.index(row["d"]))


def _compared(sign: str, names: list[str], value: Callable[[Row], int]) -> Judge:
    """Return a comparison that a missing value neither meets nor breaks: it obeys."""
    return lambda row: any(row[name] is None for name in names) or SIGNS[sign](value(row), 0)


@st.composite
def comparisons(draw: st.DrawFn) -> Stated:
    """Draw a comparison of one, two or three columns and a constant."""
    sign = draw(st.sampled_from([*SIGNS]))
    names = draw(st.permutations([*EDGES]))[: draw(st.integers(1, 3))]
    shift = draw(st.integers(-3, 3))
    factors = [1, *draw(st.lists(st.sampled_from([1, -1]), min_size=2, max_size=2))]
    left = names[0]
    for name, factor in zip(names[1:], factors[1:], strict=False):
        left += f" {'+' if factor > 0 else '-'} {name}"

    def value(row: Row) -> int:
        return sum(f * row[name] for name, f in zip(names, factors, strict=False)) - shift

    # The constant is on the other side, or the last column is.
    if len(names) > 1 and draw(st.booleans()):
        last, factor = names[-1], factors[len(names) - 1]
        left = left.rsplit(" ", 2)[0]
        right = f"{shift} {'-' if factor > 0 else '+'} {last}"
    else:
        right = f"{shift}"
    return Stated(
        f"{left} {sign} {right}".replace("+ -", "- "), _compared(sign, names, value), tuple(names)
    )


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Judge, Judge]:
    """Draw a condition: its text, whether a row meets it, and whether a row breaks it."""
    kind = draw(st.sampled_from(["missing", "level", "levels", "number", "numbers", "sum"]))
    if kind == "sum":
        said = draw(comparisons())
        return said.text, *_both(
            said.obeyed, lambda row: all(row[name] is not None for name in said.columns)
        )
    if kind == "missing":
        name, missing = draw(st.sampled_from("bcd")), draw(st.booleans())
        text = f"{name} is {'' if missing else 'not '}missing"
        return text, *_both(lambda row: (row[name] is None) == missing, lambda _row: True)
    if kind in ("level", "levels"):
        some = draw(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=2, unique=True))
        inside = draw(st.booleans())
        if kind == "level":
            some = some[:1]
            text = f"d {'==' if inside else '!='} {some[0]}"
        else:
            text = f"d {'' if inside else 'not '}in [{', '.join(some)}]"
        return text, *_both(lambda row: (row["d"] in some) == inside, lambda r: r["d"] is not None)
    name = draw(st.sampled_from([*EDGES]))
    top = EDGES[name][-1] - 1
    if kind == "numbers":
        some = draw(st.lists(st.integers(0, top), min_size=1, max_size=2, unique=True))
        text = f"{name} in [{', '.join(map(str, some))}]"
        return text, *_both(lambda row: row[name] in some, lambda row: row[name] is not None)
    sign, limit = draw(st.sampled_from([*SIGNS])), draw(st.integers(0, top))
    return (
        f"{name} {sign} {limit}",
        *_both(lambda row: SIGNS[sign](row[name], limit), lambda row: row[name] is not None),
    )


def _both(true: Judge, known: Judge) -> tuple[Judge, Judge]:
    return lambda row: known(row) and true(row), lambda row: known(row) and not true(row)


@st.composite
def implications(draw: st.DrawFn) -> Stated:
    """Draw an implication between conditions, or from conditions to a comparison."""
    when = draw(st.lists(conditions(), min_size=1, max_size=2))
    text = "if " + " and ".join(each[0] for each in when)
    if draw(st.booleans()):
        then = draw(comparisons())
        return Stated(
            f"{text} then {then.text}",
            lambda row: not all(met(row) for _, met, _ in when) or then.obeyed(row),
        )
    said = draw(st.lists(conditions(), min_size=1, max_size=2))
    return Stated(
        f"{text} then " + " and ".join(each[0] for each in said),
        lambda row: not all(met(row) for _, met, _ in when) or not any(b(row) for *_, b in said),
    )


RULES = st.one_of(comparisons(), implications())
