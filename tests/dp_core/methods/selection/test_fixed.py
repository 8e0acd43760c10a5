from __future__ import annotations

import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.fixed import Fixed
from dp_core.methods.selection.full import Full
from dp_core.methods.selection.one_way import OneWay

DOMAIN = Domain(("age", "sex", "race", "wage"), (8, 2, 5, 27))


def test_a_stated_list_is_measured_with_the_columns_it_leaves_out():
    found = Fixed(cliques=(("sex", "age"), ("race",))).fixed_selection(DOMAIN)
    assert found.cliques == (("age", "sex"), ("race",), ("wage",))
    assert sum(found.weights) == 1


@pytest.mark.parametrize(
    ("cliques", "words"),
    [
        ((), "needs `cliques`"),
        ((("age", "sexx"),), "Did you mean 'sex'"),
        ((("age", "sex"), ("sex", "age")), "twice"),
        ((("age", "age"),), "twice"),
        (((),), "empty"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(cliques, words):
    with pytest.raises(BadInput, match=words):
        Fixed(cliques=cliques).fixed_selection(DOMAIN)


def test_one_way_measures_every_column_and_larger_ones_with_more():
    found = OneWay().fixed_selection(DOMAIN)
    assert found.cliques == (("age",), ("sex",), ("race",), ("wage",))
    assert found.weights[0] / found.weights[3] == pytest.approx(4 / 9)


def test_full_measures_one_table_and_refuses_one_that_is_too_large(monkeypatch):
    assert Full().fixed_selection(DOMAIN).cliques == (DOMAIN.columns,)
    monkeypatch.setattr(Full, "max_cells", 2159)
    with pytest.raises(BadInput, match="privsyn"):
        Full().fixed_selection(DOMAIN)
