"""Measurements as linear queries of the joint table of all columns. Public side.

A fit needs two operations: evaluating all queries (cells of tables and parities of binary columns)
on a joint table, and the transpose, which adds weights of queries to its cells. Answers to the same
query are averaged first, weighted by inverse variance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Answers, Measurement, Released
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities, Queries
from dp_core.methods.reconstruction.estimates.consistency import estimates, whole_rows
from dp_core.methods.reconstruction.estimates.raking import others
from dp_core.methods.reconstruction.joint.walsh import parity_mask, walsh
from dp_core.schema.structure.structural_zeros import StructuralZeros

MOST_CELLS = 2**22
"""Default for the largest joint table: 32 MB, and a dozen such arrays during a fit"""


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """0/1-valued queries of the joint table: cells of some tables first, then parities.

    Attributes:
        domain: All columns.
        cells: For each clique, in the domain's order, the flat indices of its cells, ascending.
        masks: Masks of the parities (`parity_mask`).
    """

    domain: Domain
    cells: Mapping[Clique, NDArray[np.int64]]
    masks: NDArray[np.int64]

    @property
    def length(self) -> int:
        """Number of questions."""
        return sum(index.size for index in self.cells.values()) + self.masks.size

    def ask(self, joint: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mass of each query, shape (length,).

        Args:
            joint: Shape `domain.sizes`.
        """
        found = [
            joint.sum(axis=others(self.domain.columns, clique)).reshape(-1)[index]
            for clique, index in self.cells.items()
        ]
        if self.masks.size:
            found.append((joint.sum() + walsh(joint).reshape(-1)[self.masks]) / 2)
        return np.concatenate(found) if found else np.zeros(0)

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each cell of the joint table the sum of the weights of its queries.

        Args:
            weights: Shape (length,).
        """
        total = np.zeros(self.domain.sizes)
        start = 0
        for clique, index in self.cells.items():
            table = np.zeros(self.domain.size(clique))
            table[index] = weights[start : start + index.size]
            start += index.size
            total += table.reshape(
                [
                    size if name in clique else 1
                    for name, size in zip(self.domain.columns, self.domain.sizes, strict=True)
                ]
            )
        if self.masks.size:
            # The query is half of one plus the sign of the parity.
            spectrum = np.zeros(self.domain.size())
            spectrum[self.masks] = weights[start:] / 2
            spectrum[0] = weights[start:].sum() / 2
            total += walsh(spectrum.reshape(self.domain.sizes))
        return total

    def matrix(self) -> NDArray[np.float64]:
        """Return which cells of the joint table each query counts, shape (length, cells), 0 or 1.

        For small domains only.
        """
        found = np.empty((self.length, self.domain.size()))
        one = np.zeros(self.length)
        for number in range(self.length):
            one[:] = 0
            one[number] = 1
            found[number] = self.spread(one).reshape(-1)
        return found

    def carry(self, before: Questions, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights that these queries had among other queries; 0 for new ones."""
        found, start = np.zeros(self.length), 0
        had: dict[Clique, NDArray[np.float64]] = {}
        for clique, index in before.cells.items():
            had[clique] = np.zeros(self.domain.size(clique))
            had[clique][index] = weights[start : start + index.size]
            start += index.size
        of_mask = dict(zip(before.masks.tolist(), weights[start:].tolist(), strict=True))
        start = 0
        for clique, index in self.cells.items():
            if clique in had:
                found[start : start + index.size] = had[clique][index]
            start += index.size
        found[start:] = [of_mask.get(mask, 0.0) for mask in self.masks.tolist()]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Queries with their noisy answers and standard deviations.

    Attributes:
        questions: Questions, each once.
        answers: Noisy answers, as proportions of all records, shape (length,); may be negative.
        stddev: Their standard deviations, as proportions, shape (length,).
    """

    questions: Questions
    answers: NDArray[np.float64]
    stddev: NDArray[np.float64]


@dataclass(slots=True, eq=False)
class _Gathering:
    """Sums of precisions and of answers times precision, by question."""

    domain: Domain
    tables: dict[Clique, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(
        default_factory=dict
    )
    parities: dict[int, tuple[float, float]] = field(default_factory=dict)

    def table(self, clique: Clique) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the sums for a clique in the domain's order, shape of its sizes."""
        if clique not in self.tables:
            sizes = self.domain.project(clique).sizes
            self.tables[clique] = np.zeros(sizes), np.zeros(sizes)
        return self.tables[clique]

    def add_table(self, item: Measurement) -> None:
        clique = in_order(self.domain, item.clique)
        precision, weighted = self.table(clique)
        values = item.values.astype(np.float64).transpose(item.domain.axes(clique))
        precision += 1 / item.variance
        weighted += values / item.variance

    def add_cells(self, queries: Cells, values: NDArray[np.int64], variance: float) -> None:
        for of, codes, value in zip(queries.of, queries.codes, values.tolist(), strict=True):
            clique = in_order(self.domain, of)
            if clique:
                precision, weighted = self.table(clique)
                code = tuple(codes[of.index(name)] for name in clique)
                precision[code] += 1 / variance
                weighted[code] += value / variance

    def add_parities(self, queries: Parities, values: NDArray[np.int64], variance: float) -> None:
        for clique, value in zip(queries.cliques, values.tolist(), strict=True):
            mask = parity_mask(self.domain, clique)
            if mask:
                precision, weighted = self.parities.get(mask, (0.0, 0.0))
                self.parities[mask] = precision + 1 / variance, weighted + value / variance

    def evidence(self, rows: float, possible: NDArray[np.bool_]) -> Evidence:
        cells: dict[Clique, NDArray[np.int64]] = {}
        precisions, sums = [], []
        for clique, (precision, weighted) in self.tables.items():
            # Answers about impossible cells are pure noise, which no table could match.
            seen = possible.any(axis=others(self.domain.columns, clique)) & (precision > 0)
            cells[clique] = np.flatnonzero(seen)
            precisions.append(precision[seen])
            sums.append(weighted[seen])
        masks = np.array(sorted(self.parities), dtype=np.int64)
        precisions.append(np.array([self.parities[int(mask)][0] for mask in masks]))
        sums.append(np.array([self.parities[int(mask)][1] for mask in masks]))
        total = np.concatenate(precisions)
        return Evidence(
            Questions(self.domain, cells, masks),
            np.concatenate(sums) / total / rows,
            1 / np.sqrt(total) / rows,
        )


