import pytest

from dp_core.errors import BadInput
from dp_core.methods import registry

ROWS = ("dualquery", "mwem", "pegs", "privbayes", "sba", "sbhg")


@pytest.mark.parametrize("name", ROWS)
def test_a_selection_that_needs_the_number_of_rows_says_so_before_anything_is_paid(name):
    selector = registry.find("selection", name)()
    with pytest.raises(BadInput, match="number of rows"):
        selector.check_basics("add-remove", [])
    selector.check_basics("add-remove", ["total"])
    selector.check_basics("add-remove", ["one_way"])
    selector.check_basics("replace-one", [])


def test_mutual_information_is_refused_where_the_number_of_rows_is_not_public():
    selector = registry.find("selection", "privbayes")(score="mi")
    with pytest.raises(BadInput, match="replace-one"):
        selector.check_basics("add-remove", ["total"])
    selector.check_basics("replace-one", [])


def test_a_tree_needs_one_way_tables():
    selector = registry.find("selection", "mst")()
    with pytest.raises(BadInput, match="`one_way` a share"):
        selector.check_basics("replace-one", ["total"])
    selector.check_basics("add-remove", ["one_way"])
