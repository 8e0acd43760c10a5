"""What an object claims of itself changes no sensitivity, no charge and no draw."""

from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.noise_scale import sensitivities
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.cell_draws import CellDraws
from dp_core.kernel.extensions.column_draws import ColumnDraws
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.extensions.thresholds import ThresholdTable
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.linear_questions import CellSums
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.tables.table_plan import plan_tables

DOMAIN = Domain(("a", "b", "n"), (3, 2, 1000))
SUMS = CellSums(column="n", positions=1000)
ALIKE = Cells((("n",),) * 40, ((5,),) * 40)
PARITIES = Parities(tuple((f"c{index}",) for index in range(30)))
ADDED = Relation("add-remove")


@pytest.fixture
def curator():
    data = Dataset(DOMAIN, np.zeros((3, 20), dtype=DOMAIN.code_type))
    session = MemorySession(Currency("pure", Fraction(4), Fraction(1, 100)), "add-remove")
    return Curator(Kernel(DOMAIN, MemoryCounter(data), session))


def claiming_to_be(honest, kind, *values, **named):
    """Return an object of a subclass of `kind` that claims to equal an honest one."""
    own = {"__hash__": lambda _: hash(honest), "__eq__": lambda *_: True}
    return type("Claiming", (kind,), own)(*values, **named)


def test_a_question_that_claims_to_equal_another_does_not_change_what_it_costs(curator):
    mine = claiming_to_be(SUMS, CellSums, column="n", positions=1000)
    type(mine).terms = lambda _: CellSums(column="n", positions=2).terms()
    assert mine.l1("add-remove") == 999
    assert curator.statistic_noise(mine, Fraction(1)).scale == 999
    assert sensitivities(SUMS, ADDED) == (999, 999**2)
    assert curator.total("measure", "s", SUMS, Fraction(1)).scale == 999


def test_queries_that_claim_to_equal_others_do_not_change_what_they_cost(curator):
    cells = claiming_to_be(ALIKE, Cells, (("n",),), ((5,),))
    assert cells.norms("add-remove")[0] == 1
    assert curator.statistic_noise(QueryCounts(cells), Fraction(1)).scale == 1
    answers = curator.answer("measure", "q", ALIKE, Fraction(1))
    assert (answers.scale, answers.queries.length) == (40, 40)
    cliques = claiming_to_be(PARITIES.cliques, tuple, PARITIES.cliques[:1])
    assert Parities(cliques).norms("replace-one")[0] == 1
    assert PARITIES.norms("replace-one")[0] == 30


def test_numbers_that_claim_to_equal_others_are_computed_as_what_they_are():
    axis = claiming_to_be(0, int, 1)
    assert plan_tables((2, 7), ((axis,),)).tables == ((1,),)
    assert plan_tables((2, 7), ((0,),)).tables == ((0,),)


def test_a_number_of_rows_that_claims_to_be_another_changes_no_other_logarithm():
    def change(rows):
        return MutualInformation((), rows, 10**6, binary=True).largest_change("replace-one")

    with pytest.raises(ValueError, match="whole number"):
        change(claiming_to_be(1013, int, 2))
    assert change(1012) > change(1013) > change(1014)


def test_a_fraction_that_claims_to_equal_another_converts_no_other_epsilon():
    terms = Terms("zcdp", Fraction(1), Fraction(1, 10**6))
    honest = Fraction(987, 1000)
    larger = terms.allowance(claiming_to_be(honest, Fraction, 50), Fraction(0))
    assert terms.allowance(honest, Fraction(0)).main < larger.main / 100


class Cost(Fraction):
    """Claims that every event costs less than it, and that it adds nothing."""

    def __rtruediv__(self, _):
        return Fraction(1, 1000)

    def __lt__(self, _):
        return False

    def __le__(self, other):
        return other != 0

    def __gt__(self, _):
        return True

    def __radd__(self, other):
        return other


