"""A formula is no program: what is not on the lists is refused before anything is computed."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dp_core.analysis.regression.design import make_design
from dp_core.analysis.regression.frames import Frame
from dp_core.errors import BadInput
from dp_core.inference.formulas import factors, grammar
from dp_core.inference.formulas.factors import Factor
from dp_core.inference.formulas.formula import check_factors, read_formula

COLUMNS = ("income", "age", "sex", "eval", "open", "exec", "exit", "getattr", "np", "__class__")
"""Columns named like builtins make their names no less refused where they are called."""

HOSTILE = [
    "__import__('os').system('echo seen')",
    "np.__builtins__['eval'](\"__import__('os').system('echo seen')\") + age",
    "I(open('/etc/hostname'))",
    "eval('1+1')",
    "exit(7)",
    "np.load('x.npy', allow_pickle=True) + age",
    "np.savetxt('leak.csv', age)",
    "np.zeros(10**13) + sex",
    "np.vectorize(eval)(age)",
    "np.f2py + age",
    "np + np.log",
    "np.sum.__globals__['x'] + age",
    "np.log.__class__(age)",
    "np.log.reduce(age)",
    "np.sum(age)",
    "np.log(age, income)",
    "np.log(age, out=age)",
    "np.log(age, where=age)",
    "np.where(age > 3)",
    "I((lambda: age)())",
    "I(lambda: age)",
    "Q(*['age'])",
    "Q(**{'name': 'age'})",
    "Q('ag' + 'e')",
    "Q(name='__builtins__')",
    "Q('__builtins__')",
    "Q('age', 'sex')",
    "Q(age)",
    "Q(f'age')",
    "Q(b'age')",
    "I(f'{age}')",
    "I(f'{eval(1)}' == sex)",
    "I([one for one in age])",
    "I((one := age))",
    "I(age[0])",
    "I(age.values)",
    "I(age.__class__)",
    "I(''.__class__.__mro__ == 3)",
    "I('{0.__class__}'.format(age))",
    "I(getattr(age, 'values'))",
    "getattr(age, 'to_csv')('leak.csv')",
    "age.to_csv('leak.csv')",
    "I(age if age else sex)",
    "I(*age)",
    "I({})",
    "I([age])",
    "I((age, sex))",
    "I(...)",
    "I(None)",
    "I(1j * age)",
    "I(b'x' == sex)",
    "I('%1000000000d' % age)",
    "I('x')",
    "I(9**9**9)",
    "I(age ** 1000)",
    "I(1 << 10**9)",
    "I(age >> 1)",
    "I(1e999 * age)",
    "I(10000000000000000 * age)",
    "I(age @ age)",
    "I(age in sex)",
    "I(age is sex)",
    "I(1 < age < 3)",
    "I(not age)",
    "I(age and sex)",
    "np.round(age, 1000000000)",
    "np.round(age, age)",
    "C(sex, levels=open('x'))",
    "C(sex, levels=[age])",
    "C(sex, levels=list('ab'))",
    "C(sex, eval)",
    "C(sex, ContrastMatrix([[1]], ['a']))",
    "C(sex, Treatment(open('x')))",
    "C(sex, Treatment(reference=age))",
    "C(sex, Poly(scores=[age, 2]))",
    "C(sex, Sum, contrast=Sum)",
    "C(sex, **{'levels': []})",
    "C(sex, object=3)",
    "ContrastMatrix(age, sex)",
    "Treatment(age)",
    "bs(age, df=1000000000)",
    "bs(age, df=3, df_=4)",
    "bs(age, knots=np.zeros(9))",
    "bs(age, degree=1000)",
    "cr(age, df=3, constraints=eval('1'))",
    "te(cr(age, df=100), cr(income_, df=100))",
    "center(age, out=age)",
    "center.transform(age)",
    "center",
    "log",
    "I(print)",
    "__builtins__",
    "__class__()",
    "_patsy_stobj0__center__",
    "I(" + "-" * 1900 + "age)",
    "I(" + "(" * 90 + "age" + ")" * 90 + ")",
    "I(" + " + ".join(["age"] * 400) + ")",
    " + ".join(["age"] * 1000),
    "(" + " + ".join(f"I(age + {n})" for n in range(40)) + ")**40",
    ":".join(f"I(age + {n})" for n in range(12)),
    "*".join(f"I(age + {n})" for n in range(30)),
    "age\x00",
    "ｅｖａｌ('1')",
]  # fmt: skip


@pytest.fixture
def unreached(monkeypatch):
    """Fail where anything would be computed, by the factors here or by those of patsy."""

    def reached(*_):
        pytest.fail("a formula that is refused was computed")

    monkeypatch.setattr(factors._Computation, "value", reached)
    monkeypatch.setattr("patsy.EvalEnvironment.eval", reached)
    monkeypatch.setattr("patsy.eval.EvalFactor.eval", reached)
    monkeypatch.setattr("patsy.eval.EvalFactor.memorize_passes_needed", reached)


@pytest.mark.parametrize("right", HOSTILE)
@pytest.mark.usefixtures("unreached")
def test_a_program_is_refused_before_anything_is_computed(right):
    with pytest.raises(BadInput) as caught:
        read_formula(f"income ~ {right}", COLUMNS)

    message = caught.value.message
    assert caught.value.exit_code == 2
    assert "\n" not in message
    assert len(message) < 700
    assert message.endswith((".", "?"))


@pytest.mark.usefixtures("unreached")
@pytest.mark.parametrize("left", ["exit(7)", "np.load('x')", "I(open('x'))", "Q('__builtins__')"])
def test_the_left_side_is_read_alike(left):
    with pytest.raises(BadInput):
        read_formula(f"{left} ~ age", COLUMNS)


ANY = SimpleNamespace(released=())
ALONE = pd.DataFrame({"income": [1.0, 2.0], "age": [3.0, 4.0], "sex": ["f", "m"]})


REACHING = [one for one in HOSTILE if len(one) < 300 and "000" not in one and "10**9" not in one]
"""Those that are not about size."""
SEEN: list[str] = []
"""What the interpreter reported while `watched`; a hook cannot be taken off again."""
_watching: list[bool] = []


def _hook(event, arguments):
    if _watching and event.partition(".")[0] in {"open", "import", "exec", "os", "subprocess"}:
        SEEN.append(f"{event} {arguments[:1]}")


@pytest.fixture(scope="module")
def _hooked():
    sys.addaudithook(_hook)


@pytest.fixture
def watched(_hooked):
    """Report every file opened, module imported and code executed by a text."""
    import patsy.categorical  # noqa: F401

    SEEN.clear()
    _watching.append(True)
    yield SEEN
    _watching.clear()


def test_the_watch_sees_what_it_watches(watched):
    eval("1 + 1")
    __import__("os")
    Path(__file__).open().close()
    assert {one.split()[0] for one in watched} >= {"exec", "open"}


@pytest.mark.parametrize("right", REACHING)
def test_without_the_check_nothing_can_be_reached_either(right, watched):
    """No import, no file, no code: what is left without the check are numbers and refusals."""
    watched.clear()  # pytest names the test in the environment
    state = {}
    with contextlib.suppress(BadInput, TypeError, ValueError, ArithmeticError, LookupError):
        factor = Factor(right)
        with np.errstate(all="ignore"):
            for number in range(factor.memorize_passes_needed(state, None)):
                factor.memorize_chunk(state, number, ALONE)
                factor.memorize_finish(state, number)
            factor.eval(state, ALONE)
    assert watched == []


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os')",
        "open('x', 'w')",
        "np.savetxt('x', age)",
        "np.__builtins__",
        "Q('__builtins__')",
        "Q(name='__builtins__')",
        "I(eval('1'))",
        "age.to_csv('x')",
        "age[0]",
        "exit(7)",
        "(lambda: 1)()",
        "C(sex, eval)",
        "C(sex, levels=open('x'))",
    ],
)
def test_a_factor_that_was_never_checked_refuses_to_compute(code):
    factor, state = Factor(code), {}
    factor.memorize_passes_needed(state, None)
    with pytest.raises(BadInput, match="on no list"):
        factor.eval(state, ALONE)


def test_a_formula_that_was_not_read_is_refused_before_it_is_computed():
    """Whoever makes a `Formula` by hand, of patsy's own factors, which would be `eval`ed."""
    from patsy import ModelDesc

    frame = Frame(1, ALONE, 0)
    read = read_formula("income ~ age", tuple(ALONE))
    forged = dataclasses.replace(read, description=ModelDesc.from_formula("income ~ exit(7)"))
    with pytest.raises(BadInput, match="was not read as one"):
        make_design(forged, [frame], ANY, None)
    forged.description.rhs_termlist[1].factors = (Factor("exit(7)"),)
    forged.description.lhs_termlist[0].factors = (Factor("income"),)
    with pytest.raises(BadInput, match="no function 'exit'"):
        check_factors(forged, tuple(ALONE))


