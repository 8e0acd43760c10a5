"""Header lines among the rows, as in concatenated CSV files. Confidential."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.inspection.column_tally import Tally
from dp_core.inspection.findings import Finding, Severity, some_rows
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.stored_texts import is_text

_AROUND = " \t\u00a0\ufeff"
"""What may stand around a name in a repeated header, such as a byte order mark."""


class RepeatedHeaders:
    """Finds the rows in which every column has its own name, in any capital letters. Confidential.

    Args:
        tallies: The tally of each column. `findings` removes the names in header lines from them,
            so that these are one finding and not one for each column.
    """

    def __init__(self, tallies: Mapping[str, Tally]) -> None:
        self._tallies = tallies
        self._texts: dict[str, Counter[str]] = {name: Counter() for name in tallies}
        # A row of levels that are also the names of their columns is no header.
        self._can_tell = any(
            name.lower() not in {level.lower() for level in tally.column.texts()}
            for name, tally in tallies.items()
        )
        self._first: int | None = None
        self._rows = 0

    def add(
        self, records: pa.RecordBatch, names: Mapping[str, str], before: int
    ) -> NDArray[np.intp]:
        """Return the indices of the header lines in a batch.

        Args:
            records: The rows, under the schema's names.
            names: Name of each column in the file.
            before: Number of rows before the batch.
        """
        places, none = np.arange(records.num_rows), np.zeros(0, np.intp)
        if not self._can_tell:
            return none
        for name in names:
            column = records.column(name)
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if not is_text(kind) or not len(places):
                return none
            found = column if len(places) == len(column) else column.take(pa.array(places))
            own = pa.scalar(names[name].strip(_AROUND).lower(), kind)
            if pa.types.is_dictionary(column.type):
                if not pc.any(pc.equal(_folded_texts(found.dictionary), own)).as_py():
                    return none
                found = found.dictionary_decode()
            equal = pc.fill_null(pc.equal(_folded_texts(found), own), False)
            places = places[equal.to_numpy(zero_copy_only=False)]
        if not len(places):
            return none
        if self._first is None:
            self._first = before + int(places[0]) + 1
        self._rows += len(places)
        for name, texts in self._texts.items():
            values = records.column(name).take(pa.array(places))
            texts.update(values.to_pylist())
        return places

    def findings(self) -> Iterator[Finding]:
        """Yield the finding about repeated headers, and remove their names from the tallies."""
        if not self._rows or not self._tallies:
            return
        severity: Severity = "settled"
        strange = False
        for name, texts in self._texts.items():
            tally = self._tallies[name]
            problem = Problem.LEVEL if tally.column.levels else Problem.TYPE
            own = {text: rows for text, rows in texts.items() if text in tally.strangers}
            strange |= bool(own)
            if own and problem in tally.encoder.refused:
                severity = "refusal"
            tally.strangers.subtract(own)
            tally.strangers += Counter()  # drops what has no rows left
            tally.problems[problem] -= sum(own.values())
        if strange:
            fix = "Remove them; when files are joined, keep the header of the first only."
            if severity == "settled":
                fix = f"A release treats their texts as missing. {fix}"
            message = (
                f"{some_rows(self._rows, 'repeat')} the header; the first is row {self._first:,}."
            )
            yield Finding(severity, "header-repeated", "", message, fix, self._rows)


def _folded_texts(texts: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim(texts, characters=_AROUND))
