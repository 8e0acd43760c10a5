from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import pgm
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.selection import mwem_pgm
from dp_core.methods.selection.candidates.model_errors import table_distances
from dp_core.methods.selection.mwem_pgm import MwemPgm
from tests.exact_tables import counts_of
from tests.measured import NONE, select_in_memory

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))


def dependent(rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.choice(DOMAIN.size(), rows, p=rng.dirichlet(np.full(DOMAIN.size(), 0.5)))
    return Dataset(DOMAIN, np.stack(np.unravel_index(cells, DOMAIN.sizes)).astype(np.uint16))


def run(data, limit, **options):
    half = Fraction(1, 2)
    return select_in_memory(MwemPgm(**options), data, Fraction(limit), look=half, measure=half)


def test_by_default_there_are_two_rounds_for_each_column():
    _, session = run(dependent(), 1)
    assert sum(grant.step.stage == "select" for grant in session.charges) == 8


def test_with_hardly_noise_every_pair_gets_right(monkeypatch):
    monkeypatch.setattr(pgm, "SWEEPS", 500)
    monkeypatch.setattr(pgm, "TOLERANCE", 1e-9)
    data = dependent()
    monkeypatch.setattr(MwemPgm, "turns", 3)
    selection, _ = run(data, 10**9)
    model = Pgm().fit(
        DOMAIN, selection.measured, rows=None, zeros=NONE, rng=np.random.default_rng(0)
    )
    for pair in itertools.combinations(DOMAIN.columns, 2):
        np.testing.assert_allclose(model.project(pair), counts_of(data, pair), atol=5)


def test_only_pairs_are_chosen():
    selection, _ = run(dependent(), 10**6)
    assert {len(m.clique) for m in selection.measured[4:]} == {2}


def test_a_candidate_counts_less_what_its_own_noise_would_leave(monkeypatch):
    asked = []

    def spy(cliques, tables, *, noise):
        asked.append(noise)
        return table_distances(cliques, tables, noise=noise)

    monkeypatch.setattr(mwem_pgm, "table_distances", spy)
    selection, _ = run(dependent(), 1)
    expected = selection.measured[-1].variance ** 0.5 * (2 / np.pi) ** 0.5
    assert asked == pytest.approx([expected] * 8)


def test_more_candidates_than_can_be_answered_are_refused_with_what_fits():
    wide = Domain(tuple(f"x{axis}" for axis in range(201)), (2,) * 201)
    MwemPgm().check(Domain(wide.columns[:200], wide.sizes[:200]))  # 19,900 pairs
    with pytest.raises(BadInput, match="20,100"):
        MwemPgm().check(wide)
