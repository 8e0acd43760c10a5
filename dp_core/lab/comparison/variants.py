"""Variants to compare: each spec with every method and epsilon, written as a spec of its own.

The command line may name methods and epsilons. A variant keeps the file, schema, privacy, checks,
number of rows and seed of its spec; it keeps the keys of a stage only if the method is the spec's
own, and `tables` only for a method that uses it. A spec of tables only is compared by one set. The
specs that are run are stored; `dp-release plan` and `run` accept them too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from dp_core.errors import BadInput
from dp_core.kernel.canonical import digest
from dp_core.lab.comparison.cells import PLAIN
from dp_core.plan.data_location import require_files
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.spec_file import load_spec
from dp_core.plan.reading.wanted_reader import methods_with_workload
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.text.documents.strict_yaml import load, plain

Place: TypeAlias = tuple[tuple[str, ...], str]
"""Full patterns of the data files, and the hash of the schema: together they identify an input."""

_SYNTHESIS = ("sets", "rows", "mode", "seed")
_STAGES = ("total", "one_way", "select", "measure", "reconstruct")
"""Stages whose keys belong to a method. `domain` and `checks` belong to the release, so that every
method pays for them."""
_PLACE = re.compile(r"^[^:]*?\.ya?ml(?:, line \d+)?(?:, ([\w.]+))?: ")


@dataclass(frozen=True, slots=True)
class Given:
    """A spec file that will be compared.

    Attributes:
        path: Path of the file.
        plain: Its content as plain values.
        spec: The same as a spec, with the schema as written, not on a grid.
    """

    path: Path
    plain: Mapping[str, Any]
    spec: ReleaseSpec


@dataclass(frozen=True, slots=True)
class Variant:
    """One method at one epsilon on one file.

    Attributes:
        input: File patterns and schema hash of its data.
        method: The preset.
        label: Name in the table.
        epsilon, delta, neighbours: The guarantee of one release.
        path: Spec that is run.
        document: The resolved spec without names and seed, which determines its result.
        seed: Seed of the spec's post-processing.
        refusal: Why the method cannot be used; None if it can.
    """

    input: Place
    method: str
    label: str
    epsilon: Fraction
    delta: Fraction
    neighbours: str
    path: Path
    document: Mapping[str, object]
    seed: int
    refusal: str | None


def read_given(path: Path) -> Given:
    """Read a spec that is to be compared.

    Raises:
        BadInput: for any error in the spec or its schema.
    """
    spec = load_spec(path)
    require_files(spec.data, "A comparison")
    if spec.declared:
        raise BadInput(
            f"{path}: declares analyses, which a comparison does not measure; remove analyses to"
            " compare the sets."
        )
    written = spec.schema.coarse or spec.schema  # a method may need it on a grid
    return Given(path, plain(load(path).root), dataclasses.replace(spec, schema=written))


def variants(
    given: Sequence[Given],
    methods: Sequence[str],
    epsilons: Sequence[Fraction],
    folder: Path,
) -> tuple[Variant, ...]:
    """Return the distinct variants in the requested order.

    Args:
        given: The specs.
        methods: Presets; if empty, each spec's own.
        epsilons: Epsilons; if empty, each spec's own.
        folder: Folder for the specs that are run.
    """
    found: dict[str, Variant] = {}
    names: dict[str, str] = {}
    for spec in given:
        for method in methods or (spec.spec.method,):
            for epsilon in epsilons or (spec.spec.privacy.epsilon,):
                made = _variant(spec, method, epsilon, folder)
                key = digest([*made.input[0], dict(made.document)])
                if key not in found:
                    found[key], names[key] = made, spec.spec.release
    return tuple(_with_unique_labels(found, names))


def reference(given: Sequence[Given], found: Sequence[Variant], folder: Path) -> list[Variant]:
    """Return the variant `independent` for every file and guarantee that does not have it yet.

    Linked tables have no such variant.
    """
    have = {(one.input, one.epsilon, one.delta, one.neighbours, one.method) for one in found}
    added: list[Variant] = []
    for one in found:
        wanted = (one.input, one.epsilon, one.delta, one.neighbours, PLAIN)
        spec = next(spec for spec in given if place_of(spec) == one.input and _like(spec, one))
        if wanted not in have and spec.spec.schema.linked is None:
            have.add(wanted)
            added.append(_variant(spec, PLAIN, one.epsilon, folder))
    return added


def without_place(message: str) -> str:
    """Return a message about a generated spec without the file name and line.

    >>> message = "x.yaml, line 3, select: needs cliques."
    >>> without_place(message), without_place("No noise gives that.")
    ('select: needs cliques.', 'No noise gives that.')
    """
    return _PLACE.sub(lambda found: f"{found[1]}: " if found[1] else "", message)


def plan_of_variant(path: Path, *, seed: int) -> Plan:
    """Return the plan of a variant's spec, at the seed of one run.

    Raises:
        BadInput: if the method cannot be used.
    """
    return make_plan(dataclasses.replace(load_spec(path), seed=seed))


def _variant(given: Given, method: str, epsilon: Fraction, folder: Path) -> Variant:
    path = _write_spec(given, method, folder, epsilon)
    spec, refusal = given.spec, None
    try:
        spec = load_spec(path)
        make_plan(spec)
    except BadInput as error:
        refusal = without_place(error.message)
    document = {
        key: value
        for key, value in spec.document.items()
        if key not in ("release", "data", "account", "revises")
    }
    synthesis = document.get("synthesize")
    if isinstance(synthesis, Mapping):
        document["synthesize"] = {key: synthesis[key] for key in synthesis if key != "seed"}
    if refusal is not None:
        document = {"method": method, "text": digest(path.read_text()), "refused": refusal}
    return Variant(
        input=place_of(given),
        method=method,
        label=method,
        epsilon=epsilon,
        delta=given.spec.privacy.delta,
        neighbours=given.spec.privacy.neighbours,
        path=path,
        document=document,
        seed=given.spec.seed,
        refusal=refusal,
    )


def _with_unique_labels(
    found: Mapping[str, Variant], names: Mapping[str, str]
) -> Iterator[Variant]:
    """Yield variants with labels that are unique for each file and epsilon."""
    alike: dict[tuple[object, ...], set[str]] = {}
    guarantees: dict[Place, set[tuple[Fraction, str]]] = {}
    for key, one in found.items():
        place = (one.input, one.method, one.epsilon, one.delta, one.neighbours)
        alike.setdefault(place, set()).add(key)
        guarantees.setdefault(one.input, set()).add((one.delta, one.neighbours))
    for key, one in found.items():
        place = (one.input, one.method, one.epsilon, one.delta, one.neighbours)
        label = one.method
        if len(alike[place]) > 1:
            label += f" ({names[key]})"
        if len(guarantees[one.input]) > 1:
            label += f", delta {float(one.delta):g}, {one.neighbours}"
        yield dataclasses.replace(one, label=label)


def place_of(given: Given) -> Place:
    """Return the file patterns and schema hash of a spec's data."""
    files = require_files(given.spec.data, "A comparison")
    full = tuple(str((given.path.parent / each).absolute()) for each in files)
    return full, schema_hash(given.spec.schema)


