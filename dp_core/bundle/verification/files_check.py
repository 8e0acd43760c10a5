"""Checks of a bundle's folder: its files, their copies of the statement, its sets and expectations.

What the schema itself expects of single values is recomputed from the sets. A team's own
expectations and rules between columns are compared in form only: Great Expectations judges them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_core.bundle.best_set import BEST, set_in_words
from dp_core.bundle.files.codebook import CODEBOOK, MARGINALS, codebook, set_paths, synthetic_path
from dp_core.bundle.files.expectations_file import EXPECTATIONS, expectations_document
from dp_core.bundle.files.linked_sets import read_linked_set
from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.bundle.published import REPORT
from dp_core.bundle.report.pictures.heat_map import in_words
from dp_core.bundle.report.public_facts import public_facts
from dp_core.bundle.statement.citation import CITATION, citation_text
from dp_core.bundle.statement.deployment_registry import REGISTRY, registry_text
from dp_core.bundle.statement.release_json import STATEMENT, file_record, origin_of
from dp_core.bundle.statement.sections import TOLERANCE
from dp_core.bundle.verification.claims import Claims
from dp_core.bundle.verification.examined import Examined
from dp_core.errors import BadInput
from dp_core.inference.combining_rules import ORIGINS
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.errors import GARBAGE
from dp_core.methods.replicates.survey_weights import Calibrator
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import MISSING_LABEL, Column, Schema
from dp_core.schema.expectations.suite import rules_of
from dp_core.text.pages.number_texts import plural


def files_in(folder: Path) -> set[str]:
    """Return the paths of all files below a folder; links count as files and are not followed."""
    found: set[str] = set()

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in [*files, *linked]:
            found.add((Path(place) / name).relative_to(folder).as_posix())
    return found


def check_files(
    folder: Path, found: set[str], document: Mapping[str, Any], *, more: bool
) -> str | tuple[str, ...]:
    """Return that the files found are those in the statement, or which are not.

    Args:
        folder: The bundle.
        found: Paths of all its files.
        document: Its statement.
        more: Whether the folder may hold files that the statement does not name.
    """
    listed = document["files"]
    wrong: list[str] = []
    for needed in (MARGINALS, CODEBOOK, REPORT, REGISTRY, CITATION):
        if needed not in listed:
            wrong.append(f"{STATEMENT} lists no {needed}.")
    wrong += [f"{name} is missing." for name in sorted(set(listed) - found)]
    others = () if more else sorted(found - {*listed, STATEMENT})
    wrong += [f"{name} does not belong to the release." for name in others]
    for name in sorted(set(listed) & found):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            wrong.append(f"{name} is not an ordinary file.")
            continue
        try:
            record = file_record(path)
        except OSError as error:
            wrong.append(f"{name} cannot be read ({error.strerror}).")
            continue
        if record != listed[name]:
            wrong.append(f"{name} was changed: its checksum does not match.")
    return tuple(wrong) or f"All {len(listed)} files are as published, and there are no others."


def check_copies(bundle: Examined) -> str | tuple[str, ...]:
    """Return that the copies agree with the statement, or which ones do not.

    The copies follow from the statement. They are the citation, the registry entry, the codebook,
    and the sentences of the report about rules and public totals.
    """
    folder, document = bundle.folder, bundle.document
    origin = origin_of(document["method"]["plan"])
    # For an unknown method, the entry may state any origin.
    origins = ORIGINS if origin == "unknown" else (origin,)
    made = {
        CITATION: [citation_text(document)],
        REGISTRY: [registry_text(document, each) for each in origins],
    }
    wrong = [
        f"{name} does not agree with {STATEMENT}."
        for name, contents in made.items()
        if (folder / name).is_file() and (folder / name).read_bytes() not in contents
    ]
    wrong += _codebook_differs(bundle)
    wrong += _report_differs(folder, bundle.claims)
    return tuple(wrong) or (
        f"{CITATION}, {REGISTRY}, {CODEBOOK}, and the sentences of {REPORT} about rules and public"
        f" totals, agree with {STATEMENT}."
    )


def _codebook_differs(bundle: Examined) -> list[str]:
    """Return a sentence if the codebook does not follow from the statement's schema and files."""
    folder, document, claims = bundle.folder, bundle.document, bundle.claims
    if not (folder / CODEBOOK).is_file():
        return []
    made = codebook(claims.schema, document["files"], document["release"], claims.sets)
    try:
        stated = json.loads((folder / CODEBOOK).read_bytes().decode("utf-8"))
        keys = [key for key in {**made, **stated} if stated.get(key) != made.get(key)]
    except (OSError, *GARBAGE):
        return [f"{CODEBOOK} cannot be read as a codebook."]
    if not keys:
        return []
    named = ", ".join(repr(key)[:40] for key in keys[:3])
    return [f"{CODEBOOK} does not agree with {STATEMENT} in {named}."]


