"""Synthetic households as two tables."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dp_core.schema.decoding import codes_of
from dp_core.schema.linked.linked_decoding import decode_tables
from dp_core.tables.household_rows import HouseholdRows
from tests.schema_texts import FLATS, read

SCHEMA = read(FLATS)
RULED = read(
    FLATS.replace(
        "  - children < members\n",
        "  - if district == north then income >= 30\n  - if job == full then age >= 18\n",
    )
)


def some(schema, sizes, seed):
    """Return random codes of households that break no structural zero."""
    rng = np.random.default_rng(seed)
    sizes = np.array(sizes, dtype=np.int64)

    def codes(one, rows):
        drawn = np.stack([rng.integers(each.size, size=rows) for each in one.columns])
        while True:
            broken = one.zeros.mask(one.domain)[tuple(drawn)]
            if not broken.any():
                return drawn.astype(np.uint16)
            again = [rng.integers(each.size, size=broken.sum()) for each in one.columns]
            drawn[:, broken] = np.stack(again)

    homes = codes(schema.household_schema, sizes.size)
    return HouseholdRows(homes, sizes, codes(schema.person_schema, int(sizes.sum())))


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 99))
def test_every_value_encodes_to_its_code_and_every_link_is_a_key(sizes, seed):
    rows = some(SCHEMA, sizes, seed)
    two = decode_tables(SCHEMA, rows, rng=np.random.default_rng(seed))

    assert two.households.column_names == ["hh", "district", "income", "children"]
    assert two.persons.column_names == ["hh", "number", "age", "sex", "job"]
    for table, codes in ((two.households, rows.households), (two.persons, rows.persons)):
        names = table.column_names[-len(codes) :]
        for name, own in zip(names, codes, strict=True):
            values = table.column(name).combine_chunks()
            assert np.array_equal(codes_of(SCHEMA.column(name), values), own)
    assert two.households["hh"].to_pylist() == [*range(1, len(sizes) + 1)]
    links = [home for home, size in enumerate(sizes, start=1) for _ in range(size)]
    assert two.persons["hh"].to_pylist() == links
    numbers = [number for size in sizes for number in range(1, size + 1)]
    assert two.persons["number"].to_pylist() == numbers
    for key in (two.households["hh"], two.persons["hh"], two.persons["number"]):
        assert key.type == pa.int64()


def test_the_values_of_each_table_obey_its_own_rules():
    rows = some(RULED, [3] * 200, 5)
    two = decode_tables(RULED, rows, rng=np.random.default_rng(6))

    homes, people = two.households.to_pandas(), two.persons.to_pandas()
    north, full = homes[homes.district == "north"], people[people.job == "full"]
    assert (north.income.dropna() >= 30).all()
    assert (full.age >= 18).all()
    # The rules cut through bins, so the values, and not only the codes, had to obey them.
    assert (north.income < 40).any()
    assert (full.age < 40).any()
