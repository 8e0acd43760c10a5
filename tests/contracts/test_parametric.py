"""What every parametric method promises, whatever its name."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.released import Records
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.methods import registry
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.parametric.column_histograms import ColumnHistograms
from dp_core.methods.parametric.drawn_records import Measuring, Modelling
from dp_core.methods.parametric.synthesizer import Ask, Synthesizer
from dp_core.plan.currency_choice import choose_currency
from dp_core.plan.presets import PRESETS
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.schema.variables import Variable, Variables
from tests.full import some
from tests.measured import NONE, method_inputs

GROUP = Variable(name="group", size=2)
LEVEL = Variable(name="level", size=4, missing=True)
HEIGHT = Variable(
    name="height", size=120, positions=120, low=100.0, high=220.0, bins=(0, 30, 60, 90, 120)
)
VISITS = Variable(
    name="visits", size=22, positions=21, low=-0.5, high=20.5, bins=(0, 1, 5, 21), missing=True
)
COLUMNS = {
    "two levels": Variables((GROUP,)),
    "levels": Variables((GROUP, LEVEL)),
    "a number": Variables((HEIGHT,)),
    "numbers": Variables((HEIGHT, VISITS)),
    "both": Variables((GROUP, HEIGHT, LEVEL, VISITS)),
}
OPTIONS: dict[str, dict[str, Any]] = {"average": {"models": ("modips", "sequential_regression")}}
METHODS = registry.available("parametric")
ROWS = 1500


def made(name: str) -> Synthesizer:
    method: Synthesizer = registry.find("parametric", name)(**OPTIONS.get(name, {}))
    return method


def file_of(variables: Variables, rows: int = ROWS) -> Dataset:
    """Return records in which groups differ in height, and tall ones have more visits."""
    rng = np.random.default_rng(5)
    group, level = rng.integers(0, 2, rows), rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    height = np.clip(rng.normal(60 + 10 * group, 12), 0, 119)
    visits = np.clip(rng.normal(height / 8, 3), 0, 20)
    visits = np.where(rng.random(rows) < 0.1, 21, visits)
    all_of = {"group": group, "level": level, "height": height, "visits": visits}
    codes = [all_of[variable.name].astype(np.uint16) for variable in variables]
    return Dataset(variables.domain, np.stack(codes))


def session_of(method, epsilon, delta, neighbours="add-remove") -> MemorySession:
    noise = "laplace" if method.draws or not delta else "auto"
    statistics = [(Fraction(1), 1, 1, 1.0)]
    currency = choose_currency(
        Fraction(epsilon),
        Fraction(delta),
        noise=noise,
        statistics=statistics,
        choices=(Fraction(1, 2), 1) if method.chooses else None,
    )
    return MemorySession(currency, neighbours)


def release(
    name,
    columns,
    *,
    epsilon="2",
    delta="0",
    neighbours="add-remove",
    zeros=NONE,
    replicate=0,
    session=None,
    data=None,
    cost=None,
):
    """Return the session, what was released, and the model."""
    method, variables = made(name), COLUMNS[columns]
    half = Measuring(method=method, variables=variables, records=ROWS)
    try:
        half.check_basics(neighbours, [])
    except BadInput as refusal:
        pytest.skip(str(refusal))
    session = session or session_of(method, epsilon, delta, neighbours)
    data = file_of(variables) if data is None else data
    curator = Curator(Kernel(variables.domain, MemoryCounter(data), session))
    selection = half.select(
        method_inputs(
            curator,
            variables.domain,
            select_cost=Fraction(0),
            measure_cost=cost or session.currency.limit,
            zeros=zeros,
            rng=np.random.default_rng(3),
            replicate=replicate,
        )
    )
    released = list(selection.measured)
    if selection.records is not None:
        released.append(Records(selection.records, replicate))
    model = Modelling(method=method, variables=variables, positions=4096).fit(
        variables.domain, released, rows=ROWS, zeros=zeros, rng=np.random.default_rng(0)
    )
    return session, released, model


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_a_preset_and_is_called_as_the_family_says(name):
    method = registry.find("parametric", name)
    assert issubclass(method, Synthesizer)
    assert name in {preset.synthesize for preset in PRESETS.values()}
    for member in ("check", "asks", "measure", "model_of"):
        wanted = list(inspect.signature(getattr(Synthesizer, member)).parameters)
        assert list(inspect.signature(getattr(method, member)).parameters) == wanted, member


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", METHODS)
def test_the_parts_of_what_is_asked_are_a_whole(name, columns):
    variables = COLUMNS[columns]
    try:
        made(name).check(variables, "add-remove")
    except BadInput as refusal:
        pytest.skip(str(refusal))
    asks = made(name).asks(variables)
    assert not asks or sum(ask.share for ask in asks) == 1
    assert len({ask.step for ask in asks}) == len(asks)


def test_an_average_can_tell_by_the_round_what_a_model_measured():
    variables = COLUMNS["both"]
    for name in METHODS:
        method = made(name)
        if method.draws or method.chooses or name == "average":
            continue
        session = session_of(method, "1", "0", "add-remove")
        curator = Curator(Kernel(variables.domain, MemoryCounter(file_of(variables)), session))
        inputs = method_inputs(curator, variables.domain, measure_cost=Fraction(1), round=7)
        assert {item.round for item in method.measure(inputs, variables)} == {7}, name


@pytest.mark.parametrize(
    ("neighbours", "delta"),
    some(
        itertools.product(["add-remove", "replace-one"], ["0", "1e-6"]),
        lambda case: (case[1] == "0") == (case[0] == "add-remove"),
    ),
)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", METHODS)
def test_the_whole_budget_is_spent_and_no_more(name, columns, neighbours, delta):
    session, _, model = release(name, columns, neighbours=neighbours, delta=delta)
    assert session.spent() <= session.currency.limit
    if not made(name).draws:
        # Virtual records are rounded up; noise is of exactly its cost.
        assert session.spent() == session.currency.limit
    drawn = model.sample(50, rng=np.random.default_rng(1))
    assert drawn.domain == COLUMNS[columns].domain
    for codes, size in zip(drawn.codes, drawn.domain.sizes, strict=True):
        assert (codes < size).all()


@pytest.mark.parametrize("columns", ["levels", "both"])
@pytest.mark.parametrize("name", METHODS)
def test_an_interrupted_release_asks_the_same_again(name, columns):
    session, before, _ = release(name, columns)
    charges = len(session.charges)
    # The session raises if a question of a name it knows is another one.
    _, after, _ = release(name, columns, session=session)
    assert len(session.charges) == charges
    for one, two in zip(before, after, strict=True):
        if not isinstance(one, Records):
            np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", METHODS)
def test_the_same_results_of_the_curator_give_the_same_records(name, columns):
    _, released, model = release(name, columns)
    variables = COLUMNS[columns]
    again = made(name).model_of(variables, FitInputs(variables.domain, released, ROWS, NONE))
    one = model.sample(200, rng=np.random.default_rng(7))
    np.testing.assert_array_equal(one.codes, again.sample(200, rng=np.random.default_rng(7)).codes)
    other = model.sample(200, rng=np.random.default_rng(8))
    assert (one.codes != other.codes).any()


@pytest.mark.parametrize("name", METHODS)
def test_what_cannot_be_is_in_no_record(name):
    # No tall people in the second group; no visits unless the level is the first.
    zeros = StructuralZeros(
        (
            Rule(("group", "height"), ((1,), tuple(range(90, 120))), "tall in group 1"),
            Rule(("level", "visits"), ((1, 2), tuple(range(5, 21))), "visits"),
        )
    )
    variables = COLUMNS["both"]
    legal = file_of(variables)
    keep = ~zeros.violations(legal)
    data = Dataset(legal.domain, np.ascontiguousarray(legal.codes[:, keep]))
    _, _, model = release(name, "both", zeros=zeros, data=data)
    drawn = model.sample(1000, rng=np.random.default_rng(1))
    assert drawn.rows == 1000
    assert not zeros.violations(drawn).any()


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("name", METHODS)
def test_a_set_has_as_many_records_as_asked_for(name, rows):
    _, _, model = release(name, "levels")
    assert model.sample(rows, rng=np.random.default_rng(1)).rows == rows


@pytest.mark.parametrize("name", [name for name in METHODS if not made(name).draws])
def test_a_large_budget_gives_back_means_and_shares(name):
    """Draws are left out: what they tell does not grow with epsilon alone."""
    variables = COLUMNS["both"]
    _, _, model = release(name, "both", epsilon="1000")
    real, drawn = file_of(variables), model.sample(4000, rng=np.random.default_rng(1))
    assert abs(drawn.column("group").mean() - real.column("group").mean()) < 0.06
    # A histogram knows bins of 30 positions only, so within them it is even.
    assert abs(drawn.column("height").mean() - real.column("height").mean()) < 4

    def gap(data: Dataset) -> float:
        height, group = data.column("height").astype(float), data.column("group")
        return float(height[group == 1].mean() - height[group == 0].mean())

    # Methods of single columns keep no relation.
    apart = isinstance(made(name), ColumnHistograms)
    assert gap(drawn) == pytest.approx(0 if apart else gap(real), abs=4)


@pytest.mark.parametrize("columns", ["levels", "both"])
@pytest.mark.parametrize("name", METHODS)
def test_every_set_has_answers_of_its_own(name, columns):
    """One session, twice its budget: of set 1 and of set 2 nothing is asked under one name.

    At this epsilon an entry of both sets is the same with probability below .003, and every method
    has three entries or more: below 1e-6 for all.
    """
    method = made(name)
    half = session_of(method, "0.01", "0").currency
    session = MemorySession(dataclasses.replace(half, limit=2 * half.limit), "add-remove")
    found = []
    for replicate in (1, 2):
        _, released, _ = release(
            name, columns, session=session, replicate=replicate, cost=half.limit
        )
        assert released
        assert {item.replicate for item in released} == {replicate}
        found.append(released)
    assert session.spent() == 2 * half.limit or method.draws
    for one, two in zip(*found, strict=False):
        if isinstance(one, Records) and isinstance(two, Records):
            assert one.dataset.codes.tobytes() != two.dataset.codes.tobytes()
    noisy = [
        np.concatenate([item.values.ravel() for item in each if not isinstance(item, Records)])
        for each in found
        if not isinstance(each[0], Records)
    ]
    assert not noisy or len(noisy[0]) >= 3
    assert not noisy or noisy[0].tobytes() != noisy[1].tobytes()


def test_a_method_may_ask_for_several_tables():
    class TwoTables(Synthesizer):
        def asks(self, variables):  # noqa: ARG002
            return (
                Ask("a", ("group",), Fraction(1, 4)),
                Ask("b", ("level",), Fraction(3, 4)),
            )

        def model_of(self, variables, inputs):
            raise NotImplementedError

    variables = COLUMNS["levels"]
    session = session_of(TwoTables(), "4", "0")
    curator = Curator(Kernel(variables.domain, MemoryCounter(file_of(variables)), session))
    released = TwoTables().measure(
        method_inputs(curator, variables.domain, measure_cost=Fraction(4), replicate=2),
        variables,
    )
    assert [(item.clique, item.replicate) for item in released] == [
        (("group",), 2),
        (("level",), 2),
    ]
    assert [grant.step.cost for grant in session.charges] == [1, 3]
