"""Sets of a release with a prior: which model makes them, and that it can be restored."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.methods.prior.public_prior import PublicPrior, as_codes
from dp_core.methods.reconstruction.gum import GumModel
from dp_core.plan.procedure import ask_all, fits, restore, sample
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.ledger.session import MemorySession

SIZES = (2, 3, 4, 2, 3, 5, 2, 4)
DOMAIN = Domain(tuple("abcdefgh"), SIZES)


def records(seed, rows=4000):
    """Return codes of a chain of columns, each like the one before in half of the records."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, SIZES[0], rows)]
    for size in SIZES[1:]:
        like = (codes[-1] + size // 2) % size
        codes.append(np.where(rng.random(rows) < 0.5, like, rng.integers(0, size, rows)))
    return np.stack(codes)


def prior(codes):
    return PublicPrior(DOMAIN, (as_codes(list(codes)),), False)


@pytest.fixture(scope="module")
def asked():
    """Return what a release of mode `shared` measured; the noise is small."""
    data = Dataset(DOMAIN, records(1).astype(DOMAIN.code_type))
    plan = trial_plan(DOMAIN, "auto", Fraction(10), Fraction(1, 10**9), rows_about=4000)
    privacy = plan.spec.privacy
    session = MemorySession(
        plan.currency, privacy.neighbours, max_rows=privacy.max_rows, shares=privacy.shares
    )
    return ask_all(plan, MemoryCounter(data), session)


def fitted(asked, public):
    plan = asked.plan
    plan = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, prior=public))
    ((_, model),) = fits(plan, asked.released, asked.selections, rows=asked.rows)
    return plan, model


def test_a_prior_that_fits_makes_a_shared_model_of_all_pairs_which_can_be_restored(asked):
    plan, model = fitted(asked, prior(records(2)))
    assert isinstance(model, GumModel)
    assert len([table for table in model.tables if len(table.clique) == 2]) == 28

    again = restore(plan, asked.released, 0, tables=model.tables, rows=model.rows)
    assert isinstance(again, GumModel)
    assert np.array_equal(sample(plan, {0: model}, 1).codes, sample(plan, {0: again}, 1).codes)


def test_a_prior_that_does_not_fit_leaves_a_shared_model_as_it_is(asked):
    rng = np.random.default_rng(3)
    wrong = np.stack([rng.permutation(size)[each] for each, size in
                      zip(records(2), SIZES, strict=True)])  # fmt: skip
    _, without = fitted(asked, None)
    plan, model = fitted(asked, prior(wrong))
    assert type(model) is type(without)
    for one, other in zip(model.tables, without.tables, strict=True):
        assert np.array_equal(one.values, other.values)
    again = restore(plan, asked.released, 0, tables=model.tables, rows=model.rows)
    assert type(again) is type(without)
