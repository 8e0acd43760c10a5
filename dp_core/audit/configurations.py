"""Releases that cover every method and every kind of question, as a person would write them.

The list is generated from the presets and the method registries, so a new preset, method or option
is in it without further work. The audit makes these releases in memory; the test of the wall
(`tests/flows/test_wall.py`) makes them from end to end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dp_core.errors import BadInput
from dp_core.kernel.privacy import Relation
from dp_core.methods import registry
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.registry import Family
from dp_core.plan.plan import Plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.spec_file import load_plan

SchemaName = Literal["survey", "binary", "single", "private", "ruled", "linked", "vacant"]

_HEAD = """\
version: 1
title: Tiny survey
rows_about: 1000
missing_values: ["", "NA"]
"""
_MOVED = """\
  moved:
    {type: date, min: 2000-01-01, max: 2009-12-31, out_of_range: clip,
     edges: [2000-01-01, 2004-07-15, 2010-01-01]}
"""
_LINKED: Mapping[str, int] = {"linked": 1, "vacant": 0}
"""Fewest members of a household in each schema of linked tables."""
_HOMES = "{homes: homes.csv, people: people.csv}"

SCHEMAS: Mapping[str, str] = {
    "survey": _HEAD
    + """\
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100], missing: level, out_of_range: clip}
  sex: {type: category, levels: {10000000001: male, 10000000002: female}}
  marital:
    {type: category, levels: [single, married, widowed], missing: level, out_of_range: missing}
  income: {type: number, min: 0, max: 1000, bins: 4, missing: level, out_of_range: missing}
"""
    + _MOVED
    + """\
  stage: {type: ordinal, levels: [child, adult], follows: age, edges: [15], missing: level}
impossible:
  - {age: "<15", marital: [married, widowed]}
""",
    # Some scores need columns of two codes, and one method needs a single column.
    "binary": _HEAD
    + """\
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 40, 100], out_of_range: clip}
  sex: {type: category, levels: {10000000001: male, 10000000002: female}}
  marital: {type: category, levels: [single, married]}
  income: {type: number, min: 0, max: 1000, bins: 2, out_of_range: clip}
"""
    + _MOVED,
    "single": _HEAD
    + """\
columns:
  sex: {type: category, levels: {10000000001: male, 10000000002: female}}
""",
    "private": _HEAD
    + """\
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100], missing: level, out_of_range: clip}
  sex: {type: category, levels: {10000000001: male, 10000000002: female}}
  marital:
    {type: category, levels: {private: 2}, missing: level, out_of_range: missing,
     groups: {alone: [single, widowed], together: [married, partners]}}
  income:
    {type: number, min: 0, max: 1000, bins: {private: 3}, missing: level, out_of_range: missing}
"""
    + _MOVED,
    "ruled": _HEAD
    + """\
columns:
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100], missing: level, out_of_range: clip}
  marital: {type: category, levels: [single, married], missing: level, out_of_range: missing}
  income:
    {type: number, min: 0, max: 1000, bins: 4, decimals: 2, missing: level, out_of_range: missing}
rules:
  - age <= income
  - if marital == married then income >= 200
""",
    "linked": _HEAD
    + """\
tables:
  homes:
    key: home
    columns:
      tenure: {type: category, levels: {1: own, 2: rent}}
      income: {type: number, min: 0, max: 1000, bins: 2, missing: level, out_of_range: missing}
  people:
    key: nr
    parent: homes
    link: home_id
    columns:
      age:
        {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100], missing: level,
         out_of_range: clip}
      work: {type: category, levels: ["yes", "no"], missing: level, out_of_range: missing}
impossible:
  - {age: "<15", work: ["yes"]}
