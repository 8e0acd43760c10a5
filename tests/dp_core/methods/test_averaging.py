from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.averaging import draw
from dp_core.methods.reconstruction.average import Average
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b"), (2, 3))


class Always:
    """A model that knows one code."""

    def __init__(self, code):
        self.code = code

    def sample(self, rows, *, rng):  # noqa: ARG002
        return Dataset(DOMAIN, np.full((2, rows), self.code, dtype=np.uint16))


@given(rows=st.integers(0, 100), models=st.integers(1, 6))
def test_every_record_is_some_models_and_no_part_is_off_by_one(rows, models):
    always = [Always(code) for code in range(models)]
    data = draw(always, rows, rng=np.random.default_rng(1))
    found = np.bincount(data.column("a"), minlength=models)
    assert found.sum() == rows
    assert np.abs(found - rows / models).max() < 1


def test_of_a_mixture_each_model_draws_its_part_in_random_places():
    data = draw([Always(0), Always(1)], 200, rng=np.random.default_rng(1))
    assert data.column("a").sum() == 100
    assert 25 < data.column("a")[:100].sum() < 75


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"models": ("gum",)}, "at least two"),
        ({"models": ("gum", "gum")}, "each once"),
        ({"models": ("gum", "average")}, "cannot contain another average"),
    ],
)
def test_what_is_no_average_is_refused(options, told):
    with pytest.raises(ValueError, match=told):
        Average(**options)


def test_a_model_without_use_for_tables_is_refused():
    with pytest.raises(BadInput, match="records has no use for tables"):
        Average(models=("gum", "records")).check(DOMAIN)


def test_the_average_has_the_tables_of_its_models_in_equal_parts():
    tables = [
        noisy_table(DOMAIN, np.array([[90, 5, 25], [30, 45, 5]]), scale=2.0),
        noisy_table(DOMAIN.project(("a",)), np.array([80, 120]), scale=2.0, grant=2),
    ]

    def fit(method):
        return method.fit(
            DOMAIN,
            tables,
            rows=200,
            zeros=StructuralZeros(),
            rng=np.random.default_rng(0),
        )

    average = fit(Average(models=("independent", "dense")))
    one, two = average.models
    np.testing.assert_allclose(
        average.project(("a",)), (one.project(("a",)) + two.project(("a",))) / 2
    )
    again = Average(models=("independent", "dense")).restore(
        DOMAIN, average.tables, rows=average.rows, zeros=StructuralZeros()
    )
    for rng in (1, 2):
        np.testing.assert_array_equal(
            average.sample(50, rng=np.random.default_rng(rng)).codes,
            again.sample(50, rng=np.random.default_rng(rng)).codes,
        )
