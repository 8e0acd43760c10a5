"""Refuses what releases of linked tables do not support yet.

Everything else in a spec is the same as for a single table.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.documents.faults import Faults
from dp_core.documents.node import Node
from dp_core.documents.typed_text import shown
from dp_core.spec.release_spec import Mode

METHOD = "auto"
"""The only method for linked tables, and the only one for each stage."""
MODES: tuple[Mode, ...] = ("posterior", "shared")
"""Modes of the sets of linked tables."""

_KEYS = {
    "analyses": "linked tables have no declared analyses yet",
    "checks": "linked tables have no charged checks, thresholds or formulas yet",
    "measurements": "the noisy tables of linked tables cannot be used again yet",
}


def refuse_not_linked(keys: Mapping[str, Node], faults: Faults) -> None:
    """Refuse keys, methods and modes that linked tables do not support yet.

    Args:
        keys: Keys of the spec.
        faults: Notes each fault, with its place.
    """
    for key, why in _KEYS.items():
        if key in keys:
            faults.of(None, _refuse, keys[key], f"{why}; remove this key.")
    if "method" in keys:
        faults.of(None, _require_auto, keys["method"])
    for stage in ("select", "reconstruct", "synthesize"):
        section = keys[stage].content if stage in keys else None
        method = section.get("method") if isinstance(section, Mapping) else None
        if method is not None:
            faults.of(None, _require_auto, method)
    sets = keys["synthesize"].content if "synthesize" in keys else None
    mode = sets.get("mode") if isinstance(sets, Mapping) else None
    if mode is not None and isinstance(mode.content, str) and mode.content not in MODES:
        words = " or ".join(MODES)
        faults.of(
            None,
            _refuse,
            mode,
            f"{shown(mode.content)} is not a mode of linked tables; write {words}.",
        )


def _require_auto(node: Node) -> None:
    if isinstance(node.content, str) and node.content != METHOD:
        raise node.error(
            f"{shown(node.content)} cannot release linked tables yet; write {METHOD}, or remove"
            " this key."
        )


def _refuse(node: Node, why: str) -> None:
    raise node.error(why)
