"""Least-squares estimates of tables from all measurements, and their precision, in closed form.

A table over columns K is the sum of its parts, one for each subset S of K: the total, the main
effect of each column, the interaction of each pair, and so on. The parts are orthogonal and noise
is independent from cell to cell, so the errors of different parts are independent. A part is
observed by every table that contains its columns and by a measured interaction of exactly these
columns. Each observation has noise of covariance c P on the table over S, where P is the projection
on the part. For a table of |T| cells with noise variance v, c is v |T| / |S|; for an interaction it
is s^2 (`dp_core.client.interactions`). So the generalised least-squares estimate of a part is the
mean weighted by 1 / c, with covariance P / (sum of 1 / c). Spread over the cells of K it is divided
by |K| / |S|, so that the parts add up to a variance in each cell of

    sum over S of |S| d(S) / |K|^2 / (sum of 1 / c),    d(S) = product of (size - 1) over S.

Columns within one another, such as districts in counties, are not separate factors of a table,
because the counts of larger areas are sums of those of smaller ones. `Pooled.areas` combines a part
of the other columns over all levels of areas (`area_parts`). `Pooled.part` uses only the tables
with one column of areas.

This ignores bounds at zero and impossible cells, which only reduce the variance. All inputs are
public: noise scales, and noisy values for estimates of counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_core.client.interactions import cell_variance
from dp_core.client.noise_scale import NoiseScale
from dp_core.client.released import Measurement, Released, Table, Totals
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Noise
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.area_parts import AreaPart, Told, least_squares
from dp_core.methods.reconstruction.estimates.consistency import Estimate, estimates
from dp_core.methods.reconstruction.estimates.raking import margin, others
from dp_core.methods.reconstruction.estimates.table_parts import beyond, interactions_by_clique
from dp_core.schema.structure.structural_zeros import StructuralZeros

_MOST_COLUMNS = 10
"""Largest number of columns of a table whose parts are computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Pooled least-squares estimates from all measured tables and interactions.

    Attributes:
        domain: All columns.
        tables: One estimate for each clique that was measured as a table.
        interactions: For each clique whose interaction was measured, the interaction as a table,
            in records, and the cell variance of a table with equivalent noise.
        noise: Kind of noise; `laplace` if any measurement has Laplace noise.
        rows: Number of records if it is public, otherwise None.
        fourth: Fourth cumulant of the noise of a cell of each table, records to the fourth power; 0
            for a table with normal noise only, which may be left out.
        fourth_beyond: The same for the orthonormal entries of each interaction.
        known: Exact counts of single columns from public totals, by column. Only `areas` uses them.
            None by default.
    """

    domain: Domain
    tables: tuple[Estimate, ...]
    interactions: dict[Clique, tuple[NDArray[np.float64], float]]
    noise: Noise
    rows: float | None
    fourth: Mapping[Clique, float] = field(default_factory=dict)
    fourth_beyond: Mapping[Clique, float] = field(default_factory=dict)
    known: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    _precisions: dict[Clique, float] = field(default_factory=dict, init=False)
    _of_total: dict[Clique, float] = field(default_factory=dict, init=False)
    _parts_found: dict[Clique, NDArray[np.float64]] = field(default_factory=dict, init=False)
    _areas: dict[Clique, AreaPart | None] = field(default_factory=dict, init=False)
    _by_column: dict[str, list[tuple[frozenset[str], Estimate]]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        for table in self.tables:
            for name in table.clique:
                self._by_column.setdefault(name, []).append((frozenset(table.clique), table))

    def holders(self, clique: Clique) -> list[Estimate]:
        """Return the measured tables that contain all columns of `clique`."""
        if not clique:
            return list(self.tables)
        # There can be thousands of tables, but only a few contain a given column.
        fewest = min((self._by_column.get(name, []) for name in clique), key=len)
        return [table for columns, table in fewest if columns.issuperset(clique)]

    def variance(self, clique: Clique) -> float | None:
        """Return the noise variance of a cell, in records squared, or None if it is unknown.

        Args:
            clique: Columns of the table. The variance is known if every part was observed.
        """
        found = 0.0
        if len(clique) > _MOST_COLUMNS:
            return None
        for part in self._parts(clique):
            if not part and self.rows is not None:
                continue
            precision = self.precision(part)
            if not precision:
                return None
            found += self._part_of_cell(part, clique) / precision
        return found

    def half_width(self, clique: Clique) -> float | None:
        """Return the 95 % error bound of a cell, in records, or None if it is unknown.

        A sum of Laplace noises is treated as a single Laplace noise, which has a wider range.
        """
        variance, one = self.variance(clique), NoiseScale(self.noise, 1.0)
        return None if variance is None else one.half_width * math.sqrt(variance) / one.stddev

    def counts(self, clique: Clique) -> NDArray[np.float64] | None:
        """Return the estimated counts, axes as in `clique`, or None if some part was not observed.

        Estimates may be negative.
        """
        if self.variance(clique) is None:
            return None
        ordered = tuple(name for name in self.domain.columns if name in clique)
        found = np.zeros(self.domain.project(ordered).sizes)
        for part in self._parts(ordered):
            found += self._spread(part, self.part(part), ordered)
        return found.transpose([ordered.index(name) for name in clique])

    def total(self) -> tuple[float, float]:
        """Return the number of records and its noise variance, in records squared; 0 if public."""
        if self.rows is not None:
            return float(self.rows), 0.0
        return float(self.part(())), 1 / self.precision(())

    def observed(self, clique: Clique) -> tuple[NDArray[np.float64], float] | None:
        """Return the interaction of all columns of a clique, or None if it was not observed.

        Args:
            clique: Columns, in the order of the domain.

        Returns:
            The interaction as a table of the clique, in records; and the noise variance of each of
            its coordinates in an orthonormal basis, in records squared.
        """
        precision = self.precision(clique)
        return (self.part(clique), 1 / precision) if precision else None

    def beyond_pairs(
        self, clique: Clique, expected: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Return the observed deviation of a table from an expected one that has its pairs.

        Args:
            clique: At least three columns, in the order of the domain.
            expected: Expected counts, in records, shape of the clique.

        Returns:
            The deviation, in records, without the parts of fewer than three columns and without
            those that were not observed; and the noise variance of its cells, in records squared.
            If nothing else was measured of three of the columns, or there are more than
            `_MOST_COLUMNS`, it is that of the clique's own table.
        """
        own = [table for table in self.tables if table.clique == clique]
        others = [table.clique for table in self.tables if table.clique != clique]
        sharing = [
            columns for columns in (*others, *self.interactions) if len({*columns} & {*clique}) > 2
        ]
        if own and (not sharing or len(clique) > _MOST_COLUMNS):
            return self._beyond_pairs_alone(own[0], expected)
        found, variance = np.zeros_like(expected), 0.0
        for part in self._parts(clique):
            precision = self.precision(part) if len(part) > 2 else 0.0
            if precision:
                gap = self.part(part) - beyond(
                    margin(Table(self.domain.project(clique), expected), part)
                )
                found += self._spread(part, gap, clique)
                variance += self._part_of_cell(part, clique) / precision
        return found, variance

    def _beyond_pairs_alone(
        self, table: Estimate, expected: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Return `beyond_pairs` of one table: what its parts of up to two columns leave of it."""
        gap, left = Table(table.domain, table.values - expected), 1.0
        found = gap.values.copy()
        for part in self._parts(table.clique, most=2):
            found -= self._spread(part, beyond(margin(gap, part)), table.clique)
            free = math.prod(size - 1 for size in self.domain.project(part).sizes)
            left -= free / table.values.size
        return found, max(left, 0.0) * table.variance

    def _spread(
        self, part: Clique, values: NDArray[np.float64], clique: Clique
    ) -> NDArray[np.float64]:
        """Return a part as a table that broadcasts over a clique, evenly over the other columns."""
        sizes = self.domain.project(clique).sizes
        shape = [size if name in part else 1 for name, size in zip(clique, sizes, strict=True)]
        return values.reshape(shape) * (values.size / math.prod(sizes))

    def _part_of_cell(self, part: Clique, clique: Clique) -> float:
        """Return the variance of a cell of a clique's table for a part of variance 1."""
        sizes = self.domain.project(part).sizes
        free = math.prod(size - 1 for size in sizes)
        return math.prod(sizes) * free / self.domain.size(clique) ** 2

    def fourth_of_total(self) -> Mapping[Clique, float]:
        """Return what each table adds to the fourth cumulant of the total's estimate."""
        if not self._of_total and any(self.fourth.values()):
            precision = self.precision(())
            for table in self.tables:
                size = table.values.size
                share = 1 / (table.variance * size * precision)
                self._of_total[table.clique] = size * share**4 * self.fourth.get(table.clique, 0.0)
        return self._of_total

    def _parts(self, clique: Clique, most: int | None = None) -> Iterator[Clique]:
        """Yield the column sets of a table's parts; columns with one level are left out.

        Args:
            clique: Columns of the table.
            most: Largest number of columns of a part; all of them by default.
        """
        several = [
            name for name in self.domain.columns if name in clique and self.domain.size((name,)) > 1
        ]
        for count in range(min(len(several), most or len(several)) + 1):
            yield from itertools.combinations(several, count)

    def _told(self, part: Clique) -> Iterator[tuple[float, Estimate | NDArray[np.float64]]]:
        """Yield the observations of a part, each with its precision 1 / c."""
        cells = self.domain.size(part)
        for table in self.holders(part):
            yield cells / (table.variance * table.values.size), table
        if part in self.interactions:
            values, variance = self.interactions[part]
            yield 1 / variance, values

    def precision(self, part: Clique) -> float:
        """Return the inverse of a part's noise variance, 1 / (records squared); 0 if unobserved.

        Args:
            part: Columns of the part, in the order of the domain.
        """
        if part not in self._precisions:
            self._precisions[part] = math.fsum(precision for precision, _ in self._told(part))
        return self._precisions[part]

    def part(self, part: Clique) -> NDArray[np.float64]:
        """Return the estimate of an observed part as a table of its own columns, in records.

        Args:
            part: Columns of the part, in the order of the domain.
        """
        if not part and self.rows is not None:
            return np.array(self.rows)
        if part not in self._parts_found:
            found = np.zeros(self.domain.project(part).sizes)
            for precision, what in self._told(part):
                values = beyond(_margin(what, part)) if isinstance(what, Estimate) else what
                found = found + precision * values
            self._parts_found[part] = found / self.precision(part)
        return self._parts_found[part]

    def areas(self, part: Clique) -> AreaPart | None:
        """Return a part's estimates in all areas and levels of areas, from all tables.

        The first level is the sum over all areas. Without nested columns it is the only level, and
        its estimate is that of `part`.

        Args:
            part: Columns of the part, none of them nested, in the order of the domain.

        Returns:
            The estimates for all levels that were observed; None if none was.
        """
        if part not in self._areas:
            nested = self.domain.nested
            names = () if nested is None else nested.columns
            parents = [np.zeros(self.domain.size(names[:1]), dtype=np.intp)] if names else []
            if nested is not None:
                parents += [nested.map(*pair) for pair in itertools.pairwise(names)]
            told = [Told(), *(Told() for _ in names)]
            exact = self.known.get(part[0]) if len(part) == 1 else None
            if not part and self.rows is not None:
                told[0].add(math.inf, np.full(1, float(self.rows)))
            elif exact is not None:
                told[0].add(math.inf, beyond(exact)[None])
            for depth, name in enumerate(names if not part else (), start=1):
                if name in self.known:
                    told[depth].add(math.inf, self.known[name])
            for table in self.holders(part):
                inside = [name for name in names if name in table.clique]
                self._tell(told, part, inside[-1] if inside else None, table)
            for depth, area in enumerate((None, *names)):
                clique = self.with_column(part, area)
                if clique in self.interactions:
                    values, variance = self.interactions[clique]
                    moved = _areas_first(values, clique, area)
                    told[depth].add(1 / variance, moved, deviations=area is not None)
            self._areas[part] = least_squares(parents, told)
        return self._areas[part]

    def _tell(self, told: Sequence[Told], part: Clique, name: str | None, table: Estimate) -> None:
        """Add what a table observes of a part in the areas of a column, or in their sum."""
        clique = self.with_column(part, name)
        values = _areas_first(_margin(table, clique), clique, name)
        for axis in range(1, values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        depth = 0
        if name is not None:
            assert self.domain.nested is not None
            depth = self.domain.nested.columns.index(name) + 1
        told[depth].add(self.domain.size(clique) / (table.variance * table.values.size), values)

    def with_column(self, part: Clique, name: str | None) -> Clique:
        """Return a part and a further column in the order of the domain."""
        if name is None:
            return part
        return tuple(each for each in self.domain.columns if each in part or each == name)


def _areas_first(
    values: NDArray[np.float64], clique: Clique, name: str | None
) -> NDArray[np.float64]:
    """Return a table with the axis of a column first; a new axis for None."""
    return values[None] if name is None else np.moveaxis(values, clique.index(name), 0)


def _margin(table: Estimate, clique: Clique) -> NDArray[np.float64]:
    return np.asarray(table.values.sum(axis=others(table.clique, clique)))


def pool(
    domain: Domain,
    released: Iterable[Released],
    *,
    rows: float | None = None,
) -> Pooled:
    """Return the pooled measurements.

    Args:
        domain: All columns; measurements of other columns, or in other codes, are ignored.
        released: Measurements of the same file. If sets have measurements of their own, pass those
            of one set or of all sets, depending on the use.
        rows: Number of records if it is public, otherwise None.
    """
    tables: list[Measurement] = []
    interactions: list[Totals] = []
    for item in released:
        if isinstance(item, Measurement):
            tables += [item] if _fits(domain, item.clique, item.domain.sizes) else []
        elif isinstance(item, Totals) and isinstance(item.of, Interaction):
            interactions += [item] if _fits(domain, item.of.clique, item.of.sizes) else []
    kinds = {item.noise for item in tables} | {item.noise for item in interactions}
    found = tuple(estimates(domain, tables, zeros=StructuralZeros()))
    beyond_margins = interactions_by_clique(domain, interactions)
    return Pooled(
        domain,
        found,
        beyond_margins,
        "laplace" if "laplace" in kinds else "gaussian",
        rows,
        _fourth(
            domain,
            [(item.clique, item.noise, item.variance) for item in tables],
            {table.clique: table.variance for table in found},
        ),
        _fourth(
            domain,
            [
                (item.of.clique, item.noise, cell_variance(item.of, item.variance))
                for item in interactions
                if isinstance(item.of, Interaction)
            ],
            {clique: variance for clique, (_, variance) in beyond_margins.items()},
        ),
    )


def pooled_records(domain: Domain, released: Sequence[Released]) -> int:
    """Return the number of records that all measurements together tell, at least 0.

    It is 0 if no measurement tells it.
    """
    found = pool(domain, released).counts(())
    return 0 if found is None else max(0, round(float(found)))


def _fourth(
    domain: Domain,
    measured: Iterable[tuple[Clique, Noise, float]],
    averages: Mapping[Clique, float],
) -> dict[Clique, float]:
    """Return the fourth cumulant of the averages of repeated measurements, by clique.

    The fourth cumulant of Laplace noise of variance v is 3 v^2. In an average of variance V, a
    measurement has the weight V / v.
    """
    squares: dict[Clique, float] = {}
    for clique, noise, variance in measured:
        if noise == "laplace":
            ordered = tuple(name for name in domain.columns if name in clique)
            squares[ordered] = squares.get(ordered, 0.0) + variance**-2
    return {clique: 3 * averages[clique] ** 4 * found for clique, found in squares.items()}


def _fits(domain: Domain, clique: Clique, sizes: tuple[int, ...]) -> bool:
    return {*clique} <= {*domain.columns} and domain.project(clique).sizes == sizes
