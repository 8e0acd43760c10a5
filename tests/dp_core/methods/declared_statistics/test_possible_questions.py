"""Whatever the public range and the noisy counts: the question for the sums can be asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.methods.declared_statistics.limits import sums_question
from dp_core.methods.declared_statistics.tail_counts import TailCounts
from dp_core.methods.declared_statistics.value_table import ValueTable
from dp_core.schema.grid import with_values
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.values.skewed_grid import with_skewed_values
from tests.full import pairwise

RANGES = [
    (least, most)
    for least, most in itertools.product(
        ("0", "0.1", "0.5", "1", "15", "100", "900000000"), ("99", "100000", "1000000000")
    )
    if float(least) < float(most)
]


def table_of(definition, *, regression):
    schema = parse_schema(
        {
            "version": "1",
            "title": "t",
            "columns": {"v": definition, "g": {"type": "category", "levels": ["a", "b"]}},
        }
    )
    if regression:
        schema = with_values(schema, ["v"])
    return ValueTable.of("v", ("g",), with_skewed_values(schema, ["v"]))


@pytest.mark.parametrize(
    ("limits", "decimals", "regression"), pairwise(RANGES, (None, "2"), (False, True))
)
def test_sums_can_be_asked_after_every_noisy_count(limits, decimals, regression):
    definition = {"type": "number", "min": limits[0], "max": limits[1], "bins": "7"}
    if decimals:
        definition["decimals"] = decimals
    table = table_of(definition, regression=regression)
    layers = len(table.layers.far)
    for place in range(layers):  # all records in one layer, without noise and with much
        counts = np.zeros((2, layers))
        counts[:, place] = 1e6
        tail = TailCounts(counts, 0 * counts, 0 * counts, 0 * counts)
        for noise in (1e-3, 1e6):
            question = sums_question(table, tail, 1.0, noise)
            assert question.reach >= 1


def test_a_range_too_far_from_0_is_refused():
    definition = {"type": "number", "min": "1000000000000", "max": "1000000000001", "bins": "4"}
    with pytest.raises(BadInput, match="equal as 32-bit floats"):
        table_of(definition, regression=False)
