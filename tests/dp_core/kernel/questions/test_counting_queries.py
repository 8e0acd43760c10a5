from __future__ import annotations

import itertools
import json
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.questions import counting_queries as module
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.query_scores import QueryCounts
from tests.full import examples

SIZES = {"a": 2, "b": 3, "c": 2}
COLUMNS = tuple(SIZES)
RECORDS = list(itertools.product(*(range(size) for size in SIZES.values())))
BINARY = ("p", "q", "r", "s")


def tables(rows, sizes, cliques):
    """Return the exact tables of a file, given by its rows."""
    columns = tuple(sizes)
    result = {}
    for clique in cliques:
        table = np.zeros([sizes[column] for column in clique], dtype=np.int64)
        for row in rows:
            table[tuple(row[columns.index(column)] for column in clique)] += 1
        result[clique] = table
    return result


def counts(queries, rows, sizes=SIZES):
    return queries.count(tables(rows, sizes, queries.cliques))


def up_to(order, columns, least=0):
    return tuple(
        clique
        for size in range(least, order + 1)
        for clique in itertools.combinations(columns, size)
    )


def worst(queries, records, sizes):
    """Return the largest L1 change by one row, for both relations, over all rows."""
    single = [counts(queries, [record], sizes) for record in records]
    added = max(int(np.abs(one).sum()) for one in single)
    replaced = max(
        int(np.abs(one - other).sum()) for one, other in itertools.product(single, repeat=2)
    )
    return added, replaced


cliques_of_cells = st.sampled_from(
    [clique for size in range(4) for clique in itertools.permutations(COLUMNS, size)]
)
cells = st.lists(
    cliques_of_cells.flatmap(
        lambda clique: st.tuples(
            st.just(clique), st.tuples(*(st.integers(0, SIZES[c] - 1) for c in clique))
        )
    ),
    min_size=1,
    max_size=8,
).map(lambda drawn: Cells(*(tuple(part) for part in zip(*drawn, strict=True))))
parities = st.sets(st.sampled_from(up_to(4, BINARY)), min_size=1).map(
    lambda drawn: Parities(tuple(sorted(drawn)))
)


@given(queries=cells, rows=st.lists(st.sampled_from(RECORDS), max_size=12))
def test_a_cell_s_count_is_the_number_of_its_records(queries, rows):
    expected = [
        sum(
            all(row[COLUMNS.index(c)] == code for c, code in zip(clique, cell, strict=True))
            for row in rows
        )
        for clique, cell in zip(queries.of, queries.codes, strict=True)
    ]
    assert counts(queries, rows).tolist() == expected


@given(queries=parities, rows=st.lists(st.tuples(*[st.integers(0, 1)] * 4), max_size=12))
def test_a_parity_s_count_is_the_number_of_records_with_an_even_number_of_ones(queries, rows):
    expected = [
        sum(sum(row[BINARY.index(column)] for column in clique) % 2 == 0 for row in rows)
        for clique in queries.cliques
    ]
    assert counts(queries, rows, dict.fromkeys(BINARY, 2)).tolist() == expected


@settings(max_examples=examples(200))
@given(queries=cells)
def test_one_row_moves_the_cells_by_no_more_than_their_sensitivity(queries):
    added, replaced = worst(queries, RECORDS, SIZES)
    assert added <= queries.norms("add-remove")[0] == queries.norms("add-remove")[1]
    assert replaced <= queries.norms("replace-one")[0] == queries.norms("replace-one")[1]


def test_the_sensitivity_of_all_cells_is_reached():
    """One table more, one more cell for each row: a bound one smaller would be wrong."""
    everything = [
        (clique, cell)
        for clique in up_to(3, COLUMNS)
        for cell in itertools.product(*(range(SIZES[c]) for c in clique))
    ]
    queries = Cells(*(tuple(part) for part in zip(*everything, strict=True)))
    bounds = queries.norms("add-remove")[0], queries.norms("replace-one")[0]
    # 8 tables; the one of no columns is the number of rows, which no replacement moves
    assert bounds == worst(queries, RECORDS, SIZES) == (8, 14)


def test_a_cell_asked_for_twice_counts_twice_whatever_the_order_of_its_columns():
    queries = Cells((("a", "b"), ("b", "a"), ("a", "b")), ((1, 2), (2, 1), (0, 0)))
    assert queries.cliques == (("a", "b"), ("b", "a"))
    assert (queries.norms("add-remove")[0], queries.norms("replace-one")[0]) == (2, 3)
    assert worst(queries, RECORDS, SIZES) == (2, 3)
    apart = Cells((("a", "b"), ("b", "a"), ("a", "b")), ((1, 2), (1, 0), (0, 0)))
    assert (apart.norms("add-remove")[0], apart.norms("replace-one")[0]) == (1, 2)


@settings(max_examples=examples(200))
@given(queries=parities)
def test_the_sensitivity_of_parities_is_the_largest_change_there_is(queries):
    records = list(itertools.product((0, 1), repeat=4))
    added, replaced = worst(queries, records, dict.fromkeys(BINARY, 2))
    assert queries.norms("add-remove")[0] == queries.norms("add-remove")[1] == added
    assert queries.norms("replace-one")[0] == queries.norms("replace-one")[1] == max(1, replaced)


