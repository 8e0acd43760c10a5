"""Reads the sample design of a schema: roles of columns, and the key `survey`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_pieces import exact_text
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.survey.primary_units import has_hadamard, primary_units
from dp_core.schema.survey.survey_design import NO_SURVEY, ReplicateMethod, Replicates, Survey
from dp_core.text.documents.node import Node, one_of
from dp_core.text.documents.typed_text import quote

MOST_REPLICATES = 1000
"""Most replicates; each is a fit of the regression on every set."""
_MOST_UNITS = 10_000_000
_METHODS: tuple[ReplicateMethod, ...] = ("jk1", "jkn", "brr", "bootstrap")
_KEYS = ("nested", "strata", "clusters", "replicates", "replicate_weights", "design_effect")
_EXAMPLE = "{strata: 15, clusters: 30, design_effect: 1.8}"
_RANGE = re.compile(r"(.*?)(\d+)\.\.(.*?)(\d+)")


def check_roles(columns: Sequence[Column], definitions: Mapping[str, Node]) -> None:
    """Refuse a second column of a role, and strata or clusters that can be missing."""
    found: dict[str, str] = {}
    for column in columns:
        if not column.role:
            continue
        role = definitions[column.name].entries()["role"]
        if column.role in found:
            raise role.error(
                f"only one column can have `role: {column.role}`, and"
                f" {quote(found[column.role])} already has it; remove one of the two."
            )
        found[column.role] = column.name
        if column.role != "weight" and column.missing_code is not None:
            raise role.error(
                f"a {column.role} cannot be missing; remove `missing: level`, also of the column"
                " that it follows."
            )


def read_survey(
    node: Node | None,
    schema: Schema,
    definitions: Mapping[str, Node],
    replicate_weights: Sequence[str],
) -> Survey:
    """Return the sample design.

    Args:
        node: The key `survey`; None if it is not given.
        schema: The schema, with its columns and structural zeros.
        definitions: Definition of each column, by name.
        replicate_weights: Columns with the role `replicate_weight`.

    Raises:
        BadInput: if the design contradicts itself or the columns.
    """
    keys: Mapping[str, Node] = {} if node is None else node.fields(_KEYS, example=_EXAMPLE)
    survey = Survey(
        nested="nested" in keys and keys["nested"].boolean(),
        strata=_number(keys, "strata", schema.stratum),
        clusters=_number(keys, "clusters", schema.cluster),
        design_effect=keys["design_effect"].fraction() if "design_effect" in keys else None,
        replicate_weights=(
            *replicate_weights,
            *_replicate_names(keys.get("replicate_weights"), schema, definitions),
        ),
    )
    if survey.design_effect is not None and survey.design_effect < 1:
        raise keys["design_effect"].error(
            "a design effect below 1 would make intervals narrower than the sets justify; leave it"
            " out."
        )
    if survey.nested and not (schema.stratum and schema.cluster):
        raise keys["nested"].error(
            "needs a column with `role: stratum` and one with `role: cluster`; add both, or remove"
            " the key."
        )
    counts = _units_by_stratum(replace(schema, survey=survey), definitions)
    of_column = None if schema.stratum is None else len(schema.stratum.levels)
    strata = counts.size if counts is not None else of_column or survey.strata or 1
    clusters = int(counts.sum()) if counts is not None else survey.clusters
    if clusters is not None and clusters <= strata:
        place = keys.get("clusters", keys.get("strata"))
        if place is None and schema.cluster is not None:
            place = definitions[schema.cluster.name].entries()["role"]
        assert place is not None
        raise place.error(
            f"the number of clusters ({clusters}) must exceed that of strata ({strata}): every"
            " stratum needs two clusters or more."
        )
    if "replicates" not in keys:
        return survey if keys or replicate_weights else NO_SURVEY
    replicates = _read_replicates(keys["replicates"], schema, counts, strata)
    return replace(survey, replicates=replicates)


def survey_document(survey: Survey) -> dict[str, object]:
    """Return the key `survey` as a schema states it; empty if nothing is stated."""
    found: dict[str, object] = {"nested": "true"} if survey.nested else {}
    for key in ("strata", "clusters"):
        number = getattr(survey, key)
        found |= {} if number is None else {key: str(number)}
    if (rule := survey.replicates) is not None:
        fay = {"fay": exact_text(rule.fay)} if rule.fay else {}
        found["replicates"] = {"method": rule.method, "number": str(rule.number), **fay}
    if survey.replicate_weights:
        found["replicate_weights"] = list(survey.replicate_weights)
    if survey.design_effect is not None:
        found["design_effect"] = exact_text(survey.design_effect)
    return found


def _number(keys: Mapping[str, Node], key: str, column: Column | None) -> int | None:
    """Return the number of strata or clusters that is stated."""
    if key not in keys:
        return None
    if column is not None:
        raise keys[key].error(
            f"the levels of {quote(column.name)} state this number; remove the key."
        )
    return keys[key].integer(minimum=1)


def _replicate_names(
    node: Node | None, schema: Schema, definitions: Mapping[str, Node]
) -> tuple[str, ...]:
    """Return the columns of `replicate_weights`: names, or ranges such as `RW1..RW80`."""
    if node is None:
        return ()
    one = isinstance(node.content, str)
    texts = (node.name(),) if one else node.texts(example="RW1..RW80")
    names = [name for text in texts for name in _names_of_range(node, text)]
    for place, name in enumerate(names):
        if name in definitions:
            raise node.error(f"{quote(name)} is also under `columns`; keep it in one place.")
        if name in schema.ignore or name == schema.unit.column:
            raise node.error(
                f"{quote(name)} is also under `ignore` or `unit`; keep it in one place."
            )
        if name in names[:place]:
            raise node.error(f"{quote(name)} is given twice; remove one.")
    return tuple(names)


def _names_of_range(node: Node, text: str) -> Iterator[str]:
    match = _RANGE.fullmatch(text)
    if match is None:
        yield text
        return
    before, first, again, last = match.groups()
    if again != before or int(last) < int(first):
        raise node.error(
            f"{quote(text)} is not a range; write the first and the last name, such as RW1..RW80."
        )
    if int(last) - int(first) >= MOST_REPLICATES:
        raise node.error(f"names more than {MOST_REPLICATES} columns.")
    width = len(first) if first.startswith("0") else 0
    for number in range(int(first), int(last) + 1):
        yield f"{before}{number:0{width}d}"


def _units_by_stratum(schema: Schema, definitions: Mapping[str, Node]) -> NDArray[np.intp] | None:
    """Return the number of clusters of each stratum; None if no column states clusters."""
    stratum, cluster = schema.stratum, schema.cluster
    if cluster is None:
        return None
    role = definitions[cluster.name].entries()["role"]
    if stratum is not None:
        same = origin(schema, stratum.name)[0] == origin(schema, cluster.name)[0]
        if not same and not schema.survey.nested:
            raise role.error(
                f"the schema does not say which cluster lies in which stratum. If a code of"
                f" {quote(cluster.name)} is one cluster, write {quote(stratum.name)} with `follows:"
                f" {cluster.name}` and a map; if codes are counted within strata, write `survey:"
                " {nested: true}`."
            )
        if len(stratum.levels) * len(cluster.levels) > _MOST_UNITS:
            raise role.error(f"has more than {_MOST_UNITS:,} combinations with strata.")
    units = primary_units(schema)
    assert units is not None
    if stratum is None:
        return np.array([len(units.pairs)])
    codes, times = np.unique(units.pairs[:, 1], return_counts=True)
    if not schema.survey.nested and times.max() > 1:
        label = cluster.levels[codes[times.argmax()]].label
        raise role.error(
            f"{quote(label)} lies in several strata; map each cluster to one stratum, or write"
            " `survey: {nested: true}` if codes are counted within strata."
        )
    names, counts = np.unique(units.pairs[:, 0], return_counts=True)
    if counts.min() < 2:
        label = stratum.levels[names[counts.argmin()]].label
        place = definitions[stratum.name].entries()["role"]
        raise place.error(
            f"stratum {quote(label)} has one cluster, so its variance is unknown; merge it with a"
            " similar stratum, or split its cluster."
        )
    return counts


def _read_replicates(
    node: Node, schema: Schema, counts: NDArray[np.intp] | None, strata: int
) -> Replicates:
    """Return the rule for replicate weights; `counts` are known clusters of each stratum."""
    example = "{method: jkn}"
    keys = node.fields(("method", "number", "fay"), required=("method",), example=example)
    method = one_of(keys["method"], _METHODS)
    number = None
    if "number" in keys:
        number = keys["number"].integer(minimum=2, maximum=MOST_REPLICATES)
    if "fay" in keys and method != "brr":
        raise keys["fay"].error(f"belongs to `method: brr`, not {method}; remove it.")
    if method in ("jkn", "brr") and schema.stratum is None:
        other = "jk1" if method == "jkn" else "jk1, or bootstrap"
        raise keys["method"].error(
            f"{method} needs strata, and no column has `role: stratum`; add it, or write {other}."
        )
    if method == "brr":
        number = _of_halves(keys, number, counts, strata)
        fay = keys["fay"].fraction(minimum=0, below=1) if "fay" in keys else Fraction(0)
        return Replicates(method="brr", number=number, fay=fay)
    if method == "bootstrap":
        if number is None:
            raise node.error("the key 'number' is missing; bootstrap needs it, such as 200.")
        return Replicates(method=method, number=number)
    if counts is not None:
        clusters = int(counts.sum())
        if number not in (None, clusters):
            raise keys["number"].error(
                f"{method} has one replicate for each of the {clusters} clusters; remove the key."
            )
        if clusters > MOST_REPLICATES:
            raise node.error(
                f"{method} would have {clusters} replicates, one for each cluster, and at most"
                f" {MOST_REPLICATES} are made; write bootstrap, or leave `replicates` out."
            )
        return Replicates(method=method, number=clusters)
    if number is None:
        raise node.error(
            f"the key 'number' is missing; without clusters, {method} deletes random groups of"
            " rows, such as 40 of them."
        )
    if method == "jkn" and (number % strata or number < 2 * strata):
        raise keys["number"].error(
            f"must be a multiple of the {strata} strata, and at least {2 * strata}."
        )
    return Replicates(method=method, number=number)


def _of_halves(
    keys: Mapping[str, Node], number: int | None, counts: NDArray[np.intp] | None, strata: int
) -> int:
    """Return the number of balanced half samples."""
    if counts is None or (counts != 2).any():
        raise keys["method"].error(
            "brr needs two clusters in every stratum; write jkn, or bootstrap."
        )
    fitting = [
        each for each in range(4, 4 * strata + 64, 4) if each > strata and has_hadamard(each)
    ]
    if number is None:
        if fitting[0] > MOST_REPLICATES:
            raise keys["method"].error(f"would need {fitting[0]} replicates; write bootstrap.")
        return fitting[0]
    if number % 4 or number <= strata:
        raise keys["number"].error(
            f"must be a multiple of 4 above the {strata} strata, so that the half samples are"
            f" balanced; the smallest is {fitting[0]}."
        )
    if not has_hadamard(number):
        near = next(each for each in range(number + 4, number + 64, 4) if has_hadamard(each))
        raise keys["number"].error(
            f"no Hadamard matrix of order {number} is made here; write {near}."
        )
    return number