def _report_differs(folder: Path, claims: Claims) -> list[str]:
    """Return a sentence if the report lacks one of the schema's about rules or public totals."""
    if not (folder / REPORT).is_file():
        return []
    report, linked = (folder / REPORT).read_bytes().decode("utf-8", "replace"), claims.schema.linked
    sentences = [str(each) for each in public_facts(claims.schema, claims.sets).values() if each]
    if linked is not None:
        sentences = [in_words(sentence, linked) for sentence in sentences]
    if all(f"<li>{each}" in report or f" {each}" in report for each in sentences):
        return []
    return [f"{REPORT} does not agree with {STATEMENT} in a sentence about rules or public totals."]


def check_sets(bundle: Examined) -> str | tuple[str, ...]:
    """Return that the sets are as statement and codebook describe them, or which are not.

    Of linked tables, keys and links of both tables are checked, too.
    """
    folder, claims = bundle.folder, bundle.claims
    schema, sets, wrong = claims.schema, claims.sets, list[str]()
    if claims.reserve.body["sets"] != sets:
        wrong.append(f"{STATEMENT} states another number of sets than was reserved.")
    best = claims.best
    rows, persons = list(claims.rows), list(claims.persons)
    stated = [rows] if schema.linked is None else [rows, persons]
    for numbers, what in zip(stated, ("rows", "persons"), strict=False):
        if len(numbers) != sets:
            return (*wrong, f"{STATEMENT} does not state the number of {what} of every set.")
    if best is not None:
        if (best.persons is None) is not (schema.linked is None):
            return (*wrong, f"{STATEMENT} does not state the number of persons of the best set.")
        rows.insert(0, best.rows)
        persons.insert(0, best.persons or 0)
    wanted = {number: set_paths(schema, number) for number in claims.numbers}
    found = {path.relative_to(folder).as_posix() for path in (folder / "synthetic").rglob("*.*")}
    if found != {path for paths in wanted.values() for path in paths}:
        wrong.append(f"The folder synthetic does not contain exactly the files of {sets} sets.")
        return tuple(wrong)
    described = _codebook_columns(folder)
    if described is None:
        wrong.append(f"{CODEBOOK} cannot be read as a codebook.")
    for at, (number, paths) in enumerate(wanted.items()):
        try:
            shapes = _shapes(folder, schema, number)
        except BadInput as error:
            wrong.append(error.message)
            continue
        for path, (count, columns), numbers in zip(paths, shapes, stated, strict=True):
            if count != numbers[at]:
                wrong.append(f"{path} has another number of rows than {STATEMENT} states.")
            if described is not None and columns != described.get(path):
                wrong.append(f"{path} has other columns than {CODEBOOK} describes.")
    if not wrong:
        off = {number: one for number, one in enumerate(claims.off, start=1)}
        if best is not None and best.off is not None:
            off[BEST] = best.off
        if schema.calibration and {*off} != {*claims.numbers}:
            wrong.append(
                f"{STATEMENT} does not state how the weights of every set were calibrated."
            )
        wrong += misses(folder, schema, off)
        wrong += missed_totals(folder, schema, claims.numbers)
    if wrong:
        return tuple(wrong)
    if not sets:
        return "There are no sets, as described: the release has noisy tables only."
    records, linked = f"{sum(rows)} rows, as described", ""
    if schema.linked is not None:
        records = f"{sum(rows)} households and {sum(persons)} persons, as described"
        linked = "; every person is linked to a household"
    met = "; every set meets the public totals" if schema.totals else ""
    made = f"{plural(sets, 'synthetic set')}{' and the best set' if best is not None else ''}"
    return f"{made}, in all {records}{linked}{met}."


def _shapes(folder: Path, schema: Schema, number: int) -> list[tuple[int, list[str]]]:
    """Return the number of rows and the columns of each file of a set.

    Raises:
        BadInput: if a file cannot be read, or keys or links of linked tables are wrong.
    """
    if schema.linked is not None:
        read = read_linked_set(folder, schema, number)
        return [(table.num_rows, table.column_names) for table in (read.households, read.persons)]
    path = synthetic_path(number)
    try:
        with pq.ParquetFile(folder / path) as file:
            return [(file.metadata.num_rows, file.schema_arrow.names)]
    except (OSError, pa.ArrowException, ValueError):
        raise BadInput(f"{path} cannot be read as Parquet.") from None


def _codebook_columns(folder: Path) -> dict[str, list[str]] | None:
    try:
        document = json.loads((folder / CODEBOOK).read_bytes().decode("utf-8"))
        return {
            resource["path"]: [field["name"] for field in resource["schema"]["fields"]]
            for resource in document["resources"]
        }
    except (OSError, *GARBAGE):
        return None


def misses(folder: Path, schema: Schema, stated: Mapping[int, float]) -> list[str]:
    """Return a sentence for each set whose weights deviate more from the totals than stated."""
    weight = schema.weight
    if weight is None or not schema.calibration:
        return []
    names = {name for margin in schema.calibration for name in margin.columns}
    wrong = []
    for number, largest in stated.items():
        path, calibrator = synthetic_path(number), Calibrator(schema)
        try:
            for batch in read_parquet(folder / path, [weight.name, *sorted(names)]):
                calibrator.add(pa.Table.from_batches([batch]))
        except (OSError, pa.ArrowException, ValueError, KeyError):
            wrong.append(f"The weights of {path} cannot be read.")
            continue
        if not calibrator.deviation() <= max(largest, TOLERANCE):
            wrong.append(f"The weights of {path} deviate more from the public totals than stated.")
    return wrong


