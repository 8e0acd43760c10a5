"""What one household moves, charges and returns, against every small file of households."""

from __future__ import annotations

import itertools
import types
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.accounts.requested import Privacy
from dp_core.client.curator import Curator
from dp_core.client.household_values import in_households, stored_shares
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.cost.sensitivity import count_bounds, in_shares
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.linked_columns import MOST_MEMBERS, household_shares
from dp_core.kernel.document import MOST_ROWS, ProtectedUnit
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.extensions.indif import InDif, RScore
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.limited_sums import LimitedSums
from dp_core.kernel.questions.linear_questions import (
    BinnedCounts,
    BoxCounts,
    CellCounts,
    CellSums,
    CosineSums,
    Interaction,
    KernelCounts,
    MiddleProducts,
)
from dp_core.kernel.questions.products import Products
from dp_core.kernel.questions.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.kernel.questions.regressions.features import Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import ClassGradient, NumberGradient
from dp_core.kernel.questions.regressions.shortened import Scores, SecondMoments
from dp_core.kernel.questions.table_distance import TableChecks, TableDistance
from dp_core.kernel.questions.vetted import VETTED, asked_in_shares, bounds, required
from dp_core.methods.drawn_answers import draw_cells, draw_records, threshold_table
from dp_core.metrics.quality_figures import charged_figure
from dp_core.schema.linked import linked_tables
from dp_core.tables.coarse_counter import CoarseCounter
from tests.dp_core.kernel.questions.neighbours import marginals
from tests.household_files import (
    KINDS,
    counter_of,
    curator_of,
    domain,
    households,
    linked,
    pair_rows,
)

RELATIONS = ("add-remove", "replace-one")
SHARES = 6
OTHERS = [
    (),
    ((0, ((0, 0),)),),
    ((0, ((0, 0),) * 3), (1, ())),
    ((1, ((0, 1), (1, 0))), (0, ((1, 1),))),
    ((0, ((0, 0), (1, 1), (1, 1))), (1, ((0, 0), (0, 1))), (1, ((1, 0),))),
]
"""Files beside which every household comes, goes or is replaced."""


class Shares:
    """A counter in shares of a file that is given by its table over all columns."""

    def __init__(self, table):
        self.table = table

    def count(self, cliques):
        return marginals(self.table, domain().columns, cliques)

    def observed(self, clique):
        table = self.count([clique])[clique].counts
        return np.argwhere(table).astype(np.uint16), table[table > 0]


def table_of(file):
    """Return a file's table over all columns, in shares."""
    return counter_of(file).count([domain().columns])[domain().columns].counts


TABLES = [table_of([household]) for household in households()]
"""What every household adds."""


# -- sensitivities


@pytest.mark.parametrize("kind", KINDS)
def test_no_household_moves_a_table_further_than_its_bounds_and_one_reaches_them(kind):
    """Over all households of none to three members, added and removed, and replaced by another."""
    clique = KINDS[kind]
    added = [counter_of([one]).count([clique])[clique].counts.ravel() for one in households()]
    assert len(added) == 70
    found = {
        "add-remove": added,
        "replace-one": [one - other for one, other in itertools.combinations(added, 2)],
    }
    for neighbours, changes in found.items():
        change, l1, l2_squared = in_shares(
            Relation(neighbours, shares=SHARES), count_bounds(Relation(neighbours))
        )
        factor = 1 if neighbours == "add-remove" else 2
        assert (change, l1, l2_squared) == (SHARES, factor * SHARES, factor * SHARES**2)
        reached = 0 if (kind, neighbours) == ("number", "replace-one") else 1
        assert max(np.abs(each).max() for each in changes) == reached * change
        assert max(np.abs(each).sum() for each in changes) == reached * l1
        assert max((each**2).sum() for each in changes) == reached * l2_squared


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_a_file_is_the_sum_of_its_households_so_their_changes_are_those_of_files(kind):
    clique = KINDS[kind]
    for file in OTHERS:
        table = counter_of(file).count([clique])[clique].counts
        parts = [counter_of([one]).count([clique])[clique].counts for one in file]
        np.testing.assert_array_equal(table, sum(parts, np.zeros_like(table)))