# -- what people need


def computed(code, data=ALONE):
    grammar.read_factor(code, tuple(data), code)
    factor, state = Factor(code), {}
    for number in range(factor.memorize_passes_needed(state, None)):
        factor.memorize_chunk(state, number, data)
        factor.memorize_finish(state, number)
    return factor.eval(state, data)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("age", [3, 4]),
        ("I(age)", [3, 4]),
        ("Q('age')", [3, 4]),
        ("I(-age + 2 * income - 1)", [-2, -1]),
        ("I(age**2)", [9, 16]),
        ("I(2**age)", [8, 16]),
        ("I(age**-1)", [1 / 3, 1 / 4]),
        ("I(age / 10**3)", [0.003, 0.004]),
        ("I(age // 2 + age % 2)", [2, 2]),
        ("I((age - 40) / 10)", [-3.7, -3.6]),
        ("I(sex == 'm')", [False, True]),
        ("I('m' != sex)", [True, False]),
        ("I((age > 3) & (sex == 'm') | (income < 0))", [False, True]),
        ("I((age > 3) == False)", [True, False]),
        ("np.log(income + 1)", np.log([2, 3])),
        ("log(income)", np.log([1, 2])),
        ("np.log1p(sqrt(age))", np.log1p(np.sqrt([3, 4]))),
        ("abs(3 - age)", [0, 1]),
        ("np.where(sex == 'm', 1, age)", [3, 1]),
        ("np.where(age > 3, 'old', 'young')", ["young", "old"]),
        ("np.minimum(age, 3) * maximum(age, 4)", [12, 12]),
        ("np.round(age / 7, 1)", [0.4, 0.6]),
        ("np.power(age, 0.5)", [3**0.5, 2]),
        ("np.clip(age, 0, 3)", [3, 3]),
        ("center(age)", [-0.5, 0.5]),
        ("standardize(age)", [-1, 1]),
        ("scale(age, rescale=False)", [-0.5, 0.5]),
        ("center(np.log(center(age) + 2))", [-0.25541281, 0.25541281]),
    ],
)
def test_what_people_write_is_computed(code, wanted):
    found = np.asarray(computed(code)).reshape(-1)
    if found.dtype.kind in "OUT":
        assert found.tolist() == wanted
    else:
        np.testing.assert_allclose(found.astype(float), wanted)


