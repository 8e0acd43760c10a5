"""Reads what `synthesize: {sets: 0}` means for the rest of a spec: noisy tables, and no sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction

from dp_core.methods.selection.selector import Selector
from dp_core.plan.presets import Preset
from dp_core.text.documents.node import Node


def without_sets(
    node: Node, keys: Mapping[str, Node], sections: Mapping[str, Node], preset: Preset
) -> Preset:
    """Return the preset of a release without sets; refuse keys that are about sets.

    Args:
        node: Node `synthesize.sets`, which is 0.
        keys: Top-level keys of the spec.
        sections: Nodes of the spec, by stage.
        preset: Preset of the release.

    Raises:
        BadInput: if the method has no tables, or another key is about sets.
    """
    if preset.synthesize:
        raise node.error(
            f"0 sets would publish noisy tables only, and {preset.synthesize} is a parametric"
            " method, whose release is its records; make 1 set or more, or use method: auto or"
            " method: fixed."
        )
    synthesis = sections["synthesize"].entries()
    mode, rows = synthesis.get("mode"), synthesis.get("rows")
    if mode is not None and mode.content != "shared":
        raise mode.error("says how sets are made, but sets is 0; remove it, or make 1 set or more.")
    if rows is not None and rows.content != "same":
        raise rows.error("is the size of a set, but sets is 0; remove it, or make 1 set or more.")
    for name, what in (("reconstruct", "makes sets"), ("checks", "compares sets with the data")):
        if name in keys and keys[name].entries():
            raise keys[name].error(f"{what}, but synthesize.sets is 0; remove it.")
    chosen = sections["select"].entries().get("method")
    if (preset.select if chosen is None else chosen.content) == "fixed":
        # Only sets need tables of the columns that are in no wanted table.
        return dataclasses.replace(preset, shares={"measure": Fraction(1)})
    return preset


def refuse_records(node: Node, selector: Selector, name: str) -> None:
    """Refuse 0 sets of a selection that makes records and publishes no tables.

    Raises:
        BadInput: if it is such a selection.
    """
    if "records" in selector.gives:
        raise node.error(
            f"0 sets would publish noisy tables only, and {name} makes records instead of tables;"
            " make 1 set or more, or use method: auto or method: fixed."
        )
