"""The type `ordinal`: levels in an order."""

from __future__ import annotations

from dp_core.schema.column_types.column_type import LevelType


class Ordinal(LevelType):
    """Levels in an order."""

    word, named = "ordinal", "an ordinal"
    example = (
        "{type: ordinal, levels: {1: poor, 2: good}}",
        "the file's codes with labels, in order",
    )


TYPE = Ordinal()
