"""Numeric values of the codes of a column."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.code_values import numbers_of, scores_of
from dp_core.schema.reading.schema_file import parse_schema


def test_a_number_s_values_are_the_means_of_its_bins_and_an_order_s_are_ranks() -> None:
    schema = parse_schema(
        {
            "version": "1",
            "title": "t",
            "columns": [
                {"visits": {"type": "integer", "min": "0", "max": "9", "edges": ["0", "1", "10"]}},
                {
                    "income": {
                        "type": "number",
                        "min": "0",
                        "max": "10",
                        "bins": "2",
                        "missing": "level",
                    }
                },
                {"health": {"type": "ordinal", "levels": ["bad", "fair", "good"]}},
                {"sex": {"type": "category", "levels": ["m", "f"], "missing": "level"}},
            ],
        }
    )

    found = scores_of(schema)

    assert set(found) == {"visits", "income", "health"}
    assert found["visits"] == pytest.approx([0.0, 5.0])
    assert found["income"] == pytest.approx([2.5, 7.5, np.nan], nan_ok=True)
    assert found["health"] == pytest.approx([0.0, 1.0, 2.0])
    assert numbers_of(schema.column("income")) == pytest.approx(found["income"], nan_ok=True)
