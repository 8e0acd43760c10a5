from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.household_rows import HouseholdRows, to_pair_rows
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.lab.measures.kind_error import (
    KINDS,
    countable,
    kind_errors,
    tables_by_kind,
    tables_in_own_units,
)
from dp_core.schema.reading.schema_file import parse_schema
from tests.linked_frames import pair_row_codes
from tests.linked_release import SCHEMA, frames

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
