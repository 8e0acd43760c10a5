"""What the scripts for papers share: files of categories, plans without spec files, and judging.

Everything private goes through the library's own procedure: exact noise, proven sensitivities, the
ledger's arithmetic. Papers that take the number of records as public get it so (`public_rows`).
"""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.accounts.memory_session import MemorySession
from dp_core.accounts.requested import Privacy
from dp_core.client.curator import Curator
from dp_core.client.released import Released
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Neighbours, Noise, Stage
from dp_core.methods import registry
from dp_core.methods.reconstruction.reconstructor import Model, Reconstructor
from dp_core.methods.selection.selector import Selector
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.procedure import fits, measure_basics, measure_selected, replicates, select
from dp_core.plan.reading.share_reader import resolve_shares
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.structure.structural_zeros import StructuralZeros


def versions() -> str:
    """Return what a table should say about where it was made."""
    return f"python {platform.python_version()}, numpy {np.__version__}"


def read_categories(path: Path) -> Dataset:
    """Return a CSV of categories as codes; `NAME.json` beside it lists the levels."""
    columns = json.loads(path.with_suffix(".json").read_text())["columns"]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    codes = np.empty((len(columns), len(rows)), dtype=np.uint16)
    for axis, column in enumerate(columns):
        code = {level: number for number, level in enumerate(column["levels"])}
        codes[axis] = [code[row[column["name"]]] for row in rows]
    domain = Domain(
        tuple(column["name"] for column in columns),
        tuple(len(column["levels"]) for column in columns),
    )
    return Dataset(domain, codes)


def read_cells(path: Path) -> Dataset:
    """Return a CSV of binary cells, whose last column is their count, as records."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    names = tuple(header[:-1])
    levels = [sorted({row[axis] for row in rows}) for axis in range(len(names))]
    cells = [[levels[axis].index(row[axis]) for axis in range(len(names))] for row in rows]
    counts = [int(row[-1]) for row in rows]
    codes = np.repeat(np.array(cells, dtype=np.uint16).T, counts, axis=1)
    return Dataset(Domain(names, tuple(len(column) for column in levels)), codes)


def records(table: NDArray[np.int64], columns: Sequence[str] = ()) -> Dataset:
    """Return the records that a table of counts counts, in the order of its cells."""
    names = tuple(columns) or tuple(f"x{axis + 1}" for axis in range(table.ndim))
    cells = np.indices(table.shape, dtype=np.uint16).reshape(table.ndim, -1)
    return Dataset(Domain(names, table.shape), np.repeat(cells, table.ravel(), axis=1))


def table_of(data: Dataset) -> NDArray[np.int64]:
    """Return the joint table of all columns."""
    cells = np.ravel_multi_index(tuple(data.codes.astype(np.int64)), data.domain.sizes)
    return np.bincount(cells, minlength=data.domain.size()).reshape(data.domain.sizes)


def plan_of(
    domain: Domain,
    selector: Selector,
    reconstructor: Reconstructor,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction = 0,
    shares: Mapping[Stage, Fraction] | None = None,
    noise: Noise | None = None,
    neighbours: Neighbours = "add-remove",
    sets: int = 1,
    rows: int | None = None,
    seed: int = 1,
    method: str = "fixed",
) -> Plan:
    """Return the plan of a release that is in no file.

    Args:
        domain: All columns.
        selector: What to measure.
        reconstructor: From it to a model.
        epsilon: Of the guarantee.
        delta: Of the guarantee.
        neighbours: Of the guarantee.
        shares: Of the budget; by default all of it for `measure`.
        noise: None for the kind of smaller error.
        sets: Independent measurements, each at its part of the budget.
        rows: Stated number of records of a set.
        seed: Of post-processing.
        method: Name of the preset, for messages.
    """
    columns = tuple(
        Column(
            name=name,
            kind="category",
            levels=tuple(Level(str(code), str(code)) for code in range(size)),
        )
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    )
    schema = Schema(
        title="benchmark", columns=columns, rows_about=rows, zeros=StructuralZeros(), document={}
    )
    spec = ReleaseSpec(
        release="benchmark",
        data="",
        folder=Path(),
        schema=schema,
        account="benchmark",
        revises=None,
        privacy=Privacy(epsilon=Fraction(epsilon), delta=Fraction(delta), neighbours=neighbours),
        method=method,
        shares=resolve_shares(shares or {"measure": Fraction(1)}, {}),
        noise=noise or "auto",
        selector=selector,
        reconstructor=reconstructor,
        sets=sets,
        rows=rows,
        mode="split" if sets > 1 else "shared",
        seed=seed,
        document={},
    )
    return make_plan(spec)


def preset_plan(
    name: str,
    domain: Domain,
    *,
    select: Mapping[str, object] | None = None,
    reconstruct: Mapping[str, object] | None = None,
    shares: Mapping[Stage, Fraction] | None = None,
    **more: object,
) -> Plan:
    """Return the plan of a preset, with options that differ from its own."""
    preset = PRESETS[name]
    own = preset.options
    return plan_of(
        domain,
        registry.find("selection", preset.select)(**{**own.get("select", {}), **(select or {})}),
        registry.find("reconstruction", preset.reconstruct)(
            **{**own.get("reconstruct", {}), **(reconstruct or {})}
        ),
        shares=shares or preset.shares,
        noise=preset.noise,
        method=name,
        **more,  # type: ignore[arg-type]
    )


def measured(plan: Plan, data: Dataset) -> list[Released]:
    """Return everything that a release measures, of all its replicates."""
    curator = _curator(plan, data)
    basics = [item for number in replicates(plan) for item in measure_basics(plan, curator, number)]
    selections = select(plan, curator, basics)
    found: list[Released] = [*basics]
    for number in replicates(plan):
        found += measure_selected(plan, curator, selections, number)
    return found


def models(plan: Plan, data: Dataset, *, public_rows: bool = True) -> list[Model]:
    """Return the fitted model of each independent measurement.

    Args:
        plan: Of `plan_of`.
        data: The file.
        public_rows: Whether the number of records is told to the reconstruction, as papers do that
            take it as known; with add-remove neighbours that is their assumption, not a proof.
    """
    released = measured(plan, data)
    rows = data.rows if public_rows else _curator(plan, data).public_rows()
    return [model for _, model in fits(plan, released, (), rows=rows)]


def _curator(plan: Plan, data: Dataset) -> Curator:
    session = MemorySession(plan.currency, plan.spec.privacy.neighbours)
    return Curator(Kernel(plan.spec.schema.domain, MemoryCounter(data), session))


def synthetic(plan: Plan, data: Dataset, *, public_rows: bool = True) -> list[Dataset]:
    """Return the m synthetic files of a release, each of the file's number of records."""
    return [
        model.sample(data.rows, rng=plan.spec.rng("sample", number))
        for number, model in enumerate(models(plan, data, public_rows=public_rows))
    ]


def design(data: Dataset, predictors: Sequence[str]) -> tuple[list[str], NDArray[np.float64]]:
    """Return names and columns of a regression: an intercept, and each level but the first."""
    names, found = ["(intercept)"], [np.ones(data.rows)]
    for name, size in zip(data.domain.columns, data.domain.sizes, strict=True):
        if name in predictors:
            for level in range(1, size):
                names.append(f"{name}={level}")
                found.append((data.column(name) == level).astype(np.float64))
    return names, np.column_stack(found)
