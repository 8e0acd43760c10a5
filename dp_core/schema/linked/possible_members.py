"""Replaces codes of synthetic households for which no values obey the rules of a table."""

from __future__ import annotations

import numpy as np

from dp_core.schema.definition import Schema
from dp_core.schema.linked.household_rows import HouseholdRows, from_pair_rows, to_pair_rows
from dp_core.schema.rules.possible_codes import with_possible_values
from dp_core.tables.dataset import Dataset


def with_possible_members(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> Dataset:
    """Return pair rows for whose codes there are values that obey all rules.

    A rule over columns of both tables is decided by codes, so it holds if no structural zero is
    broken. A rule over one table may need other codes in some rows of that table; see
    `dp_core.schema.rules.possible_codes.with_possible_values`.

    Args:
        schema: Schema of the wide domain.
        data: Pair rows of whole households that break no structural zero.
        rng: Generator for post-processing.

    Raises:
        BadInput: if a table has no row for which there are such values.
    """
    linked = schema.linked
    if linked is None:
        raise ValueError("The schema is of a single table.")
    homes, persons = schema.household_schema, schema.person_schema
    if not homes.rules and not persons.rules:
        return data
    rows = from_pair_rows(linked, data)
    possible = HouseholdRows(
        with_possible_values(homes, Dataset(homes.domain, rows.households), rng=rng).codes,
        rows.sizes,
        with_possible_values(persons, Dataset(persons.domain, rows.persons), rng=rng).codes,
    )
    return to_pair_rows(linked, data.domain, possible)
