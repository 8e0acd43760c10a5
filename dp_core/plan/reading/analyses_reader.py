"""Reads `analyses` of a spec: the regressions and statistics that a release measures directly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import Node, in_place
from dp_core.text.documents.typed_text import shown

EXAMPLE = '["income ~ age + sex"]'
MOST_ANALYSES = 20

_FORM = f"{{formulas: {EXAMPLE}, share: 0.3}}"


def analyses_section(node: Node | None, root: Node) -> Node:
    """Return the section of the stage `analyses`: a list of its formulas, and its share.

    Args:
        node: Node `analyses` of the spec: a list of formulas, or a mapping of `formulas` and
            `share`; None if the spec has none.
        root: Top of the spec.
    """
    if node is None:
        return Node({}, root.source, root.line, "analyses")
    keys: Mapping[str, Node] = {"formulas": node}
    if isinstance(node.content, Mapping):
        keys = node.fields(("formulas", "share"), required=("formulas",), example=_FORM)
    formulas = keys["formulas"]
    if isinstance(formulas.content, str):
        keys = {**keys, "formulas": replace(formulas, content=(formulas,))}
    return Node(keys, node.source, node.line, "analyses")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a spec declares.

    Attributes:
        schema: The schema that stores the values that the analyses need.
        analyses: The regressions.
        statistics: The means and totals.
        texts: All of them as typed, in their order.
    """

    schema: Schema
    analyses: tuple[DeclaredAnalysis, ...] = ()
    statistics: tuple[DeclaredStatistic, ...] = ()
    texts: tuple[str, ...] = ()


def read_analyses(section: Node, schema: Schema) -> Declared:
    """Return the declared analyses, and the schema that stores the values that they need.

    Args:
        section: Result of `analyses_section`.
        schema: Schema of the release.

    Raises:
        BadInput: for any mistake, with its place.
    """
    from dp_core.inference.formulas.analysed_values import with_grids
    from dp_core.inference.formulas.declared_analysis import declared_analysis
    from dp_core.inference.formulas.declared_statistic import declared_statistic, is_statistic

    node = section.entries().get("formulas")
    if node is None:
        return Declared(schema)
    items = node.items(example=EXAMPLE)
    if not items:
        raise node.error(f"is empty; name a formula, such as {EXAMPLE}, or remove analyses.")
    if len(items) > MOST_ANALYSES:
        raise node.error(
            f"has {len(items)} analyses; declare at most {MOST_ANALYSES}, because they divide one"
            " budget."
        )
    found: list[DeclaredAnalysis] = []
    statistics: list[DeclaredStatistic] = []
    texts: list[str] = []
    for item in items:
        text = item.text(example="income ~ age + sex")
        texts.append(text)
        if is_statistic(text):
            statistic = in_place(item, declared_statistic, text, schema)
            if any(_same(each, statistic) for each in statistics):
                raise item.error(f"{shown(text)} is declared twice; remove one.")
            statistics.append(statistic)
            continue
        analysis = in_place(item, declared_analysis, text, schema)
        same = [each for each in found if each.outcome == analysis.outcome]
        if any({*each.columns} == {*analysis.columns} for each in same):
            raise item.error(f"{shown(text)} is declared twice; remove one.")
        found.append(analysis)
    names = {name for analysis in found for name in analysis.columns}
    numbers = {each.column for each in statistics}
    schema = in_place(node, with_grids, schema, names, numbers)
    return Declared(schema, tuple(found), tuple(statistics), tuple(texts))


def _same(one: DeclaredStatistic, other: DeclaredStatistic) -> bool:
    """Return whether two sentences declare the same statistic, with its groups in any order."""
    return (one.measure, one.column, one.quantile) == (
        other.measure,
        other.column,
        other.quantile,
    ) and {*one.by} == {*other.by}


def check_analyses(
    section: Node,
    declared: Declared,
    mode: Mode,
    method: str,
    synthesis: Mapping[str, Node],
    *,
    parametric: bool = False,
) -> None:
    """Refuse what a method cannot measure, and regressions without posterior sets.

    Args:
        section: Result of `analyses_section`.
        declared: Result of `read_analyses`.
        mode: Mode of the sets.
        method: Preset of the release, for the message.
        synthesis: Keys of `synthesize`, for the message.
        parametric: Whether the method measures no tables; False by default.

    Raises:
        BadInput: if `infer` could not answer the regressions, because the sets are made in another
            mode, or if there are statistics and the method measures no tables.
    """
    if declared.analyses and mode != "posterior":
        # The text of the spec that leads to another mode.
        sets = synthesis.get("sets")
        if sets is not None and sets.content in ("0", "1"):
            made = f"sets: {sets.content}"
        elif "mode" in synthesis:
            made = f"mode: {mode}"
        else:
            made = f"method: {method}, whose sets are made otherwise"
        raise section.error(
            "need posterior sets, because the answers take from them what the sums do not measure;"
            f" this spec has {made}. Use method: auto with synthesize: {{sets: 5, mode: posterior}}"
            ", or remove analyses."
        )
    if declared.statistics and parametric:
        raise section.error(
            f"has {shown(declared.statistics[0].text)}, but method: {method} measures no tables;"
            " use a method that does, such as auto, or remove the statistics."
        )
