"""The range of errors that a plan forecasts for its sets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from dp_core.spec.forecast.calibrated_range import Range, calibrated
from dp_core.spec.forecast.calibration import THREE_WAY, TWO_WAY
from dp_core.spec.forecast.theory import chance_of, ends_of
from dp_core.spec.plan import Plan
from dp_core.spec.release_spec import Mode

MOSTLY_NOISE = 0.2
"""Expected average two-way TVD above which sets are mostly noise. Pairs of columns of a typical
file are nearer to independence than that."""
_RECORDS_OF = {"privbayes": {"bayes_network"}, "one_way": {"independent", "auto", "gum", "pgm"}}
_RECORDS = {"auto", "gum", "pgm"}
"""Reconstructions that the calibration holds for: by selection, or of the others."""


@dataclass(frozen=True, slots=True)
class ErrorForecast:
    """The expected errors of a set: average TVD between its tables and those of the file.

    Attributes:
        two_way: Smallest and largest likely average over all pairs of columns.
        three_way: The same over all triples.
    """

    two_way: Range
    three_way: Range

    @property
    def mostly_noise(self) -> bool:
        """Whether the middle of the range `two_way` is above `MOSTLY_NOISE`."""
        return math.sqrt(self.two_way[0] * self.two_way[1]) > MOSTLY_NOISE


def forecast_error(plan: Plan, rows: int | None = None) -> ErrorForecast | None:
    """Return the expected error of a set of a release; opens no data.

    In nine of ten files like those of `benchmarks/promises.py` the error is in the range. It has
    three parts: noise, which the plan knows; the dependence of columns that the method cannot see,
    of which a range over typical files is assumed; and what the mode adds, which is calibrated.

    Args:
        plan: Plan of the release.
        rows: Approximate number of rows of the file; by default the schema's `rows_about`.

    Returns:
        None without a number of rows, without sets, for fewer than two columns, or for a method or
        mode whose error cannot be forecast.
    """
    spec = plan.spec
    rows = rows or spec.schema.rows_about
    kind = _kind(plan)
    if kind is None or kind not in TWO_WAY:
        return None
    if not rows or not spec.sets or len(spec.schema.domain) < 2:
        return None
    if rows != spec.schema.rows_about:
        schema = dataclasses.replace(spec.schema, rows_about=rows)
        plan = dataclasses.replace(plan, spec=dataclasses.replace(spec, schema=schema))
    ends = ends_of(plan, kind[0])
    if ends is None:
        return None
    least, most = ends
    columns = len(spec.schema.domain)
    two = calibrated(TWO_WAY[kind], (least.two, most.two), columns)
    three = calibrated(THREE_WAY[kind], (least.three, most.three), columns)
    if spec.rows and spec.rows < rows:
        # A small set also has sampling errors, of which the calibration knows those of `rows`.
        drawn = chance_of(spec.schema.domain, spec.rows)
        two = two[0], min(1.0, math.hypot(two[1], drawn.two))
        three = three[0], min(1.0, math.hypot(three[1], drawn.three))
    return ErrorForecast(two, three)


def _kind(plan: Plan) -> tuple[str, Mode] | None:
    """Return the selection method and the mode; None if the calibration does not hold for them."""
    document = plan.spec.document
    if "select" not in document:
        return None
    select = cast(Mapping[str, object], document["select"])
    reconstruct = cast(Mapping[str, object], document["reconstruct"])
    name = str(select["method"])
    if reconstruct["method"] not in _RECORDS_OF.get(name, _RECORDS):
        return None
    if select.get("at_once") == "joint":
        name = "full"
    shrinks = reconstruct.get("shrink", True) or plan.spec.mode == "noise-aware"
    return (name, plan.spec.mode) if shrinks else None
