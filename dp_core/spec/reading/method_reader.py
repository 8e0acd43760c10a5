"""The methods that a spec names, with their options: in stages, or a parametric one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from dp_core.documents.node import Node
from dp_core.errors import BadInput
from dp_core.methods import registry
from dp_core.methods.parametric.adapters import Modelling, measuring
from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.replicates.noise_aware import unshrunk
from dp_core.methods.selection.selector import Selector
from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.grid import POSITIONS, on_grid, variables
from dp_core.spec.method_options import read_options
from dp_core.spec.presets import PRESETS, Preset
from dp_core.spec.release_spec import Mode
from dp_core.wall.released import ReleasedKind

_Method = TypeVar("_Method")
_EXAMPLE = "{sets: 5, rows: same, mode: shared, seed: 7}"
MODES: tuple[Mode, ...] = ("shared", "split", "noise-aware")
"""How sets are made of tables; the first is the default."""
PARAMETRIC_MODES: tuple[Mode, ...] = ("split", "shared")
"""How they are made by a parametric method, whose model draws its parameters for every set."""
_GIVEN: Mapping[ReleasedKind, str] = {
    "tables": "whole tables",
    "answers": "single numbers, not whole tables",
    "sparse": "tables of their frequent cells only",
    "totals": "sums of numbers",
    "interactions": "interactions of columns",
    "records": "records",
}


def read_stages(
    sections: Mapping[str, Node], preset: Preset, schema: Schema, synthesis: Sequence[str]
) -> tuple[Selector, str, Reconstructor, str]:
    """Return how tables are chosen and how they become a model, and the names of both.

    Args:
        sections: Of the spec, by stage.
        preset: Of the release.
        schema: Of the file.
        synthesis: Keys of the section `synthesize`.
    """
    if "method" in sections["synthesize"].entries():
        raise (
            sections["synthesize"]
            .entries()["method"]
            .error(
                "is for parametric methods, and the release's own `method` is none; name it there."
            )
        )
    sections["synthesize"].fields(synthesis, example=_EXAMPLE)
    selector, selector_name = _read_stage(sections["select"], "select", preset, schema)
    reconstructor, reconstructor_name = _read_stage(
        sections["reconstruct"], "reconstruct", preset, schema
    )
    domain = schema.domain
    in_place(sections["select"], selector.check, domain)
    in_place(sections["reconstruct"], reconstructor.check, domain)
    stated = sections["reconstruct"].entries() or not sections["select"].entries()
    place = sections["reconstruct" if stated else "select"]
    in_place(place, check_pair, selector, selector_name, reconstructor, reconstructor_name)
    return selector, selector_name, reconstructor, reconstructor_name


def read_parametric(
    keys: Mapping[str, Node],
    sections: Mapping[str, Node],
    preset: Preset,
    schema: Schema,
    rows: int | None,
    synthesis: Sequence[str],
) -> tuple[Schema, Selector, Reconstructor]:
    """Return the schema on its grid, and the two halves of the parametric method.

    Args:
        keys: Of the spec, as written.
        sections: As of `read_stages`, and so the next two.
        preset: Of the release.
        schema: Of the file.
        rows: Records of a set, where the spec states them.
        synthesis: Keys of the section `synthesize` that are not the method's.
    """
    for stage in ("select", "reconstruct"):
        if stage in keys:
            raise keys[stage].error(
                f"{preset.synthesize} is a parametric method, which neither selects tables nor"
                " reconstructs; its options stand under synthesize."
            )
    section = sections["synthesize"]
    entries = section.entries()
    if "method" in entries and entries["method"].text() != preset.synthesize:
        raise entries["method"].error(
            f"is not the release's `method`, {preset.synthesize}; name it there, and leave this"
            " out."
        )
    found = registry.find("parametric", preset.synthesize)
    reserved = ("method", "positions", *synthesis)
    own = preset.options.get("synthesize", {})
    method = read_options(found, preset.synthesize, section, own, reserved, schema.domain)
    positions = entries.get("positions")
    number = POSITIONS if positions is None else positions.integer()
    schema = in_place(positions or section, on_grid, schema, number)
    columns = variables(schema)
    return (
        schema,
        measuring(method, columns, rows),
        Modelling(method=method, variables=columns, positions=number),
    )


def _check_not_following(cliques: Node, schema: Schema) -> None:
    """Refuse a table of a column that follows another: it is measured with that one."""
    sources = {dependent.column.name: dependent.source for dependent in schema.dependents}
    for clique in cliques.items():
        for item in clique.items() if isinstance(clique.content, tuple) else ():
            if item.content in sources:
                name = item.text()
                raise item.error(
                    f"{name!r} follows {sources[name]!r}, so nothing is measured for it; name"
                    f" {origin(schema, name)[0]!r}, whose table tells of both."
                )


def _read_stage(
    section: Node, stage: Literal["select", "reconstruct"], preset: Preset, schema: Schema
) -> tuple[Any, str]:
    """Return the method of a stage with its options, and its name."""
    family: registry.Family = "selection" if stage == "select" else "reconstruction"
    default = preset.select if stage == "select" else preset.reconstruct
    entries = section.entries()
    node = entries.get("method", section)
    name = node.text(example=default) if "method" in entries else default
    found = in_place(node, _find, family, name)
    own = preset.options.get(stage, {}) if name == default else {}
    reserved = ("method", "share") if stage == "select" else ("method",)
    if "cliques" in entries:
        _check_not_following(entries["cliques"], schema)
    return read_options(found, name, section, own, reserved, schema.domain), name


def check_pair(
    selector: Selector, selector_name: str, reconstructor: Reconstructor, reconstructor_name: str
) -> None:
    """Refuse a selection whose results the reconstruction cannot use, and name ones that can.

    Raises:
        BadInput: if one gives what the other does not take.
    """
    left = selector.gives - reconstructor.takes
    if not left:
        return
    fitting = [
        name
        for name in registry.available("reconstruction")
        if selector.gives <= registry.find("reconstruction", name).takes
    ]
    advice = f" take reconstruct: {{method: {' or '.join(fitting)}}}." if fitting else ""
    raise BadInput(
        f"{selector_name} gives {' and '.join(_GIVEN[kind] for kind in sorted(left))}, which"
        f" {reconstructor_name} cannot use;{advice or ' take another selection.'}"
    )


def check_mode(
    mode: Mode,
    sets: int,
    selector: Selector,
    selector_name: str,
    reconstructor: Reconstructor,
    reconstructor_name: str,
) -> None:
    """Refuse sets that shall carry the noise where they cannot.

    Raises:
        BadInput: if there is one set only, noise that cannot be drawn again, or a model that does
            not follow the noise as least squares do.
    """
    if mode != "noise-aware":
        return
    if sets < 2:
        raise BadInput(
            "noise-aware sets carry the noise in how they differ, and there is one only; ask for"
            " more sets, which cost no privacy, such as sets: 20."
        )
    left = selector.gives - {"tables", "answers", "interactions"}
    if left:
        raise BadInput(
            f"noise-aware sets are drawn from noisy tables, and {selector_name} gives"
            f" {' and '.join(_GIVEN[kind] for kind in sorted(left))}; take split, or another"
            " method."
        )
    reason = getattr(reconstructor, "against_inference", "")
    if reason:
        other = "reconstruct: {method: pgm}" if selector.gives <= {"tables"} else "method: aim"
        raise BadInput(
            f"noise-aware sets cannot be made by {reconstructor_name}, which {reason}: their"
            f" intervals would be wrong; take {other}, or split."
        )


def for_noise_aware(section: Node, method: _Method) -> _Method:
    """Return a stage's method as noise-aware sets need it: see `unshrunk`.

    Raises:
        BadInput: if the spec asks for an option that would make their intervals wrong.
    """
    honest = unshrunk(method)
    stated = section.entries()
    for field in dataclasses.fields(honest):  # type: ignore[arg-type]
        wanted, given = (getattr(each, field.name) for each in (honest, method))
        if field.name in stated and wanted != given:
            raise stated[field.name].error(
                f"must be {str(wanted).lower()} for noise-aware sets, whose intervals would be too"
                " short: leave it out."
            )
    return honest


def in_place(node: Node, check: Any, *arguments: object) -> Any:
    """Call a method's own check, and put the place in the file in front of its message."""
    try:
        return check(*arguments)
    except BadInput as error:
        raise node.error(error.message) from None


def _find(family: registry.Family, name: str) -> Any:
    """Return a method by its name in the spec.

    Raises:
        BadInput: if there is none, naming the nearest; or if it is a preset, saying so.
    """
    try:
        return registry.find(family, name)
    except registry.UnknownMethod:
        preset = PRESETS.get(name.casefold())
        # `AIM` is a method as well as a preset.
        if preset is None or name.casefold() in registry.available(family):
            raise
        own = preset.select if family == "selection" else preset.reconstruct
        its = f"; its {family} method is {own!r}" if own else f", and has no {family} method"
        raise BadInput(
            f"There is no {family} method {name!r}: that is a preset, to be named under"
            f" `method`{its}."
        ) from None
