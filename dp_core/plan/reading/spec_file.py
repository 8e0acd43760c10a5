"""Reads `release.yaml`: one release, checked and with every default filled in.

Keys that the file leaves out take the values of the preset named under `method`. Keys of a stage
override the preset one by one. The options of a method are the other keys of its stage, and the
fields of its dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from dp_core.accounts.requested import Privacy
from dp_core.errors import BadInput, nearest
from dp_core.kernel.document import A_ROW
from dp_core.kernel.privacy import Neighbours, Noise
from dp_core.methods.private_domain.questions import default_share
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.replicates.posterior.posterior_tables import SETS
from dp_core.methods.selection.budget.workload import WantedTable
from dp_core.plan.counting_cluster import read_cluster
from dp_core.plan.currency_choice import check_thresholds
from dp_core.plan.data_location import read_data, read_path
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.forecast.one_step import better_plan
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.presets import PRESETS, Preset
from dp_core.plan.quality_checks import read_tables, read_thresholds
from dp_core.plan.reading.measurements_reader import (
    FindEarlier,
    analyses_section,
    check_analyses,
    check_resolved,
    check_schema,
    check_sets,
    no_ledger,
    read_analyses,
    with_measurements,
)
from dp_core.plan.reading.method_reader import (
    MODES,
    PARAMETRIC_MODES,
    check_mode,
    for_posterior,
    makes_posterior,
    read_mode,
    read_parametric,
    read_stages,
    refuse_unsupported,
    without_sets,
)
from dp_core.plan.reading.prior_reader import FindPrior, check_prior, no_prior, read_source
from dp_core.plan.reading.share_reader import LOOKING, read_shares
from dp_core.plan.reading.wanted_reader import read_wanted, refuse_wanted
from dp_core.plan.release_spec import PUBLISH, VERSION, ReleaseSpec, name_of, spec_document
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import check_version, load_schema
from dp_core.schema.structure.public_totals import records_of
from dp_core.text.documents.faults import Faults, top_keys
from dp_core.text.documents.node import Node, from_plain, in_place, one_of
from dp_core.text.documents.strict_yaml import load
from dp_core.text.documents.typed_text import quote
from dp_core.text.names import check_name

DEFAULT_METHOD = "auto"
HOW_TO_WRITE = (
    "Write one: `version: 1`, `release: NAME`, `data: FILE`, `schema: FILE`, `account: NAME` and"
    " `privacy: {epsilon: 1, delta: 1e-9}`, one on a line (docs/spec.md)."
)
"""Advice for a person who names a spec that does not exist."""
IN_MEMORY = "in-memory"
"""Name of a release in memory: of the release, its data and its account in the plan's document."""
MAX_EPSILON = 1000
MAX_SETS = 1000
MAX_ROWS = 10**10
MAX_FORMULAS = 20

_REQUIRED = ("version", "release", "data", "schema", "account", "privacy")
_SECTIONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "privacy": (("epsilon", "delta", "neighbours"), "{epsilon: 1.0, delta: 1.0e-9}"),
    "domain": (("share",), "{share: 0.05}"),
    "total": (("share",), "{share: 0.02}"),
    "one_way": (("share",), "{share: 0.1}"),
    "select": ((), "{method: densemarg, share: 0.1}"),
    "measure": (("share", "noise"), "{share: 0.9}"),
    "reconstruct": ((), "{method: gum}"),
    "synthesize": (
        ("sets", "rows", "mode", "seed"),
        "{sets: 5, rows: same, mode: shared, seed: 7}",
    ),
    "checks": (
        ("share", "tables", "thresholds", "formulas"),
        "{share: 0.05, tables: [[age, sex]]}",
    ),
}
"""Keys of each section, and an example of it. `select`, `reconstruct` and `synthesize` have the
options of a method besides."""
_KEYS = (
    *_REQUIRED,
    *("measurements", "revises", "prior", "method", "tables", "analyses"),
    *(section for section in _SECTIONS if section not in _REQUIRED),
    *("publish", "dask"),
)
NEIGHBOURS: tuple[Neighbours, ...] = ("add-remove", "replace-one")
_NOISE: tuple[Noise | Literal["auto"], ...] = ("auto", "laplace", "gaussian")


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