@pytest.mark.parametrize("enumerated", [True, False])
@pytest.mark.parametrize(
    ("columns", "order", "moved", "asked"),
    [
        (6, 2, 12, 21),
        (6, 3, 26, 41),
        (8, 2, 20, 36),
        (8, 3, 64, 92),
        (16, 2, 72, 136),
        (16, 3, 576, 696),
    ],
)
def test_the_tight_sensitivity_of_all_parities_up_to_an_order(
    columns, order, moved, asked, enumerated, monkeypatch
):
    """Up to 1.9 times below the number of parities; with one by one and with the closed form."""
    if not enumerated:
        monkeypatch.setattr(module, "ENUMERATED_COLUMNS", 0)
    module._most_odd.cache_clear()
    names = tuple(f"c{index}" for index in range(columns))
    queries = Parities(up_to(order, names, least=1))
    assert queries.length == asked
    assert queries.norms("replace-one")[0] == moved
    assert Parities(up_to(order, names)).norms("replace-one")[0] == moved
    assert Parities(up_to(order, names)).norms("add-remove")[0] == asked + 1
    module._most_odd.cache_clear()


@given(queries=parities)
def test_the_closed_form_is_never_below_the_truth(queries):
    exact = module._most_odd.__wrapped__(queries.cliques)
    before, module.ENUMERATED_COLUMNS = module.ENUMERATED_COLUMNS, 0
    try:
        assert module._most_odd.__wrapped__(queries.cliques) >= exact
    finally:
        module.ENUMERATED_COLUMNS = before


def test_parities_of_many_columns_have_a_bound():
    names = tuple(f"c{index}" for index in range(60))
    assert Parities(up_to(2, names)).norms("replace-one")[0] == max(
        size + size * (60 - size) for size in range(61)
    )
    some = up_to(2, names, least=2)[: comb(60, 2) // 4]
    assert Parities(some).norms("replace-one")[0] == len(some)


def test_parities_without_common_columns_move_by_the_sum():
    groups = [tuple(f"{letter}{index}" for index in range(3)) for letter in "abcdefgh"]
    cliques = tuple(clique for group in groups for clique in up_to(2, group, least=1))
    assert Parities(cliques).norms("replace-one")[0] == 4 * 8  # 4 of 6 with two of three columns
    joined = (*cliques, ("a0", "b0"), ("a2", "b2"))
    assert Parities(joined).norms("replace-one")[0] == 4 * 6 + worst_by_trial(joined, "ab")


def worst_by_trial(cliques, letters):
    """Return the largest number of odd parities among those of some groups, over all rows."""
    names = [f"{letter}{index}" for letter in letters for index in range(3)]
    return max(
        sum(sum(column in ones for column in clique) % 2 for clique in cliques)
        for size in range(7)
        for ones in itertools.combinations(names, size)
    )


def test_equal_queries_cost_no_more_than_as_many_others(monkeypatch):
    """Half of the queries are equal: each of them was in a term with all others once."""
    built = []
    block = module._cells_block
    monkeypatch.setattr(module, "_cells_block", lambda *of: built.append(len(of[1])) or block(*of))
    queries = Cells((("a",),) * 800, (*((code,) for code in range(400)), *((0,),) * 400))
    assert queries.norms("add-remove")[0] == 401
    assert sum(built) == 800


@pytest.mark.parametrize(
    "cliques",
    [
        [[f"{part} {column}" for column in range(20)] for part in range(17)],
        [[f"{column}" for column in range(order)] for order in range(1, 400)],
    ],
)
def test_parities_whose_sensitivity_costs_too_much_are_refused(cliques):
    queries = read({"name": "parities", "cliques": cliques})
    with pytest.raises(ValueError, match="at most 16,777,216 numbers"):
        queries.norms("replace-one")[0]
    assert queries.norms("add-remove")[0] == len(cliques)


def read(document):
    return QueryCounts.read({"name": "query-counts", "queries": document}).queries


@given(queries=st.one_of(cells, parities))
def test_queries_are_read_back_from_what_they_say(queries):
    assert read(json.loads(json.dumps(queries.to_json()))) == queries


def test_whole_numbers_stay_whole_and_others_do_not():
    half = {("a",): np.array([0.5, 1.5])}
    whole = {("a",): np.array([1, 2])}
    for queries in (Cells((("a",),), ((1,),)), Parities((("a",),))):
        assert queries.count(half).dtype == np.float64
        assert queries.count(whole).dtype == np.int64


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cells((("a",),), ()),
        lambda: Cells((("a",),), ((0, 1),)),
        lambda: Cells((("a", "a"),), ((0, 0),)),
        lambda: Cells((("a",),), ((-1,),)),
        lambda: Parities((("a", "b"), ("b", "a"))),
        lambda: Parities((("a", "a"),)),
        lambda: read({"name": "x", "cliques": []}),
        lambda: read({"name": "cells", "cliques": [["a"]], "cells": [[0, -1]]}),
        lambda: read({"name": "cells", "cliques": [["a"]], "cells": [[-1, 0]]}),
        lambda: read({"name": "cells", "cliques": [["a"]], "cells": [[False, 0]]}),
        lambda: read({"name": "cells", "cliques": [["a"]], "cells": [[0, 1.0]]}),
        lambda: read({"name": "cells", "cliques": [["a"], ["b"]], "cells": [[0, 1]]}),
        lambda: read({"name": "cells", "cliques": [["a"]], "cells": [[0, 1]], "more": 1}),
        lambda: read({"name": "x", "cliques": [["a"]], "cells": [[0, 1]]}),
        lambda: read({"name": "parities", "cliques": ["ab"]}),
    ],
)
def test_what_is_no_list_of_queries_is_refused(make):
    with pytest.raises((ValueError, KeyError)):
        make()
