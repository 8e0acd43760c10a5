"""What the program asks of a type of column.

A type has levels, which the schema lists, or values, which are counted in bins. No other module
asks which type a column has: it asks the type what its values are like.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_pieces import exact_text
from dp_core.text.documents.node import Node

if TYPE_CHECKING:
    import pyarrow as pa

Array: TypeAlias = NDArray[Any]


class ColumnType(ABC):
    """A type of column.

    Attributes:
        word: Its word in a schema.
        named: The word with its article.
        ordered: Whether values have an order.
        keys: Keys of a column of the schema that not every type has.
        example: A column of the type, and a remark, for the head of a draft.
        drafted_for: Kinds of Arrow types for which a draft proposes the type, as `pyarrow.types`
            asks for them.
        field_type: Type in the codebook, of the standard Table Schema.
        continuous: Whether values are real numbers, with bins that hold their lower edge and not
            their upper one, and a last bin that holds both. False for levels.
        whole: Whether values are whole numbers of a unit. False for levels.
        own_texts: Whether values have texts, and types in a file, of their own, and are a number of
            units since a zero, as dates are. Such values have no sum. False for levels.
    """

    word: ClassVar[str]
    named: ClassVar[str]
    ordered: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]]
    example: ClassVar[tuple[str, str]]
    drafted_for: ClassVar[tuple[str, ...]] = ()
    field_type: ClassVar[str]
    continuous: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    own_texts: ClassVar[bool] = False

    @property
    def levels(self) -> bool:
        """Whether values are levels, which the schema lists."""
        return not isinstance(self, ValueType)

    def suits(self, kind: pa.DataType) -> bool:
        """Return whether a draft proposes the type for values of an Arrow type."""
        return _is_one(kind, self.drafted_for)

    @property
    def sums(self) -> bool:
        """Whether values can be added up."""
        return (self.whole or self.continuous) and not self.own_texts


class LevelType(ColumnType):
    """A type whose values are levels."""

    keys = ("levels", "groups", "codes", "group", "follows", "map", "within")
    field_type = "string"


class ValueType(ColumnType):
    """A type whose values are counted in bins.

    A value is an exact number: the number itself, or how many units it is from a zero.

    Attributes:
        a_value: A value in words, with its article.
        values: Values in words.
        ends: The words for the smallest and the largest legal value.
        after_max: The words for the edge after the largest value, with `{}` for the value.
        periods: Words that `bins` may be, in place of a number of bins.
        sample: A value as a person types it, for messages.
        pattern: Beginning of a text in a rule that is a value; None if it is a plain number.
        difference: Unit of a difference of two values; empty if it is the values' own.
        axis_unit: Unit of a picture, and how many differences of 1 it is.
        form: How a file writes a value by default; empty for numbers.
        arrow: Arrow type of the synthetic sets, one that Parquet keeps (it makes `time32[s]`
            `time32[ms]`).
        read_from: Kinds of Arrow types whose values are read without their texts, as
            `pyarrow.types` asks for them.
        zero: The value that a file stores as 0.
        span: The first and the last value there are; None without limits.
    """

    keys: ClassVar[tuple[str, ...]] = ("min", "max", "bins", "edges", "density")
    a_value: ClassVar[str]
    values: ClassVar[str]
    ends: ClassVar[tuple[str, str]] = ("smallest", "largest")
    after_max: ClassVar[str] = "max + 1, {}, because a bin ends before its upper edge"
    periods: ClassVar[tuple[str, ...]] = ()
    sample: ClassVar[str]
    pattern: ClassVar[re.Pattern[str] | None] = None
    difference: ClassVar[str] = ""
    axis_unit: ClassVar[tuple[str, float]] = ("1", 1.0)
    form: ClassVar[str] = ""
    arrow: ClassVar[str]
    read_from: ClassVar[tuple[str, ...]] = ("is_integer", "is_floating", "is_boolean")
    zero: ClassVar[int] = 0
    span: ClassVar[tuple[int, int] | None] = None

    @property
    def step(self) -> int:
        """The distance from the largest value to the upper edge of its bin: 1, or 0 if equal."""
        return 0 if self.continuous else 1

    @property
    def bound(self) -> str:
        """What a bound of the type must be, in words."""
        return f"{self.a_value}, such as {self.sample}"

    @property
    def typed(self) -> str:
        """What a person types for a value, in words."""
        if self.own_texts:
            return f"{self.a_value} such as {self.sample}"
        return "a number of at most 300 digits"

    def read(self, node: Node) -> Fraction:
        """Return a value that a schema states.

        Raises:
            BadInput: if it is none; the message says what it must be.
        """
        text = node.text(example=self.sample)
        try:
            return self.parse(text)
        except ValueError as error:
            raise node.error(str(error)) from None

    @abstractmethod
    def parse(self, text: str) -> Fraction:
        """Return the value of a text as a schema or a question states it.

        Raises:
            ValueError: if it is none.
        """

    def text(self, value: Fraction) -> str:
        """Return the exact text of a value as a schema states it."""
        return exact_text(value)

    @abstractmethod
    def edges(
        self, column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
    ) -> tuple[Fraction, ...]:
        """Return the edges of bins that the schema does not list.

        Raises:
            BadInput: if `bins` is missing or invalid.
        """

    @abstractmethod
    def usual_bins(self, low: Fraction | None, high: Fraction | None) -> str:
        """Return what a draft states under `bins`; empty if it needs no bins.

        Args:
            low: Smallest legal value, if known.
            high: Largest legal value, if known.
        """

    def bin_label(self, low: Fraction, high: Fraction, *, last: bool) -> str:
        """Return the label of the bin between two edges; `last` is whether it is the last one."""
        first, final = self.text(Fraction(int(low))), self.text(Fraction(int(high) - 1))
        return first if first == final else f"{first} to {final}"

    def inside(self, value: float | Fraction) -> int:
        """Return the nearest whole number within `span`."""
        assert self.span is not None
        return min(max(round(value), self.span[0]), self.span[1])

    def axis_text(self, value: float) -> str:
        """Return a value rounded for the axis of a picture."""
        if self.own_texts:
            return self.text(Fraction(self.inside(value)))
        return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"

    def json(self, value: Fraction) -> Any:
        """Return a value as the codebook states it; one beyond `span` becomes its nearest end."""
        if self.own_texts:
            return self.text(Fraction(self.inside(value)))
        return int(value) if value.denominator == 1 else float(value)

    def expected(self, value: Fraction) -> Any:
        """Return a value as an expectation states it, of Great Expectations' own types."""
        return int(value) if value.denominator == 1 else float(value)

    def python(self, value: float) -> Any:
        """Return a value as the frames that expectations judge have it."""
        return value

    @property
    def stored(self) -> pa.DataType:
        """The Arrow type of the synthetic sets."""
        import pyarrow as pa

        return pa.type_for_alias(self.arrow)

    def array(self, values: Array, missing: NDArray[np.bool_] | None) -> pa.Array:
        """Return values as the synthetic sets store them.

        Args:
            values: The values, shape (rows,); arbitrary where missing.
            missing: Which of them are missing, shape (rows,); None if none can be.
        """
        import pyarrow as pa

        return pa.array(values, self.stored, mask=missing)

    def numbers(self, array: pa.Array) -> pa.Array:
        """Return what `array` returns as numbers since `zero`, with null for missing."""
        return array

    def values_in(self, array: pa.Array) -> Array:
        """Return the values in what `array` returns, shape (rows,); arbitrary where missing."""
        filled: Array = self.numbers(array).fill_null(0).to_numpy(zero_copy_only=False)
        return filled.astype(np.int64) + self.zero if self.zero else filled

    def is_stored(self, kind: pa.DataType) -> bool:
        """Return whether values of an Arrow type are read without their texts."""
        return _is_one(kind, self.read_from)

    def coding(self, form: str) -> dict[str, Any]:
        """Return how the kernel reads values: `kind`, and what else its kind needs.

        Args:
            form: The column's `format`; empty without one.

        See `dp_core.kernel.coding.coding_rule`.
        """
        return {"kind": self.word}


def _is_one(kind: pa.DataType, names: tuple[str, ...]) -> bool:
    """Return whether an Arrow type is of one of some kinds, such as `is_integer`."""
    import pyarrow.types

    return any(getattr(pyarrow.types, name)(kind) for name in names)
