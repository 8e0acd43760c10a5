"""Refuses what releases of linked tables, nested columns or public totals do not support yet.

Everything else in a spec is the same as for a single table without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from dp_core.methods.reconstruction.auto import AutoReconstruction
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Schema
from dp_core.tables.public_totals import records_of
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import FALSE, Node
from dp_core.text.documents.typed_text import shown

METHOD = "auto"
"""The only method for such files, and the only one for each stage."""
MODES: tuple[Mode, ...] = ("posterior", "shared")
"""Modes of their sets."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """A kind of file with fewer methods.

    Attributes:
        what: The kind of file, in the words of a message.
        keys: Keys of the spec that are refused, each with the reason.
    """

    what: str
    keys: Mapping[str, str] = field(default_factory=dict)


_LINKED = _Limit(
    "linked tables",
    {
        "analyses": "linked tables have no declared analyses yet",
        "checks": "linked tables have no charged checks, thresholds or formulas yet",
        "measurements": "the noisy tables of linked tables cannot be used again yet",
        "prior": "linked tables have no prior yet",
    },
)
_NESTED = _Limit(
    "files with `within`",
    {
        "analyses": "files with `within` have no declared analyses yet",
        "prior": "files with `within` have no prior yet",
    },
)
_TOTALS = _Limit(
    "files with public totals",
    {"analyses": "files with public totals have no declared analyses yet"},
)


def refuse_unsupported(schema: Schema, keys: Mapping[str, Node], faults: Faults) -> None:
    """Refuse what linked tables, nested columns or public totals do not support yet.

    Args:
        schema: The schema of the release.
        keys: Keys of the spec.
        faults: Notes each fault, with its place.
    """
    if schema.linked is not None:
        _refuse_other(_LINKED, keys, faults)
    elif schema.nested is not None:
        _refuse_other(_NESTED, keys, faults)
    elif schema.totals:
        _refuse_other(_TOTALS, keys, faults)
    if schema.has_drawn_tables:
        _refuse_unused(keys, faults)
    if schema.totals:
        faults.of(None, _check_size, keys, schema)


def _check_size(keys: Mapping[str, Node], schema: Schema) -> None:
    """Refuse a number of records of a set that differs from the sum of the public totals."""
    sets = keys["synthesize"].content if "synthesize" in keys else None
    rows = sets.get("rows") if isinstance(sets, Mapping) else None
    if rows is None or rows.content == "same" or not isinstance(rows.content, str):
        return
    records = records_of(schema.totals)
    if rows.content.isdecimal() and int(rows.content) != records:
        raise rows.error(
            f"is not the sum of the public totals, {records}, which is the number of records of"
            " every set; write same."
        )


def _refuse_unused(keys: Mapping[str, Node], faults: Faults) -> None:
    """Refuse options of `reconstruct` that have no effect on sets whose tables are drawn."""
    section = keys["reconstruct"].content if "reconstruct" in keys else None
    options = {field.name for field in dataclasses.fields(AutoReconstruction)}
    for option, place in section.items() if isinstance(section, Mapping) else ():
        # The tables of all pairs are drawn, so records are never cleared.
        if option in options and (option != "cleared" or place.content not in FALSE):
            faults.of(
                None,
                _refuse,
                place,
                "has no effect on these sets, whose records match a drawn table of every pair;"
                " remove it.",
            )


def _refuse_other(limit: _Limit, keys: Mapping[str, Node], faults: Faults) -> None:
    for key, why in limit.keys.items():
        if key in keys:
            faults.of(None, _refuse, keys[key], f"{why}; remove this key.")
    if "method" in keys:
        faults.of(None, _require_auto, keys["method"], limit)
    for stage in ("select", "reconstruct", "synthesize"):
        section = keys[stage].content if stage in keys else None
        method = section.get("method") if isinstance(section, Mapping) else None
        if method is not None:
            faults.of(None, _require_auto, method, limit)
    sets = keys["synthesize"].content if "synthesize" in keys else None
    mode = sets.get("mode") if isinstance(sets, Mapping) else None
    if mode is not None and isinstance(mode.content, str) and mode.content not in MODES:
        words = " or ".join(MODES)
        faults.of(
            None,
            _refuse,
            mode,
            f"{shown(mode.content)} is not a mode of {limit.what}; write {words}.",
        )


def _require_auto(node: Node, limit: _Limit) -> None:
    if isinstance(node.content, str) and node.content != METHOD:
        raise node.error(
            f"{shown(node.content)} cannot release {limit.what} yet; write {METHOD}, or remove"
            " this key."
        )


def _refuse(node: Node, why: str) -> None:
    raise node.error(why)