def memory_plan(
    schema: Schema, stated: Mapping[str, Any], *, find_prior: FindPrior = no_prior
) -> Plan:
    """Return the plan of a release in memory; it is that of a spec file with the same keys.

    Args:
        schema: Schema of the release.
        stated: Keys of a spec with plain values, without those that name files and an account.
        find_prior: Reads the public records if `stated` has the key `prior`; by default the key is
            refused.

    Raises:
        BadInput: for any mistake, with its key, and what is expected there.
    """
    named = dict.fromkeys(("release", "data", "schema", "account"), IN_MEMORY)
    fixed: dict[str, Any] = {"version": VERSION, **named}
    if schema.linked is not None:
        names = (schema.linked.households, schema.linked.persons)
        fixed["data"] = {name: f"{IN_MEMORY}, {name}" for name in names}
    if schema.panel is not None and schema.panel.wave is None:
        fixed["data"] = {wave: f"{IN_MEMORY}, {wave}" for wave in schema.panel.waves}
    root = from_plain({**fixed, **stated}, source="release")
    return read_plan(root, Path(), schema=schema, find_prior=find_prior)


def _read(
    root: Node,
    folder: Path,
    schema: Schema | None,
    earlier: EarlierRelease | None,
    find_prior: FindPrior,
) -> tuple[ReleaseSpec, Plan | None]:
    """Return a spec, and its plan (apart from `Plan.spec`) if one was made to read it."""
    faults = Faults(root.source, each=bool(root.line))
    keys = _top(root, faults)

    def of(otherwise: Any, key: str, reader: Callable[..., Any], *more: object) -> Any:
        return faults.of(otherwise, reader, keys[key], *more) if key in keys else otherwise

    # Faults of these keys are listed together.
    release = of("", "release", read_name, "release")
    account = of("", "account", read_name, "account")
    revises = of(None, "revises", read_name, "release")
    if schema is None:
        schema = of(None, "schema", read_schema, folder)
    data = of("", "data", read_data, schema)
    wanted: tuple[WantedTable, ...] = ()
    if schema is not None:
        refuse_unsupported(schema, keys, faults)
        wanted = of((), "tables", read_wanted, schema)
    privacy = of(None, "privacy", _read_privacy, schema)
    method = of(DEFAULT_METHOD, "method", _read_method)
    publish = of(PUBLISH[0], "publish", one_of, PUBLISH)
    cluster = of(None, "dask", read_cluster)
    source = of(None, "prior", read_source, folder)
    faults.stop()
    assert schema is not None
    if earlier is not None:
        check_schema(keys["schema"], schema, earlier)
    preset = PRESETS[method]

    sections = {stage: _section(keys, stage, root) for stage in _SECTIONS}
    for stage, (known, example) in _SECTIONS.items():
        if known and stage not in ("privacy", "synthesize"):
            sections[stage].fields(known, example=example)
    sections["analyses"] = analyses_section(keys.get("analyses"), root)
    formulas = _read_formulas(sections["checks"], schema)
    synthesis = sections["synthesize"].entries()
    rows_node, seed_node, sets_node = (synthesis.get(key) for key in ("rows", "seed", "sets"))
    rows = None if rows_node is None else _read_rows(rows_node)
    if schema.totals and (sets_node is None or sets_node.content != "0"):
        rows = records_of(schema.totals)
    modes = PARAMETRIC_MODES if preset.synthesize else MODES
    mode = read_mode(synthesis.get("mode"), modes)
    usual = SETS if mode == "posterior" else 1
    sets = usual if sets_node is None else sets_node.integer(minimum=0, maximum=MAX_SETS)
    if sets_node is not None and not sets:
        preset, mode = without_sets(sets_node, keys, sections, preset), "shared"
    declared = read_analyses(sections["analyses"], schema)
    schema, known = declared.schema, _SECTIONS["synthesize"][0]
    if preset.synthesize:
        check_analyses(sections["analyses"], declared, mode, method, synthesis, parametric=True)
        refuse_wanted(keys.get("tables"), preset.synthesize)
        schema, selector, reconstructor = read_parametric(
            keys, sections, preset, schema, rows, known
        )
    else:
        selector, reconstructor = read_stages(
            sections, preset, schema, known, keys.get("tables"), wanted, mode, sets
        )
        if (
            "mode" not in synthesis
            and (sets_node is None or sets > 1)
            and makes_posterior(selector, reconstructor, schema.domain)
        ):
            mode, sets = "posterior", SETS if sets_node is None else sets
        if sets_node is not None and not sets and "records" in selector.gives:
            raise sets_node.error(
                f"0 sets would publish noisy tables only, and {name_of(selector)} makes records"
                " instead of tables; make 1 set or more, or use method: auto or method: fixed."
            )
    if earlier is None:
        # The tables of a release with analyses may be used for any sets.
        check_analyses(sections["analyses"], declared, mode, method, synthesis)
    shares = read_shares(
        *(root, sections, preset, privacy, selector),
        domain=default_share(schema),
        analyses=bool(declared.texts),
    )
    mode_place = synthesis.get("mode", sections["synthesize"])
    if earlier is not None:
        check_sets(mode_place, mode, sets, earlier)
    in_place(mode_place, check_mode, mode, sets, selector, reconstructor)
    if mode == "posterior" and isinstance(reconstructor, Gum):
        reconstructor = for_posterior(sections["reconstruct"], reconstructor)
    noise = _read_noise(sections["measure"], preset, privacy)
    if selector.own_delta:
        section, key = ("measure", "noise") if noise == "gaussian" else ("privacy", "delta")
        threshold_place = sections[section].entries().get(key, sections[section])
        in_place(threshold_place, check_thresholds, name_of(selector), noise, privacy)
    seed = 1 if seed_node is None else seed_node.integer(minimum=0, maximum=2**63 - 1)
    checked = () if earlier else read_tables(sections["checks"], schema, shares["checks"], seed)
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
        analyses=declared.analyses,
        statistics=declared.statistics,
        declared=declared.texts,
        document={},
    )
    if source is not None:
        check_prior(keys["prior"], spec)
        # Last, so that a mistake elsewhere is reported before public records are read.
        prior = in_place(keys["prior"], find_prior, source, schema)
        spec = dataclasses.replace(spec, prior=prior)
    stated = any("share" in sections[stage].entries() for stage in LOOKING)
    plan = None if stated else better_plan(spec)
    spec = spec if plan is None else plan.spec
    document = spec_document(spec)
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
    for section in ("privacy", "synthesize", "measure"):
        inner, example = _SECTIONS[section]
        for key in inner:
            if key in entries and key != "share":
                raise Node(None, root.source, entries[key].line).error(
                    f"the key {key!r} belongs under {section}: write {section}: {example}."
                )
    keys = top_keys(root, faults, _KEYS, required=_REQUIRED)
    if "version" in keys:
        check_version(keys["version"], VERSION)
    return keys


