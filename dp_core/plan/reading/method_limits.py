"""Refuses what releases of linked tables, nested columns or public totals do not support yet.

Everything else in a spec is the same as for a single table without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from dp_core.errors import BadInput
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
_KINDS: Mapping[str, Mapping[str, str]] = {
    "linked tables": {
        "analyses": "linked tables have no declared analyses yet",
        "checks": "linked tables have no charged checks, thresholds or formulas yet",
        "measurements": "the noisy tables of linked tables cannot be used again yet",
        "prior": "linked tables have no prior yet",
    },
    "files with `within`": {
        "analyses": "files with `within` have no declared analyses yet",
        "prior": "files with `within` have no prior yet",
    },
    "files with public totals": {
        "analyses": "files with public totals have no declared analyses yet"
    },
}
"""Keys that are refused for each kind of file, with the reason."""


def refuse_unsupported(schema: Schema, keys: Mapping[str, Node], faults: Faults) -> None:
    """Refuse what linked tables, nested columns or public totals do not support yet.

    Args:
        schema: The schema of the release.
        keys: Keys of the spec.
        faults: Notes each fault, with its place.
    """
    present = (schema.linked is not None, schema.nested is not None, bool(schema.totals))
    for kind in [kind for kind, there in zip(_KINDS, present, strict=True) if there][:1]:
        for fault in _other_keys(kind, keys):
            faults.add(fault)
    if schema.has_drawn_tables:
        options = {field.name for field in dataclasses.fields(AutoReconstruction)}
        for option, place in _section(keys, "reconstruct").items():
            # The tables of all pairs are drawn, so records are never cleared.
            if option in options and (option != "cleared" or place.content not in FALSE):
                faults.add(
                    place.error(
                        "has no effect on these sets, whose records match a drawn table of every"
                        " pair; remove it."
                    )
                )
    rows = _section(keys, "synthesize").get("rows")
    if schema.totals and rows is not None and isinstance(rows.content, str):
        records = records_of(schema.totals)
        if rows.content.isdecimal() and int(rows.content) != records:
            faults.add(
                rows.error(
                    f"is not the sum of the public totals, {records}, which is the number of"
                    " records of every set; write same."
                )
            )


def _section(keys: Mapping[str, Node], name: str) -> Mapping[str, Node]:
    content = keys[name].content if name in keys else None
    return content if isinstance(content, Mapping) else {}


def _other_keys(kind: str, keys: Mapping[str, Node]) -> Iterator[BadInput]:
    """Yield a fault for each key, method and mode that a kind of file does not support."""
    for key, why in _KINDS[kind].items():
        if key in keys:
            yield keys[key].error(f"{why}; remove this key.")
    stages = (_section(keys, stage) for stage in ("select", "reconstruct", "synthesize"))
    for place in (section.get("method") for section in (keys, *stages)):
        if place is not None and isinstance(place.content, str) and place.content != METHOD:
            yield place.error(
                f"{shown(place.content)} cannot release {kind} yet; write {METHOD}, or remove"
                " this key."
            )
    mode = _section(keys, "synthesize").get("mode")
    if mode is not None and isinstance(mode.content, str) and mode.content not in MODES:
        yield mode.error(
            f"{shown(mode.content)} is not a mode of {kind}; write {' or '.join(MODES)}."
        )