def gather(
    domain: Domain, released: Iterable[Released], *, rows: float, possible: NDArray[np.bool_]
) -> Evidence:
    """Return tables and answers as estimates of queries of the joint table.

    Args:
        domain: All columns.
        released: Tables and answers; a number of all records is ignored, because `rows` gives it.
        rows: Number of records.
        possible: Cells of the joint table that may hold records, shape `domain.sizes`.
    """
    found = _Gathering(domain)
    for item in released:
        if isinstance(item, Measurement):
            if item.clique:
                found.add_table(item)
        elif isinstance(item, Answers):
            if isinstance(item.queries, Cells):
                found.add_cells(item.queries, item.values, item.variance)
            else:
                assert isinstance(item.queries, Parities)
                found.add_parities(item.queries, item.values, item.variance)
    return found.evidence(rows, possible)


def questions(domain: Domain, queries: Queries) -> Questions:
    """Return queries as questions, in their own order.

    Cells of one table must be adjacent and ascending, and parities in ascending order of their
    masks, as in `all_queries`.

    Raises:
        ValueError: if the queries are in another order.
    """
    cells: dict[Clique, list[int]] = {}
    masks: list[int] = []
    if isinstance(queries, Cells):
        for of, codes in zip(queries.of, queries.codes, strict=True):
            flat = int(np.ravel_multi_index(codes, domain.project(of).sizes))
            cells.setdefault(of, []).append(flat)
        if queries.of != tuple(of for of, index in cells.items() for _ in index) or any(
            index != sorted(index) for index in cells.values()
        ):
            raise ValueError("The cells of a table must be adjacent and in ascending order.")
    else:
        assert isinstance(queries, Parities)
        masks = [parity_mask(domain, clique) for clique in queries.cliques]
    found = {of: np.array(index, dtype=np.int64) for of, index in cells.items()}
    return Questions(domain, found, np.array(masks, dtype=np.int64))


def in_order(domain: Domain, clique: Sequence[str]) -> Clique:
    """Return the columns of a clique in the order of the domain."""
    return tuple(name for name in domain.columns if name in clique)


def number_of_records(
    domain: Domain, released: Sequence[Released], *, rows: int | None, zeros: StructuralZeros
) -> int:
    """Return the number of records: `rows` if it is public, otherwise an estimate.

    Raises:
        BadInput: if it is neither public nor measured.
    """
    if rows is not None:
        return max(1, rows)
    tables: list[Measurement] = []
    for item in released:
        if isinstance(item, Measurement):
            tables.append(item)
        elif isinstance(item, Answers):
            asked = item.queries.of if isinstance(item.queries, Cells) else item.queries.cliques
            tables += [
                Measurement(
                    domain.project(()),
                    np.asarray(value),
                    noise=item.noise,
                    scale=item.scale,
                    stage=item.stage,
                    replicate=item.replicate,
                    grant=item.grant,
                )
                for clique, value in zip(asked, item.values, strict=True)
                if not clique
            ]
    if not tables:
        raise BadInput(
            "The number of records is not measured; give the stage `total` a share of the budget."
        )
    return whole_rows(estimates(domain, tables, zeros=zeros), None)


def possible_cells(domain: Domain, zeros: StructuralZeros) -> NDArray[np.bool_]:
    """Return which cells of the joint table may hold records, shape `domain.sizes`.

    Raises:
        BadInput: if none may.
    """
    possible = ~zeros.mask(domain)
    if not possible.any():
        raise BadInput(
            "The rules of `impossible` in the schema leave no combination of values possible;"
            " take one of them out."
        )
    return possible


def check_size(domain: Domain, method: str) -> None:
    """Check that the joint table of a domain has at most `MOST_CELLS` cells.

    Args:
        domain: All columns.
        method: Option of the spec, for the message.

    Raises:
        BadInput: if it is larger; the message names the limit and another method.
    """
    if domain.size() > MOST_CELLS:
        raise BadInput(
            f"The joint table of all columns has {domain.size():.3g} cells, more than the"
            f" {MOST_CELLS:,} that `{method}` holds; use `method: privsyn`, or fewer and coarser"
            " columns."
        )
