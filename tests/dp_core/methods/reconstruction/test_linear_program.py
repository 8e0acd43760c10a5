from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.contingency_tables import contingency_table
from dp_core.client.released import Answers
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.lab.measures.table_errors import relative_entropy
from dp_core.methods.reconstruction.linear_program import LinearProgram
from dp_core.methods.selection.mwem import parities
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.measured import NONE, noisy_answers, noisy_table

PAIR = Domain(("a", "b"), (2, 3))


def fit(domain, released, *, rows=100, zeros=NONE):
    return LinearProgram().fit(
        domain, released, rows=rows, zeros=zeros, rng=np.random.default_rng(0)
    )


def joint(model):
    return model.project(model.domain.columns)


def test_answers_that_agree_are_met_exactly_and_by_few_cells():
    table = contingency_table("czech")
    domain = Domain(tuple("abcdef"), table.shape)
    queries = parities(domain, (1, 2))
    spectrum = np.array(
        [
            np.where(np.indices(table.shape)[list(domain.axes(clique))].sum(0) % 2, 0, table).sum()
            for clique in queries.cliques
        ]
    )
    released = Answers(
        queries, spectrum, noise="laplace", scale=1.0, stage="measure", replicate=0, grant=1
    )
    found = joint(fit(domain, [released], rows=int(table.sum())))
    for clique in queries.cliques:
        axes = tuple(axis for axis in range(6) if axis not in domain.axes(clique))
        np.testing.assert_allclose(found.sum(axis=axes), table.sum(axis=axes), atol=1e-6)
    # A vertex: 21 answers and the total hold at most 22 cells, so that the entropy is infinite.
    assert np.count_nonzero(found) <= 22
    assert relative_entropy(table, found) == np.inf


def test_the_largest_deviation_in_units_of_the_noise_is_least():
    def cell(codes, value, scale):
        queries = Cells((("a", "b"),), (codes,))
        return noisy_answers(queries, np.array([value]), scale=scale)

    # Three cells are to hold 150 of 100 records, one of them with twice the noise: 50 = 12.5 * 4.
    released = [cell((0, 0), 50, 1.0), cell((1, 0), 50, 1.0), cell((1, 2), 50, 2.0)]
    found = joint(fit(PAIR, released))
    np.testing.assert_allclose([found[0, 0], found[1, 0], found[1, 2]], [37.5, 37.5, 25.0])
    assert found.sum() == pytest.approx(100)


def test_complete_tables_are_taken_too_and_impossible_cells_stay_empty():
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (0,)), "not both"),))
    values = np.array([[7, 20, 10], [30, 13, 20]])
    measured = noisy_table(PAIR, values, noise="laplace")
    assert joint(fit(PAIR, [measured], zeros=zeros))[0, 0] == 0
    np.testing.assert_allclose(joint(fit(PAIR, [measured])), values, atol=1e-9)


def test_a_total_alone_gives_an_even_table():
    total = noisy_answers(Parities(((),)), np.array([60]), noise="laplace")
    model = fit(PAIR, [total], rows=None)
    assert model.rows == 60
    np.testing.assert_allclose(joint(model), 10)


def test_a_table_that_is_too_large_is_refused_with_what_fits():
    with pytest.raises(BadInput, match="multiplicative_weights"):
        LinearProgram().check(Domain(tuple(f"x{axis}" for axis in range(13)), (2,) * 13))


def test_too_many_answers_are_refused_with_what_fits():
    domain = Domain(tuple(f"x{axis}" for axis in range(12)), (2,) * 12)
    LinearProgram().check(domain)
    queries = parities(domain, (1, 2, 3, 4, 5, 6))
    asked = noisy_answers(queries, np.zeros(queries.length, np.int64), noise="laplace")
    with pytest.raises(BadInput, match=r"2,509 answers.*multiplicative_weights"):
        fit(domain, [asked])
