"""Checks that every row of the file obeys the schema's dependencies. Confidential side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.encoding import Encoder
from dp_core.confidential.raw_values import Array, Reader
from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import derive, value_sources


class DependencyCheck:
    """Compares the file's values of dependent columns with the values that the rules derive."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._readers = {name: Reader(schema.column(name)) for name in value_sources(schema)}
        self._encoders = {
            dependent.column.name: Encoder(dependent.column)
            for dependent in schema.dependents
            if dependent.column.out_of_range == "reject"
        }

    def refused(self, records: pa.RecordBatch, codes: Sequence[Array]) -> Mapping[str, int]:
        """Return for each dependent column the number of rows that disagree with its rule.

        Args:
            records: A batch of the file.
            codes: Codes of the columns of the domain, in its order; all rows fit the schema.

        Privacy:
            Exact counts, for the internal folder.
        """
        found = self.disagreeing(records, codes)
        return {name: int(np.count_nonzero(wrong)) for name, wrong in found.items()}

    def disagreeing(
        self, records: pa.RecordBatch, codes: Sequence[Array]
    ) -> Mapping[str, NDArray[np.bool_]]:
        """Return for each dependent column which rows disagree with its rule, shape (rows,).

        Only columns with `out_of_range: reject` are checked; the values of the others are replaced.

        Args:
            records: A batch of the file.
            codes: Codes of the columns of the domain, in its order.
        """
        if not self._encoders:
            return {}
        values = {}
        for name, reader in self._readers.items():
            typed = reader.read(records.column(name))
            values[name] = typed.data if typed.index is None else typed.data[typed.index]
        by_name = dict(zip(self._schema.domain.columns, codes, strict=True))
        derived = derive(self._schema, by_name, values)
        found = {}
        for name, encoder in self._encoders.items():
            own = encoder.encode(records.column(name))
            wrong: NDArray[np.bool_] = own.codes != derived[name]
            if own.bad is not None:
                wrong |= own.bad
            found[name] = wrong
        return found
