"""What the report says of bins that were chosen from the file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dp_core.bundle.report.provenance import private_choices
from dp_core.schema.definition import Choice


@pytest.mark.parametrize(
    ("spec", "spread"),
    [
        ({"select": {"method": "densemarg"}}, True),
        ({"synthesize": {"method": "laplace_sanitizer", "bins": 3}}, True),
        ({"synthesize": {"method": "multinomial_dirichlet", "bins": None}}, True),
        ({"synthesize": {"method": "modips"}}, False),
        ({"synthesize": {"method": "average", "models": ["modips", "slomag"]}}, False),
        ({"synthesize": {"method": "average", "models": ["modips", "laplace_sanitizer"]}}, True),
    ],
)
def test_values_follow_the_counts_of_the_choice_where_the_method_draws_within_bins(
    release, spec, spread
):
    published, _ = release
    sex, age, *others = published.schema.columns
    bins = Choice(among=age, codes=tuple(range(1, age.bins)), pieces=((0, 1000),))
    columns = (sex, replace(age, choice=bins), *others)
    made = replace(
        published,
        schema=replace(published.schema, columns=columns),
        plan={**published.plan, "spec": spec},
    )
    found = private_choices(made)
    assert found is not None
    assert (found.bins, found.spread) == (("age",), spread)
