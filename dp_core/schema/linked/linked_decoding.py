"""Decodes synthetic households into a table of households and one of persons. Post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.definition import Schema
from dp_core.schema.rules.possible_codes import decode
from dp_core.tables.household_rows import HouseholdRows


@dataclass(frozen=True, slots=True)
class TwoTables:
    """A table of households and one of persons.

    Attributes:
        households: The key, then the released household columns.
        persons: The link, the person's key, then the released person columns.
    """

    households: pa.Table
    persons: pa.Table


def decode_tables(schema: Schema, rows: HouseholdRows, *, rng: np.random.Generator) -> TwoTables:
    """Return synthetic households as two tables in the schema's own labels and units.

    The values of each table obey the rules over its own columns, as
    `dp_core.schema.rules.possible_codes.decode` draws them. Rules over columns of both tables
    are decided by codes alone, so they hold if the codes break no structural zero.

    Args:
        schema: Schema of the wide domain.
        rows: Codes of the synthetic households, in the schema's order of columns.
        rng: Generator for post-processing.

    Returns:
        The tables. Keys are new: households are 1 to their number, and the persons of a household
        of s members are 1 to s (`int64`).

    Raises:
        ValueError: if the schema is of a single table.
    """
    homes, persons = schema.household_schema, schema.person_schema
    linked = schema.linked
    assert linked is not None
    return TwoTables(
        _with_keys(
            {linked.key: np.arange(1, rows.sizes.size + 1)},
            decode(homes, Dataset(homes.domain, rows.households), rng=rng),
        ),
        _with_keys(
            {linked.link: rows.household_of + 1, linked.person_key: rows.numbers},
            decode(persons, Dataset(persons.domain, rows.persons), rng=rng),
        ),
    )


def _with_keys(keys: dict[str, np.ndarray], table: pa.Table) -> pa.Table:
    names = [*keys, *table.column_names]
    return pa.table([*(pa.array(key) for key in keys.values()), *table.columns], names=names)
