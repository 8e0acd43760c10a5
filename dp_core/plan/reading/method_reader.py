"""Reads the methods of a spec and their options, and refuses those that a kind of file excludes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from dp_core.client.released import ReleasedKind
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods import registry
from dp_core.methods.parametric.drawn_records import Measuring, Modelling
from dp_core.methods.reconstruction.auto import AutoReconstruction
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.reconstructor import TABLES, Reconstructor
from dp_core.methods.replicates.posterior.posterior_tables import MOST_PAIRS, SETS
from dp_core.methods.selection.budget.workload import WantedTable
from dp_core.methods.selection.selector import Selector
from dp_core.plan.presets import Preset
from dp_core.plan.reading.wanted_reader import read_columns, refuse_wanted
from dp_core.plan.release_spec import Mode, name_of, read_options
from dp_core.schema.definition import Schema
from dp_core.schema.grid import POSITIONS, on_grid, variables
from dp_core.schema.structure.public_totals import records_of
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node, in_place, one_of
from dp_core.text.documents.typed_text import quote

_EXAMPLE = "{sets: 5, rows: same, mode: shared, seed: 7}"
MODES: tuple[Mode, ...] = ("shared", "split", "posterior")
"""Modes of a selection and a reconstruction. Without a stated mode, sets are posterior where
`makes_posterior` allows it, and otherwise of the first mode."""
NOISE_AWARE = "noise-aware"
"""Another word for `posterior` in a spec."""
PARAMETRIC_MODES: tuple[Mode, ...] = ("split", "shared")
"""Modes of a parametric method, whose model draws new parameters for every set."""
_TOLD: frozenset[ReleasedKind] = frozenset({"tables", "interactions"})
"""Results whose noise posterior sets are drawn from."""
_ONLY_METHOD = "auto"
"""Method of linked tables, files with `within` and files with public totals, and of each stage."""
_ONLY_MODES: tuple[Mode, ...] = ("posterior", "shared")
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
_GIVEN: Mapping[ReleasedKind, str] = {
    "tables": "whole tables",
    "answers": "single numbers, not whole tables",
    "sparse": "tables with frequent cells only",
    "totals": "sums of numeric columns",
    "interactions": "interactions of columns",
    "records": "records",
}


def read_mode(node: Node | None, modes: tuple[Mode, ...]) -> Mode:
    """Return the mode of the sets, one of `modes`; the first of them if there is no node."""
    if node is not None and node.content == NOISE_AWARE and "posterior" in modes:
        return "posterior"
    return one_of(node, modes)


def read_stages(
    sections: Mapping[str, Node],
    preset: Preset,
    schema: Schema,
    synthesis: Sequence[str],
    tables: Node | None,
    wanted: tuple[WantedTable, ...],
    mode: Mode,
    sets: int,
) -> tuple[Selector, Reconstructor]:
    """Return the selection and the reconstruction.

    Args:
        sections: Nodes of the spec, by stage.
        preset: Preset of the release.
        schema: Schema of the data.
        synthesis: Keys allowed under `synthesize`.
        tables: Node of the workload; None without one.
        wanted: The tables of the workload.
        mode: Mode of the sets.
        sets: Number of synthetic sets; without any, only the wanted tables need to be measured.
    """
    named = sections["synthesize"].entries().get("method")
    if named is not None:
        raise named.error(
            "is only for parametric methods; name a parametric method under `method` at the top of"
            " the spec, or remove this key."
        )
    sections["synthesize"].fields(synthesis, example=_EXAMPLE)
    selector = _read_stage(sections["select"], "select", preset, schema)
    if tables is None and "tables_share" in sections["select"].entries():
        place = sections["select"].entries()["tables_share"]
        raise place.error("is the part for wanted tables, and the spec has no `tables`; remove it.")
    if tables is not None:
        if selector.workload is None:
            refuse_wanted(tables, name_of(selector))
        selector = dataclasses.replace(selector, workload=wanted)
    if not sets and "columns" in {field.name for field in dataclasses.fields(selector)}:
        selector = dataclasses.replace(selector, columns=False)
    reconstructor = _read_stage(
        sections["reconstruct"], "reconstruct", for_mode(preset, mode, selector), schema
    )
    domain = schema.domain
    in_place(tables or sections["select"], selector.check, domain)
    in_place(sections["reconstruct"], reconstructor.check, domain)
    stated = sections["reconstruct"].entries() or not sections["select"].entries()
    place = sections["reconstruct" if stated else "select"]
    in_place(place, check_pair, selector, reconstructor)
    return selector, reconstructor


def read_parametric(
    keys: Mapping[str, Node],
    sections: Mapping[str, Node],
    preset: Preset,
    schema: Schema,
    rows: int | None,
    synthesis: Sequence[str],
) -> tuple[Schema, Selector, Reconstructor]:
    """Return the schema on its grid, and the parametric method as selection and reconstruction.

    Args:
        keys: Top-level keys of the spec.
        sections: Nodes of the spec, by stage.
        preset: Preset of the release.
        schema: Schema of the data.
        rows: Records of a set, or None if the spec does not state them.
        synthesis: Keys allowed under `synthesize` besides the options of the method.
    """
    for stage in ("select", "reconstruct"):
        if stage in keys:
            raise keys[stage].error(
                f"{preset.synthesize} is a parametric method, which does not {stage} tables; remove"
                f" {stage}, and write the options of the method under synthesize."
            )
    section = sections["synthesize"]
    entries = section.entries()
    if "method" in entries and entries["method"].text() != preset.synthesize:
        raise entries["method"].error(
            f"differs from the release's `method`, which uses {preset.synthesize}; remove this key,"
            " and name the preset under `method`."
        )
    found = registry.find("parametric", preset.synthesize)
    reserved = ("method", "positions", *synthesis)
    own = preset.options.get("synthesize", {})
    method = read_options(
        found, preset.synthesize, section, own, reserved, partial(read_columns, schema=schema)
    )
    positions = entries.get("positions")
    number = POSITIONS if positions is None else positions.integer()
    schema = in_place(positions or section, on_grid, schema, number)
    columns = variables(schema)
    return (
        schema,
        Measuring(method=method, variables=columns, records=rows),
        Modelling(method=method, variables=columns, positions=number),
    )


def _read_stage(
    section: Node, stage: Literal["select", "reconstruct"], preset: Preset, schema: Schema
) -> Any:
    """Return the method of a stage with its options."""
    family: registry.Family = "selection" if stage == "select" else "reconstruction"
    default = preset.select if stage == "select" else preset.reconstruct
    entries = section.entries()
    node = entries.get("method", section)
    name = node.text(example=default) if "method" in entries else default
    found = in_place(node, registry.find, family, name)
    own = preset.options.get(stage, {}) if name == default else {}
    reserved = ("method", "share") if stage == "select" else ("method",)
    return read_options(found, name, section, own, reserved, partial(read_columns, schema=schema))


def check_pair(selector: Selector, reconstructor: Reconstructor) -> None:
    """Refuse a reconstruction that cannot use everything that the selection gives.

    Raises:
        BadInput: naming the reconstructions that can.
    """
    shrinks = getattr(reconstructor, "shrink", True)
    # Interactions alone do not determine the cells of a table.
    left = selector.gives - (reconstructor.takes if shrinks else reconstructor.takes & TABLES)
    if not left:
        return
    fitting = [
        name
        for name in registry.available("reconstruction")
        if selector.gives <= registry.find("reconstruction", name).takes
    ]
    advice = "; choose another selection."
    if fitting:
        advice = f"; use reconstruct: {{method: {' or '.join(fitting)}}}."
    if not shrinks and selector.gives <= reconstructor.takes:
        advice = " without shrinkage; remove shrink: false."
    raise BadInput(
        f"{name_of(selector)} gives {' and '.join(_GIVEN[kind] for kind in sorted(left))}, which"
        f" {name_of(reconstructor)} cannot use{advice}"
    )


def for_mode(preset: Preset, mode: Mode, selector: Selector) -> Preset:
    """Return a preset whose reconstruction makes posterior sets, if they are wanted and possible.

    Args:
        preset: Preset of the release.
        mode: Mode of the sets.
        selector: The stated selection.
    """
    if mode == "posterior" and _informs(selector) and preset.reconstruct != "auto":
        return dataclasses.replace(preset, reconstruct="gum")
    return preset


def check_mode(mode: Mode, sets: int, selector: Selector, reconstructor: Reconstructor) -> None:
    """Refuse posterior sets that cannot be made.

    Raises:
        BadInput: if there is only one set, if their noise cannot be drawn from what the selection
            gives, or if the reconstruction cannot make such sets.
    """
    if mode != "posterior":
        return
    if sets < 2:
        raise BadInput(
            "posterior needs at least 2 sets, whose differences show the noise; write for example"
            f" sets: {SETS}, which costs no more budget."
        )
    left = selector.gives - _TOLD
    if left:
        raise BadInput(
            f"posterior sets are drawn from noisy tables, but {name_of(selector)} gives"
            f" {' and '.join(_GIVEN[kind] for kind in sorted(left))}; use mode: split, or another"
            " method."
        )
    if not selector.informs_all_pairs:
        what = "no pair of columns"
        if selector.chooses:
            what = (
                "only the pairs that look strongest, and a prior learned from them would make all"
                " others strong"
            )
        raise BadInput(
            f"{name_of(selector)} measures {what}, so there are no posterior sets; use mode: shared"
            " or split, or another method, such as auto."
        )
    if not isinstance(reconstructor, AutoReconstruction | Gum):
        raise BadInput(
            "posterior sets are records that match a table of every pair, which"
            f" {name_of(reconstructor)} does not make; remove reconstruct.method, or use mode:"
            " split."
        )


def makes_posterior(selector: Selector, reconstructor: Reconstructor, domain: Domain) -> bool:
    """Return whether posterior sets are the default: the method and the number of columns allow it.

    Args:
        selector: The stated selection.
        reconstructor: The stated reconstruction.
        domain: All columns.
    """
    pairs = math.comb(len(domain), 2)
    makes = isinstance(reconstructor, AutoReconstruction | Gum)
    return _informs(selector) and makes and pairs <= MOST_PAIRS


def _informs(selector: Selector) -> bool:
    """Return whether a posterior distribution of all pairs follows from what a selection gives."""
    return selector.gives <= _TOLD and selector.informs_all_pairs


def for_posterior(section: Node, stated: Gum) -> Gum:
    """Return GUM for posterior sets, which are drawn from a table of every pair.

    Args:
        section: Node of `reconstruct`.
        stated: The stated options.

    Raises:
        BadInput: if the spec sets an option that has no effect on them.
    """
    options = section.entries()
    for option in options:
        if option not in {"method"} | Gum.for_drawing:
            raise options[option].error(
                "has no effect on posterior sets, whose records match a drawn table of every pair;"
                " remove it, or choose another synthesize.mode."
            )
    # The tables of all pairs are drawn, so records imply no others.
    return dataclasses.replace(stated, implied=False)


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


# -- kinds of files with fewer methods


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
            faults.note(fault)
    rows = _section(keys, "synthesize").get("rows")
    if schema.totals and rows is not None and isinstance(rows.content, str):
        records = records_of(schema.totals)
        if rows.content.isdecimal() and int(rows.content) != records:
            faults.note(
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
        if place is not None and isinstance(place.content, str) and place.content != _ONLY_METHOD:
            yield place.error(
                f"{quote(place.content)} cannot release {kind} yet; write {_ONLY_METHOD}, or remove"
                " this key."
            )
    mode = _section(keys, "synthesize").get("mode")
    known = (*_ONLY_MODES, NOISE_AWARE)
    if mode is not None and isinstance(mode.content, str) and mode.content not in known:
        yield mode.error(
            f"{quote(mode.content)} is not a mode of {kind}; write {' or '.join(_ONLY_MODES)}."
        )
