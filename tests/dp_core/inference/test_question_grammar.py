"""What people type, what is understood, and what they are told."""

from __future__ import annotations

import re

import pytest

from dp_core.errors import BadInput
from dp_core.inference.questions.question_grammar import EXAMPLES, read_question
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.analysis.query.survey import SCHEMA
from tests.schema_texts import read

SAME = {
    "count by sex": ["by sex", "Count by SEX", "number by sex", "how many people by sex?"],
    "share by sex, health": [
        *("share by sex and health", "percent per sex, health", "shares by sex x health"),
        "share by sex health",
    ],
    "mean of age by sex": [
        *("mean age by sex", "average of age per sex", "avg age by sex"),
        "the mean of the age by sex",
    ],
    "count where sex = female": [
        *("count where sex = 2", "count where sex is female", "count for sex == FEMALE"),
        *("count among female", "count where 'sex' = \"female\"", "count if sex in (2)"),
        "count where sex = “female”",
    ],
    "count where sex in (male, female)": [
        *("count where sex = (1, 2)", "count where sex in (2, male)"),
    ],
    "count where 15 <= age < 65": [
        *("count where age between 15 and 64", "count where 14 < age <= 64"),
        *("count where age >= 15 and age < 65", "count where 65 > age >= 15"),
        "count where age is at least 15 and age under 65",
    ],
    "count where marital status = widowed and alone and sex = male": [
        "count where marital status = widowed and alone and sex = 1",
        "count where `marital status` = 'widowed and alone' and male",
    ],
    "share of marital status = married, or in a union by sex": [
        "share of married, or in a union by sex",
        "proportion of marital status is married, or in a union per sex",
    ],
    "count where marital status != single": [
        *("count where marital status is not single", "count where marital status not single"),
        "count where marital status not in (single)",
    ],
    "share of health by sex": ["percentage of health per sex"],
    "share of health >= fair by sex": [
        *("share of health at least fair by sex", "share of fair <= health by sex"),
    ],
    "count where age = 15 to 29": ["count where age in (15 to 29)"],
    "count where rooms in (2, 3)": ["count where rooms in (3, 2)", "count where rooms = (2, 3)"],
    "count where born >= 2005-01-01": ["count where born > 2004-12-31"],
    "difference in mean of rooms between sex = male and sex = female by health": [
        "difference in mean rooms between male and female by health",
        "diff of average of rooms between sex = 1 and sex = 2 by health",
    ],
    "difference in share of health = good between 15 <= age < 65, male and age >= 65": [
        "difference in share of good between age between 15 and 64, sex = male and age >= 65",
    ],
    "ratio of sex = female to sex = male where age >= 30": [
        "ratio of female to male where age >= 30",
        "ratio of count of sex = 2 to count of sex = 1 where age >= 30",
    ],
    "count where marital status is not missing": ["count where marital status is not NA"],
    "count of sex = male by health": ["count of male by health", "how many male by health"],
    "share of sex = male": ["share male", "share of the male"],
    "median of age by sex": ["the median age per sex", "0.5 quantile of age by sex"],
    "quantile 0.9 of age": [
        "90th percentile of age",
        "the 90 percentile of age",
        "90 % quantile of age",
        "quantile .9 of age",
        "quantile 90% of age",
        "9th decile of age",
        "percentile 90 of age",
        "p90 of age",
        "What is the 90th percentile of age?",
    ],
    "quantile 0.25 of born": [
        "lower quartile of born",
        "1st quartile born",
        "quantile 1/4 of born",
    ],
    "quantile 1/3 of height where sex = male": ["quantile 1/3 height for male"],
    "median of health": ["second quartile of health"],
    "standard deviation of age by sex": [
        "sd of age by sex",
        "the std dev of age per sex",
        "stdev age by sex",
    ],
    "gini coefficient of rooms": ["gini of rooms", "Gini index rooms"],
    "top 10 % share of rooms": ["top decile share of rooms"],
    "top 2.5 % share of rooms": [
        "top 2.5% of rooms",
        "top 2.5 percent share of rooms",
        "the top 2.5 % share of the rooms",
    ],
    "count where height < 1.75": ["count where 1.75 > height"],
}
TYPED = [(typed, wanted) for wanted, all_ in SAME.items() for typed in (wanted, *all_)]


