"""Verification holds each receipt to the cost and to the sensitivity of what it paid for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from dp_core.accounts.guarantee import Guarantee
from dp_core.accounts.plain_entries import read_receipt
from dp_core.bundle.verification.charges_check import check_charges
from dp_core.bundle.verification.claims import currency, read_charge
from dp_core.bundle.verification.statement_check import check_guarantee
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.document import A_ROW, document_hash
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import ColumnDraws, PerturbedDrawsEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent, ThresholdTable
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.grant import TABLE
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Parities
from dp_core.kernel.questions.linear_questions import CellSums, Interaction
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.vetted import required
from tests.dp_core.kernel.test_document import DOCUMENT
from tests.vectors.make import receipt_case

ADD, REPLACE = "add-remove", "replace-one"
ENOUGH, SMALLER, UNKNOWN = "cover their events", "a smaller effect", "whose sensitivity"
FILE = Domain(("height", "sex", "age"), (6, 2, 3))
"""Five heights, and a code for a missing one."""
ROWS, S = 1000, 12
"""Public number of rows, and shares of a household of at most four members."""
SCALE, LARGE = Fraction(1000), Fraction(10**9)
THRESHOLD = StabilityEvent(SCALE, 1, 20_000)
PAIR = Domain(("sex", "age"), (2, 3))
CELLS = ThresholdTable(PAIR.columns, 100, SCALE, 20_000).asks(PAIR)
RECORDS = ColumnDraws((("sex",), ("age", "sex"), ("born", "age")), 1000, 20, SCALE).asks(PAIR)
URN = {
    "name": "drawn-cells",
    "columns": ["sex", "age"],
    "edges": [None, [0, 3, 5]],
    "records": 1000,
}
SCORES = {"name": "indif", "length": 3}
SUM = CellSums(column="height", positions=5).to_json()


def checked(event, asks, neighbours=ADD, shares=1, cost=None, own_delta=Fraction(1, 10)):
    """Return what the check says of a release of one charge."""
    kind = "zcdp" if isinstance(event, GaussianEvent) else "pure"
    paid = Currency(kind, Fraction(10), own_delta)
    charge = SimpleNamespace(
        number=1,
        stage="measure",
        step="x",
        cost=cost or paid.cost(event),
        event=event,
        asks=asks,
    )
    claims = SimpleNamespace(
        reserve=SimpleNamespace(body={"costs": {"measure": "10"}, "mode": "shared"}),
        charges=[charge],
        currency=paid,
        relation=Relation(neighbours, shares=shares),
        unit={"unit": "row" if shares == 1 else "household"},
        records=ROWS if neighbours == REPLACE and shares == 1 else None,
        settled=SimpleNamespace(body={"outcome": "finished", "spent": str(charge.cost)}),
        plan={"spec": {"synthesize": {"mode": "shared"}}},
        sets=1,
        domain_of=lambda _: FILE,
    )
    return " ".join(found) if isinstance(found := check_charges(claims), tuple) else found


@pytest.mark.parametrize(
    ("neighbours", "factor", "shares"), [(REPLACE, 2, 1), (ADD, 1, S), (REPLACE, 2, S)]
)
def test_a_table_is_charged_for_all_shares_of_a_unit(neighbours, factor, shares):
    l1, squared = factor * shares, factor * shares**2
    for event in (LaplaceEvent(SCALE, l1), GaussianEvent(SCALE, squared)):
        assert ENOUGH in checked(event, TABLE, neighbours, shares)
    for event in (LaplaceEvent(SCALE, l1 - 1), GaussianEvent(SCALE, squared - 1)):
        said = checked(event, TABLE, neighbours, shares)
        assert f"{SMALLER} of one {'row' if shares == 1 else 'household'}" in said


@pytest.mark.parametrize("shares", [1, S])
@pytest.mark.parametrize(("neighbours", "change"), [(ADD, 4), (REPLACE, 6)])
def test_scores_are_charged_for_all_of_them_and_a_choice_for_one(neighbours, change, shares):
    change *= shares
    for less, found in ((0, ENOUGH), (1, SMALLER)):
        for event in (
            LaplaceEvent(SCALE, 3 * change - less),
            NoisyMaxEvent(SCALE, change - less, False),
        ):
            assert found in checked(event, SCORES, neighbours, shares)


@pytest.mark.parametrize(
    ("event", "asks", "neighbours", "found"),
    [
        # One number changes by 4, and so by 16 squared, which is not the L1 bound.
        (GaussianEvent(SCALE, 16), SUM, ADD, ENOUGH),
        (GaussianEvent(SCALE, 15), SUM, ADD, SMALLER),
        (THRESHOLD, CELLS, ADD, ENOUGH),
        # Two counts move where a record is replaced.
        (THRESHOLD, CELLS, REPLACE, SMALLER),
        # A threshold is for counts of records only.
        (THRESHOLD, TABLE, ADD, SMALLER),
        (THRESHOLD, SCORES, ADD, SMALLER),
        (THRESHOLD, {"name": "query-counts"}, ADD, UNKNOWN),
        # That a cell is there at all would tell of its record; noise on its count does not help.
        (LaplaceEvent(SCALE, 9), CELLS, ADD, SMALLER),
        (NoisyMaxEvent(SCALE, 9, True), CELLS, ADD, SMALLER),
        # A thousand records of three columns, twenty sweeps; a replaced row is in two combinations.
        (PerturbedDrawsEvent(LARGE, 6000), RECORDS, REPLACE, ENOUGH),
        (PerturbedDrawsEvent(LARGE, 5999), RECORDS, REPLACE, SMALLER),
        (PerturbedDrawsEvent(LARGE, 10**6), TABLE, ADD, SMALLER),
        (
            PerturbedDrawsEvent(LARGE, 10**6),
            {"name": "drawn-records", "tables": [], "records": 1},
            ADD,
            UNKNOWN,
        ),
        *(
            (event(LARGE, paid), URN, neighbours, found)
            for event in (PerturbedDrawsEvent, PolyaUrnEvent)
            for paid, found in ((1000, ENOUGH), (999, SMALLER))
            for neighbours in (ADD, REPLACE)
        ),
        (PolyaUrnEvent(LARGE, 10**6), TABLE, ADD, SMALLER),
        (PolyaUrnEvent(LARGE, 10**6), RECORDS, ADD, SMALLER),
        (PolyaUrnEvent(LARGE, 10**6), {"name": "drawn-cells", "records": "9"}, ADD, UNKNOWN),
        (LaplaceEvent(SCALE, 2000), URN, ADD, SMALLER),
        *(
            (LaplaceEvent(SCALE, 10), asks, ADD, UNKNOWN)
            for asks in ({"name": "anything"}, {}, {"name": "indif"}, [], None)
        ),
    ],
)
def test_a_mechanism_pays_for_what_is_proven_of_it(event, asks, neighbours, found):
    assert found in checked(event, asks, neighbours)


@pytest.mark.parametrize("rows", [ROWS, ROWS - 1, ROWS + 1, 10 * ROWS])
def test_a_score_of_other_rows_than_the_file_has_shows(rows):
    """Of more rows one of them moves the mutual information less: that would be less noise."""
    asks = {"name": "mutual-information", "length": 3, "rows": rows, "grid": 10**6, "binary": False}
    event = NoisyMaxEvent(LARGE, required(asks, Relation(REPLACE))[0], False)
    assert (ENOUGH if rows == ROWS else UNKNOWN) in checked(event, asks, REPLACE)


@pytest.mark.parametrize(
    ("asks", "found"),
    [
        (CellSums(column="height", positions=5), ENOUGH),
        (CellSums(column="height", positions=6), ENOUGH),
        # Of fewer positions than the file has, a record would seem to move the sum less.
        (CellSums(column="height", positions=2), UNKNOWN),
        (CellSums(column="height", positions=7), UNKNOWN),
        (CellSums(column="weight", positions=5), UNKNOWN),
        (CellSums(column="height", positions=5, by=("sex",), sizes=(3,)), UNKNOWN),
        (Interaction(("sex", "age"), (2, 3)), ENOUGH),
        (Interaction(("sex", "age"), (2, 2)), UNKNOWN),
        (QueryCounts(Parities((("sex",),))), ENOUGH),
        (QueryCounts(Parities((("sex",), ("sex", "age")))), UNKNOWN),
    ],
)
def test_a_question_of_other_columns_or_codes_than_the_file_has_shows(asks, found):
    assert found in checked(LaplaceEvent(LARGE, 10**6), asks.to_json())


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("event", "asks"),
    [
        (StabilityEvent(SCALE, S, 10**5, S), CELLS),
        (PerturbedDrawsEvent(SCALE, 2), ColumnDraws((("a",), ("b", "a")), 1, 1, SCALE).asks(PAIR)),
        (PolyaUrnEvent(SCALE, 1000), URN),
        (LaplaceEvent(SCALE, 10**4), {"name": "f-score", "length": 1}),
        (
            LaplaceEvent(SCALE, 10**4),
            {"name": "mutual-information", "length": 1, "rows": 9, "grid": 4, "binary": False},
        ),
    ],
)
def test_questions_that_have_no_proof_in_shares_are_unknown(event, asks, neighbours):
    assert UNKNOWN in checked(event, asks, neighbours, S)


def test_a_charge_below_the_cost_of_its_event_shows():
    said = checked(PolyaUrnEvent(Fraction(1, 10), 1000), URN, cost=Fraction(1, 100))
    assert "charges less than its event costs" in said


def test_thresholds_fail_with_no_more_than_was_reserved_for_them():
    own_delta = THRESHOLD.own_delta()
    assert 0 < own_delta < Fraction(2, 10**9)
    assert ENOUGH in checked(THRESHOLD, CELLS, own_delta=own_delta)
    for less in (own_delta * Fraction(999_999, 10**6), Fraction(0)):
        assert "fail with a larger probability" in checked(THRESHOLD, CELLS, own_delta=less)


# -- choices on the Gaussian curve


def claims_of(receipts, stated):
    """Return what the checks of charges and guarantee read of a statement."""
    reserve, settled = receipts[0], receipts[-1]
    paid = reserve.body["currency"]
    return SimpleNamespace(
        reserve=replace(reserve, body={**reserve.body, "document": document_hash(DOCUMENT)}),
        settled=settled,
        charges=tuple(read_charge(row) for row in receipts if row.kind == "charge"),
        currency=currency(paid["kind"], paid["limit"], paid["own_delta"]),
        relation=Relation(ADD),
        unit={"unit": "row"},
        records=None,
        sets=1,
        enforced=(Fraction(1), Fraction(1, 10**9)),
        tightest=Guarantee(
            epsilon=Fraction(stated["epsilon"]),
            delta=Fraction(stated["delta"]),
            theorem=stated["theorem"],
        ),
        also=None,
        schema=SimpleNamespace(unit=A_ROW, panel=None),
        document=DOCUMENT,
        domain_of=lambda _: FILE,
        program="dp_release 0.1.0",
        plan={
            "spec": {"synthesize": {"mode": "shared"}, "select": {"method": "mst"}},
            "costs": reserve.body["costs"],
            "extensions": reserve.body.get("extensions", []),
        },
    )


@pytest.fixture
def mixed():
    case = receipt_case("mixed")
    return [read_receipt(row) for row in case["receipts"]], case["claims"]["tightest"]


def test_an_extension_that_was_asked_must_have_been_reserved(mixed):
    claims = claims_of(*mixed)
    asks = {"name": "r-score", "length": 1}
    claims.charges = (replace(claims.charges[0], asks=asks), *claims.charges[1:])
    assert any("'r-score'" in each for each in check_guarantee(claims))
    both = ["indif", "r-score"]
    claims.reserve = replace(claims.reserve, body={**claims.reserve.body, "extensions": both})
    assert any("not those of the plan" in each for each in check_guarantee(claims))
    claims.plan["extensions"] = both
    assert "reserved total implies" in check_guarantee(claims)


def test_choices_that_leave_enough_are_covered_and_after_everything_else_are_not(mixed):
    claims = claims_of(*mixed)
    assert check_charges(claims).startswith("8 charges cover")
    assert "reserved total implies epsilon 1 at delta 1e-09" in check_guarantee(claims)
    claims.charges = claims.charges[2:] + claims.charges[:2]
    wrong = check_charges(claims)
    assert [f"Receipt {charge.number} leaves too little" for charge in claims.charges[-2:]] == [
        sentence.partition(" of what")[0] for sentence in wrong
    ]


def test_the_theorem_of_zcdp_does_not_carry_a_mixed_claim(mixed):
    receipts, stated = mixed
    (wrong,) = check_guarantee(
        claims_of(receipts, {**stated, "theorem": "zero-concentrated composition"})
    )
    assert wrong.startswith("Neither the reserved total")
