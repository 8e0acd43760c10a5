"""The reader accepts what a message tells users to write."""

import itertools
import re

import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.column_reader import _OTHER_KINDS, KINDS, OTHER_KEYS
from dp_core.text.documents import likely_meant
from dp_core.text.documents.typed_text import parse_date, parse_fraction
from tests.schema_texts import column, read

DAYS = [
    mark.join(parts)
    for mark in "-/. "
    for parts in itertools.chain(
        itertools.product(("0000", "1999", "2020"), ("0", "2", "13"), ("00", "9", "29", "31")),
        itertools.product(("00", "9", "29", "31"), ("0", "2", "13"), ("0000", "1999", "2020")),
    )
]


@pytest.mark.parametrize("text", [*DAYS, "0000", "1999", "today"])
def test_a_day_that_is_named_is_one_of_the_calendar(text):
    for day in re.findall("[0-9]{4}-[0-9-]*", likely_meant.day(text)):
        parse_date(day)


@pytest.mark.parametrize(
    "text",
    ["20,000", "1e5", "five", "10k", "1.5m", "1.000", "~20000", "1.0", "0,5", "2.5", "20000+", "x",
     "1_000", "12,0", "99999999999999999999", "1e20", "1.5e1"],
)  # fmt: skip
def test_a_whole_number_that_is_named_is_one(text):
    said = likely_meant.whole_number(text)
    for number in re.findall(r"write ([0-9][^ ,]*)", said):
        assert re.fullmatch("[0-9]+", number), said


@pytest.mark.parametrize("text", ["50%", "12.3456789 %", "0.1%", f"{'1' * 40}.5 %", "1234567.891%"])
def test_a_percentage_is_named_as_an_exact_fraction(text):
    with pytest.raises(ValueError, match="instead of a percentage") as caught:
        parse_fraction(text)
    named = re.search(r"percentage, ([0-9.]+)\.$", str(caught.value))
    assert 100 * parse_fraction(named[1]) == parse_fraction(text.rstrip("% "))


LEVELS = ", ".join(f"v{n}" for n in range(300))
DEFINITIONS = (
    "type: category, levels: [a, b]",
    "type: category, levels: {private: 20}, groups: {codes: [LEVELS]}",
    "type: ordinal, levels: [a, b]",
    "type: integer, min: 0, max: 20",
    "type: integer, min: 0, max: 99999, bins: 4",
    "type: number, min: 0, max: 20",
    "type: number, min: 0, max: 20, bins: 4",
    "type: date, min: 2000-01-01, max: 2001-12-31, bins: year",
)
ADVISED = sorted(
    {
        (word, keys)
        for table in (OTHER_KEYS, _OTHER_KINDS)
        for word, advice in table.items()
        for keys in re.findall("`([a-z_]+: [^`]*)`", advice)
    }
)


@pytest.mark.parametrize(("word", "keys"), ADVISED)
def test_the_keys_that_are_named_instead_of_others_are_read(word, keys):
    assert any(_is_read(definition, keys) for definition in DEFINITIONS), (word, keys)


def _is_read(definition, keys):
    new = {part.split(":")[0] for part in re.split(r", (?=[a-z_]+: )", keys)}
    kept = [
        part for part in re.split(r", (?=[a-z]+: )", definition) if part.split(":")[0] not in new
    ]
    text = ", ".join([*kept, keys]).replace("LEVELS", LEVELS)
    other = "  other: {type: integer, min: 0, max: 9}\n"
    try:
        read(column(f"{{{'role: id' if keys == 'role: id' else text}}}") + other)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize("word", _OTHER_KINDS)
def test_a_type_that_is_named_instead_of_another_is_one(word):
    assert any(re.search(rf"\b{kind}\b|role: id", _OTHER_KINDS[word]) for kind in KINDS)
