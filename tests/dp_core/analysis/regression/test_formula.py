"""Formulas as people type them."""

import pytest

from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import check_levels, read_formula

HOURS = "hours-per-week"
COLUMNS = ("income", "age", "sex", HOURS, "log_pay")


@pytest.mark.parametrize(
    ("text", "outcome", "columns", "terms"),
    [
        ("income ~ age", ("income",), ("income", "age"), ((), ("age",))),
        ("income~age:sex", ("income",), ("income", "age", "sex"), ((), ("age", "sex"))),
        ("income ~ 0 + age", ("income",), ("income", "age"), (("age",),)),
        ("income ~ 1", ("income",), ("income",), ((),)),
        ("np.log(income + 1) ~ I(age**2)", ("income",), ("income", "age"), ((), ("age",))),
        ("sex == 'male' ~ age", ("sex",), ("sex", "age"), ((), ("age",))),
        ("income ~ Q('hours-per-week')", ("income",), ("income", HOURS), ((), (HOURS,))),
        ("income ~ `hours-per-week`", ("income",), ("income", HOURS), ((), (HOURS,))),
        ("income ~ factor(sex)", ("income",), ("income", "sex"), ((), ("sex",))),
        ("income ~ as.factor(sex)", ("income",), ("income", "sex"), ((), ("sex",))),
        ("'income ~ age'", ("income",), ("income", "age"), ((), ("age",))),
        (" income ~ C(sex, Treatment('male')) ", ("income",), ("income", "sex"), ((), ("sex",))),
        ("I(income + age) ~ sex", ("income", "age"), ("income", "age", "sex"), ((), ("sex",))),
    ],
)  # fmt: skip
def test_a_formula_names_its_columns(text, outcome, columns, terms):
    found = read_formula(text, COLUMNS)

    assert found.outcome_columns == outcome
    assert found.columns == columns
    assert found.terms == terms


def test_the_dot_is_every_other_column():
    found = read_formula("income ~ .", COLUMNS)
    assert found.columns == ("income", "age", "sex", "hours-per-week", "log_pay")
    found = read_formula("np.log(income) ~ . - age", COLUMNS)
    assert found.columns == ("income", "sex", "hours-per-week", "log_pay")
    # A decimal point is none.
    assert read_formula("income ~ I(0.5 * age)", COLUMNS).columns == ("income", "age")


@pytest.mark.parametrize(
    ("text", "by_level"),
    [
        ("sex ~ age", ("age", "sex")),
        ("income ~ sex:age", ("sex", "age", "income")),
        ("income ~ C(sex, Treatment('male'))", ("sex", "income")),
        ("income ~ C(sex, levels=['male', 'female'])", ("income",)),
        ("income > 3 ~ I(sex == 'male')", ()),
    ],
)
def test_what_has_a_coefficient_for_each_level_is_known(text, by_level):
    assert read_formula(text, COLUMNS).by_level == by_level


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("income", "has no '~'"),
        ("income age", "has no '~'"),
        ("income = age", "has '=' where '~' belongs"),
        ("~ age", "no outcome on its left"),
        ("income ~", "a column is missing after the last ~"),
        ("income ~ age + ", "a column is missing after the last +"),
        ("income ~ (age", "Unmatched"),
        ("income ~ age ~ sex", "more than one '~'"),
        ("income ~ 0", "is empty; the mean alone is '~ 1'"),
        ("income + age ~ sex", "exactly one outcome"),
        ("income ~ aeg", "has no column 'aeg'. Did you mean 'age'?"),
        ("incom ~ age", "Did you mean 'income'?"),
        ("income ~ Q('hours')", "has no column 'hours'"),
        ("income ~ hours_per_week", "Did you mean Q('hours-per-week')?"),
        ("income ~ hours-per-week", "Did you mean Q('hours-per-week')?"),
        ("income ~ age^2", "a power is written **"),
        ("income ~ poly(age, 2)", "no function 'poly'"),
        ("income ~ income", "stands on both sides"),
        ("income ~ log(income)", "stands on both sides"),
        ("1 ~ age", "exactly one outcome"),
        ("income ~ age.mean()", "nothing has parts here"),
        ("income ~ __import__('os')", "no function '__import__'"),
        ("income ~ ().__class__", "does not parse"),
        ("income ~ I([].__class__)", "nothing has parts here"),
        ("income ~ age; sex", "is no expression"),
        ("income ~ [sex", "does not parse"),
        ("income ~ 'unclosed", "does not parse"),
        ("income ~ “age”", "formula"),
    ],
)
def test_a_mistake_is_one_sentence(text, said):
    with pytest.raises(BadInput) as caught:
        read_formula(text, COLUMNS)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith((".", "?"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sex == 'mal' ~ age", "sex has no level 'mal'. Did you mean 'male'?"),
        ("income ~ I('femal' != sex)", "Did you mean 'female'?"),
        ("sex == 1 ~ age", "sex has no level 1; levels are texts, in quotes."),
        ("income ~ I(Q('sex') == 'x')", "no level 'x'"),
    ],
)
def test_a_comparison_with_no_level_is_found(text, said):
    with pytest.raises(BadInput, match="has no level") as caught:
        check_levels(read_formula(text, COLUMNS), {"sex": ("male", "female")})
    assert said in caught.value.message


def test_a_comparison_with_a_level_passes():
    check_levels(read_formula("sex == 'male' ~ I(age == 3)", COLUMNS), {"sex": ("male", "female")})
