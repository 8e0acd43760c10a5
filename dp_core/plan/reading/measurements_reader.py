"""Reads the keys `measurements` and `analyses` of a spec.

`measurements` names the earlier release whose noisy tables are used. The keys that say what was
measured are those of the earlier release. A spec may leave them out or repeat them; a different
value is an error, because nothing is measured again. All other keys, such as `reconstruct` and
`synthesize`, mean what they mean in any spec.

`analyses` are the regressions and statistics that a release measures directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from dp_core.errors import BadInput, nearest
from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.methods import registry
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.quality_checks import OF_CHARGED
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.text.documents.node import FALSE, TRUE, Node, from_plain, in_place
from dp_core.text.documents.strict_yaml import plain
from dp_core.text.documents.typed_text import parse_fraction, quote
from dp_core.text.names import check_name

KEY = "measurements"
MEASURING = (
    *("data", "privacy", "method", "tables", "analyses", "domain"),
    *("total", "one_way", "select", "measure"),
)
"""Keys that say what was measured, from which file, and with which noise."""
_CHARGED = ("share", "tables", "formulas")
"""Keys of `checks` that need the confidential data."""

FindEarlier: TypeAlias = Callable[[str], EarlierRelease]
"""Returns a finished release by its name; raises BadInput if its results cannot be used."""


def no_ledger(name: str) -> EarlierRelease:
    """Refuse to look up a release where there is no ledger, as in a comparison.

    Raises:
        BadInput: always.
    """
    raise BadInput(
        f"the tables of release {quote(name)} are known to the ledger of its home only, which is"
        " not used here; remove this key."
    )


def with_measurements(root: Node, find: FindEarlier) -> tuple[Node, EarlierRelease | None]:
    """Return a spec with the keys that say what was measured, and the release that measured.

    Args:
        root: Top of the spec.
        find: Finds the earlier release.

    Returns:
        The spec as it is and None if it has no key `measurements`.

    Raises:
        BadInput: if the release cannot be used, or a key contradicts what it measured.
    """
    keys = root.content
    if not isinstance(keys, Mapping) or KEY not in keys:
        return root, None
    node = keys[KEY]
    name = node.text(example="rand-2026q4")
    earlier = in_place(node, lambda: find(check_name(name, what="release")))
    if "account" in keys and keys["account"].content != earlier.account:
        raise keys["account"].error(
            f"release {earlier.release!r} was paid for by account {earlier.account!r}; name that"
            " account, because tables of one account are not used for another."
        )
    _check_method(node, earlier)
    _check_charged(keys.get("checks"), earlier)
    synthesis = keys["synthesize"].content if "synthesize" in keys else None
    sets = synthesis.get("sets") if isinstance(synthesis, Mapping) else None
    if sets is not None and sets.content == "0":
        raise sets.error(
            f"0 sets would publish the tables of release {earlier.release!r} again and nothing"
            " else; make 1 set or more."
        )
    given = {key: value for key, value in keys.items() if key not in (KEY, *MEASURING)}
    source = f"release {earlier.release}"
    for key, value in _measured_with(earlier).items():
        if key in keys:
            typed = analyses_section(keys[key], root) if key == "analyses" else keys[key]
            _check_equal(typed, value, earlier)
        given[key] = from_plain(value, source, key)
    for key in keys:
        if key in MEASURING and key not in given:
            raise keys[key].error(
                f"release {earlier.release!r} was measured without {key}; remove this key."
            )
    share = from_plain(earlier.spec["checks"]["share"], source, "checks.share")
    own = given["checks"].entries() if "checks" in given else {}
    given["checks"] = Node({"share": share, **own}, source, 0, "checks")
    return Node(given, root.source, root.line, root.key), earlier


def check_schema(node: Node, schema: Schema, earlier: EarlierRelease) -> None:
    """Refuse a schema that differs from that of the earlier release.

    Raises:
        BadInput: if its hash differs.
    """
    if schema_hash(schema) != earlier.spec["schema"]["sha256"]:
        raise node.error(
            f"this schema differs from that of release {earlier.release!r}, which defines the codes"
            " of its tables; use that schema unchanged, or remove measurements to measure again."
        )


def check_sets(place: Node, mode: Mode, sets: int, earlier: EarlierRelease) -> None:
    """Refuse sets that cannot be made from the earlier release's tables with honest intervals.

    Args:
        place: Node to name in a refusal.
        mode: Mode of the new sets.
        sets: Number of new sets.
        earlier: The earlier release.

    Raises:
        BadInput: if its sets were measured separately and the new ones are not, or the reverse.
    """
    before = earlier.spec["synthesize"]
    if before["mode"] == "split" and (mode != "split" or sets != before["sets"]):
        raise place.error(
            f"release {earlier.release!r} measured each of its {before['sets']} sets separately;"
            f" write synthesize: {{mode: split, sets: {before['sets']}}}."
        )
    if mode == "split" and before["mode"] != "split":
        raise place.error(
            f"release {earlier.release!r} made one measurement for all sets, so its tables cannot"
            " give sets that were measured separately; use another mode."
        )


def check_resolved(place: Node, document: Mapping[str, Any], earlier: EarlierRelease) -> None:
    """Refuse a resolved spec that states other measurements than those that it uses.

    Raises:
        BadInput: if this version of the program reads the earlier release's keys differently.
    """
    for key in MEASURING:
        if document.get(key) != earlier.spec.get(key):
            raise place.error(
                f"this version of the program reads {key!r} of release {earlier.release!r}"
                " differently from the version that measured; use that version."
            )


def _measured_with(earlier: EarlierRelease) -> Mapping[str, Any]:
    """Return the keys that say what was measured, as a spec states them."""
    found = {key: earlier.spec[key] for key in MEASURING if key in earlier.spec}
    # The schema states unit and rows of a person.
    stated = ("epsilon", "delta", "neighbours")
    found["privacy"] = {key: found["privacy"][key] for key in stated}
    if "tables" not in found:
        # A spec states this option only with wanted tables.
        options = found["select"]
        found["select"] = {key: options[key] for key in options if key != "tables_share"}
    return found


def _check_method(node: Node, earlier: EarlierRelease) -> None:
    """Refuse a release that made its records without noisy tables, or that measured nothing."""
    name, spec = earlier.release, earlier.spec
    if KEY in spec:
        # The ledger's release of the tables is one step away, never a chain.
        root = spec[KEY]["release"]
        raise node.error(f"release {name!r} itself uses the tables of {root!r}; name {root!r}.")
    if "select" not in spec:
        method = spec["synthesize"]["method"]
        raise node.error(
            f"release {name!r} was made by the parametric method {method!r}, whose results no"
            " other method can use; name a release that measured tables."
        )
    method = spec["select"]["method"]
    if "records" in registry.find("selection", method)().gives:
        raise node.error(
            f"release {name!r} was made by {method!r}, which makes records and not tables; name a"
            " release that measured tables."
        )


def _check_equal(node: Node, value: Any, earlier: EarlierRelease) -> None:
    """Refuse a value that differs from what the earlier release measured with."""
    if isinstance(node.content, Mapping) and isinstance(value, Mapping):
        for key, inner in node.content.items():
            if key not in value:
                place = Node(None, node.source, inner.line, node.key)
                raise place.error(f"there is no key {quote(key)} here.{nearest(key, value)}")
            _check_equal(inner, value[key], earlier)
    elif plain(node, _canonical) != plain(from_plain(value, node.source), _canonical):
        now = quote(node.content) if isinstance(node.content, str) else "this"
        raise node.error(
            f"{now} is not what release {earlier.release!r} was measured with ({_short(value)});"
            " nothing is measured again, so remove this key or restore its value."
        )


def _canonical(node: Node) -> object:
    """Return a scalar so that differently typed forms of it are equal, such as 1 and 1.0."""
    text = "none" if node.content is None else node.text().strip()
    if text.lower() in TRUE + FALSE:
        return text.lower() in TRUE
    try:
        return parse_fraction(text)
    except ValueError:
        return text


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_charged(checks: Node | None, earlier: EarlierRelease) -> None:
    """Refuse checks that would compare the new sets with the confidential data."""
    if checks is None or not isinstance(checks.content, Mapping):
        return
    for key in _CHARGED:
        if key in checks.content:
            raise checks.content[key].error(
                f"the tables of release {earlier.release!r} are used, so the confidential data are"
                " not opened and nothing can be compared with them; remove this key."
            )
    thresholds = checks.content.get("thresholds")
    for item in thresholds.content if thresholds and isinstance(thresholds.content, tuple) else ():
        figure = item.content.get("figure") if isinstance(item.content, Mapping) else None
        if figure is not None and figure.content in OF_CHARGED:
            raise figure.error(
                f"{figure.content} needs charged checks, and a release that uses the tables of"
                " another one charges nothing; remove this threshold, or use `fit`."
            )


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
    from dp_core.methods.declared.declared_regression import DeclaredRegression

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
    places: list[Node] = []
    statistics: list[DeclaredStatistic] = []
    texts: list[str] = []
    for item in items:
        text = item.text(example="income ~ age + sex")
        texts.append(text)
        if is_statistic(text):
            statistic = in_place(item, declared_statistic, text, schema)
            if any(_same(each, statistic) for each in statistics):
                raise item.error(f"{quote(text)} is declared twice; remove one.")
            statistics.append(statistic)
            continue
        analysis = in_place(item, declared_analysis, text, schema)
        if any(each.model == analysis.model for each in found):
            raise item.error(f"{quote(text)} is declared twice; remove one.")
        found.append(analysis)
        places.append(item)
    names = {name for analysis in found for name in analysis.columns}
    numbers = {each.column for each in statistics}
    schema = in_place(node, with_grids, schema, names, numbers)
    for item, analysis in zip(places, found, strict=True):
        in_place(item, DeclaredRegression.of, analysis, schema)
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
            f"has {quote(declared.statistics[0].text)}, but method: {method} measures no tables;"
            " use a method that does, such as auto, or remove the statistics."
        )
