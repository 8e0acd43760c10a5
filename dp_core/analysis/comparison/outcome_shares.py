"""Shares of the outcomes of sign and significance, as figures of a run."""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.metrics.significance import Outcome


def figure_name(kind: Outcome) -> str:
    """Return what the share of an outcome is called among the figures of a run.

    >>> figure_name(Outcome.TYPE_2_SAME)
    'sss II+'
    """
    return f"sss {kind}"


def shares_of(figures: Mapping[str, float | None]) -> dict[Outcome, float]:
    """Return the share of each outcome among a run's figures; empty if it has none."""
    found = {kind: figures.get(figure_name(kind)) for kind in Outcome}
    return {kind: share for kind, share in found.items() if share is not None}