def meant(text):
    """What a question means, without its words."""
    found = read_question(text, SCHEMA)

    def codes(conditions):
        both: dict[str, set[int]] = {}
        for each in conditions:
            both[each.column] = {*each.codes} & both.get(each.column, {*each.codes})
        return both

    between = tuple(map(codes, found.between or ()))
    sides = codes(found.of), codes(found.to), codes(found.where)
    return found.measure, found.number, found.quantile, found.levels_of, found.by, between, sides


@pytest.mark.parametrize(("typed", "wanted"), TYPED)
def test_a_question_is_understood_however_it_is_typed(typed, wanted):
    assert meant(typed) == meant(wanted)


@pytest.mark.parametrize("typed", [typed for typed, _ in TYPED])
def test_what_is_understood_can_be_typed_again(typed):
    words = read_question(typed, SCHEMA).in_words

    assert meant(words) == meant(typed)
    assert read_question(words, SCHEMA).in_words == words


def test_questions_that_mean_different_things_are_told_apart():
    assert len({str(meant(wanted)) for wanted in SAME}) == len(SAME)


@pytest.mark.parametrize(
    "typed", ["age < 5", "age <= 5", "age > 70", "age >= 70", "height < 1.2", "height > 1.9"]
)
def test_a_threshold_that_is_offered_can_be_asked(typed):
    with pytest.raises(BadInput) as caught:
        read_question(f"count where {typed}", SCHEMA)
    offered = re.search(r"use (.+)\.$", caught.value.message)
    assert offered is not None
    for each in offered[1].split(" or "):
        assert read_question(f"count where {each}", SCHEMA).where


WRONG = {
    "": ["count by sex"],
    "   ": ["count by sex"],
    "shrae by sex": ["'shrae'", "'share'"],
    "sex, age": ["count by sex, age"],
    "age by sex": ["mean of age by sex"],
    "health by sex": ["share of health by sex"],
    "how many teenagers": ["'teenagers'"],
    "count where sex = “male": ["quote"],
    "median of sex": ["no order", "share of sex"],
    "median of agee": ["'agee'", "'age'"],
    "median of age and health": ["comes 'and' instead"],
    "median": ["the column whose quantile is asked"],
    "meidan of age": ["'median'"],
    "quantile of age": ["not stated which quantile", "quantile 0.9 of COLUMN"],
    "quartile of age": ["not stated which quartile"],
    "quantile 90 of age": ["90 is no quantile, which is above 0 and below 1", "90th percentile"],
    "quantile 1/0 of age": ["divides by 0"],
    f"quantile 0.{'3' * 40} of age": ["longer than 12 digits"],
    "quantile 0 of age": ["0 is no quantile, which is above 0 and below 1"],
    "standard devation of age": ["'standard'", "Did you mean 'standard deviation'"],
    "sd of health": ["'health' has levels, not numbers, and so no standard deviation"],
    "gini of born": ["'born' has dates, which have no gini coefficient"],
    "gini of": ["the column whose gini coefficient is asked"],
    "top 10 share of rooms": ["10 has no unit", "`top 10 % share of COLUMN`"],
    "top 100 % share of rooms": ["100 % is not between 0 and 100 %"],
    "top 0 % share of rooms": ["0 % is not between"],
    "top of rooms": ["'top'"],
    "difference in sd of age between sex = 1 and sex = 2": [
        "difference of a standard deviation is not available",
        "`standard deviation of age by GROUP`",
    ],
    "share of sex = male, female": ["`sex in (male, female)`"],
    "share of sex = 1 or 2 by health": ["`sex in (male, 2)`"],
    "share of health = good, fair, poor by sex": ["`health in (good, fair, poor)`"],
    "count where rooms = 2 and 3": ["`rooms in (2, 3)`"],
    "difference in share of good between sex = 1, 2 and sex = 2": ["`sex in (male, 2)`"],
    "share of rooms missing": ["Write `rooms = missing`"],
    "count where health unknown by sex": ["Write `health = missing`"],
    "100th percentile of age": ["100 is no percentile, which is above 0 and below 100"],
    "4th quartile of age": ["4 is no quartile, which is above 0 and below 4"],
    "difference in median of age between sex = 1 and sex = 2": ["not available", "median of"],
    "mean of health": ["median of health"],
    "count by sexx": ["'sexx'", "'sex'"],
    "count by sex, ": ["column"],
    "count by sex, sex": ["twice"],
    "count where": ["condition"],
    "count where sex": ["=", "sex"],
    "count where sex = femal": ["'femal'", "'female'"],
    "count where sex = 1 or sex = 2": ["or", "in (LEVEL, LEVEL)"],
    "count wher sex = 1": ["'wher'", "'where'"],
    "count where sex in 1, 2": ["brackets"],
    "count where sex in (1, 2": ["bracket"],
    "count where sex = \"male": ["quote"],
    "count where age >= 20": ["age >= 15", "age >= 30"],
    "count where age <= 20": ["age <= 14", "age <= 29"],
    "count where age > 20.5": ["whole numbers", "20 or 21"],
    "count where age >= ten": ["'ten'", "number"],
    "count where age >= 1e9999": ["'1e9999'", "number"],
    "count where height < 1e-99999999": ["number"],  # it would take hours to write out
    "count where height = 1e99999999": ["no bin '1e99999999'"],
    "count where age >= 1/0": ["'1/0'", "number"],
    "count where age = 20": ["15 to 29"],
    "count where age = 200": ["0", "99"],
    "count where age > 150": ["0", "99"],
    "count where height > 1.6": ["height > 1.5", "height > 1.75"],
    "count where born >= 2003-01-01": ["2000-01-01", "2005-01-01"],
    "count where born >= 1.1.2003": ["2026-12-31"],
    "count where marital status >= single": ["no order"],
    "count where sex is missing": ["no missing values"],
    "mean of sex": ["share of sex"],
    "mean by sex": ["column"],
    "total of born": ["mean of born"],
    "share of sex by sex": ["100 %"],
    "difference in share of good": ["between"],
    "difference between sex = 1 and sex = 2": ["in"],
    "ratio of female": ["to"],
    "count where sex ~ 1": ["~"],
    "count by sex;": ["sex"],
    "count where age >= 15 age < 30": ["age"],
}  # fmt: skip


