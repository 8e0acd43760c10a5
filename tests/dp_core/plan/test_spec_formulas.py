"""`checks.formulas`: what staff will ask the confidential file, fixed before anybody looks."""

import pytest

from dp_core.errors import BadInput
from dp_core.plan.plan import make_plan
from tests.specs import FIXED, write_spec


def test_formulas_belong_to_the_plan_and_cost_nothing(tmp_path):
    without = write_spec(tmp_path)
    given = write_spec(tmp_path, FIXED + 'checks: {formulas: ["a ~ b", "c ~ a * b"]}\n')
    one = write_spec(tmp_path, FIXED + 'checks: {formulas: "a ~ b"}\n')

    assert without.formulas == ()
    assert given.formulas == ("a ~ b", "c ~ a * b")
    assert one.formulas == ("a ~ b",)
    assert "formulas" not in without.document["checks"]
    assert given.document["checks"]["formulas"] == ["a ~ b", "c ~ a * b"]
    assert make_plan(given).hash != make_plan(without).hash
    assert make_plan(given).costs == make_plan(without).costs


@pytest.mark.parametrize(
    ("formulas", "said"),
    [
        ('["a ~ nobody"]', "nobody"),
        ('["a b"]', "'~'"),
        ('["a ~ b", "a ~ b"]', "twice"),
        ('["a ~ center(b)"]', "learns from the rows"),
        (str([f"a ~ b + {number}*c" for number in range(21)]), "20"),
    ],
)
def test_a_formula_that_will_not_do_is_refused_with_its_line(tmp_path, formulas, said):
    with pytest.raises(BadInput) as error:
        write_spec(tmp_path, FIXED + f"checks: {{formulas: {formulas}}}\n")

    assert said in error.value.message
    assert "first.yaml, line 9" in error.value.message