NUMBER = Number.line(name="members", positions=4, centre=0, reach=1)
LEVELS = Features((Levels(name="p", size=3), Levels(name="other.q", size=3)))
PRESENT = Features((Levels(name="p", size=3), NUMBER))
CELLS = Cells((("p",), ("p", "other.p"), ("h",), ()), ((1,), (1, 0), (0,), ()))
LIMITED = LimitedSums(
    by=("p",),
    sizes=(3,),
    edges=((0, 1, 3),),
    column="members",
    positions=4,
    runs=(0, -1, 3),
    lows=(0, -1),
    highs=(5, 8),
    centres=(2, 0),
    factors=(2, 1),
)
CANDIDATES = (("p", ("other.p",)), ("h", ("members", "q")))


def asked():
    """Return one statistic of each vetted kind that may be asked of households, or several."""
    answers = np.array([1, -2, 0, 3])
    return [
        InDif((("p", "other.p"), ("h", "members"), ("members", "q"))),
        RScore(CANDIDATES),
        QueryCounts(CELLS),
        QueryCounts(Parities((("h",), ()))),
        QueryDistance(CELLS, answers, 4),
        SignedQueries(CELLS, 3, answers, np.array([1, -1, 0, 1])),
        TableDistance(
            (("p", "q"), ("h", "members")),
            (np.arange(9).reshape(3, 3), np.arange(8)),
            3,
            (2, 1),
            (5, -1),
        ),
        TableChecks((("p",), ("h", "q")), (np.array([7, 0, 2]), np.full((2, 3), 5)), SHARES),
        Quantile(column="members", low=0, high=3, part=1, of=3),
        BinnedCounts(columns=("members", "p"), sizes=(4, 3), edges=((0, 1, 4), None)),
        BoxCounts(columns=("members", "p"), sizes=(4, 3), boxes=((0, 1, 0, 3), (1, 4, 0, 2))),
        KernelCounts(column="members", positions=4, edges=(0, 1, 2, 4), weights=(5, 2)),
        CellCounts(by=("h", "p"), sizes=(2, 3), numbers=("members",), positions=(4,)),
        CellSums(column="members", positions=4, by=("p",), sizes=(3,)),
        LIMITED,
        MiddleProducts(columns=("members", "members"), positions=(4, 4)),
        Products(columns=("members", "q"), positions=(4, 3), about="cells"),
        Interaction(("p", "other.p"), (3, 3)),
        ClassGradient(column="h", classes=2, features=LEVELS, at=(0,) * LEVELS.width),
        NumberGradient(target=NUMBER, features=LEVELS, at=(9,) * LEVELS.width),
        SecondMoments(features=PRESENT, transform=(1 << 16,) * PRESENT.width, length_limit=900),
        Scores(
            outcome=Levels(name="h", size=2),
            features=PRESENT,
            transform=(1 << 16,) * PRESENT.width,
            at=(0,) * PRESENT.width,
            length_limit=900,
        ),
    ]


def refused():
    """Return one statistic of each vetted kind that is refused."""
    return [
        MutualInformation(CANDIDATES, rows=100, grid=1000),
        FScore(CANDIDATES),
        ClassMinimiser(column="h", classes=2, features=LEVELS, ridge=1),
        CosineSums(column="members", size=4, edges=(0, 2, 4), kept=2),
        CosineTails(column="members", edges=(0, 2, 4), prices=(0, 0)),
        CutDeviations(column="members", edges=(0, 1, 2, 4), low=0, high=3),
    ]