""",
}
"""Schemas of the generated files, without their `unit`; clip, missing values, dates, a dependent
column, a structural zero, private bins and levels, long codes, and rules between columns are in
them. `linked`
has two tables; each of the others has one."""

COLUMNS = ("age", "sex", "marital", "income", "moved")
"""Columns of the schemas of one table, in the order of the files; a schema may have fewer."""
PERSON = "person"
"""Column that identifies persons, where they are the unit."""
MEMBERS = 3
"""Most members of a household, where households are the unit."""

CLIQUES = "[[age, marital], [sex, income]]"
_NEEDED: Mapping[str, Mapping[str, str]] = {
    # Options without which a method has nothing to ask, or would ask hundreds of questions.
    "fixed": {"cliques": CLIQUES},
    "dualquery": {"records": "2"},
    "pegs": {"records": "20"},
    "average": {"models": "[modips, sequential_regression]"},
    # A tiny file would be measured as one table, and nothing else be asked.
    "auto": {"at_once": "never"},
}
_FURTHER: tuple[tuple[str, str, str], ...] = (
    # Numbers cannot be enumerated; these ask something else than their defaults.
    ("laplace-sanitizer", "bought", "2"),
    ("pegs", "sweeps", "2"),
    ("pegs", "features", "2"),
    ("mwem", "histogram", "1/4"),
    ("mwem", "picks", "4"),
    ("laplace-sanitizer", "categories", "1/2"),
    ("laplace-sanitizer", "bins", "3"),
    ("steps", "order", "[age]"),
)
_CHECKS = "{share: 0.2, tables: [[sex, age], [marital]]}"
_ANALYSES = '["income ~ age + sex + moved", "sex ~ marital + income", "marital ~ age"]'
_STATISTICS = '["mean of income by sex, age", "total of income"]'
_BOTH = '["sex ~ age", "mean of age by marital", "mean of income by age"]'
_OF_PRIVATE = '["income ~ age + moved", "sex ~ income"]'
_HOLD = (
    "{share: 0.2, tables: [[sex, age], [marital]],"
    " thresholds: [{figure: worst_tvd, hold: 0.0001}, {figure: fit, hold: 0.0001}]}"
)
_FAIL = (
    "{share: 0.2, tables: [[sex, age], [marital]], thresholds: [{figure: worst_tvd, fail: 0.0001}]}"
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One release, without its privacy.

    Attributes:
        name: For people; unique.
        method: Preset; empty for the default of a spec.
        keys: Further keys of `release.yaml`, each as YAML.
        schema: Its schema; None for the first of `survey`, `binary` and `single` that it takes.
        asks: Whether its questions may differ from those of the configurations before it.
    """

    name: str
    method: str
    keys: Mapping[str, str] = field(default_factory=dict)
    schema: SchemaName | None = None
    asks: bool = True

    @property
    def linked(self) -> bool:
        """Whether households with their members are released, from two tables."""
        return self.schema in _LINKED

    @property
    def schemas(self) -> tuple[SchemaName, ...]:
        """The schemas to try."""
        return ("survey", "binary", "single") if self.schema is None else (self.schema,)


@cache
def configurations() -> tuple[Configuration, ...]:
    """Return all releases: presets, features, then options and methods that no preset uses.

    >>> len({each.name for each in configurations()}) == len(configurations()) > len(PRESETS)
    True
    """
    return (*_presets(), *_features(), *_options(), *_without_preset(), *_linked_configurations())


def plan_of(
    configuration: Configuration, relation: Relation, *, epsilon: str, delta: str
) -> Plan | None:
    """Return the plan of a release, None if its privacy or the schemas do not fit the method.

    Args:
        configuration: The release.
        relation: Of the guarantee.
        epsilon: Of the guarantee, as text.
        delta: Of the guarantee, as text.
    """
    found = planned_schema(configuration, relation, epsilon=epsilon, delta=delta)
    return None if found is None else found[1]


def planned_schema(
    configuration: Configuration, relation: Relation, *, epsilon: str, delta: str
) -> tuple[SchemaName, Plan] | None:
    """Return the first schema that the method takes, and the plan; see `plan_of`."""
    keys = {
        "version": "1",
        "release": "tiny",
        "data": "tiny.csv",
        "schema": "tiny.schema.yaml",
        "account": "tiny",
        "privacy": f"{{epsilon: {epsilon}, delta: {delta}, neighbours: {relation.neighbours}}}",
        **({"method": configuration.method} if configuration.method else {}),
        **configuration.keys,
    }
    text = "".join(f"{key}: {value}\n" for key, value in keys.items())
    with TemporaryDirectory() as place:
        Path(place, "release.yaml").write_text(text)
        for schema in configuration.schemas:
            if (schema in _LINKED) != (relation.shares > 1):
                continue
            Path(place, "tiny.schema.yaml").write_text(schema_text(schema, relation))
            try:
                return schema, load_plan(Path(place, "release.yaml"))
            except BadInput:
                continue
    return None


def schema_text(schema: SchemaName, relation: Relation) -> str:
    """Return a schema with the relation's unit; a person is one if it may have several rows."""
    if schema in _LINKED:
        sizes = f"min_members: {_LINKED[schema]}, max_members: {MEMBERS}, larger: clip"
        return SCHEMAS["linked"] + f"unit: {{table: homes, {sizes}}}\n"
    if relation.max_rows == 1:
        return SCHEMAS[schema] + "unit: row\n"
    return SCHEMAS[schema] + f"unit: {{column: {PERSON}, max_rows: {relation.max_rows}}}\n"


def _presets() -> Iterator[Configuration]:
    yield Configuration("the default", "", asks=False)  # as `auto`
    for name in PRESETS:
        yield Configuration(name, name, _stage(name, {}))


