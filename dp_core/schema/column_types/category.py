"""The type `category`: levels without an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dp_core.schema.column_types.column_type import LevelType

if TYPE_CHECKING:
    import pyarrow as pa


class Category(LevelType):
    """Levels without an order."""

    word, named = "category", "a category"
    ordered = False
    example = "{type: category, levels: [north, south]}", "texts exactly as in the file"
    draft = "    type: category   # or ordinal\n    levels: []       # list them\n"

    def suits(self, kind: pa.DataType) -> bool:
        import pyarrow.types as types

        texts = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
        return any(holds(kind) for holds in texts)


TYPE = Category()