@pytest.mark.parametrize(
    "code",
    [
        "bs(age, df=4)",
        "bs(age, knots=[20, 30.5], degree=2, include_intercept=True)",
        "bs(center(age), 5)",
        "cr(age, df=4, constraints='center')",
        "cc(age, df=3)",
    ],
)
def test_splines_are_those_of_patsy(code):
    """Against patsy's own evaluation of the same text."""
    import patsy

    data = pd.DataFrame({"age": np.random.default_rng(1).uniform(10, 50, 60)})
    wanted = patsy.dmatrix(f"0 + {code}", data)
    np.testing.assert_allclose(np.asarray(computed(code, data)), np.asarray(wanted))


@pytest.mark.parametrize(
    "code",
    [
        "C(sex)",
        "C(sex, Sum)",
        "C(sex, Treatment)",
        "C(sex, Treatment('m'))",
        "C(sex, contrast=Treatment(reference='m'))",
        "C(sex, Helmert(), levels=['m', 'f'])",
        "C(sex, levels=('m', 'f'))",
        "C(age, Poly(scores=[1, 5]))",
        "C(np.where(age > 3, 'old', 'young'), Diff)",
    ],
)
def test_categories_are_those_of_patsy(code):
    import patsy

    formula = read_formula(f"income ~ {code}", tuple(ALONE))
    wanted = patsy.dmatrix(code, ALONE)
    found = patsy.build.build_design_matrices(
        [
            patsy.build.design_matrix_builders(
                [formula.description.rhs_termlist], lambda: iter([ALONE]), patsy.EvalEnvironment([])
            )[0]
        ],
        ALONE,
    )[0]
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted))
    assert found.design_info.column_names == wanted.design_info.column_names


def test_columns_named_like_functions_are_columns_where_they_are_not_called():
    data = pd.DataFrame({"log": [1.0, 2.0], "np": [3.0, 5.0], "C": [1.0, 1.0]})
    np.testing.assert_allclose(computed("np.log(np) + C", data), np.log([3, 5]) + 1)
    assert read_formula("log ~ np.sqrt(np) + C", tuple(data)).columns == ("log", "np", "C")


def test_the_lists_are_of_functions_that_there_are():
    assert set(grammar.ELEMENTWISE) >= grammar.BARE
    for name, (least, most) in grammar.ELEMENTWISE.items():
        numbers = [np.array([0.5, 0.25])] * least
        assert getattr(np, name)(*numbers).shape == (2,)
        assert most <= 3


def test_a_formula_has_a_greatest_length_and_width():
    with pytest.raises(BadInput, match="characters"):
        read_formula("income ~ age" + " " * 2000, COLUMNS)
    many = [f"c{number}" for number in range(30)]
    assert len(read_formula("y ~ (.)**2", ["y", *many]).terms) == 1 + 30 + 435
    with pytest.raises(BadInput, match="terms"):
        read_formula("y ~ (.)**3", ["y", *many])
    rows = 2000
    data = {name: pd.Categorical(np.arange(rows) % 100) for name in "abc"}
    frame = Frame(1, pd.DataFrame(data | {"y": np.arange(rows, dtype=float)}), 0)
    with pytest.raises(BadInput, match="coefficients"):
        make_design(read_formula("y ~ a:b:c", [*"abc", "y"]), [frame], ANY, None)


def test_what_learns_from_the_rows_is_known_however_it_is_written():
    names = ("y", "age", "scale (kg)")
    assert read_formula("y ~ ｃｅｎｔｅｒ (age)", names).learns == ("center",)
    assert read_formula("y ~ I(2 * bs (age, df=4))", names).learns == ("bs",)
    assert read_formula("y ~ Q('scale (kg)')", names).learns == ()