def test_every_vetted_statistic_is_asked_or_refused_here():
    assert {type(each).NAME for each in [*asked(), *refused()]} == {*VETTED}
    assert all(type(each).IN_SHARES for each in asked())
    assert not any(type(each).IN_SHARES for each in refused())


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("number", range(len(asked())))
def test_no_household_moves_a_statistic_further_than_proven(number, neighbours):
    """Every household, beside several files: it comes, or any other one takes its place."""
    relation = Relation(neighbours, shares=SHARES)
    statistic = asked_in_shares(asked()[number], relation)
    change, l1, l2_squared = in_shares(relation, bounds(statistic, relation))
    furthest = 0
    for others in OTHERS:
        common = table_of(others)
        values = np.array([statistic.exact(Shares(common + table)) for table in TABLES])
        if neighbours == "add-remove":
            moves = np.abs(values - statistic.exact(Shares(common)))
        else:
            moves = np.abs(values[:, None] - values).reshape(-1, statistic.length)
        assert moves.max() <= change
        assert moves.sum(axis=1).max() <= l1
        assert (moves.astype(object) ** 2).sum(axis=1).max() <= l2_squared
        furthest = max(furthest, int(moves.max()))
    # The sensitivity of one share, or of one record, would be far too small.
    assert furthest > bounds(statistic, relation)[0]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_no_household_moves_parities_of_its_members_further_than_proven(neighbours):
    """Person columns are binary only if every household has members."""
    relation = Relation(neighbours, shares=SHARES)
    asked = QueryCounts(Parities((("p",), ("p", "q"), ("h", "q"), ())))
    statistic = asked_in_shares(asked, relation)
    change, l1, l2_squared = in_shares(relation, bounds(statistic, relation))
    values = np.array([statistic.exact(counter_of([one], least=1)) for one in households(least=1)])
    if neighbours == "replace-one":
        values = (values[:, None] - values).reshape(-1, statistic.length)
    assert SHARES <= np.abs(values).max() <= change
    assert np.abs(values).sum(axis=1).max() <= l1
    assert (values**2).sum(axis=1).max() <= l2_squared


# -- values in shares and in households


def plain(file):
    """Return a counter of households as records, with their own columns only."""
    codes = np.array([(h, len(members)) for h, members in file], dtype=np.uint16)
    data = Dataset(Domain(("h", "members"), (2, 4)), np.ascontiguousarray(codes.reshape(-1, 2).T))
    return MemoryCounter(data)


OF_HOUSEHOLDS = [
    (QueryCounts(Cells((("h",), ("h", "members"), ()), ((1,), (1, 2), ()))), 0),
    (QueryDistance(Cells((("h",), ()), ((1,), ())), np.array([7, 30]), 4), 0),
    (SignedQueries(Cells((("h",), ()), ((1,), ())), 3, np.array([7, 30]), np.array([1, -1])), 0),
    (TableDistance((("h", "members"),), (np.arange(8),), 3, (2,), (5,)), 0),
    (Quantile(column="members", low=0, high=3, part=1, of=3), 0),
    (BinnedCounts(columns=("members", "h"), sizes=(4, 2), edges=((0, 1, 4), None)), 0),
    (BoxCounts(columns=("members", "h"), sizes=(4, 2), boxes=((0, 1, 0, 2), (1, 4, 0, 1))), 0),
    (KernelCounts(column="members", positions=4, edges=(0, 1, 2, 4), weights=(5, 2)), 0),
    (CellCounts(by=("h",), sizes=(2,), numbers=("members",), positions=(4,)), 0),
    (CellSums(column="members", positions=4, by=("h",), sizes=(2,)), 0),
    (replace(LIMITED, by=("h",), sizes=(2,), edges=(None,)), 0),
    (MiddleProducts(columns=("members", "members"), positions=(4, 4)), 0),
    (Interaction(("h", "members"), (2, 4)), 0),
    (NumberGradient(target=NUMBER, features=Features((Levels(name="h", size=2),)), at=(9, 9)), 0),
    (InDif((("h", "members"),)), Fraction(1, 2)),
    (RScore((("h", ("members",)),)), Fraction(1, 2)),
    (
        Products(
            columns=("members", "members"), positions=(4, 4), about="cells", by=("h",), sizes=(2,)
        ),
        2,
    ),
]
"""Statistics of household columns, and how far rounding to a whole number moves them at most."""


