"""Differences of two files, worked by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.lab.measures.table_errors import (
    KINDS,
    RangeQueries,
    countable,
    kind_errors,
    max_cell_error,
    random_range_queries,
    relative_entropy,
    tables_by_kind,
    tables_in_own_units,
)
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from tests.linked_frames import pair_row_codes
from tests.linked_release import SCHEMA, frames


def test_it_is_the_sum_by_hand():
    # .5 ln(.5/.25) + .5 ln(.5/.75)
    by_hand = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert relative_entropy([1, 1], [1, 3]) == pytest.approx(by_hand, rel=1e-12)


def test_it_is_not_symmetric():
    by_hand = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert relative_entropy([1, 3], [1, 1]) == pytest.approx(by_hand, rel=1e-12)


def test_equal_proportions_are_at_zero_whatever_the_number_of_records():
    assert relative_entropy([[1, 2], [3, 0]], [[10, 20], [30, 0]]) == 0.0


def test_a_cell_that_the_synthetic_table_lacks_makes_it_infinite():
    assert relative_entropy([1, 1], [1, 0]) == math.inf
    assert relative_entropy([1, 0], [1, 1]) == pytest.approx(math.log(2), rel=1e-12)
    assert relative_entropy([1, 1], [0, 0]) == math.inf


def test_smoothing_spreads_so_many_records_over_the_synthetic_cells():
    # (1 + .5) / 2 and (0 + .5) / 2 instead of 1 and 0
    by_hand = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert relative_entropy([1, 1], [1, 0], smoothing=1) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    ("real", "synthetic"), [([0, 0], [1, 1]), ([1, -1], [1, 1]), ([1, 2], [1, -2]), ([1], [1, 1])]
)
def test_what_are_no_counts_is_refused(real, synthetic):
    with pytest.raises(ValueError, match=r"Relative entropy|shapes"):
        relative_entropy(real, synthetic)


def test_the_largest_difference_of_proportions_counts():
    # .2 .3 .5 against .3 .3 .4
    assert max_cell_error([2, 3, 5], [[30, 30, 40]][0]) == pytest.approx(0.1, rel=1e-12)


def test_tables_of_any_number_of_axes_and_records_compare():
    assert max_cell_error([[1, 0], [0, 1]], [[0, 5], [5, 0]]) == pytest.approx(0.5, rel=1e-12)


def test_a_table_without_mass_is_zeros():
    assert max_cell_error([0, 0], [1, 3]) == pytest.approx(0.75, rel=1e-12)
    assert max_cell_error([0, 0], [0, 0]) == 0.0


def test_tables_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        max_cell_error([1, 2], [1, 2, 3])


DOMAIN = Domain(("a", "b"), (4, 3))
DATA = Dataset(DOMAIN, np.array([[0, 1, 2, 3, 3], [0, 1, 2, 2, 0]], dtype=np.uint16))


def queries(*boxes):
    """Queries over both columns, each ((a from, to), (b from, to))."""
    low = np.array([[side[0] for side in box] for box in boxes], dtype=np.uint16)
    high = np.array([[side[1] for side in box] for box in boxes], dtype=np.uint16)
    return RangeQueries(DOMAIN, np.array([[0, 1]] * len(boxes)), low, high)


def test_both_ends_belong_to_an_interval():
    # records (0,0) (1,1) (2,2) (3,2) (3,0)
    asked = queries(((1, 3), (1, 2)), ((3, 3), (0, 2)), ((0, 0), (1, 2)), ((0, 3), (0, 2)))
    assert asked.count(DATA).tolist() == [3, 2, 0, 5]


def test_counts_of_pieces_add_up():
    asked = random_range_queries(DOMAIN)
    pieces = (DATA.codes[:, :2], DATA.codes[:, 2:])
    parts = sum(asked.count(Dataset(DOMAIN, piece)) for piece in pieces)
    assert parts.tolist() == asked.count(DATA).tolist()


def test_queries_are_the_same_each_time_and_within_the_domain():
    domain = Domain(("a", "b", "c", "d"), (4, 300, 2, 1))
    first, second = random_range_queries(domain), random_range_queries(domain)
    assert first.axes.shape == (1000, 3)
    assert np.array_equal(first.axes, second.axes)
    assert np.array_equal(first.high, second.high)
    assert (first.low <= first.high).all()
    assert (first.high < np.array(domain.sizes)[first.axes]).all()
    assert (np.diff(first.axes, axis=1) > 0).all()
    wide = (first.axes == 1).any(axis=1)
    assert first.high[wide].max() > 255


def test_the_error_is_the_average_difference_of_proportions():
    other = Dataset(DOMAIN, np.array([[0, 0], [0, 2]], dtype=np.uint16))
    # 3/5 - 0/2 and 5/5 - 2/2
    asked = queries(((1, 3), (1, 2)), ((0, 3), (0, 2)))
    assert asked.error(DATA, other) == pytest.approx(0.3, rel=1e-12)
    assert asked.error(DATA, Dataset(DOMAIN, DATA.codes[:, :0])) == pytest.approx(0.8, rel=1e-12)


def test_data_of_another_domain_are_refused():
    other = Dataset(Domain(("a", "b"), (4, 4)), DATA.codes)
    with pytest.raises(ValueError, match="domain"):
        queries(((0, 1), (0, 1))).count(other)


HOMES, PEOPLE = ("tenure", "income"), ("age", "work")


def rows_of(files):
    tables = [pa.Table.from_pandas(files[name].astype(str)) for name in ("homes", "people")]
    return pair_row_codes(parse_schema(SCHEMA), *tables)


def normalised(first, second, weight=None):
    weight = pd.Series(1.0 if weight is None else weight, index=first.index)
    table = weight.groupby([first.to_numpy(), second.to_numpy()]).sum()
    return table / table.sum()


def joined_tables(files):
    """Return the normalised table of each pair by joins of the two files, without pair rows."""
    homes = files["homes"]
    people = files["people"].assign(
        age=pd.cut(files["people"]["age"], [-1, 17, 64, 99], labels=False)
    )
    both = people.merge(homes, left_on="home_id", right_on="home")
    pairs = people.merge(people, on="home_id")
    pairs = pairs[pairs["nr_x"] != pairs["nr_y"]]
    share = 1 / pairs.groupby("home_id")["nr_x"].transform("size")
    found = {kind: [] for kind in KINDS}
    for one, other in itertools.combinations(HOMES, 2):
        found["household"].append(normalised(homes[one], homes[other]))
    for one, other in itertools.combinations(PEOPLE, 2):
        found["person"].append(normalised(people[one], people[other]))
    for one, other in itertools.product(HOMES, PEOPLE):
        found["household x person"].append(normalised(both[one], both[other]))
    for one, other in itertools.combinations_with_replacement(PEOPLE, 2):
        table = normalised(pairs[one + "_x"], pairs[other + "_y"], share)
        found["member x member"].append(table)
    found["size"].append(people.groupby("home_id").size().value_counts(normalize=True))
    return found


def test_the_tables_of_each_kind_equal_those_of_the_joined_files():
    real, made = frames(200, seed=1), frames(150, seed=2)
    made["homes"]["tenure"] = made["homes"]["tenure"].to_numpy()[::-1]
    rows = [rows_of(files) for files in (real, made)]
    near, far = (lambda: [rows[0]]), (lambda: [rows[1]])

    found = kind_errors(rows[0].domain, near, [far, near])

    exact, drawn = joined_tables(real), joined_tables(made)
    assert list(found) == list(KINDS)
    for kind, (error, same) in found.items():
        apart = [
            one.subtract(other, fill_value=0).abs().sum() / 2
            for one, other in zip(exact[kind], drawn[kind], strict=True)
        ]
        assert error.mean == pytest.approx(np.mean(apart), abs=1e-12), kind
        assert error.worst == pytest.approx(max(apart), abs=1e-12), kind
        assert (error.tables, error.skipped) == (len(apart), 0)
        assert error.mean > 0.01
        assert same.mean == 0
    means = [error.mean for error, _ in found.values()]
    assert len({*means}) == len(means)


def test_a_file_in_pieces_has_the_distances_of_the_whole_file():
    whole, made = rows_of(frames(90, seed=1)), rows_of(frames(90, seed=2))

    def pieces():
        for start in range(0, whole.rows, 7):
            codes = np.ascontiguousarray(whole.codes[:, start : start + 7])
            yield Dataset(whole.domain, codes)

    found = [
        kind_errors(whole.domain, real, [lambda: [made]]) for real in (pieces, lambda: [whole])
    ]
    assert found[0] == found[1]


def households(sizes, *, least=1, most=3):
    """Return pair rows of households of some sizes; the columns have two codes each."""
    linked = LinkedColumns(
        household_columns=("h",), person_columns=("p",), min_members=least, max_members=most
    )
    empty = least == 0
    domain = Domain(linked.columns, (2, most + 1 - least, 2 + empty, 3), linked)
    sizes = np.array(sizes)
    rows = HouseholdRows(
        np.arange(sizes.size, dtype=np.uint16)[None] % 2,
        sizes,
        np.arange(sizes.sum(), dtype=np.uint16)[None] % 2,
    )
    return to_pair_rows(linked, domain, rows)


def test_without_two_members_there_is_no_figure_of_pairs_of_members():
    real, made = households([1, 1, 1]), households([2, 1, 3])
    found = kind_errors(real.domain, lambda: [real], [lambda: [made]])
    assert list(found) == ["household x person", "size"]
    (back,) = kind_errors(real.domain, lambda: [made], [lambda: [real]])["member x member"]
    assert back.mean == 1.0  # the file has pairs of members, and the set has none


def test_households_of_one_size_have_no_figure_of_sizes():
    assert tables_by_kind(households([1], most=1).domain.linked)["size"] == ()


def test_an_empty_household_counts_as_a_household_and_not_as_a_person():
    data = households([0, 2, 1], least=0)
    cliques = [("h",), ("p",), ("members", "p"), ("p", "other.p", "members")]
    found = dict(tables_in_own_units(data.domain, cliques, [lambda: [data]]))
    assert found["h",][0].tolist() == [2, 1]
    assert found["p",][0].tolist() == [2, 1, 0]
    assert found["members", "p"][0].tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert found["p", "other.p", "members"][0].sum(axis=-1).tolist() == [[0, 0.5], [0.5, 0], [0, 0]]


def test_a_table_that_is_too_large_with_members_is_left_out_and_counted():
    linked = LinkedColumns(household_columns=("h", "g"), person_columns=("p",), max_members=20)
    domain = Domain(linked.columns, (1000, 1000, 20, 2, 3), linked)
    assert countable(domain, [("h", "g"), ("h", "p")]) == ((("h", "p"),), 1)