@pytest.mark.parametrize("typed", WRONG)
def test_a_mistake_gets_one_sentence_that_names_what_to_type(typed):
    with pytest.raises(BadInput) as error:
        read_question(typed, SCHEMA)

    message = error.value.message
    assert all(part in message for part in WRONG[typed]), message
    assert "\n" not in message
    assert len(message) < 300


def test_the_examples_are_understood():
    schema = read(
        """\
version: 1
title: t
columns:
  sex: {type: category, levels: [male, female]}
  region: {type: category, levels: [north, south]}
  income: {type: integer, min: 0, max: 9}
  age: {type: integer, min: 0, max: 99}
"""
    )
    for example in EXAMPLES:
        assert read_question(example, schema).in_words == example


def words_of(columns):
    return parse_schema({"version": "1", "title": "t", "columns": columns})


def test_columns_may_have_the_names_of_words_and_levels_of_others():
    schema = words_of(
        {
            "count": {"type": "category", "levels": ["yes", "no"]},
            "by": {"type": "category", "levels": ["yes", "by and by"]},
        }
    )
    assert read_question("count by count, by", schema).by == ("count", "by")
    assert read_question("count by count where by = by and by", schema).where[0].codes == (1,)
    with pytest.raises(BadInput, match="count = yes or by = yes"):
        read_question("share of yes", schema)


def test_a_text_that_is_one_level_s_label_and_another_s_code_is_taken_as_the_code():
    schema = words_of({"a": {"type": "category", "levels": {"1": "2", "2": "1", "x": "y"}}})

    assert read_question("count where a = 2", schema).where[0].codes == (1,)


def test_columns_that_differ_by_capitals_need_their_own_spelling():
    schema = words_of(
        {
            "Age": {"type": "integer", "min": "0", "max": "9"},
            "age": {"type": "integer", "min": "0", "max": "9"},
        }
    )
    assert read_question("count by Age", schema).by == ("Age",)
    with pytest.raises(BadInput, match="capitals"):
        read_question("count by AGE", schema)


def test_conditions_that_are_answered_differently_say_so():
    found = read_question("count where height > 1.5 and marital status != single", SCHEMA)

    assert [each.codes for each in found.where] == [(1, 2), (1, 2, 3)]
    assert "height >= 1.5" in found.where[0].note
    assert "missing" in found.where[1].note


@pytest.mark.parametrize(
    "text", ["count where rooms = 2 and 30 <= age", "count where sex = male, health = good"]
)
def test_a_condition_on_another_column_may_follow(text):
    assert len(read_question(text, SCHEMA).where) == 2
