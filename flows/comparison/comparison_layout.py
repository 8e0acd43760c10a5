"""Prepares a comparison before a row is read: checks the request and lists its runs."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source, keyed_digest
from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import check_formula
from dp_core.lab.comparison.cells import (
    BOOTSTRAP,
    FORMAT,
    Cell,
    CellStore,
    Declaration,
    program,
    write_text,
)
from dp_core.lab.comparison.variants import (
    Place,
    Variant,
    place_of,
    read_given,
    reference,
    variants,
)
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash
from flows.comparison.comparison_request import (
    Request,
    check_group,
    check_target,
    refuse_records_only,
)
from tasks.inputs.open_input import open_input
from tasks.run.declared_public.public_input import require_unknown

MARK = "comparison.json"
"""The file that marks the folder of a comparison."""
_PUBLIC = b"declared public: no secret is needed"


@dataclass(frozen=True, slots=True)
class Input:
    """One data file, or two linked ones, with the schema.

    Attributes:
        name: Short name, for people and file names.
        schema: Schema of the file.
        source: The opened file, or the two of linked tables.
        digest: Digest of the bytes; no secret key is used because they are public.
    """

    name: str
    schema: Schema
    source: Source | LinkedSource
    digest: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A comparison that can be run.

    Attributes:
        request: The request.
        out: Folder of the results.
        declaration: Declaration that the data are public.
        inputs: Inputs by their file patterns and schema hash.
        cells: Every run with its input, in the order of the table.
        store: Store of the results.
    """

    request: Request
    out: Path
    declaration: Declaration
    inputs: Mapping[Place, Input]
    cells: tuple[tuple[Cell, Input], ...]
    store: CellStore = field(repr=False)


RECORDS = "records"
"""Folder of the records of a panel while a comparison runs."""


def prepare(request: Request) -> Prepared:
    """Return the cells of a comparison, after all checks that need no rows.

    Raises:
        BadInput: if specs, data, options or folder are invalid.
    """
    paths = {path.absolute(): path for path in request.specs}.values()
    given = tuple(map(read_given, paths))
    out = (request.out or Path(f"comparison-{given[0].spec.release}")).absolute()
    inputs: dict[Place, Input] = {}
    for spec in given:
        place = place_of(spec)
        if place not in inputs:
            schema = spec.spec.schema
            if schema.private:
                raise BadInput(
                    f"{spec.path}: bins or levels of {schema.private[0].name!r} are to be chosen"
                    " privately, which a comparison does not support. Its data are public, so"
                    " state them in the schema."
                )
            # The records of a panel are made there when they are first read.
            source = open_input(spec.spec, schema, out / RECORDS)
            name = _name(place[0], [one.name for one in inputs.values()])
            inputs[place] = Input(name, schema, source, keyed_digest(source, _PUBLIC))
    sources = list({one.source.files: one.source for one in inputs.values()}.values())
    require_unknown(sources, by=request.by, reason=request.reason)
    for one in inputs.values():
        if one.schema.linked is not None:
            typed = {
                "--target": request.target,
                "--group": request.by_columns,
                "--attacks": request.attacks,
                "--formula": request.formulas,
            }
            refuse_records_only(typed, f"{one.name} are linked tables")
        if request.target is not None:
            check_target(one.schema.domain, request.target, one.name)
        for column in request.by_columns:
            check_group(one.schema.domain, column, one.name)
        for formula in request.formulas:
            check_formula(formula, one.schema)
    _check_folder(out)
    declaration = _declaration(request, out)
    specs = out / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    asked = variants(given, request.methods, request.epsilons, specs)
    added = reference(given, asked, specs)
    write_text(out / MARK, _mark(declaration, request))
    return Prepared(
        request,
        out,
        declaration,
        inputs,
        tuple(_cells(request, inputs, asked, added)),
        CellStore(out / "cells"),
    )


def _name(data: Sequence[str], taken: Sequence[str]) -> str:
    stems = [re.sub(r"(?i)\.(csv|csv\.gz|parquet|pq)$", "", Path(each).name) for each in data]
    stem = "-".join(stems)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "data"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file; name a folder.")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise BadInput(
            f"--out {out} contains other files but no comparison; name a new folder, or that of a"
            " comparison to resume."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {out} cannot be created ({error.strerror}).") from None


def _declaration(request: Request, out: Path) -> Declaration:
    """Return the declaration; an earlier one in this folder keeps its day."""
    by, reason = (" ".join(text.split()) for text in (request.by, request.reason))
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        before = Declaration(**json.loads((out / MARK).read_bytes())["declaration"])
        if (before.by, before.reason) == (by, reason):
            return before
    return Declaration(by, datetime.now(UTC).date().isoformat(), reason)


def _mark(declaration: Declaration, request: Request) -> str:
    values = {
        "declared_public": declaration.sentence,
        "format": FORMAT,
        "declaration": asdict(declaration),
        "program": program(),
        "specs": [str(path.absolute()) for path in request.specs],
        "runs": request.runs,
        "target": request.target,
        "formulas": list(request.formulas),
        "hold_out": request.held_out or None,
        "by": list(request.by_columns),
        "attacks": request.attacks,
        "seed": request.seed,
    }
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _cells(
    request: Request,
    inputs: Mapping[Place, Input],
    asked: Sequence[Variant],
    added: Sequence[Variant],
) -> Iterator[tuple[Cell, Input]]:
    for place, of in inputs.items():
        mine = [one for one in asked if one.input == place]
        seed = request.seed if request.seed is not None else mine[0].seed
        for number in range(1, request.runs + 1):
            yield _cell(request, of, None, number, seed, reference=True), of
        for one in [*(one for one in added if one.input == place), *mine]:
            seed = request.seed if request.seed is not None else one.seed
            for number in range(1, request.runs + 1):
                yield _cell(request, of, one, number, seed, reference=one in added), of


def _cell(
    request: Request,
    of: Input,
    variant: Variant | None,
    number: int,
    seed: int,
    *,
    reference: bool,
) -> Cell:
    definition: dict[str, object] = {
        "format": FORMAT,
        "program": program(),
        "data": of.digest,
        "schema": schema_hash(of.schema),
        "method": dict(variant.document) if variant else BOOTSTRAP,
        "run": number,
        "seed": seed + number - 1,
        "target": request.target,
        "hold_out": request.held_out,
        "by": list(request.by_columns),
        "attacks": request.attacks,
        "formulas": list(request.formulas),
    }
    return Cell(
        file=of.name,
        label=variant.label if variant else BOOTSTRAP,
        method=variant.method if variant else BOOTSTRAP,
        epsilon=_decimal(variant.epsilon) if variant else None,
        delta=_decimal(variant.delta) if variant else None,
        neighbours=variant.neighbours if variant else None,
        run=number,
        reference=reference,
        definition=definition,
        spec=variant.path if variant else None,
        refusal=variant.refusal if variant else None,
    )


def _decimal(value: Fraction) -> str:
    """Return a number as a short decimal if that is exact, otherwise as a ratio."""
    text = f"{float(value):g}"
    return text if Fraction(text) == value else str(value)
