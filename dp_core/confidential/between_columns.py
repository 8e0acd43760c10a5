"""Checks which rows of the file break what the schema says between columns. Confidential side.

Dependent columns are compared with the values that their rules derive. Rules between columns are
judged by the values that a release would use: after `out_of_range` is applied, so a clipped value
is the bound, and a value that a policy sets to missing is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.errors import SchemaViolation
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.coding.raw_values import Array, Reader, Values
from dp_core.kernel.coding.stored_texts import value_type
from dp_core.schema.dependencies import derive, value_sources
from dp_core.schema.rules.column_rules import Units
from dp_core.schema.rules.file_rules import Rules, file_rules
from dp_core.schema.rules.unit_bounds import MOST_NUMBER_UNITS


class DependencyCheck:
    """Compares the file's values of dependent columns with the values that the rules derive."""

    def __init__(self, schema: Rules) -> None:
        self._rules = rules = file_rules(schema)
        self._readers = {name: Reader(rules.column(name)) for name in value_sources(rules)}
        self._encoders = {
            dependent.column.name: RuleEncoder(dependent.column)
            for dependent in rules.dependents
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
        by_name = dict(zip(self._rules.domain.columns, codes, strict=True))
        derived = derive(self._rules, by_name, values)
        found = {}
        for name, encoder in self._encoders.items():
            own = encoder.encode(records.column(name))
            wrong: NDArray[np.bool_] = own.codes != derived[name]
            if own.bad is not None:
                wrong |= own.bad
            found[name] = wrong
        return found


class RuleCheck:
    """Reads the values that rules compare.

    Attributes:
        columns: Names of the columns whose values are compared.

    Args:
        schema: The rules of the file.
    """

    def __init__(self, schema: Rules) -> None:
        rules = file_rules(schema)
        units = {each.column: each for rule in rules.between for each in rule.units}
        self.columns = tuple(units)
        self._read: dict[str, tuple[Units, RuleEncoder]] = {
            name: (each, RuleEncoder(rules.column(name))) for name, each in units.items()
        }

    def units(self, records: pa.RecordBatch) -> Mapping[str, NDArray[np.int64]]:
        """Return the values that rules compare in whole units, each of shape (rows,).

        Args:
            records: A batch of the file.

        Raises:
            SchemaViolation: if a column is stored in 32 bits, which cannot tell its units apart.
        """
        found = {}
        for name, (_, encoder) in self._read.items():
            values = records.column(name)
            self.assert_exact(name, values)
            found[name] = self.units_of(name, encoder.reader.read(values))
        return found

    def assert_exact(self, name: str, values: pa.Array, source: str = "") -> None:
        """Check that the stored type of values has all digits that rules compare.

        Args:
            name: Name of a column; of one that is not compared every type is right.
            values: Its values.
            source: Name of the column in the file, if it has another there.

        Raises:
            SchemaViolation: if values of the type have too few digits.

        Privacy:
            The type alone decides, so the column is refused whatever its values are.
        """
        if name not in self._read or not pa.types.is_float32(value_type(values)):
            return
        units, encoder = self._read[name]
        rule = encoder.rule
        if units.edges or not rule.continuous:
            return
        ends = units.of(np.array([float(end) for end in (rule.low, rule.high)]))
        if np.abs(ends).max() > MOST_NUMBER_UNITS:
            raise SchemaViolation(
                f"Column {source or name!r}, which a rule compares, is stored as {values.type},"
                " which has too few digits for its bounds; store it as double, decimal or text."
            )

    def units_of(self, name: str, values: Values) -> NDArray[np.int64]:
        """Return typed values of a compared column in whole units, shape (rows,).

        A number is counted from its binary32 as long as that has every decimal, and from its
        binary64 beyond.

        Privacy:
            A column stored in 32 bits is refused beyond (`assert_exact`). In texts that were
            written from 32 bits it is not seen: `pandas.to_numeric` keeps a column so only if no
            value changes by more than 5e-4. So a number with the decimals of its column, at most
            two, has the same text. A column with more decimals is refused there (`lacks_effect`).
        """
        units, encoder = self._read[name]
        found = units.of(np.clip(values.data, encoder.low, encoder.high))
        if values.exact is not None and not units.edges:
            low, high = float(encoder.rule.low), float(encoder.rule.high)
            exact = units.of(np.clip(values.exact, low, high))
            found = np.where(np.abs(exact) <= MOST_NUMBER_UNITS, found, exact)
        return found if values.index is None else found[values.index]