@pytest.mark.parametrize(("statistic", "rounding"), OF_HOUSEHOLDS, ids=lambda of: type(of).__name__)
def test_a_statistic_in_shares_is_that_of_households_as_records_times_the_shares(
    statistic, rounding
):
    rng = np.random.default_rng(3)
    for size in (0, 1, 4, 25):
        file = [households()[number] for number in rng.integers(0, len(households()), size)]
        records = statistic.exact(plain(file))
        shares = asked_in_shares(statistic, Relation("add-remove", shares=SHARES))
        found = shares.exact(counter_of(file))
        off = np.abs(found - SHARES * records)
        assert off.max() <= rounding * (SHARES + 1)
        # Rounded in shares, it is nearer to the value that is not rounded.
        assert rounding or not off.any()


def test_reference_counts_in_other_units_than_shares_are_refused():
    relation = Relation("add-remove", shares=SHARES)
    of_records = TableChecks((("p",),), (np.array([1, 2]),))
    with pytest.raises(ValueError, match="1/6 of a record, not 1/1"):
        asked_in_shares(of_records, relation)


def test_a_public_number_too_large_in_shares_is_refused():
    statistic = QueryDistance(Cells((("h",),), ((0,),)), np.array([2**62]), 4)
    with pytest.raises(BadInput, match="coarser grid"):
        asked_in_shares(statistic, Relation("add-remove", shares=SHARES))
    lowest = QueryDistance(Cells((("h",),), ((0,),)), np.array([-(2**63)]), 4)
    with pytest.raises(BadInput, match="coarser grid"):
        asked_in_shares(lowest, Relation("add-remove", shares=SHARES))


def test_an_interaction_whose_numbers_would_be_too_large_is_refused():
    pair = Interaction(("p", "q"), (40, 40))
    few, many = (Relation("add-remove", shares=household_shares(most)) for most in (4, 10))
    assert asked_in_shares(pair, few) is pair
    with pytest.raises(BadInput, match="measure the whole table"):
        asked_in_shares(pair, many)
    # What is left is found again exactly, of a million households that are all alike.
    table = np.zeros((40, 40), np.int64)
    table[39, 39] = 2**20 * few.shares
    entries = pair.of_table(table)
    np.testing.assert_array_equal(
        stored_shares(in_households(entries, few.shares), few.shares), entries
    )


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_what_does_not_grow_with_the_counts_is_refused_before_a_charge(number, neighbours):
    statistic = refused()[number]
    curator, session = curator_of([], Currency("pure", Fraction(1)), neighbours)
    relation, document = session.relation, statistic.to_json()
    statement = "cannot be asked of linked tables"
    asks = [
        lambda: curator.perturb("select", "x", statistic, Fraction(1)),
        lambda: curator.statistic_noise(statistic, Fraction(1)),
    ]
    if hasattr(statistic, "cliques"):
        asks.append(lambda: curator.choose("select", "x", statistic, Fraction(1)))
    else:
        asks.append(lambda: curator.total("measure", "x", statistic, Fraction(1)))
    for ask in asks:
        with pytest.raises(BadInput, match=f"{statement}.* [Uu]se .*\\."):
            ask()
    with pytest.raises(BadInput, match="cannot be asked of linked tables"):
        required(document, relation)
    assert session.charges == []


def test_thresholds_and_draws_are_refused_before_a_charge():
    currency = Currency("pure", Fraction(1), Fraction(1, 10))
    curator, session = curator_of([], currency)
    clique = ("h", "p")
    for ask in (
        lambda: threshold_table(
            curator, "measure", clique, Fraction(1), Fraction(1, 10), capacity=4
        ),
        lambda: draw_records(curator, "measure", "x", [clique], Fraction(1), records=3),
        lambda: draw_cells(
            curator, "measure", "x", clique, Fraction(1), records=3, kind="independent"
        ),
    ):
        with pytest.raises(BadInput, match="not possible where households are the units"):
            ask()
    assert session.charges == []


