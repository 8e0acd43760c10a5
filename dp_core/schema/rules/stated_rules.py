"""The rules of the kernel's document about rows, as they stand there.

    {"impossible": [{"text", "columns", "codes"}], "between": [{"text", "key", "columns", "clauses",
     "units"}], "nested": null, or {"columns", "parents"},
     "members": [{"text", "columns", "codes", "least", "most"}]}

They settle or refuse a row by that row alone. The kernel binds them by the document's hash, and
whoever reads them checks that they are about the columns and codes of the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast

from dp_core.kernel.document import are_codes, wrong_document
from dp_core.schema.rules.column_rules import CONDITIONS

_RULES: Mapping[str, tuple[str, ...]] = {
    "impossible": ("codes",),
    "between": ("key", "clauses", "units"),
    "members": ("codes", "least", "most"),
}


def check_rules(rules: Any, sizes: Mapping[str, int]) -> None:
    """Raise BadInput unless rules are about columns, and about codes that these have.

    Args:
        rules: `rules` of a document.
        sizes: Number of codes of each column.
    """
    try:
        _check_rules(rules, sizes)
    except (TypeError, ValueError, LookupError, AttributeError):  # a value of another type
        raise wrong_document("rules") from None


def _check_rules(rules: Any, sizes: Mapping[str, int]) -> None:
    _need({*rules} == {*_RULES, "nested"}, "rules")
    for kind, keys in _RULES.items():
        for rule in rules[kind]:
            where = f"rules.{kind}"
            _need({*rule} == {"text", "columns", *keys}, where)
            _need({*rule["columns"]} <= {*sizes}, where)
            if kind == "between":
                _check_clauses(rule, sizes)
            else:
                _check_codes(where, rule["columns"], rule["codes"], sizes)
    if (nested := rules["nested"]) is not None:
        _need({*nested} == {"columns", "parents"}, "rules.nested")
        names, parents = nested["columns"], nested["parents"]
        _check_codes("rules.nested", names[:-1], parents, sizes)
        _need([*map(len, parents)] == [sizes[name] for name in names[1:]], "rules.nested")


def _check_clauses(rule: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raise unless a rule between columns has conditions of known kinds."""
    where = "rules.between"
    for condition in (each for clause in rule["clauses"] for each in clause):
        own = (each.name for each in fields(cast(Any, CONDITIONS[condition["kind"]])))
        _need({*condition} == {"kind", *own}, where)
        terms = condition.get("terms") or [[condition["column"], 1]]
        _need(all(name in sizes and type(factor) is int for name, factor in terms), where)
        if condition["kind"] == "among":
            _check_codes(where, [condition["column"]], [condition["codes"]], sizes)
    for units in rule["units"]:
        _need({*units} == {"column", "decimals", "edges"} and units["column"] in sizes, where)
        _need(type(units["decimals"]) is int, where)
        edges = [Fraction(edge) for edge in units["edges"]]
        _need(edges == sorted(edges), where)


def _check_codes(
    where: str, names: Sequence[str], codes: Sequence[Any], sizes: Mapping[str, int]
) -> None:
    """Raise unless there are codes of each of some columns."""
    pairs = zip(names, codes, strict=True)
    _need(all(are_codes(own, sizes[name]) for name, own in pairs), where)


def _need(right: bool, key: str) -> None:
    if not right:
        raise wrong_document(key)
