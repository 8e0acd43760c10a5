"""The number of rows and the one-way tables that are known before a selection."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import tables_of
from dp_core.errors import BadInput
from dp_core.kernel.privacy import Neighbours, Stage
from dp_core.methods.method_inputs import MethodInputs
from dp_core.schema.structure.structural_zeros import StructuralZeros

_ROWS_UNKNOWN = (
    "This selection needs the approximate number of rows; give the stage `total` (or `one_way`) a"
    " share of the budget."
)


def require_rows(neighbours: Neighbours, measured: Collection[Stage]) -> None:
    """Raise BadInput unless the approximate number of rows will be known; see `Selector`."""
    if neighbours == "add-remove" and not {"total", "one_way"} & set(measured):
        raise BadInput(_ROWS_UNKNOWN)


def number_of_rows(inputs: MethodInputs) -> float:
    """Return the public number of rows, or its estimate by the tables `known`; at least 1.

    Raises:
        BadInput: if the number is neither public nor measured.
    """
    from dp_core.methods.reconstruction.estimates.consistency import estimate_total, estimates

    rows = inputs.curator.public_rows()
    if rows is not None:
        return max(float(rows), 1.0)
    measured = estimates(inputs.domain, tables_of(inputs.known), zeros=StructuralZeros())
    if not measured:
        raise BadInput(_ROWS_UNKNOWN)
    return max(estimate_total(measured), 1.0)


def column_weights(inputs: MethodInputs) -> Mapping[str, NDArray[np.float64]]:
    """Return each column's measured table, normalised to sum 1, or a uniform one."""
    from dp_core.methods.reconstruction.estimates.consistency import column_tables

    domain = inputs.domain
    even = {
        name: np.full(size, 1 / size)
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    }
    measured = tables_of(inputs.known)
    if not measured:
        return even
    tables, total = column_tables(domain, measured, rows=None, zeros=inputs.zeros)
    return {
        name: table.values / total if table.values.any() else even[name]
        for name, table in zip(domain.columns, tables, strict=True)
    }