# -- the curator

FILE = [households()[number] for number in (0, 1, 7, 9, 9, 30, 41, 55, 69)]


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_without_noise_tables_are_shares_divided_by_their_number(kind, neighbours):
    limit = largest_limit(kind, Fraction(1), Fraction(1, 10**9))
    curator, session = curator_of(FILE, Currency(kind, limit), neighbours)
    cliques = list(KINDS.values())
    cost = limit / len(cliques)
    found = curator.measure("measure", cliques, [cost] * len(cliques))
    exact = counter_of(FILE).count(cliques)
    for measurement, clique, grant in zip(found, cliques, session.charges, strict=True):
        shares = exact[clique].counts
        assert measurement.values.dtype == np.float64
        np.testing.assert_array_equal(measurement.values, shares / SHARES)
        np.testing.assert_array_equal(stored_shares(measurement.values, SHARES), shares)
        assert measurement.values.sum() == pytest.approx(len(FILE), rel=1e-12)
        event = grant.step.event
        assert measurement.scale == float(event.scale / SHARES)
        assert measurement.scale == pytest.approx(curator.count_noise(cost).scale, rel=1e-15)
        factor = 1 if neighbours == "add-remove" else 2
        if kind == "pure":
            assert event == LaplaceEvent(event.scale, factor * SHARES)
        else:
            assert event == GaussianEvent(event.scale, factor * SHARES**2)
        assert cost * Fraction(999_999, 10**6) <= session.currency.cost(event) <= cost


@pytest.mark.usefixtures("no_noise")
def test_without_noise_every_other_answer_is_in_households_too():
    curator, session = curator_of(FILE, Currency("zcdp", Fraction(10)))
    exact, one = counter_of(FILE), Fraction(1)
    (interaction,) = curator.interactions("measure", [("p", "other.p")], [one])
    contrasts = Interaction(("p", "other.p"), (3, 3))
    np.testing.assert_array_equal(interaction.values, contrasts.exact(exact) / SHARES)
    answers = curator.answer("measure", "queries", CELLS, one)
    np.testing.assert_array_equal(answers.values, QueryCounts(CELLS).exact(exact) / SHARES)
    sums = CellSums(column="members", positions=4, by=("p",), sizes=(3,))
    total = curator.total("analyses", "sums", sums, one)
    np.testing.assert_array_equal(total.values, sums.exact(exact) / SHARES)
    pairs = InDif((("p", "other.p"), ("h", "members")))
    scores = curator.perturb("select", "indif", pairs, one)
    np.testing.assert_array_equal(scores, pairs.exact(exact) / SHARES)
    for item, of in ((interaction, contrasts), (answers, QueryCounts(CELLS)), (total, sums)):
        assert item.scale == pytest.approx(curator.statistic_noise(of, one).scale, rel=1e-15)
    names = [grant.step.asks["name"] for grant in session.charges]
    assert names == ["interaction", "query-counts", "cell-sums", "indif"]
    for grant in session.charges:
        assert (
            grant.step.event.l2_sensitivity_squared
            == required(grant.step.asks, session.relation)[2]
        )


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_a_choice_is_made_at_the_change_in_shares(kind):
    curator, session = curator_of(FILE, Currency(kind, Fraction(1)))
    exact = plain(FILE)
    cells = Cells((("h",),) * 2, ((0,), (1,)))
    for number, answers in enumerate(([0, 9], [9, 0])):
        statistic = QueryDistance(cells, np.array(answers) * 4, 4)
        place = curator.choose("select", f"x {number}", statistic, Fraction(1, 4))
        assert place == int(np.argmax(statistic.exact(exact)))
        event = session.charges[-1].step.event
        assert isinstance(event, NoisyMaxEvent)
        assert event.sensitivity == 4 * SHARES


