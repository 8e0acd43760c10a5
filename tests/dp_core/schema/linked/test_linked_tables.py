"""What a pair row weighs."""

import math

import pytest

from dp_core.kernel.counting.linked_columns import MOST_MEMBERS, pair_rows
from dp_core.schema.linked.linked_tables import LinkedTables, other


def linked(**options) -> LinkedTables:
    names = {"households": "homes", "persons": "people", "key": "k", "link": "k", "person_key": "n"}
    columns = {"household_columns": ("a", "b"), "person_columns": ("x", "y")}
    return LinkedTables(**{**names, **columns, "max_members": 4, **options})


@pytest.mark.parametrize("most", range(1, MOST_MEMBERS + 1))
@pytest.mark.parametrize("least", [0, 1])
def test_every_household_has_the_fewest_shares_that_give_whole_weights(least, most):
    tables = linked(min_members=least, max_members=most)

    assert tables.sizes == tuple(range(least, most + 1))
    assert tables.shares == math.lcm(*(s * (s - 1) for s in range(2, most + 1)))
    for code, weight in enumerate(tables.weights):
        members = tables.sizes[code]
        assert type(weight) is int
        assert weight * pair_rows(members) == tables.shares


def test_the_wide_domain_has_every_column_once():
    assert linked().columns == ("a", "b", "members", "x", "y", "other.x", "other.y")
    assert linked().others == tuple(map(other, ("x", "y")))


@pytest.mark.parametrize(
    "options",
    [
        {"max_members": 0},
        {"max_members": MOST_MEMBERS + 1},
        {"max_members": 4.0},
        {"min_members": 2},
        {"household_columns": ("a", "a")},
        {"household_columns": ("x",)},
        {"person_columns": ("members",)},
        {"household_columns": ("other.x",)},
    ],
)
def test_sizes_and_names_that_no_table_may_have_are_refused(options):
    with pytest.raises(ValueError, match=r"members|repeated"):
        linked(**options)
