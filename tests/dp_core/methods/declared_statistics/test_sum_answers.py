"""Totals by group without noise and without limits are those of pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dp_core.methods.declared_statistics.sum_answers import (
    counts_question,
    group_sums,
    layers_question,
    limited_question,
    shape_question,
)
from dp_core.methods.declared_statistics.value_table import ValueTable
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.values.skewed_grid import with_skewed_values
from tests.measured import noisy_sums

EDGES = [0, 1000, 1_000_000, 1_000_000_001]
NUMBER = {"type": "integer", "min": 0, "max": 1_000_000_000, "edges": EDGES}
GROUPS = {"type": "category", "levels": ["a", "b", "c"]}
SCHEMA = with_skewed_values(
    parse_schema({"version": 1, "title": "t", "columns": {"g": GROUPS, "x": NUMBER}}), ["x"]
)


def test_without_noise_totals_and_counts_are_those_of_the_file_but_for_rounding():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 3, 5000)
    values = np.floor(np.exp(rng.normal(9, 2, 5000))).astype(np.int64)
    edges = np.array([float(each) for each in SCHEMA.column("x").stored.edges[1:-1]])
    cells = np.column_stack([group, np.searchsorted(edges, values, side="right")]).astype(np.uint16)
    ones = np.ones(5000, dtype=np.int64)
    table = ValueTable.of("x", ["g"], SCHEMA)

    def ask(question, grant):
        own = cells if len(question.clique) == 2 else cells[:, 1:]
        return noisy_sums(
            question, question.total(own, ones), scale=1e-9, stage="analyses", grant=grant
        )

    before = [ask(counts_question(table), 1), ask(shape_question(table), 2)]
    before.append(ask(layers_question(table), 3))
    sums = ask(limited_question(table, *before, lambda _: 1e-9), 4)
    found = group_sums(table, *before, sums)
    file = pd.Series(values).groupby(group)
    assert np.allclose(found.counts, file.count())
    # Rounding: at most a thousandth of each value, and without a direction.
    assert np.allclose(found.totals, file.sum(), rtol=1e-4)
    assert (np.abs(found.totals - file.sum()) <= 1e-3 * file.sum()).all()
    assert np.allclose(found.beyond, 0)
