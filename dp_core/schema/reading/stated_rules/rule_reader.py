"""Rules of `impossible`: from what a person writes to boxes of codes.

A rule maps columns to conditions; a row that meets all of them cannot occur. A condition is

- of a category or ordinal: a level, by the file's text or else by its label;
- of an integer, number or date: `"<15"`, `"<=14"`, `">=18"`, `">17"`, `"15..17"`, or one value,
  where every threshold is a bin edge (a bin is impossible as a whole or not at all);
- `missing`: the missing level (`(missing)` if a level is itself called `missing`);
- `{not: condition}`: every other value; it never includes the missing level;
- a list of conditions: any of them.

A rule may name a dependent column like any other; its box of codes is then one of the source.

A rule that names a column whose bins or levels are chosen privately is no box of codes before the
choice. It becomes a rule between columns (`dp_core.schema.rules`), which is judged by values; its
thresholds need not be bin edges, and of private levels it can name the missing level only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fractions import Fraction

from dp_core.errors import nearest
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.reading.level_reader import (
    MISSING_WORDS,
    LevelNames,
    check_public,
    level_names,
    missing_code,
    read_level,
)
from dp_core.schema.reading.nested_reader import check_rule
from dp_core.schema.reading.stated_rules.column_rule_reader import rule_text
from dp_core.schema.reading.stated_rules.rule_conditions import (
    Alternatives,
    Stated,
    compared,
    joined,
    of_codes,
    rule_of,
    units_of,
)
from dp_core.schema.rules.column_rules import ColumnRule, Missing
from dp_core.tables.structural_zeros import Rule, StructuralZeros
from dp_core.text.documents.faults import Faults, names_any
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

EXAMPLE = '- {age: "<15", marital: [married, widowed]}'
_COMPARISON = re.compile(r"(<=|>=|<|>)\s*(.+)", re.DOTALL)
_INTERVAL = re.compile(r"(.+?)\s*\.\.\s*(.+)", re.DOTALL)


def read_rules(
    node: Node, schema: Schema, faults: Faults, without: Collection[str] = ()
) -> tuple[StructuralZeros, tuple[ColumnRule, ...]]:
    """Return the structural zeros of a schema, and the rules about private bins and levels.

    Args:
        node: List of rules.
        schema: The schema, with all columns that could be read.
        faults: Notes the fault of each rule: an unknown column or level, a threshold inside a bin,
            a condition that no value meets, and rules that leave a column without any possible
            value.
        without: Columns that could not be read; rules that name them are skipped. None by default.

    Raises:
        BadInput: if it is not a list.
    """
    known = {column.name: column for column in schema.released}
    rules: list[Rule] = []
    between: list[ColumnRule] = []
    dead: dict[str, set[int]] = {}

    def add(item: Node) -> None:
        if _names_private(item, schema, known, EXAMPLE):
            of_values = _by_values(item, schema, known, EXAMPLE)
            check_rule(schema, of_values.text, of_values.columns, item)
            between.append(of_values)
            return
        rule = _read_rule(item, schema, known, EXAMPLE)
        check_rule(schema, rule.text, rule.columns, item)
        rules.append(rule)
        # A condition that every value meets has no effect; a rule for one column bans its codes.
        narrow = [
            (name, codes)
            for name, codes in zip(rule.columns, rule.codes, strict=True)
            if len(codes) < known[name].size
        ]
        if not narrow:
            raise item.error("makes every row impossible; restrict one of its conditions.")
        if len(narrow) == 1:
            name, codes = narrow[0]
            dead.setdefault(name, set()).update(codes)
            if len(dead[name]) == known[name].size:
                raise item.error(
                    f"leaves column {name!r} without any possible value, together with the rules"
                    " before it; remove one of them."
                )

    for item in node.items(example=EXAMPLE):
        if not names_any(item, without):
            faults.of(None, add, item)
    return StructuralZeros(tuple(rules)), tuple(between)


def place_of(rule: ColumnRule, node: Node) -> Node:
    """Return the item that states a rule.

    Args:
        rule: The rule.
        node: The list of rules from which it was read, under the rule's key.
    """
    texts = (
        rule_text(item)
        if rule.key == "rules"
        else _rule_text(item.ordered_entries(example=EXAMPLE))
        for item in node.items()
    )
    return next(item for item, text in zip(node.items(), texts, strict=True) if text == rule.text)


def _names_private(node: Node, schema: Schema, known: Mapping[str, Column], example: str) -> bool:
    names = [name for name in node.ordered_entries(example=example) if name in known]
    return any(
        each.choice is not None
        for name in names
        for each in (known[name], schema.column(origin(schema, name)[0]))
    )


def _by_values(node: Node, schema: Schema, known: Mapping[str, Column], example: str) -> ColumnRule:
    """Return a rule that names a column with private bins or levels as a rule about values."""
    entries = node.ordered_entries(example=example)
    stated: list[Stated] = []
    for name, condition in entries.items():
        if name not in known:
            raise node.error(
                f"there is no column {shown(name)} in the schema.{nearest(name, known)}"
            )
        source, becomes = origin(schema, name)
        if known[name].choice is not None:
            met = _met(condition, known[name])
        else:
            check_public(node, schema.column(source), "no rule can name columns that follow them")
            wanted = _codes(condition, known[name])
            codes = {code for code, own in enumerate(becomes.tolist()) if own in wanted}
            met = of_codes(schema.column(source), codes)
        if not met:
            raise condition.error(
                f"no value of column {name!r} meets {_text(condition)}; correct or remove it."
            )
        of = schema.column(source)
        stated.append(Stated(met, (), (source,), () if of.levels else (units_of(of),)))
    clauses = joined(node, [each.met for each in stated])
    return rule_of(node, schema, _rule_text(entries), clauses, stated, key="impossible")


def _met(node: Node, column: Column) -> Alternatives:
    """Return when a condition on a column with private bins or levels is met."""
    if isinstance(node.content, tuple):
        if not node.content:
            raise node.error("the list is empty; give at least one value.")
        return tuple(clause for item in node.content for clause in _met(item, column))
    if isinstance(node.content, Mapping):
        inner = node.fields(("not",), required=("not",), example="{not: [a, b]}")["not"]
        items = inner.content if isinstance(inner.content, tuple) else (inner,)
        present: Alternatives = ((Missing(column.name, False),),)
        return tuple(joined(node, [present, *(_not_met(item, column) for item in items)]))
    text = node.text(example='"<15"')
    if text in MISSING_WORDS:
        missing_code(node, column)
        return ((Missing(column.name, True),),)
    return _within(node, text, column)[0]


def _not_met(node: Node, column: Column) -> Alternatives:
    """Return when a value that is not missing does not meet a condition."""
    if isinstance(node.content, Mapping):
        raise node.error("is a `not` within a `not`; write the condition itself.")
    text = node.text(example='"<15"')
    if text in MISSING_WORDS:
        missing_code(node, column)
        return ((),)
    return _within(node, text, column)[1]


def _within(node: Node, text: str, column: Column) -> tuple[Alternatives, Alternatives]:
    """Return when a value is in the range that a text states, and when it is not."""
    if column.levels:
        check_public(node, column, "no rule can name them")
    scale = column.scale
    if column.type.continuous and column.decimals is None:
        raise node.error(
            f"names values of {column.name!r}, whose bins are chosen privately; state its"
            " `decimals`, so that the comparison is exact."
        )
    text = text.strip().replace("≤", "<=").replace("≥", ">=")

    def against(sign: str, value: Fraction) -> tuple[Alternatives, Alternatives]:
        said = compared(node, text, (column,), ((column.name, 1),), sign, value)
        return said.met, said.broken

    if match := _COMPARISON.fullmatch(text):
        return against(match[1], _value(node, match[2], scale))
    if match := _INTERVAL.fullmatch(text):
        low, high = _value(node, match[1], scale), _value(node, match[2], scale)
        if high < low:
            raise node.error(f"{shown(text)} is reversed; write the smaller value first.")
        # A range of numbers contains its lower end and not its upper one.
        from_low, to_high = against(">=", low), against("<" if scale.continuous else "<=", high)
        return tuple(joined(node, [from_low[0], to_high[0]])), (*from_low[1], *to_high[1])
    return against("==", _value(node, text, scale))


def _read_rule(node: Node, schema: Schema, known: Mapping[str, Column], example: str) -> Rule:
    entries = node.ordered_entries(example=example)
    if not entries:
        raise node.error("is empty; give at least one column with its impossible values.")
    boxes: dict[str, tuple[int, ...]] = {}
    for name, condition in entries.items():
        if name not in known:
            raise node.error(
                f"there is no column {shown(name)} in the schema.{nearest(name, known)}"
            )
        check_public(node, known[name], "no rule can name them")
        met = _codes(condition, known[name])
        if not met:
            raise condition.error(
                f"no value of column {name!r} meets {_text(condition)}; correct or remove it."
            )
        source, becomes = origin(schema, name)
        met = {code for code, own in enumerate(becomes.tolist()) if own in met}
        if not met:
            raise condition.error(
                f"no value of column {source!r} gives {name!r} the value {_text(condition)}; remove"
                " the condition."
            )
        if source in boxes:
            met &= set(boxes[source])
            if not met:
                raise condition.error(
                    f"no value of {source!r} meets the conditions on it and on the columns that"
                    " follow it; remove the rule."
                )
        boxes[source] = tuple(sorted(met))
    return Rule(tuple(boxes), tuple(boxes.values()), _rule_text(entries))


def _rule_text(entries: Mapping[str, Node]) -> str:
    return ", ".join(f"{name}: {_text(condition)}" for name, condition in entries.items())


def _codes(node: Node, column: Column, names: LevelNames | None = None) -> set[int]:
    """Return the codes that meet a condition; `names` are the level names, if known already."""
    if column.levels and names is None:
        names = level_names(column)
    if isinstance(node.content, tuple):
        if not node.content:
            raise node.error("the list is empty; give at least one value.")
        return set().union(*(_codes(item, column, names) for item in node.content))
    if isinstance(node.content, Mapping):
        inner = node.fields(("not",), required=("not",), example="{not: [a, b]}")["not"]
        return set(range(column.bins)) - _codes(inner, column, names)
    text = node.text(example="a level" if column.levels else '"<15"')
    if names is not None:
        return {read_level(node, text, column, names)}
    if text in MISSING_WORDS:
        return {missing_code(node, column)}
    return _binned(node, text, column)


def _binned(node: Node, text: str, column: Column) -> set[int]:
    scale = column.scale
    text = text.strip().replace("≤", "<=").replace("≥", ">=")
    step = scale.step
    if match := _COMPARISON.fullmatch(text):
        sign, threshold = match[1], _value(node, match[2], scale)
        if scale.continuous and sign in ("<=", ">"):
            other = {"<=": "<", ">": ">="}[sign]
            raise node.error(
                f"a bin of a number contains its lower edge and not its upper one;"
                f" write {other}{match[2]} instead of {sign}{match[2]}."
            )
        cut = _edge(node, threshold + (step if sign in ("<=", ">") else 0), column)
        return set(range(cut)) if sign in ("<", "<=") else set(range(cut, column.bins))
    if match := _INTERVAL.fullmatch(text):
        low, high = _value(node, match[1], scale), _value(node, match[2], scale)
        if high < low:
            raise node.error(f"{shown(text)} is reversed; write the smaller value first.")
    else:
        low = high = _value(node, text, scale)
        if scale.continuous:
            raise node.error(
                f"{shown(text)} is a single number, but a bin is a range;"
                ' write one such as "15..17" whose ends are bin edges.'
            )
    return set(range(_edge(node, low, column), _edge(node, high + step, column)))


def _value(node: Node, text: str, scale: ValueType) -> Fraction:
    return scale.read(Node(text, node.source, node.line, node.key))


def _edge(node: Node, cut: Fraction, column: Column) -> int:
    if cut in column.edges:
        return column.edges.index(cut)
    scale = column.scale
    below = [edge for edge in column.edges if edge < cut]
    above = [edge for edge in column.edges if edge > cut]
    near = [scale.text(edge) for edge in (*below[-1:], *above[:1])]
    plural = "edges are" if len(near) > 1 else "edge is"
    raise node.error(
        f"{_text(node)} needs a bin edge of column {column.name!r} at {scale.text(cut)};"
        f" the nearest {plural} {' and '.join(near)}."
    )


def _text(node: Node) -> str:
    if isinstance(node.content, tuple):
        return f"[{', '.join(_text(item) for item in node.content)}]"
    if isinstance(node.content, Mapping):
        return f"not {_text(node.content['not'])}"
    return node.content or '""'
