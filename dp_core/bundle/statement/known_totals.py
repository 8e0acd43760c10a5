"""What the statement says about the public totals that every set meets."""

from __future__ import annotations

from dp_core.schema.definition import Schema


def totals_statement(schema: Schema, sets: int) -> dict[str, object]:
    """Return the key `totals` of the statement; empty without public totals or without sets.

    Args:
        schema: Schema of the release.
        sets: Number of its sets.
    """
    if not schema.totals or not sets:
        return {}
    what = "rows" if schema.linked is None else "households"
    return {
        "totals": {
            "in_words": (
                f"Every set has exactly these numbers of {what}. The schema states them, with their"
                " public sources, so they cost no privacy budget. They were not compared with the"
                " file, and nothing here says that the file agrees with them."
            ),
            "columns": [
                {
                    "column": each.column,
                    "source": each.source,
                    "counts": [
                        {"level": label, "count": count}
                        for label, count in zip(
                            schema.column(each.column).code_labels(), each.counts, strict=True
                        )
                    ],
                }
                for each in schema.totals
            ],
        }
    }
