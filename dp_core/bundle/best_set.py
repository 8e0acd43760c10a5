"""The best set of a release with posterior sets: one file, for looking and for training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BEST = 0
"""Number of the best set; the sets for inference are numbered from 1."""


def set_words(number: int) -> str:
    """Return what a sentence calls a set.

    >>> set_words(2), set_words(0)
    ('set 2', 'the best set')
    """
    return "the best set" if number == BEST else f"set {number}"


@dataclass(frozen=True, slots=True)
class BestSet:
    """What the statement says of the best set.

    Attributes:
        rows: Its records; of linked tables, its households.
        persons: Its persons; None unless tables are linked.
        off: Largest relative deviation of its weights from a public total; None without totals.
    """

    rows: int
    persons: int | None = None
    off: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return the set as the statement has it."""
        stated = {"rows": self.rows, "persons": self.persons, "largest_deviation": self.off}
        return {name: value for name, value in stated.items() if value is not None}

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> BestSet:
        """Return the set that `to_json` gives.

        Raises:
            KeyError: if a key is missing or unknown.
            TypeError: if a number is none.
        """
        unknown = stated.keys() - {"rows", "persons", "largest_deviation"}
        whole = (stated["rows"], stated.get("persons", 0))
        if unknown:
            raise KeyError(unknown.pop())
        if any(type(number) is not int or number < 0 for number in whole):
            raise TypeError("The best set has whole numbers of rows.")
        off = stated.get("largest_deviation")
        return cls(stated["rows"], stated.get("persons"), None if off is None else float(off))