@pytest.mark.usefixtures("no_noise")
def test_a_check_states_its_distance_and_noise_in_households():
    curator, session = curator_of(FILE, Currency("pure", Fraction(1)))
    reference = np.array([10, 3, 1], dtype=np.int64)
    (figure,) = curator.check("x", TableChecks((("p",),), (reference,), SHARES), Fraction(1))
    shares = counter_of(FILE).count([("p",)])["p",].counts
    assert figure.distance == np.abs(shares - reference).sum()
    stated = charged_figure(figure, len(FILE))
    assert stated["distance"] == figure.distance / SHARES
    assert stated["scale"] == 1.0
    assert session.charges[0].step.event == LaplaceEvent(Fraction(SHARES), SHARES)


@pytest.mark.usefixtures("no_noise")
def test_households_of_one_member_have_one_share_and_whole_numbers():
    file = households(1)
    curator, session = curator_of(file, Currency("pure", Fraction(1)), most=1)
    (table,) = curator.measure("measure", [("h", "p")], [Fraction(1)])
    assert table.values.dtype == np.int64
    np.testing.assert_array_equal(table.values, [[2, 2, 1], [2, 2, 1]])
    assert table.scale == 1.0
    assert session.charges[0].step.event == LaplaceEvent(Fraction(1), 1)


def test_the_number_of_households_is_public_under_replace_one_only():
    currency = Currency("pure", Fraction(1))
    for file in ([], FILE, [households()[0]] * 3, [households()[69]] * 3):
        assert curator_of(file, currency, "replace-one")[0].public_rows() == len(file)
        assert curator_of(file, currency, "add-remove")[0].public_rows() is None


@pytest.mark.parametrize(("of_counter", "of_session"), [(6, 1), (1, 6), (6, 12)])
def test_a_counter_in_other_units_than_the_session_charges_for_is_refused(of_counter, of_session):
    counter = types.SimpleNamespace(shares=of_counter)
    session = MemorySession(Currency("pure", Fraction(1)), "add-remove", shares=of_session)
    with pytest.raises(ValueError, match=f"1/{of_counter} of a record.*1/{of_session}"):
        Curator(Kernel(domain(), counter, session))
    # Coarser codes are in the units of the finer ones.
    with pytest.raises(ValueError, match=f"1/{of_counter} of a record"):
        Curator(Kernel(domain(), CoarseCounter(counter, None), session))


# -- audits: what a receipt states against what a household moves


def violations(neighbours, counter):
    """Return the questions that some household moves further than the receipt of a charge states.

    The values are those that are drawn: exact, because the noise is off.
    """
    cliques = list(KINDS.values())
    files = [[], *([one] for one in households())]
    drawn, found = [], set()
    for file in files:
        session = MemorySession(Currency("pure", Fraction(100)), neighbours, shares=SHARES)
        curator = Curator(Kernel(domain(), counter(file), session))
        drawn.append(
            [
                stored_shares(table.values, SHARES).ravel()
                for table in curator.measure("measure", cliques, [Fraction(1)] * len(cliques))
            ]
        )
    stated = session.charges[0].step.event.l1_sensitivity
    changes = (
        [(drawn[0], one) for one in drawn[1:]]
        if neighbours == "add-remove"
        else itertools.combinations(drawn[1:], 2)
    )
    for one, other in changes:
        for kind, before, after in zip(KINDS, one, other, strict=True):
            # Under replace-one the number of shares is public: it may not move at all.
            allowed = 0 if (kind, neighbours) == ("number", "replace-one") else stated
            if np.abs(after - before).sum() > allowed:
                found.add(kind)
    return found


class Weighted(HouseholdCounter):
    """A counter whose weights are not checked."""

    def __init__(self, file, weights):
        self._counter, self._shares = MemoryCounter(pair_rows(file)), SHARES
        self._weights = np.array(weights, dtype=np.int64)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_no_household_moves_a_table_further_than_its_receipt_states(neighbours):
    assert violations(neighbours, counter_of) == set()


