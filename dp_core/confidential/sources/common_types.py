"""Arrow types that can be read, and common types in place of rarer ones. Confidential.

All of Arrow's functions accept the common types. Files and frames change to these types where they
are read, so no later code meets others.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dp_core.kernel.coding.stored_texts import is_text
from dp_core.schema.column_types.registry import value_types

_STORED_AS_VALUES = ("arrow.bool8", "arrow.json")
"""Extension types that are read as their storage. Others may store numbers of something else, as
`pandas.period` stores the numbers of months since 1970."""


def common_type(kind: pa.DataType) -> pa.DataType:
    """Return the type to which `in_common_type` changes values of a type.

    >>> common_type(pa.string_view()), common_type(pa.decimal32(5, 2)), common_type(pa.int8())
    (DataType(string), Decimal128Type(decimal128(5, 2)), DataType(int8))
    """
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, common_type(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return common_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return common_type(kind.storage_type) if _stores_values(kind) else kind
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def stored_type(field: pa.Field) -> pa.DataType:
    """Return the type of a file's column; one that is unreadable if its storage is not its values.

    Whether Arrow returns an extension type or its storage depends on the modules that are loaded.
    """
    name = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    plain = not name or name in _STORED_AS_VALUES or is_text(field.type)
    return field.type if plain else unreadable_type(name)


def _stores_values(kind: pa.BaseExtensionType) -> bool:
    """Return whether the storage of an extension type has its values, as texts have."""
    return kind.extension_name in _STORED_AS_VALUES or is_text(kind.storage_type)


def in_common_type(values: pa.Array) -> pa.Array:
    """Return the same values in their common type."""
    kind = values.type
    if common_type(kind) == kind:
        return values
    if pa.types.is_dictionary(kind):
        entries = in_common_type(values.dictionary)
        return pa.DictionaryArray.from_arrays(values.indices, entries, ordered=kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        runs = pa.array(range(len(values.values)), pa.int64())
        places = pa.RunEndEncodedArray.from_arrays(values.run_ends, runs)
        places = pc.run_end_decode(places.slice(values.offset, len(values)))
        return in_common_type(values.values).take(places)
    if isinstance(kind, pa.BaseExtensionType):
        return in_common_type(values.storage)
    return values.cast(common_type(kind))


def is_readable(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type can be read as a column: as texts, or by a type."""
    kind = common_type(kind)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_float16(kind):  # three digits: 0.1 becomes 0.09998
        return False
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if texts or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return True
    return any(each.is_stored(kind) for each in value_types())


def unreadable_type(name: str) -> pa.DataType:
    """Return a type that cannot be read, for a column of a frame whose values Arrow cannot hold.

    Args:
        name: Name of the values' type, which messages show.
    """
    return pa.opaque(pa.binary(), name, "python")


def type_words(kind: pa.DataType) -> str:
    """Return the name of a stored type for messages."""
    return str(kind.type_name if isinstance(kind, pa.OpaqueType) else kind)
