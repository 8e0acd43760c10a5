"""The clusters of a survey and the stratum of each, which follow from the schema alone.

The columns of strata and clusters have public levels, so the design is fixed: a set that has no row
of a cluster still has that cluster, with a total of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin


@dataclass(frozen=True, slots=True, eq=False)
class PrimaryUnits:
    """The clusters of the design.

    Attributes:
        columns: Released columns whose codes together identify a cluster.
        pairs: Codes of stratum (0 without strata) and cluster, one row for each cluster, ascending,
            shape (clusters, 2).
    """

    columns: tuple[str, ...]
    pairs: NDArray[np.intp]

    @property
    def strata(self) -> NDArray[np.intp]:
        """Index of the stratum of each cluster, shape (clusters,)."""
        return np.unique(self.pairs[:, 0], return_inverse=True)[1].ravel()

    def index(self, codes: tuple[NDArray[np.integer], ...]) -> NDArray[np.intp]:
        """Return the cluster of each row.

        Args:
            codes: Codes of `columns`, each of shape (rows,).

        Raises:
            ValueError: if a row is in no cluster of the design.
        """
        known = self.pairs[:, 2 - len(codes) :]
        sizes = tuple(
            max(int(one.max()), int(own.max(initial=0))) + 1
            for one, own in zip(known.T, codes, strict=True)
        )
        place = np.full(sizes, -1, dtype=np.intp)
        place[tuple(known.T)] = np.arange(len(known))
        found: NDArray[np.intp] = place[tuple(codes)]
        if (found < 0).any():
            raise ValueError("A row is in no cluster of the schema.")
        return found


def primary_units(schema: Schema) -> PrimaryUnits | None:
    """Return the clusters of a schema's design; None if no column has the role `cluster`.

    Without `survey.nested`, a cluster is identified by its own code, and its strata follow from it;
    `dp_core.schema.reading.survey_reader` refuses schemas in which they do not.
    """
    written = schema.coarse or schema
    stratum, cluster = written.stratum, written.cluster
    if cluster is None:
        return None
    name, codes = origin(written, cluster.name)
    if stratum is None:
        own = np.unique(codes)
        pairs = np.column_stack([np.zeros_like(own), own])
        return PrimaryUnits((cluster.name,), pairs)
    above, groups = origin(written, stratum.name)
    if name == above:
        pairs = np.column_stack([groups, codes])
    else:
        domain = written.domain.project((above, name))
        possible = np.argwhere(~written.zeros.mask(domain))
        pairs = np.column_stack([groups[possible[:, 0]], codes[possible[:, 1]]])
    columns = (stratum.name, cluster.name) if written.survey.nested else (cluster.name,)
    return PrimaryUnits(columns, np.unique(pairs, axis=0))
