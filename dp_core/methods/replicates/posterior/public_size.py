"""Scales noisy tables of a file to a public number of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dp_core.client.released import Measurement, Released, Totals
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.trends import is_trend

_APART = 4.0
"""Standard deviations of the noise beyond which two numbers of records differ."""


def factor_to(
    records: int, domain: Domain, released: Sequence[Released], *, rows: int | None
) -> float:
    """Return the factor from the file's number of records to a public one.

    It is 1 if the noise alone can explain the difference.

    Args:
        records: The public number of records.
        domain: All columns.
        released: Noisy tables and interactions of one measurement, at least one table.
        rows: Number of records of the file if it is public, otherwise None.
    """
    found, variance = pool(domain, released, rows=rows).total()
    if abs(found - records) <= _APART * variance**0.5:
        return 1.0
    return records / max(found, 1.0)


def in_proportion(released: Sequence[Released], factor: float) -> list[Released]:
    """Return noisy tables, interactions and trends multiplied by a factor, the rest as it is.

    Args:
        released: Noisy results.
        factor: The factor, above 0.
    """
    if factor == 1:
        return list(released)
    return [
        replace(item, values=item.values * factor, scale=item.scale * factor)
        if isinstance(item, Measurement)
        or (isinstance(item, Totals) and isinstance(item.of, Interaction))
        or is_trend(item)
        else item
        for item in released
    ]
