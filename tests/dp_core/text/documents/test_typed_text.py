import contextlib
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.text.documents.typed_text import (
    LARGEST_EPSILON,
    exact_epsilon,
    parse_date,
    parse_fraction,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0e-9", Fraction(1, 10**9)),
        ("1/3", Fraction(1, 3)),
        (" 2 / 4 ", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+1E2", Fraction(100)),
        ("-3", Fraction(-3)),
        ("007", Fraction(7)),
        ("1e-300", Fraction(1, 10**300)),
    ],
)
def test_numbers_are_exact(text, value):
    assert parse_fraction(text) == value


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("1,0", "decimal point"),
        ("10%", "no unit"),
        ("10^-9", "1e-9"),
        ("nan", "not a number"),
        ("1e400", "exponents"),
        ("1e" + "9" * 50, "exponents"),
        ("1/0", "divides by zero"),
        ("", "not a number"),
        ("1_000", "not a number"),
        ("0x10", "not a number"),
        ("−1", "not a number"),
        ("１", "not a number"),
        ("1" * 101, "longer than 100"),
    ],
)
def test_what_is_not_a_number_is_refused_with_a_way_to_write_it(text, part):
    with pytest.raises(ValueError, match=re.escape(part)) as caught:
        parse_fraction(text)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["1e-300", "1e-301", "1e400", "0", "-1", Fraction(1, 10**300)])
def test_an_epsilon_out_of_range_is_told_the_range(text):
    with pytest.raises(BadInput, match=r"^--epsilon '[^']+' must be from 1e-12 to 1,000,000\.$"):
        exact_epsilon(text, what="--epsilon")
    assert exact_epsilon("1e-12") == Fraction(1, 10**12)
    assert exact_epsilon("1e6") == LARGEST_EPSILON


@given(st.text("0123456789", min_size=1, max_size=98), st.integers(1, 10**40))
def test_the_text_of_an_epsilon_is_an_epsilon(digits, below):
    for text in (f"0.{digits}", f"{digits}/{below}"):
        with contextlib.suppress(BadInput):
            value = exact_epsilon(text)
            assert exact_epsilon(str(value)) == value


@given(st.fractions(max_denominator=10**20))
def test_a_written_fraction_is_read_back(value):
    assert parse_fraction(str(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**50), max_value=10**50))
def test_a_written_decimal_is_read_back_exactly(value):
    if abs(value.adjusted()) < 90 and len(str(value)) <= 100:
        assert parse_fraction(str(value)) == Fraction(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_float_is_its_decimal_text_or_refused(value):
    if 1e-290 < abs(value) < 1e290:
        assert parse_fraction(repr(value)) == Fraction(repr(value))


@given(st.text(max_size=120))
def test_any_text_is_a_number_or_a_sentence(text):
    sentence = "1."
    try:
        parse_fraction(text)
    except ValueError as error:
        sentence = str(error)

    assert sentence.endswith(".")


def test_dates_of_other_iso_spellings_are_refused():
    for text in ("2026-W01-1", "20260101", "2026-1-1"):
        with pytest.raises(ValueError, match="write year-month-day"):
            parse_date(text)
