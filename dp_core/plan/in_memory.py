"""A release in memory: its plan without a spec file, and its sets as tables.

`dp_core.plan.procedure` makes the release between the two. It takes counts from a counter, so
nothing here touches a record. `benchmarks.trial` plans for data without a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.methods.reconstruction.reconstructor import Model
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import SetDrawing, decode_piece, decoded_tables
from dp_core.plan.reading.prior_reader import FindPrior, no_prior
from dp_core.plan.reading.spec_file import read_plan
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import from_plain

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.schema.linked.linked_decoding import TwoTables

NAME = "in-memory"
"""Name of a release in memory: of the release, its data and its account in the plan's document."""
_FIXED = {"version": 1, "release": NAME, "data": NAME, "schema": NAME, "account": NAME}


def memory_plan(schema: Schema, stated: Mapping[str, Any], *, prior: FindPrior = no_prior) -> Plan:
    """Return the plan of a release in memory; it is that of a spec file with the same keys.

    Args:
        schema: Schema of the release.
        stated: Keys of a spec with plain values, without those that name files and an account.

        prior: Reads the public records if `stated` has the key `prior`; by default the key is
            refused.

    Raises:
        BadInput: for any mistake, with its key, and what is expected there.
    """
    fixed: dict[str, Any] = dict(_FIXED)
    if schema.linked is not None:
        names = (schema.linked.households, schema.linked.persons)
        fixed["data"] = {name: f"{NAME}, {name}" for name in names}
    if schema.panel is not None and schema.panel.wave is None:
        fixed["data"] = {wave: f"{NAME}, {wave}" for wave in schema.panel.waves}
    root = from_plain({**fixed, **stated}, source="release")
    return read_plan(root, Path(), schema=schema, find_prior=prior)


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
        return int(tables_of_set(self.records)[0].num_rows)


def tables_of_set(records: pa.Table | TwoTables) -> tuple[pa.Table, ...]:
    """Return the tables of a set: one, or those of households and of persons."""
    two = getattr(records, "households", None) is not None
    return (records.households, records.persons) if two else (records,)


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
