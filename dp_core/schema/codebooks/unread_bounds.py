"""Why a bound in a codebook cannot be read, and how to write it."""

from __future__ import annotations

import datetime
import re

from dp_core.schema.bin_edges import MAX_INTEGER
from dp_core.schema.codebooks.codebook import Variable
from dp_core.text.documents.typed_text import parse_fraction

_DAYS = ("%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d")


def unread_bound(variable: Variable, text: str) -> str:
    """Return why a bound of a column cannot be read, and how to write it if that is clear.

    >>> age = Variable(name="age", kind="number")
    >>> unread_bound(age, "1,2"), unread_bound(age, "twelve")
    ('which is not a number; write 1.2', 'which is not a number')
    >>> unread_bound(age, "1,000,000")
    'which is not a number; write 1000000'
    >>> unread_bound(Variable(name="born", kind="date"), "01.02.1990")
    'which is not a date; write 1990-02-01'
    """
    stripped = text.strip()
    if variable.kind == "date":
        return f"which is not a date; write {_day(stripped, variable.format) or 'YYYY-MM-DD'}"
    number = _number(stripped)
    if number is None:
        return f"which is not a {'whole ' * (variable.kind == 'integer')}number"
    if variable.kind == "integer" and parse_fraction(number).denominator > 1:
        return "which is not a whole number; write `type: number` if the column has decimals"
    if variable.kind == "integer":
        number = str(parse_fraction(number))
        if abs(int(number)) > MAX_INTEGER:
            return f"which is beyond {MAX_INTEGER}; write `type: number`, or `role: id` and no type"
    return f"which is not a {'whole ' * (variable.kind == 'integer')}number; write {number}"


def _day(text: str, form: str) -> str:
    """Return a day as YYYY-MM-DD; empty if its order is not clear."""
    for one in (form, *_DAYS) if form else _DAYS:
        try:
            return datetime.datetime.strptime(text, one).date().isoformat()
        except ValueError:
            continue
    return ""


def _number(text: str) -> str | None:
    """Return a number with thousands separators or a decimal comma as the schema writes it."""
    plain = text.replace("\u2212", "-").replace("\u2013", "-")
    for mark, point in (
        (",", "."),
        (".", ","),
        (" ", "."),
        ("\u00a0", "."),
        ("'", "."),
        ("_", "."),
    ):
        grouped = rf"[+-]?[0-9]{{1,3}}({re.escape(mark)}[0-9]{{3}})+({re.escape(point)}[0-9]+)?"
        if re.fullmatch(grouped, plain):
            plain = plain.replace(mark, "").replace(point, ".")
            break
    else:
        if re.fullmatch("[+-]?[0-9]*,[0-9]+", plain):
            plain = plain.replace(",", ".")
    try:
        parse_fraction(plain)
    except ValueError:
        return None
    return plain
