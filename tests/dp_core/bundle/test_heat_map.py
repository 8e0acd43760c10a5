from __future__ import annotations

import re

import numpy as np
import pytest

from dp_core.bundle.quality.relations import pool_release
from dp_core.bundle.report.pictures.heat_map import in_words, member_maps
from dp_core.schema.reading.schema_file import parse_schema
from tests.linked_release import SCHEMA
from tests.measured import noisy_table

# Pairs of 0 to 17, 18 to 64 and 65 to 99; the last column is for no other member.
COUNTS = np.array([[10.0, 20.0, 0.0, 40.0], [20.0, 90.0, 5.0, 60.0], [0.0, 5.0, 50.0, 100.0]])


@pytest.fixture(scope="module")
def schema():
    return parse_schema(SCHEMA)


def measured(schema, clique, values):
    return noisy_table(schema.domain.project(clique), values)


def test_the_squares_are_the_shares_of_pairs_of_two_members(schema):
    pooled = pool_release(schema, [measured(schema, ("age", "other.age"), COUNTS)])
    (drawn,) = member_maps(pooled, schema)
    pairs = COUNTS[:, :3]
    shown = re.findall(r"<title>[^<]*: ([0-9.]+) %</title>", drawn.svg)
    expected = 100 * pairs / pairs.sum()
    assert [float(value) for value in shown] == pytest.approx(expected.ravel().tolist(), abs=0.05)
    assert drawn.name == "age"
    assert "18 to 64 and 18 to 64" in drawn.words
    assert f"{np.trace(expected):.0f} % of the pairs" in drawn.words


def test_the_darkest_square_is_the_most_frequent_pair(schema):
    pooled = pool_release(schema, [measured(schema, ("age", "other.age"), COUNTS)])
    (drawn,) = member_maps(pooled, schema)
    shades = [float(value) for value in re.findall(r'fill-opacity="([0-9.]+)"', drawn.svg)]
    assert np.argmax(shades) == np.argmax(COUNTS[:, :3])
    assert max(shades) == 1


def test_pairs_that_no_table_determines_are_not_drawn(schema):
    pooled = pool_release(schema, [measured(schema, ("age",), COUNTS.sum(axis=1))])
    assert member_maps(pooled, schema) == ()


def test_another_members_columns_are_named_for_people_but_not_in_code(schema):
    page = (
        "<p>other.age and another.age</p><pre><code>other.age</code></pre><code>other.work</code>"
    )
    assert in_words(page, schema.linked) == (
        "<p>other member’s age and another.age</p><pre><code>other.age</code></pre>"
        "<code>other.work</code>"
    )
