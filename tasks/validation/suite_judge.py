"""Great Expectations as judge: a context, and a suite for each kind of frame.

Its verdict is the only one about a file. The context is ephemeral: nothing is written by the
library, and nothing is sent. Importing all of the library takes 3 s of CPU time; `LazyPackages`
imports the part that is used in less than a second. A batch is validated without a checkpoint:
its actions and stores have no use here, and it takes the library as much time as the judging.
"""

from __future__ import annotations

import datetime
import logging
import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import Any

from dp_core.schema.expectations.suite import Rule, Seen
from tasks.support.lazy_packages import LazyPackages

KEPT = 100
"""Most results that are kept: of the first frames, and of the last failures."""

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
    "render",
    "render.renderer",
    "render.view",
)
_METRICS = (
    "column_map_metrics.column_values_between",
    "column_map_metrics.column_values_in_set",
    "column_map_metrics.column_values_non_null",
    "table_metrics.table_column_types",
    "table_metrics.table_columns",
    "table_metrics.table_row_count",
)
"""Modules with the metrics of `_GENERATED`; importing them registers the metrics."""
_GENERATED = (
    "expect_column_values_to_be_between",
    "expect_column_values_to_be_in_set",
    "expect_column_values_to_not_be_null",
)
"""The expectations that a schema without a team's own ones gives."""
_FAMILIES = (
    "column_aggregate_metrics",
    "column_map_metrics",
    "column_pair_map_metrics",
    "multicolumn_map_metrics",
    "table_metrics",
)
_OF_STATISTICS = ("ks_test", "outlier")
"""Words in the names of metrics that need SciPy and that no offered expectation uses."""


class SuiteJudge:
    """Judges frames by the rules of a suite.

    Attributes:
        success: Whether every frame met its suite so far: the verdict.
        results: The library's results, in its own JSON form. Confidential: that of a frame that
            failed has examples of unexpected values.

    Args:
        name: Name of the suite.
        rules: The rules, as `dp_core.schema.expectations.suite.rules_of` returns them.
        only: Numbers of the rules to judge by; None (the default) for all.
    """

    def __init__(
        self, name: str, rules: Sequence[Rule], only: Collection[int] | None = None
    ) -> None:
        chosen = {at: rule for at, rule in enumerate(rules) if only is None or at in only}
        load_great_expectations({rule.type for rule in chosen.values()})
        self.success = True
        self.results: list[dict[str, Any]] = []
        with deprecations_unheard():  # the library imports more of its modules here
            self._suites = _suites(name, chosen) if chosen else {}
        self._dates = {name for rule in chosen.values() for name in rule.dates}

    def judge(self, seen: Seen, columns: Mapping[str, Any], rows: int) -> frozenset[int]:
        """Judge a frame by the rules about it; return the numbers of those that it breaks.

        Args:
            seen: What the frame shows.
            columns: Its columns, by name: arrays or lists of length `rows`.
            rows: Number of its rows, which may have no column.

        Raises:
            RuntimeError: if Great Expectations fails to judge a rule.
        """
        found: set[int] = set()
        for texts in (False, True):
            if (seen, texts) in self._suites:
                cells = _with_texts(columns, self._dates) if texts else dict(columns)
                found |= self._judge(*self._suites[seen, texts], cells, rows)
        return frozenset(found)

    def _judge(self, data: Any, suite: Any, columns: dict[str, Any], rows: int) -> frozenset[int]:
        import pandas as pd

        frame = pd.DataFrame(columns, index=pd.RangeIndex(rows))
        began = datetime.datetime.now(datetime.UTC).isoformat()
        with deprecations_unheard():
            batch = data.get_batch({"dataframe": frame})
            result = batch.validate(suite, result_format="BOOLEAN_ONLY")
            failed = _broken_rules(result.results, len(suite.expectations))
            passed = bool(result.success)
            if not passed:
                self.success = False
                result = batch.validate(suite, result_format="SUMMARY")
        if not passed or len(self.results) < KEPT:
            plain = result.to_json_dict()
            plain["meta"]["run_id"] = {"run_name": None, "run_time": began}
            self.results.append(plain)
            del self.results[KEPT:-KEPT]
        return frozenset() if passed else failed


