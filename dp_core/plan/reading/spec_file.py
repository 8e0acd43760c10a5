"""Reads `release.yaml`: one release, checked and with every default filled in.

Keys that the file leaves out take the values of the preset named under `method`. Keys of a stage
override the preset one by one. The options of a method are the other keys of its stage, and the
fields of its dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dp_core.errors import BadInput, nearest
from dp_core.methods.private_domain.questions import default_share
from dp_core.methods.replicates.noise_aware import SETS
from dp_core.methods.replicates.posterior.posterior_tables import SETS as POSTERIOR_SETS
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.forecast.one_step import better_plan
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.presets import PRESETS, Preset
from dp_core.plan.reading.analyses_reader import (
    analyses_section,
    check_analyses,
    read_analyses,
    refuse_statistics,
)
from dp_core.plan.reading.checks_reader import read_tables, read_thresholds
from dp_core.plan.reading.cluster_reader import read_cluster
from dp_core.plan.reading.data_reader import read_data, read_path
from dp_core.plan.reading.measurements_reader import (
    FindEarlier,
    check_resolved,
    check_schema,
    check_sets,
    no_ledger,
    with_measurements,
)
from dp_core.plan.reading.method_limits import refuse_unsupported
from dp_core.plan.reading.method_reader import (
    MODES,
    PARAMETRIC_MODES,
    check_mode,
    for_noise_aware,
    for_posterior,
    in_place,
    makes_posterior,
    read_parametric,
    read_stages,
)
from dp_core.plan.reading.prior_reader import (
    FindPrior,
    check_prior,
    no_prior,
    read_prior,
    read_source,
)
from dp_core.plan.reading.set_count import refuse_records, without_sets
from dp_core.plan.reading.share_reader import KNOWING, LOOKING, check_known, read_shares
from dp_core.plan.reading.spec_document import VERSION, spec_document
from dp_core.plan.reading.wanted_reader import read_wanted, refuse_wanted
from dp_core.plan.release_spec import PUBLISH, ReleaseSpec
from dp_core.schema.definition import Schema, Unit
from dp_core.schema.panel.panel_waves import Panel
from dp_core.schema.privacy import Neighbours, Noise, Privacy, Stage
from dp_core.schema.reading.schema_file import check_version, load_schema
from dp_core.tables.public_totals import records_of
from dp_core.text.documents.faults import Faults, top_keys
from dp_core.text.documents.node import Node, one_of
from dp_core.text.documents.strict_yaml import load
from dp_core.text.documents.typed_text import shown
from dp_core.text.names import check_name

DEFAULT_METHOD = "auto"
HOW_TO_WRITE = (
    "Write one: `version: 1`, `release: NAME`, `data: FILE`, `schema: FILE`, `account: NAME` and"
    " `privacy: {epsilon: 1, delta: 1e-9}`, one on a line (docs/spec.md)."
)
"""Advice for a person who names a spec that does not exist."""
MAX_EPSILON = 1000
MAX_SETS = 1000
MAX_ROWS = 10**10
MAX_FORMULAS = 20

_KEYS = (
    "version",
    "release",
    "data",
    "schema",
    "account",
    "measurements",
    "revises",
    "prior",
    "privacy",
    "method",
    "tables",
    "analyses",
    "domain",
    "total",
    "one_way",
    "select",
    "measure",
    "reconstruct",
    "synthesize",
    "checks",
    "publish",
    "dask",
)
_REQUIRED = ("version", "release", "data", "schema", "account", "privacy")
_SECTION_KEYS = {
    "privacy": ("epsilon", "delta", "neighbours"),
    "synthesize": ("sets", "rows", "mode", "seed"),
    "measure": ("noise",),
}
_NEIGHBOURS: tuple[Neighbours, ...] = ("add-remove", "replace-one")
_NOISE: tuple[Noise | Literal["auto"], ...] = ("auto", "laplace", "gaussian")
_EXAMPLES = {
    "privacy": "{epsilon: 1.0, delta: 1.0e-9}",
    "domain": "{share: 0.05}",
    "total": "{share: 0.02}",
    "one_way": "{share: 0.1}",
    "select": "{method: densemarg, share: 0.1}",
    "measure": "{share: 0.9}",
    "reconstruct": "{method: gum}",
    "synthesize": "{sets: 5, rows: same, mode: shared, seed: 7}",
    "checks": "{share: 0.05, tables: [[age, sex]]}",
}


def load_spec(
    path: Path, *, find: FindEarlier = no_ledger, find_prior: FindPrior = no_prior
) -> ReleaseSpec:
    """Return the release of a spec file, with its schema; does not open the data.

    Args:
        path: The spec file.
        find: Finds the earlier release that the key `measurements` names; by default the key is
            refused.
        find_prior: Reads the public records that the key `prior` names; by default the key is
            refused.

    Raises:
        BadInput: for any mistake, with its file, line and key, and what is expected there.
    """
    root, earlier = with_measurements(load(path, advice=HOW_TO_WRITE).root, find)
    return _read(root, path.parent, None, earlier, find_prior)[0]


def load_plan(
    path: Path, *, find: FindEarlier = no_ledger, find_prior: FindPrior = no_prior
) -> Plan:
    """Return the plan of a spec file; the arguments are those of `load_spec`.

    Raises:
        BadInput: as for `load_spec`, or if there is no such plan.
    """
    root, earlier = with_measurements(load(path, advice=HOW_TO_WRITE).root, find)
    return read_plan(root, path.parent, earlier=earlier, find_prior=find_prior)


def read_plan(
    root: Node,
    folder: Path,
    *,
    schema: Schema | None = None,
    earlier: EarlierRelease | None = None,
    find_prior: FindPrior = no_prior,
) -> Plan:
    """Return the plan of the release that the top value of a spec describes.

    Args:
        root: The top value.
        folder: Folder to which the paths in it are relative.
        schema: Schema of the release; None (the default) to read the file that the spec names.
        earlier: The release that the key `measurements` names; None (the default) without one.
        find_prior: Reads the public records that the key `prior` names; by default the key is
            refused.

    Raises:
        BadInput: for any fault, with its place and key, and what is expected there. Faults of
            single keys and of the schema are listed together. Also if there is no such plan.
    """
    spec, plan = _read(root, folder, schema, earlier, find_prior)
    return make_plan(spec) if plan is None else dataclasses.replace(plan, spec=spec)


def _read(
    root: Node,
    folder: Path,
    schema: Schema | None,
    earlier: EarlierRelease | None,
    find_prior: FindPrior,
) -> tuple[ReleaseSpec, Plan | None]:
    """Return a spec, and its plan (apart from `Plan.spec`) if one was made to read it."""
    faults = Faults(root.source, each=bool(root.line))
    of = faults.of
    keys = _top(root, faults)
    release = of("", _read_name, keys["release"], "release") if "release" in keys else ""
    account = of("", _read_name, keys["account"], "account") if "account" in keys else ""
    revises = of(None, _read_name, keys["revises"], "release") if "revises" in keys else None
    if schema is None and "schema" in keys:
        schema = of(None, _read_schema, keys["schema"], folder)
    data = of("", read_data, keys["data"], schema) if "data" in keys else ""
    if schema is not None:
        refuse_unsupported(schema, keys, faults)
        if "tables" in keys:
            of((), read_wanted, keys["tables"], schema)
    if "privacy" in keys:
        unit, panel = (Unit(), None) if schema is None else (schema.unit, schema.panel)
        of(None, _privacy, keys, root, unit, panel)
    of(None, _read_method, keys.get("method"))
    publish = of(PUBLISH[0], one_of, keys.get("publish"), PUBLISH)
    cluster = of(None, read_cluster, keys.get("dask"))
    place_of_prior = keys.get("prior")
    source = None if place_of_prior is None else of(None, read_source, place_of_prior, folder)
    faults.stop()
    assert schema is not None
    if earlier is not None:
        check_schema(keys["schema"], schema, earlier)
    privacy = _privacy(keys, root, schema.unit, schema.panel)
    method = _read_method(keys.get("method"))
    preset = PRESETS[method]

    sections = {stage: _section(keys, stage, root) for stage in _EXAMPLES if stage != "privacy"}
    for stage, known in (
        ("domain", ("share",)),
        ("total", ("share",)),
        ("one_way", ("share",)),
        ("measure", ("share", "noise")),
        ("checks", ("share", "tables", "thresholds", "formulas")),
    ):
        sections[stage].fields(known, example=_EXAMPLES[stage])
    sections["analyses"] = analyses_section(keys.get("analyses"), root)
    formulas = _read_formulas(sections["checks"], schema)
    synthesis = sections["synthesize"].entries()
    rows_node, seed_node, sets_node = (synthesis.get(key) for key in ("rows", "seed", "sets"))
    rows = None if rows_node is None else _read_rows(rows_node)
    if schema.totals and (sets_node is None or sets_node.content != "0"):
        rows = records_of(schema.totals)
    modes = PARAMETRIC_MODES if preset.synthesize else MODES
    mode = one_of(synthesis.get("mode"), modes)
    usual = {"noise-aware": SETS, "posterior": POSTERIOR_SETS}.get(mode, 1)
    sets = usual if sets_node is None else sets_node.integer(minimum=0, maximum=MAX_SETS)
    if sets_node is not None and not sets:
        preset, mode = without_sets(sets_node, keys, sections, preset), "shared"
    declared = read_analyses(sections["analyses"], schema)
    schema, analyses = declared.schema, declared.analyses
    if preset.synthesize:
        check_analyses(sections["analyses"], analyses, mode, method, synthesis)
        refuse_statistics(sections["analyses"], declared, method)
        refuse_wanted(keys.get("tables"), preset.synthesize)
        schema, selector, reconstructor = read_parametric(
            keys, sections, preset, schema, rows, _SECTION_KEYS["synthesize"]
        )
        selector_name = reconstructor_name = preset.synthesize
        place = sections["synthesize"]
    else:
        selector, selector_name, reconstructor, reconstructor_name = read_stages(
            sections, preset, schema, _SECTION_KEYS["synthesize"], keys.get("tables"), sets
        )
        place = sections["select"]
        if (
            "mode" not in synthesis
            and (sets_node is None or sets > 1)
            and makes_posterior(selector, reconstructor, schema.domain)
        ):
            mode, sets = "posterior", POSTERIOR_SETS if sets_node is None else sets
        if sets_node is not None and not sets:
            refuse_records(sets_node, selector, selector_name)
    if earlier is None:
        # The tables of a release with analyses may be used for any sets.
        check_analyses(sections["analyses"], analyses, mode, method, synthesis)
    shares = read_shares(
        *(root, sections, preset, privacy, selector, selector_name),
        domain=default_share(schema),
        analyses=bool(declared.texts),
    )
    measured: list[Stage] = [stage for stage in KNOWING if shares[stage]]
    check_known(sections, place, selector, privacy.relation.of_rows, measured)
    mode_place = synthesis.get("mode", sections["synthesize"])
    if earlier is not None:
        check_sets(mode_place, mode, sets, selector, earlier)
    in_place(
        *(mode_place, check_mode, mode, sets),
        *(selector, selector_name, reconstructor, reconstructor_name),
    )
    if mode == "noise-aware":
        if earlier is None:
            selector = for_noise_aware(sections["select"], selector)
        reconstructor = for_noise_aware(sections["reconstruct"], reconstructor)
    elif mode == "posterior" or schema.has_drawn_tables:
        reconstructor = for_posterior(sections["reconstruct"], reconstructor)
        reconstructor_name = "gum"
    if place_of_prior is not None:
        check_prior(
            place_of_prior,
            schema,
            method=method,
            selector=selector,
            reconstructor=reconstructor,
            mode=mode,
            sets=sets,
        )
    noise = _read_noise(sections["measure"], preset, privacy)
    if selector.own_delta:
        _check_thresholds(keys["privacy"], sections["measure"], privacy, noise, selector_name)
    seed = 1 if seed_node is None else seed_node.integer(minimum=0, maximum=2**63 - 1)
    checked = () if earlier else read_tables(sections["checks"], schema, shares["checks"], seed)
    prior = None
    if place_of_prior is not None and source is not None:
        # Last, so that a mistake elsewhere is reported before public records are read.
        prior = read_prior(place_of_prior, source, schema, find_prior)
    spec = ReleaseSpec(
        release=release,
        data=data,
        folder=folder,
        schema=schema,
        account=account,
        revises=revises,
        privacy=privacy,
        method=method,
        shares=shares,
        noise=noise,
        selector=selector,
        reconstructor=reconstructor,
        sets=sets,
        rows=rows,
        mode=mode,
        seed=seed,
        formulas=formulas,
        checks=checked,
        thresholds=read_thresholds(sections["checks"], shares["checks"]),
        publish=publish,
        dask=cluster,
        measurements=earlier,
        analyses=analyses,
        statistics=declared.statistics,
        declared=declared.texts,
        prior=prior,
        document={},
    )
    stated = any("share" in sections[stage].entries() for stage in LOOKING)
    plan = None if stated else better_plan(spec)
    spec = spec if plan is None else plan.spec
    document = spec_document(spec, selector_name, reconstructor_name)
    if earlier is not None:
        check_resolved(keys["release"], document, earlier)
    return dataclasses.replace(spec, document=document), plan


def _top(root: Node, faults: Faults) -> Mapping[str, Node]:
    """Return the keys of a spec; notes each unknown one, and each that is missing."""
    entries = root.entries(example="`version: 1`, `release: ...`, `data: ...`")
    if "columns" in entries and not {"privacy", "release"} & set(entries):
        raise BadInput(
            f"{root.source}: is a schema, not a release spec; give the spec, which has `privacy`"
            " and names this file under `schema`."
        )
    for section, inner in _SECTION_KEYS.items():
        for key in inner:
            if key in entries:
                raise Node(None, root.source, entries[key].line).error(
                    f"the key {key!r} belongs under {section}: write"
                    f" {section}: {_EXAMPLES.get(section, '')}."
                )
    keys = top_keys(root, faults, _KEYS, required=_REQUIRED)
    if "version" in keys:
        check_version(keys["version"], VERSION)
    return keys


def _privacy(keys: Mapping[str, Node], root: Node, unit: Unit, panel: Panel | None) -> Privacy:
    return _read_privacy(_section(keys, "privacy", root), unit, panel)


def _section(keys: Mapping[str, Node], name: str, root: Node) -> Node:
    """Return the node of a section; if it is missing, an empty one at the line of `method`."""
    if name not in keys:
        place = keys.get("method", root)
        return Node({}, root.source, place.line, name)
    keys[name].entries(example=_EXAMPLES[name])
    return keys[name]


def _read_name(node: Node, what: str) -> str:
    try:
        return check_name(node.text(example="rand-2026q4"), what=what)
    except BadInput as error:
        raise node.error(error.message) from None


def _read_schema(node: Node, folder: Path) -> Schema:
    path = folder / read_path(node)
    if path.suffix.lower() in (".csv", ".parquet"):
        raise node.error(f"{shown(node.name())} is a data file; name the schema, a YAML file.")
    try:
        return load_schema(path)
    except BadInput as error:
        # A wrong path is a mistake in the spec; any other error is in the schema.
        if path.is_file():
            raise
        raise node.error(error.message) from None


def _read_privacy(node: Node, unit: Unit, panel: Panel | None) -> Privacy:
    keys = node.fields(
        _SECTION_KEYS["privacy"], required=("epsilon",), example=_EXAMPLES["privacy"]
    )
    return Privacy(
        epsilon=keys["epsilon"].fraction(above=0, maximum=MAX_EPSILON),
        delta=keys["delta"].fraction(minimum=0, below=1) if "delta" in keys else Fraction(0),
        neighbours=one_of(keys.get("neighbours"), _NEIGHBOURS),
        unit=unit.word,
        max_rows=unit.max_rows,
        max_members=unit.max_members or 1,
        waves="" if panel is None else panel.first_and_last,
    )


def _read_method(node: Node | None) -> str:
    if node is None:
        return DEFAULT_METHOD
    name = node.text(example=DEFAULT_METHOD)
    if name not in PRESETS:
        raise node.error(f"there is no method {shown(name)}.{nearest(name, PRESETS)}")
    return name


def _read_noise(section: Node, preset: Preset, privacy: Privacy) -> Noise | Literal["auto"]:
    node = section.entries().get("noise")
    noise = one_of(node, _NOISE) if node is not None else preset.noise or "auto"
    if noise == "gaussian" and not privacy.delta:
        raise (node or section).error(
            "gaussian noise needs a delta above 0; set privacy.delta, or use laplace or auto."
        )
    return noise


def _check_thresholds(
    section: Node,
    measure: Node,
    privacy: Privacy,
    noise: Noise | Literal["auto"],
    selector_name: str,
) -> None:
    """Refuse delta 0 and Gaussian noise for thresholds; the plan cannot name the line.

    Raises:
        BadInput: naming the line in the spec.
    """
    if noise == "gaussian":
        place = measure.entries().get("noise", measure)
        raise place.error(
            f"{selector_name} keeps cells above a threshold, which needs Laplace noise; use"
            " laplace or auto."
        )
    if not privacy.delta:
        place = section.entries().get("delta", section)
        raise place.error(
            f"{selector_name} keeps cells above a threshold, which fails with a small"
            " probability; set privacy.delta above 0, for example 1.0e-9."
        )


def _read_formulas(section: Node, schema: Schema) -> tuple[str, ...]:
    """Return the regressions that staff will compare with the confidential data."""
    node = section.entries().get("formulas")
    if node is None:
        return ()
    from dp_core.inference.formulas.formula import check_formula

    items = [node] if isinstance(node.content, str) else list(node.items())
    if len(items) > MAX_FORMULAS:
        raise node.error(f"has {len(items)} formulas; the maximum is {MAX_FORMULAS}.")
    found: list[str] = []
    for item in items:
        text = item.text(example="smokes ~ age + sex")
        in_place(item, check_formula, text, schema)
        if text in found:
            raise item.error(f"{shown(text)} is listed twice; remove one.")
        found.append(text)
    return tuple(found)


def _read_rows(node: Node) -> int | None:
    if node.content == "same":
        return None
    if isinstance(node.content, str) and not node.content.strip().lstrip("+-").isdigit():
        raise node.error(f"{shown(node.content)} is neither `same` nor a number of rows.")
    return node.integer(minimum=1, maximum=MAX_ROWS)
