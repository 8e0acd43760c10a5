"""Values as the statement spells them: JSON's own types, exact numbers, moments in UTC."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON's own types: fractions and dates become their exact text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if hasattr(value, "item"):  # a NumPy scalar
        return plain(value.item())
    return str(value)


def exact(value: Fraction) -> dict[str, object]:
    """Return a fraction as its exact text and its nearest decimal.

    >>> exact(Fraction(1, 4))
    {'exact': '1/4', 'decimal': 0.25}
    """
    return {"exact": str(value), "decimal": float(value)}


def timestamp(moment: datetime.datetime) -> str:
    """Return a moment in UTC, to the second."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
