"""The mechanism of the private draws that a release's sets consist of, read from the receipts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dp_core.schema.definition import Schema
from dp_core.wall.accounting.events import Event, PerturbedDrawsEvent, PolyaUrnEvent
from dp_core.wall.ledger.session import DRAWN_CELLS


@dataclass(frozen=True, slots=True)
class PrivateDraws:
    """Records that were drawn from the cells of one table, each with added virtual records.

    Attributes:
        columns: Columns of the table.
        cells: Number of its cells.
        kind: How the records were drawn; see `Curator.draw_cells`.
        virtual: Virtual records in each cell.
        records: Number of records drawn.
        binned: Columns that were drawn in bins.
    """

    columns: tuple[str, ...]
    cells: int
    kind: Literal["independent", "urn"]
    virtual: Fraction
    records: int
    binned: frozenset[str]


def private_draws(
    charged: Iterable[tuple[Event, Mapping[str, Any]]], schema: Schema
) -> tuple[PrivateDraws, ...]:
    """Return the draws of records among the charges of a release, in order.

    Args:
        charged: The event of each charge, and what its step asks.
        schema: The schema that defines the codes.
    """
    found = []
    sizes = dict(zip(schema.domain.columns, schema.domain.sizes, strict=True))
    for event, asks in charged:
        if asks.get("name") != DRAWN_CELLS:
            continue
        assert isinstance(event, PerturbedDrawsEvent | PolyaUrnEvent)
        columns, edges = tuple(asks["columns"]), asks["edges"]
        found.append(
            PrivateDraws(
                columns=columns,
                cells=math.prod(
                    sizes[name] if each is None else len(each) - 1
                    for name, each in zip(columns, edges, strict=True)
                ),
                kind="urn" if isinstance(event, PolyaUrnEvent) else "independent",
                virtual=event.scale,
                records=int(asks["records"]),
                binned=frozenset(
                    name for name, each in zip(columns, edges, strict=True) if each is not None
                ),
            )
        )
    return tuple(found)