@pytest.mark.usefixtures("no_noise")
def test_the_audit_finds_a_household_that_has_more_shares_than_others():
    # The shares of a household of two members on each of its members' pair rows.
    assert violations("add-remove", lambda file: Weighted(file, (6, 6, 3, 3))) == {*KINDS}
    # As many shares on each pair row as a household of one member has on its only one.
    assert violations("add-remove", lambda file: Weighted(file, (6, 6, 6, 6))) == {*KINDS}


@pytest.mark.usefixtures("no_noise")
def test_the_audit_finds_pair_rows_that_all_count_once():
    # No household moves a table by more than its 6 pair rows, but they are no fixed number.
    assert violations("add-remove", lambda file: Weighted(file, (1, 1, 1, 1))) == set()
    assert violations("replace-one", lambda file: Weighted(file, (1, 1, 1, 1))) == {"number"}


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_audit_finds_a_sensitivity_of_records(neighbours, monkeypatch):
    monkeypatch.setattr("dp_core.kernel.requests.in_shares", lambda _, found: found)
    with pytest.raises(ValueError, match="a smaller effect of one unit"):
        violations(neighbours, counter_of)
    monkeypatch.setattr("dp_core.kernel.kernel.require_calibrated", lambda *_: None)
    found = violations(neighbours, counter_of)
    assert found == {*KINDS} - ({"number"} if neighbours == "replace-one" else set())


# -- receipts


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("number", range(len(asked())))
def test_a_receipt_is_verified_against_the_bounds_in_shares(number, neighbours):
    statistic = asked()[number]
    relation = Relation(neighbours, shares=12)
    change, l1, l2_squared = bounds(statistic, relation)
    assert bounds(statistic, Relation(neighbours)) == (change, l1, l2_squared)
    assert required(statistic.to_json(), relation) == (12 * change, 12 * l1, 144 * l2_squared)


# -- units


def test_shares_are_those_of_the_linked_tables():
    assert linked_tables.MOST_MEMBERS == MOST_MEMBERS
    for most in range(1, MOST_MEMBERS + 1):
        tables = linked(most)
        assert tables.shares == household_shares(most)
        privacy = Privacy(
            epsilon=Fraction(1),
            delta=Fraction(0),
            neighbours="replace-one",
            protects=ProtectedUnit("household", "home", most),
        )
        assert privacy.relation == Relation("replace-one", shares=tables.shares)
        assert privacy.relation.rows_public
        assert privacy.relation.of_rows == "replace-one"
        assert privacy.relation.steps == ("replace-one",)
        # The cells that one household changes of a table are covered by those of a person.
        assert most * (most - 1) < MOST_ROWS


@pytest.mark.parametrize("shares", [0, -6, True, 6.0, household_shares(MOST_MEMBERS) + 1])
def test_a_household_has_a_number_of_shares(shares):
    with pytest.raises(ValueError, match="shares, not"):
        Relation("add-remove", shares=shares)


def test_a_unit_has_rows_or_shares_and_not_both():
    with pytest.raises(ValueError, match="max_rows is 1"):
        Relation("add-remove", 2, 6)


@pytest.mark.parametrize("most", [2, 5, 10, 20])
def test_shares_are_found_again_from_values_in_households(most):
    shares = household_shares(most)
    rng = np.random.default_rng(1)
    for size in (10, 10**6, 2**51):
        drawn = rng.integers(-size + 1, size, 20_000)
        np.testing.assert_array_equal(stored_shares(in_households(drawn, shares), shares), drawn)
    whole = np.array([3, -4])
    assert in_households(whole, 1) is whole
    assert stored_shares(whole, 1) is whole


@pytest.mark.parametrize("wrong", [0.1, 1 / 6 + 1e-12, 2.0**60, np.nan, np.inf])
def test_a_value_that_is_no_whole_number_of_shares_is_refused(wrong):
    with pytest.raises(ValueError, match="whole number of shares"):
        stored_shares(np.array([0.5, wrong]), 6)
    with pytest.raises(ValueError, match="whole numbers, not float64"):
        stored_shares(np.array([wrong]), 1)
