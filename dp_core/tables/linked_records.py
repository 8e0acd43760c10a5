"""Households from their pair rows. Public, or synthetic."""

from __future__ import annotations

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.linked_columns import MEMBERS, LinkedColumns
from dp_core.tables.household_rows import HouseholdRows, pair_counts, places_within, to_pair_rows


def from_pair_rows(linked: LinkedColumns, data: Dataset) -> HouseholdRows:
    """Return the households of pair rows.

    Args:
        linked: The columns of pair rows.
        data: Pair rows in the wide domain, as `to_pair_rows` returns them.

    Raises:
        ValueError: if the rows are not those of whole households in their order.
    """
    codes, middle = data.codes, len(linked.household_columns)
    if data.domain.columns != linked.columns:
        raise ValueError("Pair rows have the columns of both tables in the order of the schema.")
    size = data.column(MEMBERS).astype(np.int64)
    # The households of a run of equal sizes have equally many rows each.
    run = np.flatnonzero(np.diff(size, prepend=-1))
    length = np.diff(run, append=size.size)
    pairs = pair_counts(linked)[size[run]]
    if (length % pairs).any():
        raise ValueError("Pair rows are those of whole households.")
    households = length // pairs
    starts = run.repeat(households) + places_within(households) * pairs.repeat(households)
    members = (size[run] + linked.min_members).repeat(households)
    step = np.maximum(members - 1, 1)
    person_rows = starts.repeat(members) + places_within(members) * step.repeat(members)
    found = HouseholdRows(
        np.ascontiguousarray(codes[:middle, starts]),
        members,
        np.ascontiguousarray(
            codes[middle + 1 : middle + 1 + len(linked.person_columns), person_rows]
        ),
    )
    if not np.array_equal(to_pair_rows(linked, data.domain, found).codes, codes):
        raise ValueError("Pair rows are all ordered pairs of the members of a household.")
    return found
