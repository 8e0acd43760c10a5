r"""The library's metrics of regular expressions, computed by RE2 on distinct texts.

The library's own use Python's `re` for many expressions: as pandas does for `\w`, `\d` and `\s`.
Its time can be exponential in a text, so the time of a stage would tell of single texts. RE2 takes
time in proportion to the text. In RE2 `\w`, `\d`, `\s` and `\b` are about ASCII characters, and
`$` is the end of the text.

Importing this module imports Great Expectations and replaces its metrics in this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)


def _contains(column: pd.Series, regexes: Sequence[str], *, every: bool = False) -> pd.Series:
    """Return for each text whether any, or every, expression is found in it."""
    codes, distinct = pd.factorize(column)
    texts = pa.array([str(text) for text in distinct], pa.string())
    combine = pc.and_ if every else pc.or_
    held = pa.array([every] * len(texts), pa.bool_())
    for regex in regexes:
        held = combine(held, pc.match_substring_regex(texts, regex))
    return pd.Series(held.to_numpy(zero_copy_only=False)[codes], index=column.index, dtype=bool)


def _replace(metric: str, *keys: str, negated: bool) -> None:
    """Replace a metric of the library by one that says whether each text has a match, or none."""

    class Matches(ColumnMapMetricProvider):
        condition_metric_name = f"column_values.{metric}"
        condition_value_keys = keys
        default_kwarg_values: ClassVar[dict[str, str]] = {"match_on": "any"}

        @column_condition_partial(engine=PandasExecutionEngine)
        def _pandas(cls, column: pd.Series, **values: Any) -> pd.Series:
            regexes = [values["regex"]] if "regex" in keys else values["regex_list"]
            found = _contains(column, regexes, every=values.get("match_on") == "all")
            return ~found if negated else found


_replace("match_regex", "regex", negated=False)
_replace("not_match_regex", "regex", negated=True)
_replace("match_regex_list", "regex_list", "match_on", negated=False)
_replace("not_match_regex_list", "regex_list", negated=True)
