"""Sentences of declared statistics: how they may be written, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.errors import BadInput
from dp_core.inference.formulas.declared_statistic import declared_statistic, is_statistic
from dp_core.schema.reading.schema_file import parse_schema

NUMBER = {"type": "integer", "min": 0, "max": 200, "bins": 5}
MANY = {"type": "integer", "min": 0, "max": 200, "bins": 201}
SCHEMA = parse_schema(
    {
        "version": 1,
        "title": "Firms",
        "columns": {
            "turnover": NUMBER,
            "Net sales by quarter": {"type": "number", "min": 0, "max": 500, "bins": 5},
            "industry": {"type": "category", "levels": ["a", "b", "c"]},
            "size and age": {"type": "category", "levels": ["s", "m"]},
            "staff": NUMBER,
            "founded": {"type": "date", "min": "1990-01-01", "max": "2009-12-31", "bins": "year"},
            "band": {
                "type": "ordinal",
                "levels": ["low", "high"],
                "follows": "staff",
                "edges": [40],
            },
            "hidden": {"type": "number", "min": 0, "max": 500, "bins": {"private": 5}},
            "town": {
                "type": "category",
                "levels": {"private": 2},
                "groups": {"u": ["r", "s"], "v": ["t", "q"]},
            },
            "big": MANY,
            "large": MANY,
        },
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean of turnover", ("mean", "turnover", (), None)),
        ("Average turnover per industry", ("mean", "turnover", ("industry",), None)),
        ("the mean of the turnover by industry?", ("mean", "turnover", ("industry",), None)),
        ("sum of TURNOVER by staff", ("total", "turnover", ("staff",), None)),
        ("total turnover by industry, staff", ("total", "turnover", ("industry", "staff"), None)),
        (
            "mean of turnover by size and age and industry",
            ("mean", "turnover", ("size and age", "industry"), None),
        ),
        (
            "mean of net sales by quarter by 'industry'",
            ("mean", "Net sales by quarter", ("industry",), None),
        ),
        ("mean of net sales by quarter", ("mean", "Net sales by quarter", (), None)),
        ("median of turnover", ("quantile", "turnover", (), Fraction(1, 2))),
        (
            "quantile .9 of turnover by industry",
            ("quantile", "turnover", ("industry",), Fraction(9, 10)),
        ),
        ("quantile 1/4 of turnover", ("quantile", "turnover", (), Fraction(1, 4))),
    ],
)
def test_a_statistic_is_read_however_it_is_written(text, expected):
    found = declared_statistic(text, SCHEMA)
    assert (found.measure, found.column, found.by, found.quantile) == expected
    assert found.text == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("count by industry", "need not be declared"),
        ("sd of turnover by industry", "cannot be declared"),
        ("nonsense", "neither a formula nor a statistic"),
        ("mean of turnovr by industry", "Did you mean 'turnover'"),
        ("mean of turnover by indstry", "Did you mean 'industry'"),
        ("mean of turnover by industry where industry = a", "has a condition"),
        ("mean of industry", "has levels"),
        ("mean of founded", "has dates"),
        ("mean of hidden by industry", "bins are chosen privately"),
        ("mean of turnover by town", "levels are chosen privately"),
        ("mean of turnover by band", "use 'staff'"),
        ("mean of turnover by turnover", "names a column twice"),
        ("difference in mean of turnover between industry = a and industry = b", "a difference"),
        ("mean of turnover by industry, industry", "twice"),
        ("mean of turnover by industry, size and age, staff, founded", "at most 3"),
        ("mean of turnover by big, large", "40,401 groups"),
        ("quantile 2 of turnover", "below 1"),
        ("quantile x of turnover", "not stated which quantile"),
        ("quantile 1/0 of turnover", "between 0 and 1"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(text, told):
    with pytest.raises(BadInput) as caught:
        declared_statistic(text, SCHEMA)
    assert told in caught.value.message
    assert len(caught.value.message) < 500


def test_a_text_with_a_tilde_is_a_formula():
    assert is_statistic("mean of turnover")
    assert not is_statistic("turnover ~ staff")
    assert not is_statistic(" ")