def _with_texts(columns: Mapping[str, Any], dates: Collection[str]) -> dict[str, Any]:
    """Return the columns of a frame with dates as ISO texts."""
    return {
        name: [None if day is None else day.isoformat() for day in cells]
        if name in dates
        else cells
        for name, cells in columns.items()
    }


def _broken_rules(results: Sequence[Any], count: int) -> frozenset[int]:
    """Return the numbers of the rules that the library found broken."""
    if len(results) != count:
        raise RuntimeError("Great Expectations did not judge every rule.")
    for result in results:
        # If a metric failed, the flag is missing, and there is a dictionary for each metric.
        if result.exception_info.get("raised_exception", True):
            # privacy: the library's text may hold values of the frame, so it is dropped.
            raise RuntimeError("Great Expectations could not judge a rule.")
    return frozenset(
        result.expectation_config.meta["number"] for result in results if not result.success
    )


def _suites(name: str, rules: Mapping[int, Rule]) -> dict[tuple[Seen, bool], tuple[Any, Any]]:
    """Return for each kind of frame how a frame becomes a batch, and the suite of its rules.

    A kind is what the frame shows, and whether its dates are texts.
    """
    from great_expectations.core.expectation_suite import ExpectationSuite
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = new_context()
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.variables.save()
    asset = context.data_sources.add_pandas(name).add_dataframe_asset("file")
    found: dict[tuple[Seen, bool], tuple[Any, Any]] = {}
    for seen, texts in dict.fromkeys((one.seen, one.compares_texts) for one in rules.values()):
        mine = [
            rule.configuration(at)
            for at, rule in rules.items()
            if (rule.seen, rule.compares_texts) == (seen, texts)
        ]
        title = f"{seen}, dates as texts" if texts else seen
        suite = ExpectationSuite(name=f"{name}: {title}", expectations=mine)
        if len(suite.expectations) != len(mine):
            raise RuntimeError("Great Expectations did not take every rule.")
        found[seen, texts] = asset.add_batch_definition_whole_dataframe(title), suite
    return found


def new_context() -> Any:
    """Return a context of Great Expectations that keeps everything in memory.

    By default it would make a temporary folder, outside the home.
    """
    from great_expectations.data_context.data_context.context_factory import get_context
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
    )

    stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
    config = DataContextConfig(store_backend_defaults=stores)
    return get_context(mode="ephemeral", project_config=config)


def load_great_expectations(names: Collection[str] = _GENERATED) -> None:
    """Import the needed part of Great Expectations, without usage data, logs and warnings.

    Args:
        names: Expectations that will be judged; by default those that a schema's own rules give.
    """
    keep_quiet()
    _load_part()
    for name in sorted(set(names) - set(_GENERATED)):
        _load_own(name)


def keep_quiet() -> None:
    """Let Great Expectations send no usage data and log nothing; before it is imported."""
    # The library reads this when it is imported; override whatever the environment says.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # privacy: its log can quote the frame. Loggers below this one pass their records to it.
    logger = logging.getLogger(_LIBRARY)
    logger.handlers, logger.propagate = [logging.NullHandler()], False


@cache
def _load_part() -> None:
    LazyPackages(
        [f"{_LIBRARY}.{name}" for name in _GATHERING],
        {_LIBRARY: {"__version__": version(_LIBRARY)}},
    ).install()
    with deprecations_unheard():
        for name in _METRICS:
            import_module(f"{_LIBRARY}.expectations.metrics.{name}")
        for name in _GENERATED:
            import_module(f"{_LIBRARY}.expectations.core.{name}")
        import_module(f"{_LIBRARY}.datasource.fluent.pandas_datasource")
        import_module(f"{_LIBRARY}.data_context.data_context.ephemeral_data_context")


@cache
def _load_own(name: str) -> None:
    """Import one more expectation, and with the first one the metrics of all that are offered."""
    with deprecations_unheard():
        _load_metrics()
        import_module(f"{_LIBRARY}.expectations.core.{name}")


@cache
def _load_metrics() -> None:
    for family in _FAMILIES:
        package = import_module(f"{_LIBRARY}.expectations.metrics.{family}")
        for found in iter_modules(package.__path__):
            if not any(word in found.name for word in _OF_STATISTICS):
                import_module(f"{package.__name__}.{found.name}")
    import_module("tasks.validation.text_metrics")  # after the library's, which it replaces


@contextmanager
def deprecations_unheard() -> Iterator[None]:
    """Ignore the library's warnings about what others have deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
