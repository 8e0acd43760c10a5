"""Replaces codes of synthetic households for which no values obey the rules of a table."""

from __future__ import annotations

import numpy as np

from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.rules.possible_codes import possible_record, with_possible_values
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.tables.household_rows import (
    HouseholdRows,
    from_pair_rows,
    households_with,
    to_pair_rows,
    with_donors,
)


def with_possible_members(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> Dataset:
    """Return pair rows for whose codes there are values that obey all rules.

    A rule over one table may need other codes in some rows of that table; see
    `dp_core.schema.rules.possible_codes.with_possible_values`. A rule over columns of both tables,
    or with `members`, is decided by codes, so it holds if no structural zero is broken. Where other
    codes of one table break one, another household with its members takes the place of the whole
    household.

    Args:
        schema: Schema of the wide domain.
        data: Pair rows of whole households that break no structural zero.
        rng: Generator for post-processing.

    Raises:
        BadInput: if no row of a table has such values, or no household with a member.
    """
    linked = schema.linked
    if linked is None:
        raise ValueError("The schema is of a single table.")
    homes, persons = schema.household_schema, schema.person_schema
    if not homes.rules and not persons.rules:
        return data
    rows = from_pair_rows(linked, data)
    own, members = Dataset(homes.domain, rows.households), Dataset(persons.domain, rows.persons)
    mended = (
        with_possible_values(homes, own, rng=rng),
        with_possible_values(persons, members, rng=rng),
    )
    if mended[0] is own and mended[1] is members:
        return data
    possible = HouseholdRows(mended[0].codes, rows.sizes, mended[1].codes)
    pairs = to_pair_rows(linked, data.domain, possible)
    broken = schema.zeros.violations(pairs)
    if not broken.any():
        return pairs
    bad = households_with(broken, rows.sizes)
    if bad.all():
        return _all_alike(schema, linked, data.domain, bad.size, rng=rng)
    return to_pair_rows(linked, data.domain, with_donors(possible, bad, rng=rng))


def _all_alike(
    schema: Schema,
    linked: LinkedTables,
    domain: Domain,
    households: int,
    *,
    rng: np.random.Generator,
) -> Dataset:
    """Return so many times one possible household, whose members are all alike."""
    record = possible_record(schema, rng=rng)
    middle, end = len(linked.household_columns), len(linked.columns) - len(linked.others)
    size = linked.members_of(int(record[middle]))
    rows = HouseholdRows(
        np.repeat(record[:middle, None], households, axis=1),
        np.full(households, size),
        np.repeat(record[middle + 1 : end, None], households * size, axis=1),
    )
    return to_pair_rows(linked, domain, rows)
