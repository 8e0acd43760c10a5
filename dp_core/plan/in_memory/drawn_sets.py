"""The synthetic sets of a release in memory as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_core.methods.reconstruction.reconstructor import Model
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import SetDrawing, decode_piece, decoded_tables

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.schema.linked.linked_decoding import TwoTables


@dataclass(frozen=True, slots=True, eq=False)
class DrawnSet:
    """A synthetic set in memory.

    Attributes:
        records: Its rows, in the schema's labels and units; of linked tables both tables.
        off: Largest relative deviation of its weights from a public total; None without totals.
    """

    records: pa.Table | TwoTables
    off: float | None

    @property
    def rows(self) -> int:
        """Number of records; of linked tables, of households."""
        table: pa.Table = getattr(self.records, "households", self.records)
        return int(table.num_rows)


def drawn_set(plan: Plan, models: Mapping[int, Model], number: int) -> DrawnSet:
    """Return a synthetic set; equal plans and models give the set that the pipeline writes.

    Args:
        plan: Plan of the release, with privately chosen bins and levels.
        models: Models by number of the set; 0 is the shared one.
        number: Number of the set, from 1.
    """
    import pyarrow as pa

    from dp_core.methods.replicates.survey_weights import Calibrator

    schema = plan.spec.schema
    drawing = SetDrawing(plan, models, number)
    if schema.linked is not None:
        # Households are drawn in one piece.
        return DrawnSet(decoded_tables(plan, drawing.draw(0), number, 0), None)
    tables = [
        decode_piece(plan, drawing.draw(position), number, position)
        for position in range(len(drawing.sizes))
    ]
    off = None
    if schema.calibration:
        calibrator = Calibrator(schema)
        for table in tables:
            calibrator.add(table)
        off = calibrator.settle()
        tables = [calibrator.apply(table) for table in tables]
    return DrawnSet(pa.concat_tables(tables).unify_dictionaries().combine_chunks(), off)
