"""Draws records whose nested columns, such as district and county, agree with the public map.

Records are drawn with one of the nested columns: the smallest areas whose tables are known. The
public map gives the larger areas. If there are still smaller areas, the records of each area are
assigned to them in proportion to their counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import LinkedColumns, pair_rows
from dp_core.methods.reconstruction.reconstructor import (
    FittedTables,
    Model,
    Sampler,
    in_series,
    project_smallest,
)
from dp_core.methods.reconstruction.sampling.drawing_progress import (
    Progress,
    ReportingSampler,
    WithListener,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of
from dp_core.tables.linked_records import from_pair_rows
from dp_core.tables.nested_columns import NestedColumns


@dataclass(frozen=True, slots=True, eq=False)
class NestedModel(ReportingSampler):
    """A model of all columns; its records have every nested column.

    Attributes:
        domain: All columns.
        tables: Tables of all columns and pairs.
        inner: Draws records with one nested column and all columns that are not nested.
        drawn: The nested column that `inner` draws.
        zeros: Impossible cells; no drawn record lies in one.
    """

    domain: Domain
    tables: tuple[Table, ...]
    inner: Model
    drawn: str
    zeros: StructuralZeros

    @property
    def rows(self) -> int:
        """Estimated number of records."""
        return self.inner.rows

    @property
    def streams(self) -> bool:
        """Whether a large set may be drawn in pieces."""
        return self.inner.streams

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return project_smallest(self.tables, clique)

    def series(self, number: int, pieces: int | None = None) -> Sequence[Sampler]:
        """Return `number` samplers for pieces of a large set."""
        return [_Pieces(self, sampler) for sampler in in_series(self.inner, number, pieces)]

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        return self.placed(WithListener(self.inner, progress).sample(rows, rng=rng), rng=rng)

    def placed(self, data: Dataset, *, rng: np.random.Generator) -> Dataset:
        """Return drawn records with all nested columns.

        Args:
            data: Records with the columns of `inner`.
            rng: Generator for areas smaller than the drawn ones.

        Raises:
            BadInput: if a rule excludes all smaller areas of a record.
        """
        nested = self.domain.nested
        assert nested is not None
        codes = {name: data.column(name) for name in data.domain.columns}
        place = nested.columns.index(self.drawn)
        if place + 1 < len(nested.columns):
            codes[nested.lowest] = self._lowest(data, nested, rng=rng)
        lowest = codes[nested.lowest]
        for name in nested.upper:
            codes[name] = nested.map(name, nested.lowest).astype(self.domain.code_type)[lowest]
        whole = Dataset(self.domain, np.stack([codes[name] for name in self.domain.columns]))
        return whole if place + 1 == len(nested.columns) else self._obeying(whole, rng=rng)

    def _lowest(self, data: Dataset, nested: NestedColumns, *, rng: np.random.Generator) -> Codes:
        """Return an area of the lowest column for each record, the same for a whole household."""
        linked = data.domain.linked
        if linked is None:
            return self._dealt(data.column(self.drawn), nested, rng=rng)
        repeats = _pair_rows_of(linked, data)
        first = np.cumsum(repeats) - repeats
        areas = data.column(self.drawn)[first]
        return np.repeat(self._dealt(areas, nested, rng=rng), repeats)

    def _dealt(self, areas: Codes, nested: NestedColumns, *, rng: np.random.Generator) -> Codes:
        """Return an area of the lowest column for each record, in proportion to their counts."""
        weights = self.project((nested.lowest,))
        above = nested.map(self.drawn, nested.lowest)
        order, held = np.argsort(above, kind="stable"), np.argsort(areas, kind="stable")
        ends = np.searchsorted(above[order], np.arange(self.domain.size((self.drawn,)) + 1))
        limits = np.searchsorted(areas[held], np.arange(self.domain.size((self.drawn,)) + 1))
        found = np.empty(areas.size, dtype=self.domain.code_type)
        for area in range(len(ends) - 1):
            records = held[limits[area] : limits[area + 1]]
            if not records.size:
                continue
            inside = order[ends[area] : ends[area + 1]]
            share = np.maximum(weights[inside], 0.0)
            share = (
                share / share.sum() if share.sum() > 0 else np.full(inside.size, 1 / inside.size)
            )
            # Systematic sampling: each area's number of records is within one of its share.
            points = (np.arange(records.size) + rng.random()) / records.size
            chosen = np.minimum(np.searchsorted(np.cumsum(share), points), inside.size - 1)
            found[rng.permutation(records)] = inside[chosen]
        return found

    def _obeying(self, data: Dataset, *, rng: np.random.Generator) -> Dataset:
        """Return the records with other smallest areas where a rule was broken."""
        nested = self.domain.nested
        assert nested is not None
        rules = StructuralZeros(
            tuple(rule for rule in self.zeros.rules if nested.lowest in rule.columns)
        )
        if not rules.rules:
            return data
        axis = self.domain.axes((nested.lowest,))[0]
        above = nested.map(self.drawn, nested.lowest)
        weights = np.maximum(self.project((nested.lowest,)), 0.0)
        starts = self._starts(data)
        broken = np.unique(
            np.searchsorted(starts, np.flatnonzero(rules.violations(data)), side="right")
        )
        for place in broken:
            rows = np.arange(starts[place - 1], starts[place] if place < starts.size else data.rows)
            inside = np.flatnonzero(above == above[data.codes[axis, rows[0]]])
            tried = np.repeat(data.codes[:, rows], inside.size, axis=1)
            tried[axis] = np.tile(inside, rows.size)
            bad = rules.violations(Dataset(self.domain, tried)).reshape(rows.size, inside.size)
            left = inside[~bad.any(axis=0)]
            if not left.size:
                raise BadInput(
                    f"The rules of the schema exclude every level of {nested.lowest!r} within one"
                    f" level of {self.drawn!r}; relax the rules that name {nested.lowest!r}."
                )
            share = weights[left] if weights[left].sum() > 0 else np.ones(left.size)
            data.codes[axis, rows] = rng.choice(left, p=share / share.sum())
        return data

    def _starts(self, data: Dataset) -> NDArray[np.intp]:
        """Return the first row of each record, or of each household of pair rows."""
        linked = data.domain.linked
        if linked is None:
            return np.arange(data.rows)
        repeats = _pair_rows_of(linked, data)
        return np.cumsum(repeats) - repeats


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces(ReportingSampler):
    """A sampler for the pieces of a large set."""

    model: NestedModel
    sampler: Sampler

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        piece = WithListener(self.sampler, progress).sample(rows, rng=rng)
        return self.model.placed(piece, rng=rng)


def _pair_rows_of(linked: LinkedColumns, data: Dataset) -> NDArray[np.intp]:
    """Return the number of pair rows of each household."""
    rows = np.array([pair_rows(size) for size in linked.sizes], dtype=np.intp)
    return np.asarray(rows[from_pair_rows(linked, data).sizes - linked.min_members])


def drawn_column(domain: Domain, tables: Sequence[Table]) -> str:
    """Return the nested column of the smallest areas that have a table with every other column.

    Args:
        domain: All columns; some are nested.
        tables: Fitted tables.
    """
    nested: NestedColumns = domain.nested
    held = {frozenset(table.clique) for table in tables}
    others = [pair for pair in cliques_of(domain, 2) if nested.columns[0] in pair]
    for name in reversed(nested.columns):
        pairs = (
            frozenset(name if each == nested.columns[0] else each for each in pair)
            for pair in others
        )
        if all(pair in held for pair in pairs):
            return name
    return nested.columns[0]


def without_others(domain: Domain, drawn: str) -> Domain:
    """Return the domain with only one of its nested columns."""
    assert domain.nested is not None
    left = {*domain.nested.columns} - {drawn}
    kept = domain.project(name for name in domain.columns if name not in left)
    linked = domain.linked
    if linked is not None:
        homes = tuple(name for name in linked.household_columns if name not in left)
        linked = replace(linked, household_columns=homes)
    return replace(kept, linked=linked)


def inner_model(model: FittedTables, drawn: str) -> FittedTables:
    """Return a model of tables with only one of the nested columns."""
    domain = without_others(model.domain, drawn)
    tables = tuple(table for table in model.tables if {*table.clique} <= {*domain.columns})
    rules = (rule for rule in model.zeros.rules if {*rule.columns} <= {*domain.columns})
    return replace(model, domain=domain, tables=tables, zeros=StructuralZeros(tuple(rules)))
