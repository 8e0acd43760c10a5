"""What a person most likely meant by a text that is not what a key takes.

Each function but `visible` returns the second half of a message, such as `write 20000`, or the
empty text.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import unicodedata
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal

from dp_core.text.documents.decimal_commas import pointed

MAX_LENGTH = 100
"""Longest text of a number, as in `typed_text`."""
MOST_COUNTED = 20
"""Most numbers that a message writes out."""
_NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)
_GROUPED = re.compile(r"([+-]?[0-9]{1,3})((?:[., _'’][0-9]{3})+)", re.ASCII)
_SCALED = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmM])", re.ASCII)
_SCALES = {"k": 1_000, "m": 1_000_000}
_RANGE = re.compile(r"([+-]?[0-9.]+)\s*(?:-|–|to|\.\.)\s*([+-]?[0-9.]+)", re.ASCII)
_ABOUT = re.compile(r"^(?:about|around|approximately|approx\.?|circa|ca\.?|~|≈)\s*(?=[0-9])")
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_PAIR = re.compile(r"([^=;,:]+?)\s*=\s*(.+)")


def whole_number(text: str) -> str:
    """Return how to write what is not a whole number.

    >>> whole_number("20,000"), whole_number("1e5"), whole_number("five"), whole_number("10k")
    ('write 20000', 'write 100000', 'write 5', 'write 10000')
    >>> whole_number("1.000"), whole_number("0-99")
    ('write 1000, or 1 if the point is a decimal point', 'write one number: min is 0 and max is 99')
    >>> whole_number("~20000"), whole_number("about 20,000")
    ('write 20000', 'write 20000')
    >>> whole_number("1.0"), whole_number("2.5"), whole_number("0,5"), whole_number("many")
    ('write 1', 'round it', 'round it', 'write digits only, such as 20000')
    """
    lower = text.strip().lower()
    if len(lower) > MAX_LENGTH:
        return "write at most 100 digits"
    lower = _ABOUT.sub("", lower)
    if lower in _NUMBER_WORDS:
        return f"write {_NUMBER_WORDS.index(lower)}"
    if grouped := _GROUPED.fullmatch(lower):
        joined = grouped[1] + re.sub("[^0-9]", "", grouped[2])
        if re.fullmatch(r"[+-]?[0-9]+\.000", lower):
            return f"write {joined}, or {lower[:-4]} if the point is a decimal point"
        return f"write {joined}"
    if re.match("[\u2010-\u2015\u2212]", lower):
        return "write a hyphen (-) as the minus sign"
    if re.fullmatch(r"[0-9]+\+", lower):
        return f"write {lower[:-1]}"
    if scaled := _SCALED.fullmatch(lower):
        value = Fraction(scaled[1]) * _SCALES[scaled[2].lower()]
        if value.denominator == 1:
            return f"write {value}"
    if ends := _RANGE.fullmatch(lower):
        return f"write one number: min is {ends[1]} and max is {ends[2]}"
    if lower != text.strip().lower() and lower.isdecimal():
        return f"write {lower}"
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", lower):
        lower = lower.replace(",", ".")
    if re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9])?", lower):
        value = Fraction(lower)
        return f"write {value}" if value.denominator == 1 else "round it"
    return "write digits only, such as 20000"


def day(text: str) -> str:
    """Return how to write what is not a day as year-month-day.

    >>> day("31.12.2020"), day("2000"), day("2020/1/5")
    ('write 2020-12-31', 'write the day, 2000-01-01 or 2000-12-31', 'write 2020-01-05')
    >>> day("01/02/2020"), day("31.02.2020")
    ('write year-month-day, such as 2026-12-31', 'write year-month-day, such as 2026-12-31')
    """
    if re.fullmatch("[0-9]{4}", text) and int(text):
        return f"write the day, {text}-01-01 or {text}-12-31"
    parts = None
    if found := re.fullmatch(r"([0-9]{4})[-/. ]([0-9]{1,2})[-/. ]([0-9]{1,2})", text):
        parts = (found[1], found[2], found[3])
    elif found := re.fullmatch(r"([0-9]{1,2})([-/. ])([0-9]{1,2})[-/. ]([0-9]{4})", text):
        if found[2] == "." or int(found[1]) > 12:
            parts = (found[4], found[3], found[1])
        elif int(found[3]) > 12:
            parts = (found[4], found[1], found[3])
    if parts is not None:
        with contextlib.suppress(ValueError):  # the calendar has no such day
            return f"write {datetime.date(*map(int, parts))}"
    return "write year-month-day, such as 2026-12-31"


def listed(text: str) -> str:
    """Return a text as the list, or the mapping, that it was meant to be.

    >>> listed("male, female"), listed("male"), listed("1=male; 2=female"), listed("1-5")
    ('[male, female]', '[male]', '{1: male, 2: female}', '[1, 2, 3, 4, 5]')
    """
    if counted := whole_range(text):
        return counted
    text = text.strip()
    if text[:1] + text[-1:] in ("()", "{}"):
        text = text[1:-1]
    if re.fullmatch(r"[0-9.]+(?: +[0-9.]+)+", text):
        text = ", ".join(text.split())
    parts = [part.strip() for part in re.split("[;|]" if re.search("[;|]", text) else ",", text)]
    parts = [pointed(part) for part in parts if part]
    if pairs := labelled(parts):
        return f"{{{', '.join(f'{code}: {label}' for code, label in pairs.items())}}}"
    return f"[{', '.join(parts)}]"


def whole_range(text: str) -> str:
    """Return the list of the whole numbers in a short range; the empty text for any other text.

    >>> whole_range("1-5"), whole_range("0 to 2"), whole_range("a-c"), whole_range("2-2")
    ('[1, 2, 3, 4, 5]', '[0, 1, 2]', '', '')
    """
    ends = re.fullmatch(r"([0-9]{1,4})\s*(?:-|–|to|bis|\.\.\.?)\s*([0-9]{1,4})", text.strip())
    if ends is None or not 0 < int(ends[2]) - int(ends[1]) < MOST_COUNTED:
        return ""
    return f"[{', '.join(map(str, range(int(ends[1]), int(ends[2]) + 1)))}]"


def labelled(texts: Iterable[str]) -> Mapping[str, str]:
    """Return codes with labels, if every text is a number, an equals sign and a label.

    >>> labelled(["1=male", "2 = female"]), labelled(["<=50K", ">50K"]), labelled(["1=a", "1=b"])
    ({'1': 'male', '2': 'female'}, {}, {})
    """
    pairs: dict[str, str] = {}
    for text in texts:
        pair = _PAIR.fullmatch(text.strip())
        if pair is None or pair[1] in pairs or not re.fullmatch("-?[0-9]+", pair[1]):
            return {}
        pairs[pair[1]] = pair[2].strip()
    return pairs


def cut_value(text: str, rest: Iterable[str], *, is_list: bool) -> str:
    """Return how to write a value that a comma cut into pieces.

    Args:
        text: The value before the first comma.
        rest: The pieces after it.
        is_list: Whether the key takes a list.

    >>> cut_value("male", ["female"], is_list=True), cut_value("1", ["5"], is_list=False)
    ('write the list in brackets: [male, female]', 'write 1.5 with a decimal point')
    >>> cut_value("1", ["000"], is_list=False)
    'write 1000 without a thousands separator'
    """
    pieces = [text, *rest]
    if is_list:
        return f"write the list in brackets: {listed(', '.join(pieces))}"
    if re.fullmatch("[+-]?[0-9]{1,3}", text) and all(re.fullmatch("[0-9]{3}", one) for one in rest):
        return f"write {''.join(pieces)} without a thousands separator"
    if re.fullmatch("[+-]?[0-9]+", text) and re.fullmatch(r"[0-9]+(?:[eE][+-]?[0-9]+)?", pieces[1]):
        return f"write {text}.{pieces[1]} with a decimal point"
    return f'write "{", ".join(pieces)}" in quotes'


def visible(text: str) -> str:
    r"""Return a text in which letters and spaces that look the same are the same.

    >>> visible("Cafe\u0301") == visible("Caf\u00e9"), visible("New\u00a0York")
    (True, 'New York')
    """
    plain = unicodedata.normalize("NFKC", text)
    seen = (letter for letter in plain if unicodedata.category(letter) != "Cf")
    return " ".join("".join(seen).split())


def how_to_encode(own: str, text: str) -> str:
    r"""Return how to give a text of a file the code points of the text that the schema has.

    Args:
        own: The text in the schema.
        text: The text in the file, which looks the same.

    >>> how_to_encode("a b", "a\u00a0b")
    "Replace 'a\\xa0b' by 'a b' in the file; they look alike."
    """
    for form in _FORMS:
        if unicodedata.normalize(form, text) == own:
            return (
                f"The schema writes {own!a}, which is Unicode {form}. Normalise the file:"
                f" `uconv -x any-{form.lower()} FILE > NEW.csv`, in Python"
                f' `unicodedata.normalize("{form}", text)`, in R'
                f" `stringi::stri_trans_{form.lower()}(text)`."
            )
    return f"Replace {text!a} by {own!a} in the file; they look alike."