def _like(given: Given, one: Variant) -> bool:
    privacy = given.spec.privacy
    return (privacy.delta, privacy.neighbours) == (one.delta, one.neighbours)


def _without_stages(plain: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in plain.items() if key not in _STAGES}
    if isinstance(kept.get("synthesize"), Mapping):
        # The other keys belong to a parametric method.
        own = kept["synthesize"]
        kept["synthesize"] = {key: own[key] for key in own if key in _SYNTHESIS}
    return kept


def _write_spec(given: Given, method: str, folder: Path, epsilon: Fraction) -> Path:
    """Write a spec with another method or epsilon and absolute paths; return its path."""
    of, own = given.path, method == given.spec.method
    made = dict(given.plain if own else _without_stages(given.plain))
    made["method"] = method
    if not own and method in PRESETS and PRESETS[method].select not in methods_with_workload():
        made.pop("tables", None)
    synthesis = made.get("synthesize")
    if isinstance(synthesis, Mapping) and str(synthesis.get("sets")).strip() == "0":
        made["synthesize"] = {key: synthesis[key] for key in synthesis if key != "sets"}
    for key in ("data", "schema"):
        stated = made[key]
        made[key] = (
            {name: _full(of, place) for name, place in stated.items()}
            if isinstance(stated, Mapping)
            else _full(of, stated)
        )
    made["privacy"] = {**made["privacy"], "epsilon": str(epsilon)}
    text = yaml.safe_dump(made, sort_keys=False, allow_unicode=True)
    path = folder / f"{of.stem}-{method}-{float(epsilon):g}-{digest(text)[:8]}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _full(of: Path, place: object) -> str:
    return str((of.parent / str(place)).absolute())
