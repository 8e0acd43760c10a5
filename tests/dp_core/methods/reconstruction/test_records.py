from __future__ import annotations

import numpy as np
import pytest

from dp_core.client.released import Records
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import reconstructor
from dp_core.methods.reconstruction.records import RecordsAgain
from tests.measured import NONE, noisy_table

DOMAIN = Domain(("a", "b"), (3, 4))
CODES = np.array([[0, 0, 1, 2], [3, 3, 1, 0]], dtype=np.uint16)


def fit(released, rows=None):
    return RecordsAgain().fit(DOMAIN, released, rows=rows, zeros=NONE, rng=np.random.default_rng(0))


def test_each_record_is_drawn_as_often_as_any_other():
    model = fit([Records(Dataset(DOMAIN, CODES))])
    wanted = np.zeros(12)
    wanted[[3, 5, 8]] = 2, 1, 1
    for rows, least, most in ((4, 1, 1), (4_000, 1000, 1000), (4_002, 1000, 1001), (3, 0, 1)):
        data = model.sample(rows, rng=np.random.default_rng(1))
        cells = np.bincount(data.codes[0].astype(int) * 4 + data.codes[1], minlength=12)
        assert cells.sum() == rows
        assert ((cells >= least * wanted) & (cells <= most * wanted)).all()
    orders = {model.sample(4, rng=np.random.default_rng(seed)).codes.tobytes() for seed in range(9)}
    assert len(orders) > 1
    np.testing.assert_allclose(model.project(("a", "b")).ravel(), wanted)
    np.testing.assert_allclose(model.project(("b",)), [1, 1, 0, 2])


def test_the_number_of_rows_is_public_or_measured_or_that_of_the_records():
    records = Records(Dataset(DOMAIN, CODES))
    total = noisy_table(DOMAIN.project(()), np.array(77), noise="laplace", stage="total")
    assert fit([records]).rows == 4
    assert fit([total, records]).rows == 77
    assert fit([total, records], rows=90).rows == 90


def test_records_of_other_orders_of_columns_are_put_in_the_domain_s():
    turned = Dataset(Domain(("b", "a"), (4, 3)), np.ascontiguousarray(CODES[::-1]))
    np.testing.assert_array_equal(fit([Records(turned)]).data.codes, CODES)


def test_without_records_there_is_nothing_to_draw_from():
    total = noisy_table(DOMAIN.project(()), np.array(77), noise="laplace", stage="total")
    with pytest.raises(BadInput, match="dualquery"):
        fit([total])


def test_a_set_of_as_many_rows_is_drawn_at_once_so_that_it_is_the_records(monkeypatch):
    monkeypatch.setattr(reconstructor, "_PIECE_ROWS", 3)
    model = fit([Records(Dataset(DOMAIN, CODES))])
    assert not model.streams
    monkeypatch.setattr(reconstructor, "_PIECE_ROWS", 4)
    assert model.streams
