"""Small files of households, as codes, for tests."""

import numpy as np
from hypothesis import strategies as st

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.tables.household_rows import HouseholdRows

HOMES, PEOPLE = {"a": 2, "b": 3}, {"x": 2, "y": 3}


def tables(least: int, most: int) -> LinkedTables:
    return LinkedTables(
        households="homes",
        persons="people",
        key="k",
        link="k",
        person_key="n",
        min_members=least,
        max_members=most,
        household_columns=tuple(HOMES),
        person_columns=tuple(PEOPLE),
    )


def wide(linked: LinkedTables) -> Domain:
    """Return the wide domain; person columns have a code for no member if there may be none."""
    nobody = linked.min_members == 0
    people = tuple(size + nobody for size in PEOPLE.values())
    sizes = (*HOMES.values(), len(linked.sizes), *people, *(size + 1 for size in people))
    assert linked.columns[len(HOMES)] == MEMBERS
    return Domain(linked.columns, sizes)


@st.composite
def files(draw: st.DrawFn, least: int = 0) -> tuple[LinkedTables, HouseholdRows]:
    """Return linked tables, and households with their members."""
    least = draw(st.integers(least, 1))
    linked = tables(least, draw(st.integers(1, 5)))
    sizes = draw(st.lists(st.integers(least, linked.max_members), max_size=8))
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def codes(columns: dict[str, int], rows: int) -> np.ndarray:
        return np.stack([seed.integers(size, size=rows) for size in columns.values()])

    return linked, HouseholdRows(
        codes(HOMES, len(sizes)).astype(np.uint16),
        np.array(sizes, dtype=np.int64),
        codes(PEOPLE, sum(sizes)).astype(np.uint16),
    )
