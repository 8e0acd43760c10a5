"""The type `category`: levels without an order."""

from __future__ import annotations

from dp_core.schema.column_types.column_type import LevelType


class Category(LevelType):
    """Levels without an order."""

    word, named = "category", "a category"
    ordered = False
    example = "{type: category, levels: [north, south]}", "texts exactly as in the file"
    drafted_for = ("is_string", "is_large_string", "is_string_view", "is_null")


TYPE = Category()