def _section(keys: Mapping[str, Node], name: str, root: Node) -> Node:
    """Return the node of a section; if it is missing, an empty one at the line of `method`."""
    if name not in keys:
        place = keys.get("method", root)
        return Node({}, root.source, place.line, name)
    keys[name].entries(example=_SECTIONS[name][1])
    return keys[name]


def read_name(node: Node, what: str) -> str:
    """Return the name of a release or an account.

    Args:
        node: Its node.
        what: What it names, for messages.
    """
    return in_place(node, check_name, node.text(example="rand-2026q4"), what=what)


def read_schema(node: Node, folder: Path) -> Schema:
    """Return the schema of a file.

    Args:
        node: Node of its path.
        folder: Folder to which the path is relative.

    Raises:
        BadInput: for a wrong path at its place in this file, for any other mistake in the schema.
    """
    path = folder / read_path(node)
    if path.suffix.lower() in (".csv", ".parquet"):
        raise node.error(f"{quote(node.name())} is a data file; name the schema, a YAML file.")
    return load_schema(path) if path.is_file() else in_place(node, load_schema, path)


def _read_privacy(node: Node, schema: Schema | None) -> Privacy:
    known, example = _SECTIONS["privacy"]
    keys = node.fields(known, required=("epsilon",), example=example)
    return Privacy(
        epsilon=keys["epsilon"].epsilon(MAX_EPSILON),
        delta=keys["delta"].fraction(minimum=0, below=1) if "delta" in keys else Fraction(0),
        neighbours=one_of(keys.get("neighbours"), NEIGHBOURS),
        protects=A_ROW if schema is None else schema.unit,
    )


def _read_method(node: Node) -> str:
    name = node.text(example=DEFAULT_METHOD)
    if name not in PRESETS:
        raise node.error(f"there is no method {quote(name)}.{nearest(name, PRESETS)}")
    return name


def _read_noise(section: Node, preset: Preset, privacy: Privacy) -> Noise | Literal["auto"]:
    node = section.entries().get("noise")
    noise = one_of(node, _NOISE) if node is not None else preset.noise or "auto"
    if noise == "gaussian" and not privacy.delta:
        raise (node or section).error(
            "gaussian noise needs a delta above 0; set privacy.delta, or use laplace or auto."
        )
    return noise


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
            raise item.error(f"{quote(text)} is listed twice; remove one.")
        found.append(text)
    return tuple(found)


def _read_rows(node: Node) -> int | None:
    if node.content == "same":
        return None
    if isinstance(node.content, str) and not node.content.strip().lstrip("+-").isdigit():
        raise node.error(f"{quote(node.content)} is neither `same` nor a number of rows.")
    return node.integer(minimum=1, maximum=MAX_ROWS)
