"""A bundle under verification, and the counts of its sets, which several checks use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_core.bundle.best_set import BEST
from dp_core.bundle.files.codebook import MARGINALS, synthetic_path
from dp_core.bundle.files.linked_sets import codes_of_set, read_linked_set
from dp_core.bundle.files.marginals_file import Measured, read_marginals
from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.bundle.quality.table_fit import TableFit, check_fit, columns_of, comparable
from dp_core.bundle.verification.claims import Claims
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.metrics.marginal_error import HouseholdTally, Tally
from dp_core.plan.quality_checks import countable
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.grid import Coarsening
from dp_core.tables.household_rows import pair_row_pieces


@dataclass(frozen=True)
class Examined:
    """A bundle under verification. What several checks use of its files is read once.

    Attributes:
        folder: The bundle.
        document: Its statement.
        claims: The claims of the statement.
    """

    folder: Path
    document: Mapping[str, Any]
    claims: Claims

    @cached_property
    def measured(self) -> Sequence[Measured]:
        """The noisy tables."""
        return read_marginals(self.folder / MARGINALS, self.claims.schema)

    @cached_property
    def fits(self) -> Sequence[TableFit]:
        """Distance of the sets for inference from each noisy table and interaction."""
        return self._fits_of(range(1, self.claims.sets + 1))

    @cached_property
    def fits_of_best(self) -> Sequence[TableFit]:
        """The same of the best set."""
        return self._fits_of((BEST,))

    @property
    def records(self) -> int:
        """Stated number of records."""
        return int(self.document["sets"]["records"]["value"])

    def _fits_of(self, numbers: Sequence[int]) -> Sequence[TableFit]:
        domain = countable(self.claims.schema)
        compared = comparable(self.measured, domain)
        cliques = [columns_of(item) for item in compared] or [domain.columns[:1]]
        tallies = counts_of_sets(self.folder, self.claims.schema, numbers, cliques)
        return check_fit(compared, tallies, records=self.records)


def counts_of_sets(
    folder: Path, schema: Schema, numbers: Sequence[int], cliques: Iterable[Clique]
) -> tuple[Tally, ...]:
    """Return the counts of each set of a bundle in some tables, in the codes of the schema.

    Args:
        folder: The bundle.
        schema: Schema by which the sets were decoded; with a grid, the schema on the grid.
        numbers: Numbers of the sets.
        cliques: Columns of each table.

    Raises:
        BadInput: if a file cannot be read, or contains values that the schema does not allow.
    """
    wanted = tuple(dict.fromkeys(cliques))
    if schema.linked is not None:
        return tuple(_counts_of_linked(folder, schema, number, wanted) for number in numbers)
    coarsening = Coarsening(schema) if schema.coarse is not None else None
    domain = schema.domain if coarsening is None else coarsening.domain
    domain = domain.project(
        tuple(name for name in domain.columns if any(name in clique for clique in wanted))
    )
    found = []
    for number in numbers:
        path = folder / synthetic_path(number)
        tally = Tally(domain, wanted)
        try:
            for batch in read_parquet(path, domain.columns):
                codes = [
                    codes_of(schema.column(name), batch.column(name)) for name in domain.columns
                ]
                if coarsening is not None:
                    pairs = zip(domain.columns, codes, strict=True)
                    codes = [coarsening.codes(name, each) for name, each in pairs]
                tally.add(Dataset(domain, np.stack(codes)))
        except (OSError, pa.ArrowException, ValueError, LookupError):
            raise BadInput(
                f"{synthetic_path(number)} cannot be counted: it contains values that the schema"
                " does not allow."
            ) from None
        found.append(tally)
    return tuple(found)


def _counts_of_linked(
    folder: Path, schema: Schema, number: int, cliques: Sequence[Clique]
) -> HouseholdTally:
    """Return the counts of one set of linked tables, in households."""
    tally = HouseholdTally(schema.domain, cliques)
    try:
        rows = codes_of_set(schema, read_linked_set(folder, schema, number))
    except (pa.ArrowException, ValueError, LookupError):
        raise BadInput(
            f"Set {number} cannot be counted: it contains values that the schema does not allow."
        ) from None
    assert schema.linked is not None
    for piece, *_ in pair_row_pieces(schema.linked, schema.domain, rows):
        tally.add(piece)
    return tally