def missed_totals(folder: Path, schema: Schema, numbers: Sequence[int]) -> list[str]:
    """Return a sentence for each set and column that does not meet its public totals.

    Args:
        folder: The bundle.
        schema: Its schema; of linked tables, households are counted.
        numbers: Numbers of its sets.
    """
    wrong: list[str] = []
    names = [each.column for each in schema.totals]
    for number in numbers if names else ():
        path = set_paths(schema, number)[0]
        found: dict[str, Counter[str]] = {name: Counter() for name in names}
        try:
            for batch in read_parquet(folder / path, names):
                for name, counts in found.items():
                    labels = batch.column(name).cast(pa.string()).fill_null(MISSING_LABEL)
                    for pair in pc.value_counts(labels).to_pylist():
                        counts[pair["values"]] += pair["counts"]
        except (OSError, pa.ArrowException, ValueError, KeyError):
            wrong.append(f"{path} cannot be compared with the public totals.")
            continue
        for each in schema.totals:
            has, labels = found[each.column], schema.column(each.column).code_labels()
            wanted = Counter(dict(zip(labels, each.counts, strict=True)))
            off = next((label for label in wanted | has if wanted[label] != has[label]), None)
            if off is not None:
                wrong.append(
                    f"{path} has {has[off]:,} records with {each.column} = {off!r}, but their"
                    f" public total is {wanted[off]:,}."
                )
    return wrong


def check_expectations(bundle: Examined) -> str | tuple[str, ...]:
    """Return that the file of expectations agrees with schema and sets, or what does not."""
    folder, claims = bundle.folder, bundle.claims
    if EXPECTATIONS not in bundle.document["files"]:
        judged = "The sets were not judged by a suite of expectations."
        return judged if claims.sets else "There are no sets to which expectations apply."
    stated = json.loads((folder / EXPECTATIONS).read_bytes().decode("utf-8"))
    schema = claims.schema.coarse or claims.schema
    rules = rules_of(schema, sets=True)
    failed = {
        BEST if one["set"] == "best" else int(one["set"]): list(map(int, one["not_met"]))
        for one in stated["sets"]
    }
    if stated != expectations_document(schema, failed) or [*failed] != [*claims.numbers]:
        return (f"{EXPECTATIONS} does not agree with the schema in the statement.",)
    wrong = []
    of_values = {at for at, rule in enumerate(rules) if rule.kind == "value"}
    for number, numbers in failed.items():
        name = set_in_words(number)
        if not set(numbers) <= set(range(len(rules))) or numbers != sorted(set(numbers)):
            wrong.append(f"{EXPECTATIONS} names expectations of {name} that do not exist.")
            continue
        try:
            problems = _problems_of_set(folder, schema, number)
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
            wrong.append(f"{name.capitalize()} cannot be compared with {EXPECTATIONS}.")
            continue
        found = {at for at in of_values if (rules[at].about, rules[at].problem) in problems}
        if found != set(numbers) & of_values:
            wrong.append(f"{EXPECTATIONS} does not say which expectations {name} meets.")
    if wrong:
        return tuple(wrong)
    own = sum(rule.kind != "value" for rule in rules)
    stated_only = f"; {own} more are as stated" if own else ""
    return (
        f"{len(of_values)} expectations about values, recomputed from the sets, agree with"
        f" {EXPECTATIONS}{stated_only}."
    )


def _problems_of_set(folder: Path, schema: Schema, number: int) -> set[tuple[str, Problem | None]]:
    """Return the problems of the values of a set, of linked tables those of both tables."""
    tables: tuple[Schema, ...] = (schema,)
    if schema.linked is not None:
        tables = (schema.household_schema, schema.person_schema)
    found: set[tuple[str, Problem | None]] = set()
    for path, table in zip(set_paths(schema, number), tables, strict=True):
        for batch in read_parquet(folder / path, [column.name for column in table.checked]):
            for column in table.checked:
                values = batch.column(column.name)
                if values.null_count:
                    found.add((column.name, Problem.MISSING))
                if column.levels:
                    if not _labels(values) <= {level.label for level in column.in_sets.levels}:
                        found.add((column.name, Problem.LEVEL))
                elif not _within(column, values):
                    found.add((column.name, Problem.RANGE))
    return found


def _labels(values: pa.Array) -> set[Any]:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary.take(values.indices.drop_null().unique())
    return set(values.drop_null().unique().to_pylist())


def _within(column: Column, values: pa.Array) -> bool:
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return True
    scale = column.scale
    found = scale.values_in(pa.array([ends["min"], ends["max"]], scale.stored))
    low, high = map(float if scale.continuous else int, legal_range(column))
    return bool(low <= found[0] and found[1] <= high)