def _features() -> Iterator[Configuration]:
    """Yield releases for what is no method: modes of the sets, checks, private bins and levels."""
    yield Configuration("split sets", "privsyn", {"synthesize": "{sets: 2, mode: split}"})
    yield Configuration("split sets, in rounds", "aim", {"synthesize": "{sets: 2, mode: split}"})
    yield Configuration("Gaussian noise", "auto", {"measure": "{noise: gaussian}"})
    wanted = {"tables": "[{of: [sex, age], weight: 3, prefixes: [age]}, {of: [sex, income]}]"}
    yield Configuration("wanted tables", "auto", wanted)
    yield Configuration("tables only", "fixed", {**wanted, "synthesize": "{sets: 0}"})
    yield Configuration("declared analyses", "auto", {"analyses": _ANALYSES})
    yield Configuration(
        "declared analyses, private bins", "auto", {"analyses": _OF_PRIVATE}, schema="private"
    )
    yield Configuration(
        "declared statistics",
        "auto",
        {"analyses": _STATISTICS, "measure": "{noise: gaussian}", "synthesize": "{sets: 0}"},
    )
    yield Configuration("declared statistics, with a formula", "auto", {"analyses": _BOTH})
    yield Configuration("charged checks", "privsyn", {"checks": _CHECKS})
    yield Configuration("charged checks of positions", "modips", {"checks": _CHECKS})
    yield Configuration(
        "checks that wait", "privsyn", {"checks": _HOLD, "publish": "after-approval"}, asks=False
    )
    yield Configuration("checks that fail", "privsyn", {"checks": _FAIL}, asks=False)
    yield Configuration("private bins and levels", "independent", schema="private")
    yield Configuration("private bins and levels, adaptive", "privsyn", schema="private")
    yield Configuration("private bins and levels, positions", "modips", schema="private")
    yield Configuration("rules between columns", "privsyn", schema="ruled")
    yield Configuration("rules between columns, positions", "modips", schema="ruled")


def _options() -> Iterator[Configuration]:
    """Yield each other value of every option that is a choice among words, or yes or no."""
    for name, preset in PRESETS.items():
        family: Family = "parametric" if preset.synthesize else "selection"
        method = registry.find(family, preset.synthesize or preset.select)
        hints = get_type_hints(method)
        for each in (each for each in fields(method) if each.metadata != NO_OPTION):
            for value in _choices(hints[each.name]):
                if value != each.default:
                    text = str(value).lower() if isinstance(value, bool) else str(value)
                    yield _with(name, each.name, text)
    for name, option, text in _FURTHER:
        yield _with(name, option, text)


def _without_preset() -> Iterator[Configuration]:
    """Yield the methods that no preset uses, each with the first preset that takes it."""
    used = {
        "selection": {preset.select for preset in PRESETS.values()},
        "reconstruction": {preset.reconstruct for preset in PRESETS.values()},
        "parametric": {preset.synthesize for preset in PRESETS.values()},
    }
    families: tuple[tuple[Family, str], ...] = (
        ("selection", "select"),
        ("reconstruction", "reconstruct"),
    )
    for family, stage in families:
        for method in registry.available(family):
            if method in used[family]:
                continue
            options = "".join(
                f", {key}: {text}"
                for key, text in (_NEEDED.get(method, {}) if family == "selection" else {}).items()
            )
            found = (
                Configuration(
                    f"{method} ({preset})",
                    preset,
                    _stage(preset, {}) | {stage: f"{{method: {method}{options}}}"},
                    asks=family == "selection",
                )
                for preset in ("fixed", "privsyn", *PRESETS)
                if not PRESETS[preset].synthesize
            )
            fitting = (
                each
                for each in found
                if plan_of(each, Relation("add-remove"), epsilon="4", delta="1e-6")
            )
            yield from itertools.islice(fitting, 1)


def _linked_configurations() -> Iterator[Configuration]:
    """Yield the releases of linked tables: every kind of question that they may ask."""
    for name, keys in (
        ("linked tables", {}),
        ("linked tables, interactions", {"synthesize": "{sets: 2, mode: shared}"}),
        ("linked tables, forest of pairs", {"select": "{candidates: forest}"}),
        ("linked tables, Gaussian noise", {"measure": "{noise: gaussian}"}),
    ):
        keys = {"data": _HOMES, **keys}
        yield Configuration(name, "auto", keys, schema="linked")
    yield Configuration("linked tables, vacant homes", "auto", {"data": _HOMES}, schema="vacant")


def _with(preset: str, option: str, text: str) -> Configuration:
    return Configuration(f"{preset}, {option}: {text}", preset, _stage(preset, {option: text}))


def _stage(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the key of a spec that gives a preset its options."""
    preset = PRESETS[name]
    stated = {**_NEEDED.get(preset.synthesize or preset.select, {}), **options}
    if not stated:
        return {}
    text = ", ".join(f"{key}: {value}" for key, value in stated.items())
    return {"synthesize" if preset.synthesize else "select": f"{{{text}}}"}


def _choices(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    elif get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from _choices(part)
    elif hint is bool:
        yield from (True, False)
