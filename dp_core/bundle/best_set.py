"""The best set of a release with posterior sets: to look at and to train on, not for intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEYS = ("rows", "persons", "largest_deviation", "mean_tvd_to_noisy")

BEST = 0
"""Number of the best set; the sets for inference are numbered from 1."""


def set_in_words(number: int) -> str:
    """Return what a sentence calls a set.

    >>> set_in_words(2), set_in_words(0)
    ('set 2', 'the best set')
    """
    return "the best set" if number == BEST else f"set {number}"


def set_metadata(release: str, number: int, sets: int) -> dict[str, str]:
    """Return what the file of a set says of itself, for whoever has only this file.

    Args:
        release: Name of the release.
        number: Number of the set.
        sets: Number of sets for inference, m.
    """
    which = "best" if number == BEST else f"{number} of {sets}"
    return {"synthetic": "yes; no row describes a person", "release": release, "set": which}


@dataclass(frozen=True, slots=True)
class BestSet:
    """What the statement says of the best set.

    Attributes:
        rows: Its records; of linked tables, its households.
        persons: Its persons; None unless tables are linked.
        off: Largest relative deviation of its weights from a public total; None without totals.
        tvd: Mean TVD between it and the noisy tables; None if it was not compared.
    """

    rows: int
    persons: int | None = None
    off: float | None = None
    tvd: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return the set as the statement has it."""
        values = (self.rows, self.persons, self.off, self.tvd)
        pairs = zip(_KEYS, values, strict=True)
        return {name: value for name, value in pairs if value is not None}

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> BestSet:
        """Return the set that `to_json` gives.

        Raises:
            KeyError: if a key is missing or unknown.
            TypeError: if a number of rows is not whole.
        """
        unknown = stated.keys() - {*_KEYS}
        whole = (stated["rows"], stated.get("persons", 0))
        if unknown:
            raise KeyError(unknown.pop())
        if any(type(number) is not int or number < 0 for number in whole):
            raise TypeError("The best set has whole numbers of rows.")
        figures = (stated.get(name) for name in _KEYS[2:])
        off, tvd = (None if figure is None else float(figure) for figure in figures)
        return cls(stated["rows"], stated.get("persons"), off, tvd)
