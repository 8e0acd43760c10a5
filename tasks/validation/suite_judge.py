"""The part of Great Expectations that judges a frame: two expectations, an engine, a validator.

The library's own engine evaluates its own expectations, as in its batches. Contexts, data sources,
checkpoints and charts are not used: importing and creating them took 4 s of CPU time, more than the
rest of a small release.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from tasks.support.lazy_packages import LazyPackages

_LIBRARY = "great_expectations"
_GATHERING = (
    "checkpoint",
    "core",
    "data_context",
    "data_context.data_context",
    "datasource",
    "datasource.fluent",
    "execution_engine",
    "expectations",
    "expectations.core",
    "expectations.metrics",
    "expectations.metrics.column_aggregate_metrics",
    "expectations.metrics.column_map_metrics",
    "expectations.metrics.map_metric_provider",
    "expectations.metrics.query_metrics",
    "expectations.metrics.table_metrics",
    "metrics",
)
_METRICS = (
    "column_map_metrics.column_values_between",
    "column_map_metrics.column_values_in_set",
    "column_map_metrics.column_values_non_null",
    "table_metrics.table_column_types",
    "table_metrics.table_columns",
    "table_metrics.table_row_count",
)
"""Modules with the metrics of the two expectations; importing them registers the metrics."""


@dataclass(frozen=True, slots=True)
class SuiteJudge:
    """The expectations that a suite may contain, and the validator that judges them.

    Attributes:
        in_set: `ExpectColumnValuesToBeInSet`.
        between: `ExpectColumnValuesToBeBetween`.
    """

    in_set: Any
    between: Any

    def results(self, frame: Any, expectations: Sequence[Any]) -> Sequence[Any]:
        """Return the library's result for each expectation, in any order.

        Args:
            frame: A pandas frame.
            expectations: Instances of `in_set` and `between`.
        """
        from great_expectations.core.batch import Batch
        from great_expectations.core.batch_spec import RuntimeDataBatchSpec
        from great_expectations.execution_engine import PandasExecutionEngine

        with _deprecations_unheard():  # the library imports more of its modules here
            engine = PandasExecutionEngine()
            spec = RuntimeDataBatchSpec(batch_data=frame)
            data, markers = engine.get_batch_data_and_markers(spec)
            batch = Batch(data=data, batch_markers=markers)
            validator = _validator()(execution_engine=engine, batches=[batch])
            results: Sequence[Any] = validator.graph_validate(
                configurations=[expectation.configuration for expectation in expectations],
                runtime_configuration={"result_format": "BOOLEAN_ONLY"},
            )
        return results


def load_great_expectations() -> SuiteJudge:
    """Import the needed part of Great Expectations, without usage data, logs and warnings."""
    # The library reads this when it is imported; override whatever the environment says.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # privacy: its log can quote the frame. Loggers below this one pass their records to it.
    logger = logging.getLogger(_LIBRARY)
    logger.handlers, logger.propagate = [logging.NullHandler()], False
    return _loaded()


@cache
def _loaded() -> SuiteJudge:
    LazyPackages(
        [f"{_LIBRARY}.{name}" for name in _GATHERING],
        {_LIBRARY: {"__version__": version(_LIBRARY)}},
    ).install()
    with _deprecations_unheard():
        for name in _METRICS:
            import_module(f"{_LIBRARY}.expectations.metrics.{name}")
        _validator()
        from great_expectations.expectations import (
            ExpectColumnValuesToBeBetween,
            ExpectColumnValuesToBeInSet,
        )
    return SuiteJudge(ExpectColumnValuesToBeInSet, ExpectColumnValuesToBeBetween)


@cache
def _validator() -> Any:
    """Return the library's validator without progress bars, which only a context can switch off."""
    from great_expectations.validator.validator import Validator

    class Silent(Validator):
        def _determine_progress_bars(self) -> bool:
            return False

    return Silent


@contextmanager
def _deprecations_unheard() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
