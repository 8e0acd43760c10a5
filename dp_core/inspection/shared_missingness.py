"""Columns that are missing in the same rows, which a rule of the schema could say. Confidential.

A release that does not know of it spends much of its budget on the pairs of these columns, and what
they say beyond being missing together is lost in noise.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dp_core.inspection.findings import Finding, some_rows
from dp_core.inspection.value_findings import FEWEST_ROWS
from dp_core.kernel.coding.encoder import Encoded
from dp_core.schema.definition import Schema

_FEWEST = 3  # columns
_NAMED = 6


class SharedMissingness:
    """Compares the rows in which columns are missing, in one pass. Confidential.

    Of each column it keeps the number of these rows and the sum of their hashes, in 64 bits.

    Args:
        schema: The schema in whose codes the file is stored.
        present: Names of the schema's columns that the file has.
    """

    def __init__(self, schema: Schema, present: Sequence[str]) -> None:
        self._schema, self._rows = schema, 0
        self._codes = {
            column.name: column.missing_code
            for column in schema.columns
            if column.missing_code is not None and column.name in present and schema.panel is None
        }
        self._found = dict.fromkeys(self._codes, (0, 0))
        self._salt = secrets.randbits(64)

    def add(self, encoded: Mapping[str, Encoded], rows: int) -> None:
        """Count a batch of so many rows, given the codes of its columns."""
        hashes = _hashes(np.arange(self._rows, self._rows + rows, dtype=np.uint64), self._salt)
        for name, code in self._codes.items():
            missing = encoded[name].codes == code
            number, total = self._found[name]
            more = int(hashes[missing].sum(dtype=np.uint64))
            self._found[name] = number + int(missing.sum()), (total + more) % 2**64
        self._rows += rows

    def findings(self) -> Iterator[Finding]:
        """Yield a hint for each group of columns that are missing together, but not by a rule."""
        groups: dict[tuple[int, int], list[str]] = {}
        for name, found in self._found.items():
            groups.setdefault(found, []).append(name)
        for (number, _), names in groups.items():
            first, *others = names
            free = [name for name in others if not self._is_ruled(first, name)]
            if not 0 < number < self._rows or self._rows < FEWEST_ROWS or len(free) + 1 < _FEWEST:
                continue
            said = ", ".join([first, *free][:_NAMED])
            more = f" and {len(free) + 1 - _NAMED} more" if len(free) + 1 > _NAMED else ""
            yield Finding(
                "hint",
                "missing-together",
                "",
                f"{some_rows(number, 'lack')} a value of all of {said}{more}, and no other row"
                " lacks one of them.",
                "If the survey's design makes it so, and that is public, say it by `rules`: `if"
                f" {first} is missing then {free[0]} is missing` and `if {first} is not missing"
                f" then {free[0]} is not missing`, likewise for the others. Otherwise much of the"
                " budget goes to relearning it.",
                number,
            )

    def _is_ruled(self, one: str, other: str) -> bool:
        """Return whether rules exclude that only the second of two columns is missing."""
        pair = self._schema.domain.project((one, other))
        impossible = self._schema.zeros.mask(pair)
        if pair.columns[0] != one:
            impossible = impossible.T
        there = np.arange(len(impossible)) != self._codes[one]
        return bool(impossible[there, self._codes[other]].all())


def _hashes(rows: np.ndarray, salt: int) -> np.ndarray:
    """Return a 64-bit hash of each row number (SplitMix64: Steele, Lea & Flood 2014)."""
    found = (rows + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(salt)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))
