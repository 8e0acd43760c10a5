"""Reads the key `measurements` of a spec: the earlier release whose noisy tables are used.

The keys that say what was measured are those of the earlier release. A spec may leave them out or
repeat them; a different value is an error, because nothing is measured again. All other keys, such
as `reconstruct` and `synthesize`, mean what they mean in any spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dp_core.errors import BadInput, nearest
from dp_core.methods import registry
from dp_core.methods.replicates.noise_aware import unshrunk
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.quality_checks import OF_CHARGED
from dp_core.plan.reading.analyses_reader import analyses_section
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.text.documents.node import FALSE, TRUE, Node, from_plain, in_place
from dp_core.text.documents.typed_text import parse_fraction, shown
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
        f"the tables of release {shown(name)} are known to the ledger of its home only, which is"
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


def check_sets(place: Node, mode: Mode, sets: int, selector: Any, earlier: EarlierRelease) -> None:
    """Refuse sets that cannot be made from the earlier release's tables with honest intervals.

    Args:
        place: Node to name in a refusal.
        mode: Mode of the new sets.
        sets: Number of new sets.
        selector: Selection of the earlier release.
        earlier: The earlier release.

    Raises:
        BadInput: if its sets were measured separately and the new ones are not, or the reverse; or
            if its tables were chosen for a model that shrinks them.
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
    if mode == "noise-aware" and unshrunk(selector).gives != selector.gives:
        raise place.error(
            f"release {earlier.release!r} measured what is useful only to a model that shrinks"
            f" noisy tables ({_for_shrinkage(selector)}), and noise-aware sets must not shrink"
            " them; use mode: posterior or mode: shared, or measure again without it."
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


def _for_shrinkage(selector: Any) -> str:
    honest = unshrunk(selector)
    return ", ".join(
        f"select.{name}: {getattr(selector, name)}"
        for name in getattr(selector, "for_inference", {})
        if getattr(selector, name) != getattr(honest, name)
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
                raise place.error(f"there is no key {shown(key)} here.{nearest(key, value)}")
            _check_equal(inner, value[key], earlier)
    elif _canonical(node) != _canonical(from_plain(value, node.source)):
        now = shown(node.content) if isinstance(node.content, str) else "this"
        raise node.error(
            f"{now} is not what release {earlier.release!r} was measured with ({_short(value)});"
            " nothing is measured again, so remove this key or restore its value."
        )


def _canonical(node: Node) -> object:
    """Return a value by which differently typed forms of it are equal, such as 1 and 1.0."""
    content = node.content
    if isinstance(content, tuple):
        return [_canonical(item) for item in content]
    if isinstance(content, Mapping):
        return {key: _canonical(value) for key, value in content.items()}
    text = "none" if content is None else content.strip()
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