class Text(str):
    """Claims to equal any other text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _):
        return True


def changed():
    cost = Fraction(1)
    cost._numerator = claiming_to_be(1, int, 3)
    return cost


TABLE, CELL, ONE = ("a",), Cells((("a",),), ((0,),)), Fraction(1)
MANY = Fraction(100)


@pytest.mark.parametrize(
    "ask",
    [
        lambda of: of.measure("measure", [TABLE], [Cost(1, 10)]),
        lambda of: of.measure("measure", [TABLE], [0.5]),
        lambda of: of.interactions("measure", [TABLE], [Cost(1, 10)]),
        lambda of: of.answer("measure", "q", CELL, Cost(1, 10)),
        lambda of: of.choose("select", "q", QueryCounts(CELL), Cost(1, 10)),
        lambda of: of.answer("measure", Text("q"), CELL, ONE),
        lambda of: of.answer(Text("measure"), "q", CELL, ONE),
        lambda of: of.measure(Text("measure"), [TABLE], [ONE]),
        lambda of: of.measure("measure", [(Text("a"),)], [ONE]),
        lambda of: of.interactions("measure", [(Text("a"),)], [ONE]),
        lambda of: of.perturb("select", "q", Named(Text("query-counts")), ONE),
        lambda of: drawn(of, Named(Text("drawn-cells"))),
        lambda of: drawn(of, CellDraws(TABLE, 5, "other", (None,), MANY)),
        lambda of: drawn(of, CellDraws((Text("a"),), 5, "urn", (None,), MANY)),
        lambda of: drawn(of, ThresholdTable(TABLE, 4, Cost(1, 1000), 40)),
        lambda of: drawn(of, ThresholdTable(TABLE, True, MANY, 40)),
    ],
)
def test_costs_names_and_columns_of_another_type_are_refused(curator, ask):
    with pytest.raises(ValueError, match=r"Expected|plain texts|of that name|of the name"):
        ask(curator)
    assert curator._kernel._session.charges == []


def test_a_cost_that_changes_after_the_charge_stays_charged(curator):
    cost = Fraction(1)
    curator.measure("measure", [TABLE], [cost])
    cost._numerator = 0
    assert curator._kernel._session.spent() == 1


class Named:
    def __init__(self, name):
        self.NAME, self.queries = name, CELL


class NamedTwice(ThresholdTable):
    """A table whose name is another one when it is read again."""

    asked = 0

    @property
    def NAME(self):
        type(self).asked += 1
        return "sparse-table" if type(self).asked == 1 else "indif"


def drawn(curator, question):
    return curator.draw(question, "measure", "t", Fraction(1), batch="t")


def test_the_name_of_a_drawn_question_is_read_once(curator):
    grant, _ = drawn(curator, NamedTwice(TABLE, 4, Fraction(1), 40))
    assert grant.step.asks["name"] == "sparse-table"
    assert NamedTwice.asked == 1


@pytest.mark.parametrize(
    "question",
    [
        ColumnDraws((("a",), ("n",), ("a", "b")), 3, 1, MANY),
        ColumnDraws((("a",), ("n", "b"), ("b",)), 3, 1, MANY),
        ColumnDraws((("a",), ("b",)), 3, 1, MANY),
        ColumnDraws((("a",), ("b", "b"), ("n",)), 3, 1, MANY),
        CellDraws(TABLE, 5, "urn", ((0, 2, 2, 3),), MANY),
        CellDraws(TABLE, 5, "independent", (), MANY),
        ThresholdTable(TABLE, -1, MANY, 40),
    ],
)
def test_a_draw_that_could_fail_for_some_values_is_refused_before_its_charge(curator, question):
    with pytest.raises(
        ValueError, match=r"order|repeat|ascend|argument|needs a size|at least 1 cell"
    ):
        drawn(curator, question)
    assert curator._kernel._session.charges == []


@pytest.mark.parametrize("kind", ["urn", "independent"])
def test_a_proposed_scale_that_costs_more_than_its_budget_is_refused_before_its_charge(
    curator, kind
):
    few, enough = (CellDraws(TABLE, 5, kind, (None,), Fraction(each)) for each in (1, 1000))
    with pytest.raises(ValueError, match="costs more than its budget"):
        drawn(curator, few)
    assert curator._kernel._session.charges == []
    grant, _ = drawn(curator, enough)
    assert curator._kernel._session.currency.cost(grant.step.event) <= grant.step.cost == 1
