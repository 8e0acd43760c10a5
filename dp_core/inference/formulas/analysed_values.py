"""The grids on which a file is stored so that declared analyses can sum its values."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dp_core.inference.formulas.declared_analysis import declared_analysis
from dp_core.inference.formulas.declared_statistic import declared_statistic, is_statistic
from dp_core.schema.definition import Schema
from dp_core.schema.grid import with_values
from dp_core.schema.values.skewed_grid import with_skewed_values


def with_analysed_values(schema: Schema, texts: Sequence[str]) -> Schema:
    """Return the schema that stores the values which declared analyses need.

    Args:
        schema: The schema as written.
        texts: The analyses as declared: regressions and statistics.

    Raises:
        BadInput: if a text declares nothing that can be measured, or a column has no suitable grid.
    """
    analyses = [declared_analysis(text, schema) for text in texts if not is_statistic(text)]
    statistics = [declared_statistic(text, schema) for text in texts if is_statistic(text)]
    return with_grids(
        schema,
        {name for analysis in analyses for name in analysis.columns},
        {statistic.column for statistic in statistics},
    )


def with_grids(schema: Schema, regressed: Collection[str], summed: Collection[str]) -> Schema:
    """Return the schema with columns on grids; see `with_analysed_values`.

    Args:
        schema: The schema as written.
        regressed: Columns of regressions, on grids of equal steps.
        summed: Columns of statistics, on skewed grids if they have no other.
    """
    return with_skewed_values(with_values(schema, regressed), summed)
