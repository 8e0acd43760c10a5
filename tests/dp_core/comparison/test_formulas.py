import pyarrow as pa
import pytest

from dp_core.comparison.formulas import compare_formulas
from dp_core.errors import BadInput
from dp_core.metrics.inference_agreement import Coefficient

REAL = pa.table({"x": [1.0, 2.0, 3.0]})
SETS = [pa.table({"x": [2.0, 4.0]}), pa.table({"x": [4.0, 6.0]})]


def mean_of(formula, tables, rule):
    """Stand in for a regression: the mean of a column, with the rule as width."""
    column = formula.split("~")[1].strip()
    if column not in REAL.column_names:
        raise BadInput(f"There is no column {column}.")
    means = [sum(table["x"].to_pylist()) / len(table) for table in tables]
    estimate = sum(means) / len(means)
    half = {None: 0.5, "split": 1.0}[rule]
    return [Coefficient("x", estimate, estimate - half, estimate + half)]


def test_file_and_sets_are_analysed_alike_and_the_sets_by_their_rule():
    (found,) = compare_formulas(REAL, SETS, ["y ~ x"], "split", analyse=mean_of)

    (pair,) = found.pairs
    assert (pair.real.estimate, pair.real.width) == (2.0, 1.0)
    assert (pair.synthetic.estimate, pair.synthetic.width) == (4.0, 2.0)
    assert found.formula == "y ~ x"


def test_what_cannot_be_fitted_is_told_and_stops_nothing():
    found = compare_formulas(REAL, SETS, ["y ~ z", "y ~ x"], "split", analyse=mean_of)

    assert found[0].problem == "The file: There is no column z."
    assert not found[0].pairs
    assert found[1].pairs


@pytest.mark.parametrize(("broken", "whose"), [(None, "The file"), ("split", "The sets")])
def test_a_library_that_gives_up_is_no_failure_of_ours(broken, whose):
    def gives_up(formula, tables, rule):
        if rule == broken:
            raise ZeroDivisionError("42 is a value of the file")
        return mean_of(formula, tables, rule)

    (found,) = compare_formulas(REAL, SETS, ["y ~ x"], "split", analyse=gives_up)

    assert found.problem == f"{whose}: the fit stopped with ZeroDivisionError."
