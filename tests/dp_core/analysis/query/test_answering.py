"""Answers without noise are the file's own; with noise their intervals cover, or are refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.client.interactions import steps_of_a_record
from dp_core.client.released import Totals
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.questions.counting_queries import Parities
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.metrics.noise_size import half_width
from tests.dp_core.analysis.query.survey import (
    DOMAIN,
    FILE,
    PAIRS,
    RECORDS,
    SCHEMA,
    exact,
    measured,
    noise_of,
    sources,
)
from tests.full import at_full_size, some
from tests.measured import noisy_answers
from tests.statistical import discrete_gaussian

ONES = tuple((name,) for name in DOMAIN.columns)
TRIPLES = (("sex", "age", "rooms"), ("sex", "age", "health"), ("sex", "rooms", "born"))
CLEAR = sources(measured((*ONES, *PAIRS, *TRIPLES), scale=1e-7))
ADULT = (FILE["age"] >= 1) & (FILE["age"] <= 2)
ROOMS = FILE["rooms"] + 1
WEDDED = FILE["marital status"] == 1


def value(text, **options):
    (cell,) = ask(CLEAR, text, **options).cells
    return cell.estimate


def values(text, among=CLEAR):
    return {cell.codes: cell.estimate for cell in ask(among, text).cells}


# -- without noise


def test_counts_are_those_of_the_file():
    assert value("count") == pytest.approx(RECORDS)
    assert value("count where sex = female and 15 <= age < 65") == pytest.approx(
        ((FILE["sex"] == 1) & ADULT).sum()
    )
    table = exact(("sex", "health"))
    wanted = {(h, s): table[s, h] for h, s in np.ndindex(3, 2)}
    assert values("count by health, sex") == pytest.approx(wanted)


def test_shares_are_of_the_whole_or_of_each_group():
    of_all = (FILE["sex"] == 1) & WEDDED
    assert value("share of female and marital status = married, or in a union") == pytest.approx(
        of_all.sum() / RECORDS
    )
    table = exact(("sex", "health"))
    assert values("share by sex, health") == pytest.approx(
        {codes: table[codes] / RECORDS for codes in np.ndindex(2, 3)}
    )
    assert values("share of health by sex") == pytest.approx(
        {(h, s): table[s, h] / table[s].sum() for h, s in np.ndindex(3, 2)}
    )
    assert values("share of health >= fair by sex") == pytest.approx(
        {(s,): table[s, 1:].sum() / table[s].sum() for s in range(2)}
    )
    assert values("share by sex where 15 <= age < 65") == pytest.approx(
        {(s,): (ADULT & (FILE["sex"] == s)).sum() / ADULT.sum() for s in range(2)}
    )


def test_means_totals_and_ratios():
    assert value("mean of rooms") == pytest.approx(ROOMS.mean())
    assert value("total of rooms where female") == pytest.approx(ROOMS[FILE["sex"] == 1].sum())
    assert values("mean of rooms by sex where 15 <= age < 65") == pytest.approx(
        {(s,): ROOMS[ADULT & (FILE["sex"] == s)].mean() for s in range(2)}
    )
    men, women = (np.count_nonzero(FILE["sex"] == code) for code in range(2))
    assert value("ratio of female to male") == pytest.approx(women / men)


@pytest.mark.parametrize(
    "text",
    [
        "difference in count between male and sex = 1",
        "difference in mean of rooms between male and sex in (male) by health",
        "difference in share of good between age < 15, male and male, age < 15",
        "difference in share of good between health = good and rooms >= 1, good",
        "difference in count between male and sex in (male, female) where male",
    ],
)
def test_a_difference_between_a_group_and_itself_is_refused(text):
    with pytest.raises(BadInput, match=r"the same records.*two different groups"):
        ask(CLEAR, text)


def test_the_mean_of_a_bin_stands_for_its_values_and_missing_ones_are_left_out():
    middle = np.array([7.0, 22.0, 47.0, 82.0])
    known = FILE["age"] < 4
    result = ask(CLEAR, "mean of age")
    assert result.cells[0].estimate == pytest.approx(middle[FILE["age"][known]].mean())
    assert any("missing age are left out" in note for note in result.notes)
    assert not ask(CLEAR, "mean of rooms").notes
    days = [np.mean([first, last - 1]) for first, last in itertools.pairwise(
        map(int, SCHEMA.column("born").edges)
    )]  # fmt: skip
    assert value("mean of born") == pytest.approx(np.array(days)[FILE["born"]].mean())


def test_differences_are_the_first_group_minus_the_second():
    one, two = (ROOMS[FILE["sex"] == code].mean() for code in range(2))
    assert value("difference in mean of rooms between male and female") == pytest.approx(one - two)
    table = exact(("sex", "health"))
    assert value("difference in share of good between male and female") == pytest.approx(
        table[0, 2] / table[0].sum() - table[1, 2] / table[1].sum()
    )
    assert values("difference in count between male and female by health") == pytest.approx(
        {(h,): table[0, h] - table[1, h] for h in range(3)}
    )


def test_a_dependent_column_is_a_grouping_of_its_source():
    stage = np.array([0, 1, 1, 2, 3])[FILE["age"]]
    assert values("count by stage") == pytest.approx(
        {(k,): np.count_nonzero(stage == k) for k in range(4)}
    )
    assert values("count by age, stage where female") == pytest.approx(
        {
            (a, s): np.count_nonzero((FILE["age"] == a) & (FILE["sex"] == 1))
            for a, s in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3)]
        }
    )
    assert values("share of age by stage")[1, 1] == pytest.approx(
        np.count_nonzero(FILE["age"] == 1) / np.count_nonzero(stage == 1)
    )


def test_levels_that_where_excludes_are_left_out_of_by():
    assert list(values("count by age where age >= 30")) == [(2,), (3,)]
    with pytest.raises(BadInput, match="contradict"):
        ask(CLEAR, "count where age < 15 and age >= 30")


# -- intervals


def test_one_cell_of_one_table_has_the_exact_range_of_its_noise():
    for scale in (0.4, 1.0, 9.0):
        found = ask(sources(measured([("sex", "health")], scale=scale)), "count by sex, health")
        assert {cell.margin for cell in found.cells} == {half_width("laplace", scale, 0.95)}


@pytest.mark.parametrize("scale", [0.2, 0.35, 0.5, 0.7, 1.1, 1.4, 5.0])
@pytest.mark.parametrize("groups", ["sex, health", "health"])
def test_small_noise_is_within_the_margin_at_its_level(scale, groups):
    cells = {"sex, health": 1, "health": 2}[groups]
    found = ask(
        sources(measured([("sex", "health")], scale=scale, noise="gaussian")), f"count by {groups}"
    )
    mass = discrete_gaussian(scale, 60)
    if cells == 2:
        mass = np.convolve(mass, mass)
    z = np.arange(mass.size) - mass.size // 2
    inside = mass[np.abs(z) <= found.cells[0].margin].sum()

    assert inside > 0.945
    if scale > 0.5:  # and not wider than needed
        assert mass[np.abs(z) < found.cells[0].margin].sum() < 0.955


def test_impossible_combinations_are_exactly_0():
    noisy = sources(measured(PAIRS, scale=5.0, rng=np.random.default_rng(1)))
    for text in ("count by age, marital status", "share by age, marital status"):
        cells = {cell.codes: cell for cell in ask(noisy, text).cells}
        for code in range(5):
            cell = cells[0, code]
            assert (cell.low == cell.high == cell.estimate == 0) == (code in (1, 3))


def test_a_public_number_of_records_makes_a_share_more_precise():
    tables = measured(PAIRS, scale=30.0, rng=np.random.default_rng(2))
    open_, public = (ask(sources(tables, rows=rows), "count") for rows in (None, float(RECORDS)))

    assert (public.cells[0].estimate, public.cells[0].margin) == (RECORDS, 0)
    assert open_.cells[0].margin > 1


def test_the_measurements_of_all_sets_are_pooled():
    own = [
        *measured(ONES, scale=10.0, rng=np.random.default_rng(1), replicate=1),
        *measured(ONES, scale=10.0, rng=np.random.default_rng(2), replicate=2),
    ]
    one, both = (ask(sources(own[: len(ONES) * n]), "count by sex").cells[0] for n in (1, 2))

    assert both.margin == pytest.approx(one.margin / math.sqrt(2), rel=0.05)


def test_a_group_that_may_be_empty_has_no_ratio():
    noisy = sources(measured(PAIRS, scale=400.0, rng=np.random.default_rng(1)))
    result = ask(noisy, "share of sex by born, health where rooms = 6")
    assert result.undetermined is not None
    result = ask(noisy, "share of good by marital status")
    unbounded = [cell for cell in result.cells if not cell.determined]

    assert unbounded
    assert all((cell.estimate, cell.low, cell.margin) == (None, None, None) for cell in unbounded)
    assert any("not determined at this noise" in note for note in result.notes)


def test_sampling_adds_the_error_of_a_random_sample():
    found = ask(CLEAR, "share of good by sex", sampling=True).cells
    table = exact(("sex", "health"))
    for sex, cell in enumerate(found):
        size = table[sex].sum()
        share = table[sex, 2] / size
        # Fieller's interval with the noise of next to nothing is nearly Wald's.
        wanted = 1.96 * math.sqrt(share * (1 - share) / size)
        assert cell.margin == pytest.approx(wanted, rel=0.01)
    (mean,) = ask(CLEAR, "mean of rooms where female", sampling=True).cells
    women = ROOMS[FILE["sex"] == 1]
    assert mean.margin == pytest.approx(1.96 * women.std() / math.sqrt(women.size), rel=0.01)
    (count,) = ask(CLEAR, "count where female", sampling=True).cells
    p = women.size / RECORDS
    assert count.margin == pytest.approx(1.96 * math.sqrt(RECORDS * p * (1 - p)), rel=0.01)
    (gap,) = ask(CLEAR, "difference in mean of rooms between male and female", sampling=True).cells
    men = ROOMS[FILE["sex"] == 0]
    wanted = 1.96 * math.sqrt(women.var() / women.size + men.var() / men.size)
    assert gap.margin == pytest.approx(wanted, rel=0.01)


QUESTIONS = (
    *("count by sex, health", "share by sex, health", "share of marital status by sex"),
    *("mean of rooms by health", "difference in mean of rooms between male and female"),
    *("ratio of female to male by health", "total of rooms by sex", "share of good by stage"),
    "difference in share of good between age < 30 and age >= 30",
)


NAMED = ("sex", "age", "marital status", "health", "rooms")


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("basis", "noise"),
    some(
        itertools.product(["tables", "interactions"], ["laplace", "gaussian"]),
        lambda case: case in (("tables", "laplace"), ("interactions", "gaussian")),
    ),
)
def test_intervals_cover_the_file_s_own_value(basis, noise):
    """Of 100 measurements, or 150; a question's coverage is the mean over its answers.

    It is within .131 of .95, or .107: 6 standard errors of a proportion if all answers of a
    question were right or wrong together. A question then fails by chance less than once in
    a million if its intervals cover at .95, by exact binomial sums: 5.1e-7 and 4.9e-7.
    """
    rng = np.random.default_rng(sum(map(ord, noise + basis)))
    truth = {text: values(text) for text in QUESTIONS}
    covered = dict.fromkeys(QUESTIONS, 0.0)
    ones = [(name,) for name in NAMED]
    pairs = list(itertools.combinations(NAMED, 2))
    repeats, scale = 150 if at_full_size() else 100, 6.0
    for _ in range(repeats):
        if basis == "tables":
            released = measured((*ones, *pairs), scale=scale, noise=noise, rng=rng)
        else:
            released = measured(ones, scale=scale, noise=noise, rng=rng)
            released += [beyond(pair, scale, noise, rng) for pair in pairs]
        found = sources(released)
        for text in QUESTIONS:
            cells = ask(found, text).cells
            inside = [cell.low <= truth[text][cell.codes] <= cell.high for cell in cells]
            covered[text] += float(np.mean(inside)) / repeats

    bound = 6 * math.sqrt(0.95 * 0.05 / repeats)
    assert {text: rate for text, rate in covered.items() if abs(rate - 0.95) > bound} == {}


def beyond(pair, scale, noise, rng):
    of = Interaction(pair, DOMAIN.project(pair).sizes)
    values = of.of_table(exact(pair))
    steps = scale * steps_of_a_record(of)
    values = values + noise_of(noise, steps, values.shape, rng)
    return Totals(of=of, values=values, noise=noise, scale=steps, stage="measure", grant=1)


# -- not determined


def test_what_was_not_measured_together_is_named_with_its_price():
    limit = Currency("pure", Fraction(1))
    some = sources(measured([*ONES, ("sex", "age")], scale=9.0), currency=limit)
    result = ask(some, "share of sex by health, age where rooms >= 3")

    assert result.cells == ()
    assert ("sex", "health") in result.undetermined.missing
    assert ("sex", "age") not in result.undetermined.missing
    needed = result.undetermined.needed
    assert (needed.columns, needed.cells) == (("sex", "age", "health", "rooms"), 180)
    # A tenth of epsilon 1: Laplace noise of scale 10.
    assert needed.margin == pytest.approx(10 * math.log(20))
    assert "±30" in result.undetermined.sentence
    assert "sex and health" in result.undetermined.sentence
    assert "sets" in result.undetermined.sentence
    without = sources(measured([("sex",), ("health",)], scale=9.0), has_sets=False)
    assert "sets" not in ask(without, "count by sex, health").undetermined.sentence


def test_a_question_that_needs_no_table_of_all_its_columns_is_answered():
    some = sources(measured(ONES, scale=9.0))

    assert ask(some, "count by sex where health in (poor, fair, good)").undetermined is None
    assert ask(some, "count by sex where health in (poor, fair)").undetermined is not None
    assert ask(some, "count by sex").undetermined is None
    assert ask(sources([]), "count").undetermined.missing == ((),)


def test_sampling_may_need_a_larger_table():
    some = sources(measured([*ONES], scale=9.0))
    text = "ratio of female to good"

    assert ask(some, text).undetermined is None
    assert "--sampling" in ask(some, text, sampling=True).undetermined.sentence


# -- notes


def test_notes_say_what_the_numbers_mean():
    noisy = sources(measured(PAIRS, scale=9.0))
    notes = " ".join(ask(noisy, "share of stage = old by sex").notes)
    assert "includes records with missing stage" in notes
    where = ask(noisy, "share of stage = old by sex where stage is not missing").notes
    assert "whole" not in " ".join(where)
    parities = noisy_answers(
        Parities((("sex",),)), np.zeros(1, dtype=np.int64), noise="laplace", stage="select"
    )
    notes = " ".join(ask(sources([*measured(PAIRS, scale=9.0), parities]), "count").notes)
    assert "single answers" in notes
    nothing = ask(sources([parities]), "count by sex").undetermined
    assert "single answers" in nothing.sentence
